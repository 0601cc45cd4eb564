"""Manifests as articles print them, with kubectl's default validation: what is taken, and why the rest is refused."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from installed import VARIABLE, servers

from support.programs import needed

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "train:1"}]}}


def job(**spec: Any) -> dict[str, Any]:
    tasks = [{"name": "worker", "replicas": 2, "template": TEMPLATE}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "article-job"},
        "spec": {"minAvailable": 2, "schedulerName": "volcano", "tasks": tasks} | spec,
    }


def queue(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "install-test-article"},
        "spec": {"weight": 1} | spec,
    }


def pod(**container: Any) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": "4"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "article-pod"},
        "spec": {
            "schedulerName": "volcano",
            "nodeSelector": {"tier": "spot"},
            "tolerations": [{"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
            "containers": [{"name": "trainer", "resources": limits} | container],
        },
    }


KNATIVE = {
    "apiVersion": "serving.knative.dev/v1",
    "kind": "Service",
    "metadata": {"name": "article-server"},
    "spec": {"template": {"spec": {"containers": [{"image": "llm:1"}]}}},
}
SCALED = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "article-scaler"},
    "spec": {
        "scaleTargetRef": {"name": "article-server"},
        "triggers": [{"type": "prometheus", "metadata": {"serverAddress": "http://p", "query": "q", "threshold": "1"}}],
    },
}


@pytest.fixture(scope="module")
def kubectl() -> str:
    return needed("kubectl")


async def applied(kubectl: str, kubeconfig: Path, manifest: dict[str, Any]) -> tuple[int, str]:
    """Exit code and what was said, of a trial that stores nothing."""
    words = [kubectl, "--kubeconfig", str(kubeconfig), "-n", "default", "apply", "--dry-run=server", "-f", "-"]
    done = await asyncio.to_thread(
        subprocess.run, words, input=json.dumps(manifest), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["embedded", "cluster"])
@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (job(), ""),
        (queue(guaranteed={"cpu": 2}), ""),
        (pod(image="train:1"), ""),
        # Every Kubernetes API server asks for it; nobody else could say which image is meant.
        (pod(), "spec.containers[0].image: Required value"),
    ],
    ids=["job", "other spelling of a guarantee", "pod", "pod without an image"],
)
async def test_which_manifests_are_taken(
    request: pytest.FixtureRequest, kubectl: str, kind: str, manifest: dict[str, Any], why: str, tmp_path: Path
) -> None:
    await judged(request, kubectl, kind, manifest, why, tmp_path)


@pytest.mark.parametrize("manifest", [KNATIVE, SCALED], ids=["Knative", "KEDA"])
@pytest.mark.parametrize(("kind", "why"), [("embedded", ""), ("cluster", "no matches for kind")])
async def test_kinds_of_other_operators_are_there_on_one_machine_and_theirs_on_a_cluster(
    request: pytest.FixtureRequest, kubectl: str, kind: str, manifest: dict[str, Any], why: str, tmp_path: Path
) -> None:
    await judged(request, kubectl, kind, manifest, why, tmp_path)


async def judged(
    request: pytest.FixtureRequest, kubectl: str, kind: str, manifest: dict[str, Any], why: str, folder: Path
) -> None:
    if kind == "cluster" and VARIABLE in os.environ:
        request.getfixturevalue("cluster_turn")
    async with servers(kind, folder) as (_, kubeconfig):
        code, said = await applied(kubectl, kubeconfig, manifest)
    if why:
        assert code != 0
        assert why in said
    else:
        assert code == 0, said
        assert "Warning" not in said
