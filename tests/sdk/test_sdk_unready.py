"""Pods that run and are not ready, and the probe that says so."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from unisono.api.core import Pod
from unisono.api.decode import decode
from unisono.api.kinds import PODS
from unisono.kube.http import HttpClient
from unisono.sdk.state.bound_pods import unready_text

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
PROBE = {"tcpSocket": {"port": 80}}


def pod(name: str, *, ready: bool = False, phase: str = "Running", probe: str = "readinessProbe") -> Pod:
    value = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"nodeName": "n", "containers": [{"name": "web", probe: PROBE} if probe else {"name": "web"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "web", "ready": ready, "state": RUNNING}]},
    }
    return decode(PODS, value).obj


class Events:
    def __init__(self, *items: tuple[str, str, str]) -> None:
        self.items = [
            {"involvedObject": {"name": name}, "reason": reason, "message": text} for name, reason, text in items
        ]

    async def request(self, *_: object, **__: object) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, msgspec.json.encode({"items": self.items})


REFUSED = ("a", "Unhealthy", "Readiness probe failed: port 80: Connection refused")
OLDEST_FIRST: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": 3}}


@pytest.mark.parametrize(
    ("item", "pods", "events", "expected"),
    [
        ({}, [pod("a", ready=True)], [], ""),
        ({}, [pod("a", phase="Pending")], [], ""),
        ({}, [pod("a", probe="")], [], ""),
        ({}, [pod("a")], [REFUSED], "pod a is not ready: Readiness probe failed: port 80: Connection refused"),
        ({}, [pod("a")], [], "pod a is not ready: the probe of container web has not succeeded"),
        (
            {},
            [pod("a")],
            [("a", "BackOff", "else")],
            "pod a is not ready: the probe of container web has not succeeded",
        ),
        (
            {},
            [pod("a", probe="startupProbe"), pod("b", ready=True)],
            [REFUSED],
            "1 of 2 pods is not ready: Readiness probe failed: port 80: Connection refused",
        ),
        (
            OLDEST_FIRST,
            [pod("a")],
            [REFUSED],
            "pod a is not ready: Readiness probe failed: port 80: Connection refused; pod 2 of 3 is made when it is",
        ),
    ],
)
async def test_which_pods_are_not_ready_and_why(
    item: dict[str, Any], pods: list[Pod], events: list[tuple[str, str, str]], expected: str
) -> None:
    assert await unready_text(cast(HttpClient, Events(*events)), "ns", item, pods) == expected
