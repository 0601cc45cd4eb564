"""``metrics.k8s.io``: nodes and pods that are measured, and nothing made up for those that are not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api.core import Node, Pod
from unisono.api.groups.resource_metrics import Amounts, Metered
from unisono.apiserver.http.metrics import node_metrics, pod_metrics

MEASURED = Metered("here", 1_700_000_000.0, 15.0, Amounts(1500, 4 << 30), {"u1": {"main": Amounts(250, 1025)}})
TOLD = {"unisono.io/usage-cpu": "25", "unisono.io/usage-memory": "50", "unisono.io/usage-time": "2026-01-02T00:00:00Z"}


def node(name: str, **notes: str) -> Node:
    meta = {"name": name, "annotations": notes}
    return msgspec.convert({"metadata": meta, "status": {"capacity": {"cpu": "8", "memory": "8Gi"}}}, Node)


@pytest.mark.parametrize(
    ("of", "measured", "usage"),
    [
        (node("here"), MEASURED, {"cpu": "1500m", "memory": f"{4 << 20}Ki"}),
        (node("here", **TOLD), MEASURED, {"cpu": "1500m", "memory": f"{4 << 20}Ki"}),
        (node("sim", **TOLD), MEASURED, {"cpu": "2000m", "memory": f"{4 << 20}Ki"}),
        (node("sim", **TOLD), None, {"cpu": "2000m", "memory": f"{4 << 20}Ki"}),
        (node("sim"), MEASURED, None),
        (node("sim", **TOLD | {"unisono.io/usage-cpu": "nan"}), MEASURED, None),
    ],
    ids=["this machine", "measured goes before told", "told", "no agent here", "nothing is told", "no number"],
)
def test_nodes(of: Node, measured: Metered | None, usage: dict[str, str] | None) -> None:
    found = node_metrics(of, measured)
    assert (found and found["usage"]) == usage


def pod(uid: str, on: str = "here", phase: str = "Running") -> Pod:
    value: dict[str, Any] = {"metadata": {"name": "p", "namespace": "ns", "uid": uid, "labels": {"app": "a"}}}
    return msgspec.convert(value | {"spec": {"nodeName": on}, "status": {"phase": phase}}, Pod)


def test_a_pod_of_this_machine() -> None:
    assert pod_metrics(pod("u1"), MEASURED) == {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "labels": {"app": "a"},
            "creationTimestamp": "2023-11-14T22:13:20Z",
        },
        "timestamp": "2023-11-14T22:13:20Z",
        "window": "15.000s",
        "containers": [{"name": "main", "usage": {"cpu": "250m", "memory": "2Ki"}}],
    }


@pytest.mark.parametrize(
    "of", [pod("u2"), pod("u1", on="sim"), pod("u1", phase="Succeeded")], ids=["unknown", "elsewhere", "ended"]
)
def test_pods_that_are_not_measured(of: Pod) -> None:
    assert pod_metrics(of, MEASURED) is None
    assert pod_metrics(of, None) is None
