"""Which namespaces and queues a private control plane gets because manifests name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from unisono.cli.manifests import Manifest
from unisono.cli.options import Where
from unisono.cli.running.place import Place
from unisono.cli.running.submitting import Naming, _Submission, missing_prerequisites
from unisono.sdk.jobs import submission


def manifests(text: str) -> list[Manifest]:
    return [Manifest(value, "f.yaml", 1, Path()) for value in yaml.safe_load_all(text)]


def names(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["kind"], each["metadata"]["name"]) for each in found]


VOLCANO = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a, namespace: team}
spec: {queue: gpu, tasks: [{name: t, template: {spec: {containers: [{name: c, env: [{name: queue, value: no}]}]}}}]}
"""
QUEUE = "---\napiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: gpu}\n"
NAMESPACE = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
KUBEFLOW = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: p}
spec: {runPolicy: {schedulingPolicy: {queue: training}}, pytorchReplicaSpecs: {}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {scheduling.volcano.sh/queue-name: pods}}
"""
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: kube-system}\ndata: {queue: words}\n"


@pytest.mark.parametrize(
    ("text", "namespace", "expected"),
    [
        (VOLCANO, None, [("Namespace", "team"), ("Queue", "gpu")]),
        (VOLCANO + QUEUE, None, [("Namespace", "team")]),
        (VOLCANO + QUEUE + NAMESPACE, None, []),
        (KUBEFLOW, None, [("Queue", "training")]),
        (KUBEFLOW, "mine", [("Namespace", "mine"), ("Queue", "training")]),
        (POD, "default", [("Queue", "pods")]),
        (MAP, None, []),
    ],
)
def test_what_the_files_name_and_do_not_bring(text: str, namespace: str | None, expected: list[Any]) -> None:
    assert names(missing_prerequisites(manifests(text), namespace)) == expected


async def test_the_elements_of_an_array_tell_once_what_their_pods_may(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Report:
        def line(self, title: str, text: str) -> None:
            told.append(f"{title}: {text}")

    async def never(*_: object) -> bool:
        return False

    async def always(*_: object) -> bool:
        return True

    for name, answer in (("share_writing", never), ("share_folder", never), ("is_read_only", always)):
        monkeypatch.setattr(submission, name, answer)
    heard: set[str] = set()
    for _ in range(3):
        place: Any = Place(Where())
        one = _Submission(cast(Any, None), place, cast(Any, None), "default", cast(Any, Report()), Naming(heard=heard))
        await one._local_folders(Manifest({"kind": "Job", "metadata": {}, "spec": {}}, "", 0, Path("/x")))
    (line,) = told
    assert line.startswith("namespace/default: its pods run as a user of the namespace")


@pytest.mark.parametrize(("file", "given"), [("", True), ("job.yaml", False)])
async def test_only_commands_get_their_folder_to_write_in(
    file: str, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def ask(*words: object) -> bool:
        asked.append(words[2])
        return False

    async def never(*_: object) -> bool:
        return False

    for name, answer in (("share_writing", ask), ("share_folder", never), ("is_read_only", never)):
        monkeypatch.setattr(submission, name, answer)
    one = _Submission(cast(Any, None), Place(Where()), cast(Any, None), "default", cast(Any, None), Naming())
    await one._local_folders(Manifest({"kind": "Job", "metadata": {}, "spec": {}}, file, 1, Path("/x")))
    assert asked == ([Path("/x")] if given else [])
