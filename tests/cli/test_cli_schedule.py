"""What schedule says of what it does not decide on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unisono.cli.commands.schedule import command
from unisono.errors import UnisonoError

JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"minAvailable": 1, "tasks": []},
}
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {
        "name": "train-1",
        "namespace": "default",
        "ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u"}],
    },
    "spec": {"minMember": 1},
}
PYTORCH = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"}, "spec": {}}
SUCCEEDED = {"conditions": [{"type": "Succeeded", "status": "True"}]}


def problems(folder: Path, *objects: dict[str, Any]) -> list[str]:
    file = folder / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    done = CliRunner().invoke(command, ["-f", str(file), "--output", "json"], catch_exceptions=False)
    found: list[str] = json.loads(done.output)["problems"]
    return [problem for problem in found if "nothing is decided" in problem]


def test_files_in_which_nothing_is_to_be_decided_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "typo.yaml"
    file.write_text("apiVersion: batch.volcano.sh/v1alpha1\nkind: Jobb\nmetadata: {name: x}\n")
    done = CliRunner().invoke(command, ["-f", str(file)])
    assert isinstance(done.exception, UnisonoError)
    assert "only batch.volcano.sh/v1alpha1/Jobb" in str(done.exception)
    assert done.output == ""


@pytest.mark.parametrize("job", [JOB, PYTORCH])
def test_a_job_without_its_pods_is_not_passed_over_in_silence(tmp_path: Path, job: dict[str, Any]) -> None:
    (told,) = problems(tmp_path, job)
    assert f"the {job['kind']} {job['metadata']['name']}" in told
    assert "create it on a control plane" in told


@pytest.mark.parametrize(
    "objects",
    [
        (JOB, GROUP),
        ({**JOB, "status": {"state": {"phase": "Completed"}}},),
        ({**PYTORCH, "status": SUCCEEDED},),
        ({**JOB, "apiVersion": "batch/v1", "spec": {}},),
    ],
)
def test_jobs_that_are_decided_on_have_ended_or_are_others_are_no_problem(
    tmp_path: Path, objects: tuple[dict[str, Any], ...]
) -> None:
    assert not problems(tmp_path, *objects)


def test_a_decision_says_that_the_extender_is_not_asked(tmp_path: Path) -> None:
    file, config = tmp_path / "dump.json", tmp_path / "scheduler.conf"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [GROUP]}))
    config.write_text(
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: extender\n    arguments:\n"
        "      extender.urlPrefix: http://127.0.0.1:9\n"
    )
    done = CliRunner().invoke(command, ["-f", str(file), "--config", str(config)], catch_exceptions=False)
    assert "Problem: the plug-in extender is not asked here, so no pod is placed: remove it" in done.output
