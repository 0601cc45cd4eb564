from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.serving import ScriptedService, WebClient, serving
from unisono.api.kinds import PODS
from unisono.api.pod_states import LogOptions
from unisono.errors import AgentError, NotFound

LOG = "/api/v1/namespaces/default/pods/p/log"


class Logs:
    """A log source that plays what a test has put in."""

    def __init__(self) -> None:
        self.script: list[Any] = [b"hello\n"]
        self.asked: list[tuple[Any, ...]] = []
        self.kept: set[tuple[str, str, str, str]] = set()

    def keeps(self, namespace: str, pod: str, uid: str, container: str) -> bool:
        return (namespace, pod, uid, container) in self.kept

    async def open(
        self, namespace: str, pod: str, uid: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        self.asked.append((namespace, pod, uid, container, options))
        for step in self.script:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
                continue
            yield step


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
async def web(service: ScriptedService, logs: Logs, tmp_path: Path) -> AsyncIterator[WebClient]:
    async with serving(service, tmp_path, log_source=logs, clock=lambda: 1_800_000_000.0) as client:
        yield client


def put(
    service: ScriptedService,
    *statuses: dict[str, Any],
    names: tuple[str, ...] = ("main",),
    inits: tuple[str, ...] = (),
    node: str = "n1",
    phase: str = "Running",
) -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": name} for name in names],
        "initContainers": [{"name": name} for name in inits],
    }
    if node:
        spec["nodeName"] = node
    known = [status for status in statuses if status["name"] not in inits]
    first = [status for status in statuses if status["name"] in inits]
    status = {"phase": phase, "containerStatuses": known, "initContainerStatuses": first}
    service.put(PODS, "p", "default", spec=spec, status=status)


def state(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "state": fields}


async def test_the_log_is_relayed_as_text(service: ScriptedService, logs: Logs, web: WebClient) -> None:
    put(service, state(running={}))
    logs.script = [b"one\ntw", b"o\n", b"\xff raw\n"]
    reply = await web.get(f"{LOG}?container=main")
    assert (reply.status, reply.body) == (200, b"one\ntwo\n\xff raw\n")
    assert reply.headers["Content-Type"] == "text/plain"


async def test_parameters_reach_the_source(service: ScriptedService, logs: Logs, web: WebClient) -> None:
    put(service, {**state(running={}), "lastState": {"terminated": {"exitCode": 1}}})
    await web.get(
        f"{LOG}?container=main&follow=true&tailLines=0&sinceSeconds=9&timestamps=true&previous=true&limitBytes=5"
    )
    assert logs.asked == [
        (
            "default",
            "p",
            "uid-p",
            "main",
            LogOptions(follow=True, tail_lines=0, since_seconds=9, timestamps=True, previous=True, limit_bytes=5),
        )
    ]


async def test_since_time_becomes_seconds(service: ScriptedService, logs: Logs, web: WebClient) -> None:
    put(service, state(running={}))
    await web.get(f"{LOG}?sinceTime=2027-01-15T07:59:00Z")
    assert logs.asked[0][-1].since_seconds == 60.0


async def test_following_streams_as_lines_come(service: ScriptedService, logs: Logs, web: WebClient) -> None:
    more = asyncio.Event()
    put(service, state(running={}))
    logs.script = [b"one\n", more, b"two\n"]
    async with web.open("GET", f"{LOG}?follow=true") as answer:
        assert await answer.content.readline() == b"one\n"
        more.set()
        assert await answer.content.read() == b"two\n"


async def test_headers_come_before_a_silent_container_says_anything(
    service: ScriptedService, logs: Logs, web: WebClient
) -> None:
    put(service, state(running={}))
    logs.script = [asyncio.Event()]
    async with web.open("GET", f"{LOG}?follow=true") as answer:
        assert answer.status == 200
        await web.server.stop()
        assert await answer.content.read() == b""


WAITING = "is waiting to start"
MAIN = 'container "main" in pod "p"'
REFUSED = [
    (
        (state(waiting={"reason": "ContainerCreating"}),),
        {},
        "",
        f"{MAIN} {WAITING}: ContainerCreating",
    ),
    ((state(waiting={}),), {}, "", f"{MAIN} {WAITING} - no logs yet"),
    ((), {"phase": "Pending"}, "", f"{MAIN} {WAITING}: ContainerCreating"),
    ((), {}, "", 'container "main" in pod "p" is not available'),
    (
        (state(waiting={"reason": "ImagePullBackOff"}),),
        {},
        "",
        f"{MAIN} {WAITING}: trying and failing to pull image",
    ),
    ((state(running={}),), {}, "previous=true", 'previous terminated container "main" in pod "p" not found'),
    ((state(running={}),), {}, "container=nope", "container nope is not valid for pod p"),
    (
        (),
        {"names": ("a", "b")},
        "",
        "a container name must be specified for pod p, choose one of: [a b]",
    ),
    (
        (),
        {"names": ("a", "b"), "inits": ("i",)},
        "",
        "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]",
    ),
    (
        (state("i", waiting={"reason": "X"}),),
        {"inits": ("i",)},
        "container=i",
        f'container "i" in pod "p" {WAITING}: X',
    ),
]


@pytest.mark.parametrize(("statuses", "options", "query", "message"), REFUSED)
async def test_refusals_in_the_words_of_kubernetes(
    service: ScriptedService,
    logs: Logs,
    web: WebClient,
    statuses: tuple[dict[str, Any], ...],
    options: dict[str, Any],
    query: str,
    message: str,
) -> None:
    put(service, *statuses, **options)
    reply = await web.get(f"{LOG}?{query}")
    assert (reply.status, reply.json()["reason"]) == (400, "BadRequest")
    assert reply.json()["message"] == message
    assert logs.asked == []


READABLE = [
    state(terminated={"exitCode": 0}),
    {**state(waiting={"reason": "CrashLoopBackOff"}), "lastState": {"terminated": {"exitCode": 1}}},
    state(running={"startedAt": "2027-01-15T07:59:00Z"}),
]


@pytest.mark.parametrize("status", READABLE)
async def test_containers_that_have_run_have_a_log(
    service: ScriptedService, web: WebClient, status: dict[str, Any]
) -> None:
    put(service, status)
    assert (await web.get(LOG)).body == b"hello\n"


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=1&sinceTime=2027-01-15T07:59:00Z", 422, "at most one of `sinceTime` or `sinceSeconds`"),
        ("sinceTime=yesterday", 400, 'parsing time "yesterday"'),
        ("tailLines=x", 400, 'parsing "x"'),
    ],
)
async def test_bad_parameters(service: ScriptedService, web: WebClient, query: str, status: int, message: str) -> None:
    put(service, state(running={}))
    reply = await web.get(f"{LOG}?{query}")
    assert reply.status == status
    assert message in reply.json()["message"]


async def test_a_pod_without_a_node_has_an_empty_log(service: ScriptedService, logs: Logs, web: WebClient) -> None:
    put(service, node="", phase="Pending")
    reply = await web.get(LOG)
    assert (reply.status, reply.body, logs.asked) == (204, b"", [])


async def test_unknown_pod(web: WebClient) -> None:
    assert (await web.get(LOG)).status == 404


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [(AgentError("the log file is gone"), 500, "InternalError"), (NotFound("rotated away"), 404, "NotFound")],
)
async def test_an_error_before_the_first_line_is_a_status(
    service: ScriptedService, logs: Logs, web: WebClient, error: Exception, code: int, reason: str
) -> None:
    put(service, state(running={}))
    logs.script = [error]
    reply = await web.get(LOG)
    assert (reply.status, reply.json()["reason"], reply.json()["message"]) == (code, reason, str(error))


async def test_an_error_later_ends_the_stream_with_its_text(
    service: ScriptedService, logs: Logs, web: WebClient
) -> None:
    put(service, state(running={}))
    logs.script = [b"one\n", AgentError("the log file is gone")]
    assert (await web.get(LOG)).body == b"one\n\nthe log file is gone\n"


async def test_without_an_agent_there_are_no_logs(service: ScriptedService, tmp_path: Path) -> None:
    put(service, state(running={}))
    async with serving(service, tmp_path) as web:
        reply = await web.get(LOG)
        assert (reply.status, reply.json()["reason"]) == (503, "ServiceUnavailable")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("uid=u-old&container=main", 200),
        ("container=main", 404),
        ("uid=u-old", 404),
        ("uid=u-older&container=main", 404),
        ("uid=../u-old&container=main", 404),
        ("uid=u-old&container=../main", 404),
    ],
)
async def test_who_has_seen_a_pod_may_read_its_log_when_it_is_gone(
    logs: Logs, web: WebClient, query: str, status: int
) -> None:
    logs.kept = {("default", "p", "u-old", "main"), ("default", "p", "../u-old", "main")}
    reply = await web.get(f"{LOG}?{query}")
    assert reply.status == status
    assert reply.body == b"hello\n" or status == 404


async def test_the_incarnation_that_is_named_is_read_and_not_its_successor(
    service: ScriptedService, logs: Logs, web: WebClient
) -> None:
    put(service, state(waiting={"reason": "ContainerCreating"}))
    logs.kept = {("default", "p", "u-old", "main")}
    assert (await web.get(f"{LOG}?uid=u-old&container=main")).status == 200
    assert [asked[2] for asked in logs.asked] == ["u-old"]
    assert (await web.get(f"{LOG}?container=main")).status == 400
