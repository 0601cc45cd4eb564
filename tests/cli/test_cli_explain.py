"""What explain says of a pod that has its node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kinds import PODS
from unisono.cli import connection
from unisono.cli.commands.explain import command
from unisono.errors import NotFound
from unisono.kube import discovery
from unisono.kube.discovery import Resource, ResourceMap
from unisono.sdk.reasons.explaining import explain_pod

PORT = "port 18765 is taken by pod default/first; it starts when that pod ends"


def pod(
    *containers: dict[str, Any], node: str | None = "here", phase: str = "Pending", **status: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": "second", "namespace": "default"},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "containerStatuses": list(containers), **status},
    }


def waiting(name: str = "main", **state: str) -> dict[str, Any]:
    return {"name": name, "state": {"waiting": state}}


RUNNING = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}


class NoHeartbeats:
    """A server that refuses to list Leases, to read logs and to list events."""

    transport = SimpleNamespace(clock=SimpleNamespace(time=lambda: 1_700_000_000.0))

    async def request(self, *_: object, **__: object) -> tuple[int, dict[str, str], bytes]:
        return 403, {}, b"{}"

    async def get(self, kind: Kind[Any], name: str, namespace: str) -> Any:
        raise NotFound(f'{kind.resource} "{name}" not found')


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (pod(RUNNING, phase="Running"), "its phase is Running on node here"),
        (pod(node=None), "its phase is Pending, not bound yet"),
        (
            pod(waiting(reason="PortTaken", message=PORT)),
            "its phase is Pending on node here",
        ),
        (
            pod(
                RUNNING,
                waiting("side", reason="CrashLoopBackOff", message="back-off 10s restarting failed container"),
                phase="Running",
            ),
            "its phase is Running on node here",
        ),
        (
            pod(
                waiting(reason="PodInitializing"),
                initContainerStatuses=[waiting("init", reason="CreateContainerError")],
            ),
            "its phase is Pending on node here",
        ),
        (pod(waiting()), "its phase is Pending on node here"),
        (pod(waiting(reason="X"), node=None), "its phase is Pending, not bound yet"),
    ],
)
async def test_the_state_of_a_pod(item: dict[str, Any], expected: str) -> None:
    assert (await explain_pod(cast("Any", NoHeartbeats()), decode(PODS, item).obj, "pod/second")).state == expected


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (pod(RUNNING, phase="Running"), "pod/second does not wait: its phase is Running on node here.\n"),
        (
            pod(waiting(reason="PortTaken", message=PORT)),
            f"pod/second waits on its node: container main waits: PortTaken: {PORT}; "
            "its phase is Pending on node here.\n",
        ),
    ],
)
def test_explain_pod(monkeypatch: pytest.MonkeyPatch, item: dict[str, Any], line: str) -> None:
    @asynccontextmanager
    async def connect(_: object) -> AsyncIterator[Any]:
        yield NoHeartbeats()

    async def discover(_: object) -> Any:
        return ResourceMap([Resource("", "v1", "Pod", "pods", "pod", True)])

    async def request_json(*_: object) -> dict[str, Any]:
        return item

    monkeypatch.setattr(connection, "connect", connect)
    monkeypatch.setattr(connection, "namespace_of", lambda _: "default")
    monkeypatch.setattr(discovery, "discover", discover)
    monkeypatch.setattr(discovery, "request_json", request_json)
    assert CliRunner().invoke(command, ["pod/second"], catch_exceptions=False).output == line
    found = json.loads(CliRunner().invoke(command, ["pod/second", "-o", "json"], catch_exceptions=False).output)
    told = [c["reason"] for c in found["waiting_containers"]]
    assert told == (["PortTaken"] if "PortTaken" in line else [])
