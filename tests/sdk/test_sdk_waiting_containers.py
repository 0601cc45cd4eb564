"""What containers of bound pods wait for, with the cause first."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from unisono.api.core import Pod
from unisono.api.decode import decode
from unisono.api.kinds import PODS
from unisono.kube.http import HttpClient
from unisono.sdk.follow.log_lines import LogSelection
from unisono.sdk.reasons.explanation import Explanation
from unisono.sdk.reasons.failures import looping
from unisono.sdk.state.bound_pods import waiting_containers, with_warnings
from unisono.sdk.state.running import RunningNote

MISSING = {"reason": "CreateContainerConfigError", "message": 'secret "creds" not found'}
CREATING = {"reason": "ContainerCreating"}
INITIALIZING = {"reason": "PodInitializing"}


def waits(name: str = "main", **waiting: str) -> dict[str, Any]:
    return {"name": name, "state": {"waiting": waiting}}


def runs(name: str) -> dict[str, Any]:
    return {"name": name, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}


def pod(name: str, *statuses: dict[str, Any], inits: tuple[dict[str, Any], ...] = (), sidecar: str = "") -> Pod:
    first = [{"name": each["name"], "restartPolicy": "Always" if each["name"] == sidecar else None} for each in inits]
    value = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"nodeName": "n", "containers": [{"name": "main"}], "initContainers": first},
        "status": {"phase": "Pending", "containerStatuses": list(statuses), "initContainerStatuses": list(inits)},
    }
    return decode(PODS, value).obj


def headline(*pods: Pod) -> str:
    containers = [each for one in pods for each in waiting_containers(one)]
    return Explanation("Job", "train", "job/train", "its phase is Pending", containers=containers).headline


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("a", waits(**MISSING))], 'container main waits: CreateContainerConfigError: secret "creds" not found'),
        (
            [pod("a", waits(**MISSING)), pod("b", waits(**MISSING))],
            'container main of 2 pods waits: CreateContainerConfigError: secret "creds" not found',
        ),
        (
            [pod("a", waits(**CREATING)), pod("b", waits(**MISSING)), pod("c", waits(**MISSING))],
            'container main of 2 pods waits: CreateContainerConfigError: secret "creds" not found; 1 more pod waits',
        ),
        (
            [pod("a", waits(**INITIALIZING), inits=(runs("fetch"),))],
            "container main waits: PodInitializing: init container fetch has not ended yet",
        ),
        (
            [pod("a", waits(**INITIALIZING), inits=(runs("proxy"), waits("fetch", **MISSING)), sidecar="proxy")],
            'container fetch waits: CreateContainerConfigError: secret "creds" not found',
        ),
    ],
)
def test_the_cause_comes_first(pods: list[Pod], expected: str) -> None:
    assert headline(*pods) == f"job/train waits on its node: {expected}; its phase is Pending."


class Events:
    """A server with warnings about pods, or one that refuses to tell them."""

    def __init__(self, *items: tuple[str, str, str], status: int = 200) -> None:
        self.status, self.asked = status, 0
        self.items = [
            {"involvedObject": {"name": name}, "reason": "FailedMount", "message": text, "lastTimestamp": at}
            for name, at, text in items
        ]

    async def request(self, *_: object, **__: object) -> tuple[int, dict[str, str], bytes]:
        self.asked += 1
        return self.status, {}, msgspec.json.encode({"items": self.items})


async def texts(server: Events, *pods: Pod) -> list[str]:
    containers = [each for one in pods for each in waiting_containers(one)]
    return [str(each) for each in await with_warnings(cast(HttpClient, server), "ns", containers)]


async def test_a_node_that_says_nothing_of_the_cause_has_told_it_by_an_event() -> None:
    server = Events(("a", "2026-01-01T00:00:01Z", "old"), ("a", "2026-01-01T00:00:02Z", "no volume"), ("b", "", "else"))
    assert await texts(server, pod("a", waits(**CREATING))) == [
        "container main waits: ContainerCreating: FailedMount: no volume"
    ]


async def test_events_are_asked_for_only_where_they_are_needed_and_may_be_refused() -> None:
    server = Events(("a", "", "no volume"))
    await texts(server, pod("a", waits(**MISSING)))
    assert not server.asked
    assert await texts(Events(status=403), pod("a", waits(**CREATING))) == ["container main waits: ContainerCreating"]


def test_a_container_that_fails_again_and_again_says_how_it_ended() -> None:
    last = {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such program"}}
    status = {**waits(reason="CrashLoopBackOff", message="back-off 20s"), "lastState": last, "restartCount": 2}
    found = looping(pod("a", status))
    assert found is not None
    assert found.lines() == ["pod/a failed 3 times: exit code 128 (StartError): no such program"]
    told = Explanation("Job", "train", "job/train", "its phase is Running", loops=[found])
    told.containers = waiting_containers(pod("a", status))
    assert told.headline == (
        "job/train fails again and again: StartError: no such program, in container main of pod a; "
        "its phase is Running."
    )
    assert looping(pod("a", waits(**MISSING))) is None


def ended(name: str, code: int) -> dict[str, Any]:
    """A container that is started again and again."""
    end = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}}
    return {"name": name, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": end, "restartCount": 2}


@pytest.mark.parametrize(
    ("code", "about", "text", "expected"),
    [
        (
            143,
            "pod/a",
            "last warning, 3 s ago Unhealthy: Liveness probe failed: refused",
            "Liveness probe failed: refused",
        ),
        (137, "pod/a", "last warning, 3 s ago Unhealthy: Startup probe failed", "Startup probe failed"),
        (1, "pod/a", "last warning, 3 s ago Unhealthy: Liveness probe failed: refused", "exit code 1"),
        (143, "pod/b", "last warning, 3 s ago Unhealthy: Liveness probe failed: refused", "exit code 143"),
        (143, "pod/a", "last warning, 3 s ago Unhealthy: Readiness probe failed: refused", "exit code 143"),
    ],
)
def test_a_container_that_its_node_ends_for_a_probe(code: int, about: str, text: str, expected: str) -> None:
    found = looping(pod("a", ended("main", code)))
    assert found is not None
    notes = [RunningNote(about, text, "Warning")]
    told = Explanation("Job", "train", "job/train", "its phase is Running", loops=[found], running=notes)
    assert told.headline.startswith(f"job/train fails again and again: {expected}")


def test_the_log_of_an_init_container_is_read_while_its_pod_is_pending() -> None:
    one = pod("a", waits(**INITIALIZING), inits=(ended("fetch", 1), waits("later", **INITIALIZING)))
    assert LogSelection(container="fetch").is_ready(one)
    assert not LogSelection(container="later").is_ready(one)
    assert not LogSelection(container="main").is_ready(one)
    assert not LogSelection().is_ready(one)
