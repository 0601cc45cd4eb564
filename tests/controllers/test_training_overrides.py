"""A TrainJob changes its runtime's pods in the words of Trainer 2.0, 2.1 and 2.2: all three mean the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api.groups.trainer import TrainJob
from unisono.controllers.training.trainjob import build_job_set, built_in_runtimes, decide, idle_parts

RUNTIME = next(one for one in built_in_runtimes() if one.metadata.name == "torch-distributed")

PARTS: dict[str, dict[str, Any]] = {
    "account": {"serviceAccountName": "data"},
    "selector": {"nodeSelector": {"zone": "a"}},
    "tolerations": {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
    "volumes": {"volumes": [{"name": "data", "emptyDir": {}}]},
    "init containers": {"initContainers": [{"name": "fetch", "image": "busybox"}]},
    "containers": {"containers": [{"name": "node", "env": [{"name": "A", "value": "b"}]}]},
    "gates": {"schedulingGates": [{"name": "quota"}]},
}


def built(**spec: Any) -> Any:
    body = {"metadata": {"name": "j", "namespace": "ns"}, "spec": {"runtimeRef": {"name": "r"}, **spec}}
    return msgspec.to_builtins(build_job_set(msgspec.convert(body, TrainJob), RUNTIME.spec))


def patched(pods: dict[str, Any]) -> Any:
    changed = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": pods}}}]}}
    return built(runtimePatches=[{"manager": "m", "trainingRuntimeSpec": {"template": changed}}])


@pytest.mark.parametrize("targets", [[{"name": "node"}], []], ids=["named", "all"])
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_each_form_makes_the_same_job_set(part: dict[str, Any], targets: list[dict[str, str]]) -> None:
    wanted = patched({"spec": part})
    assert wanted != built()
    assert built(podTemplateOverrides=[{"targetJobs": targets, "spec": part}]) == wanted
    assert built(podSpecOverrides=[{"targetJobs": targets, **part}]) == wanted


def test_labels_and_annotations() -> None:
    marked = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    assert built(podTemplateOverrides=[{"targetJobs": [{"name": "node"}], **marked}]) == patched(marked)
    metadata = built(labels={"team": "x"}, annotations={"example.org/cost": "y"})["metadata"]
    assert metadata["labels"]["team"] == "x"
    assert metadata["annotations"]["example.org/cost"] == "y"


STRANGE = {
    "2.1": (
        {"podTemplateOverrides": [{"targetJobs": [{"name": "nodes"}]}]},
        "spec.podTemplateOverrides[0].targetJobs[0].name",
    ),
    "2.0": ({"podSpecOverrides": [{"targetJobs": [{"name": "nodes"}]}]}, "spec.podSpecOverrides[0].targetJobs[0].name"),
    "2.2": (
        {
            "runtimePatches": [
                {
                    "manager": "m",
                    "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": "nodes"}]}}},
                }
            ]
        },
        "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].name",
    ),
}


@pytest.mark.parametrize("version", STRANGE)
def test_a_job_that_the_runtime_does_not_have_is_named_and_nothing_is_made(version: str) -> None:
    given, path = STRANGE[version]
    body = {"metadata": {"name": "j", "namespace": "ns"}, "spec": {"runtimeRef": {"name": "r"}, **given}}
    plan = decide(msgspec.convert(body, TrainJob), RUNTIME.spec, None, 0.0)
    assert not plan.ensure
    (notice,) = plan.notices
    assert notice.reason == "UnknownTargetJob"
    assert notice.message == f"{path} is nodes: the runtime has the jobs node"


def test_an_initializer_that_no_job_of_the_runtime_carries_out_is_told() -> None:
    spec = {"runtimeRef": {"name": "r"}, "initializer": {"dataset": {"storageUri": "hf://a"}, "model": None}}
    job = msgspec.convert({"metadata": {"name": "j"}, "spec": spec}, TrainJob)
    ((_, told),) = idle_parts(job, RUNTIME.spec)
    assert told.startswith("spec.initializer.dataset has no effect: no job of the runtime has the label")
