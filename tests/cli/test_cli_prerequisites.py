"""Which namespaces and queues a private control plane gets because manifests name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from unisono.cli.manifests import Manifest
from unisono.cli.running.submitting import missing_prerequisites


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
