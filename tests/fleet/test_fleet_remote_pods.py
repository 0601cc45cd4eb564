"""Pods of a hub's jobs, read where they run; a member's own pods are not shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
from aiohttp import WSMessage, WSMsgType
from fleet_world import NAMESPACE, kubeconfig
from test_fleet_described_kinds import SWARMS, definition

from support.memory import MemoryClient
from unisono.api.annotations import CLUSTER, DISPATCH, HUB, ORIGIN_UID
from unisono.api.base import ObjectMeta
from unisono.api.core import Event, Namespace, ObjectReference, Secret
from unisono.api.groups.batch import Job
from unisono.api.groups.fleet import AttachedCluster, AttachedClusterSpec
from unisono.api.kind_families import ATTACHED_CLUSTERS
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, JOBS, NAMESPACES, SECRETS
from unisono.apiserver.nodes import STDERR, STDOUT, ContainerTarget, Wanted
from unisono.errors import ApiError, NotFound, Unavailable
from unisono.fleet.members.member import NewsSink, beginnings, told
from unisono.fleet.remote_pods import MemberPods, end_of


class MemberApi:
    """The API of a member: answers by path."""

    def __init__(self) -> None:
        self.pods: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.broken = False

    async def request(
        self, method: str, path: str, params: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        assert method == "GET"
        if params is not None:
            self.asked.append((path, params))
        if self.broken:
            raise OSError("no route")
        status, value = self.pods.get(path, (404, {}))
        return status, {}, msgspec.json.encode(value)

    async def stream(self, path: str, params: Mapping[str, str], *, accept: str) -> AsyncIterator[bytes]:
        self.asked.append((path, params))
        yield b"step 1\n"
        yield b"step 2\n"

    async def close(self) -> None:
        return None


@pytest.fixture
def world() -> tuple[MemberPods, MemberApi, MemoryClient]:
    hub, api = MemoryClient(), MemberApi()
    hub.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default", uid="the-hub")))
    hub.put(SECRETS, Secret(metadata=ObjectMeta(name="a", namespace=NAMESPACE), data={"value": kubeconfig("a")}))
    hub.put(
        ATTACHED_CLUSTERS,
        AttachedCluster(
            metadata=ObjectMeta(name="a", namespace=NAMESPACE), spec=AttachedClusterSpec(kubeconfig_secret_ref="a")
        ),
    )
    marks = {CLUSTER: "a", DISPATCH: "1"}
    hub.put(JOBS, Job(metadata=ObjectMeta(name="my-train", namespace="team", uid="u1", annotations=marks)))
    return MemberPods(hub, lambda _: api), api, hub


def pod(uid: str = "u1", hub: str = "the-hub") -> dict[str, Any]:
    return {"metadata": {"name": "my-train-w-0", "namespace": "team", "labels": {HUB: hub, ORIGIN_UID: uid}}}


PATH = "/api/v1/namespaces/team/pods/my-train-w-0"


async def test_a_pod_and_its_log_come_from_the_member(world):
    pods, api, _ = world
    api.pods[PATH] = (200, pod())
    found = msgspec.json.decode(await pods.find("team", "my-train-w-0"))
    assert found["metadata"]["labels"] == {**pod()["metadata"]["labels"], CLUSTER: "a"}
    chunks = [chunk async for chunk in pods.log("team", "my-train-w-0", {"tailLines": "2"})]
    assert chunks == [b"step 1\n", b"step 2\n"]
    assert api.asked == [(f"{PATH}/log", {"tailLines": "2"})]
    await pods.close()


@pytest.mark.parametrize("foreign", [pod(uid="u2"), pod(hub="another"), {"metadata": {"name": "my-train-w-0"}}])
async def test_a_pod_that_this_hub_did_not_bring_is_not_shown(world, foreign):
    pods, api, _ = world
    api.pods[PATH] = (200, foreign)
    assert await pods.find("team", "my-train-w-0") is None
    with pytest.raises(NotFound):
        _ = [chunk async for chunk in pods.log("team", "my-train-w-0", {})]
    assert api.asked == []


@pytest.mark.parametrize("name", ["my-train", "other-w-0", "my"])
async def test_a_name_of_no_job_is_not_asked_for(world, name):
    pods, api, _ = world
    api.pods[f"/api/v1/namespaces/team/pods/{name}"] = (200, pod())
    assert await pods.find("team", name) is None


async def test_what_is_wrong_with_a_member_is_one_sentence(world):
    pods, api, hub = world
    api.pods[PATH] = (403, {})
    with pytest.raises(ApiError, match="member a does not show pod"):
        await pods.find("team", "my-train-w-0")
    api.broken = True
    with pytest.raises(Unavailable, match="member a does not answer"):
        await pods.find("team", "my-train-w-0")
    hub.remove(SECRETS, f"{NAMESPACE}/a")
    with pytest.raises(Unavailable, match="member a cannot be reached"):
        await pods.find("team", "my-train-w-0")
    hub.remove(ATTACHED_CLUSTERS, f"{NAMESPACE}/a")
    with pytest.raises(Unavailable, match="member a has left"):
        await pods.find("team", "my-train-w-0")


async def test_the_pods_of_the_hubs_jobs_are_listed_and_no_others(world):
    pods, api, _ = world
    stranger = {"metadata": {"name": "x", "labels": {HUB: "the-hub", ORIGIN_UID: "unknown"}}}
    api.pods["/api/v1/namespaces/team/pods"] = (200, {"items": [pod(), stranger, {"metadata": {"name": "own"}}]})
    found, silent = await pods.listed("team", {"labelSelector": "a=b", "fieldSelector": "status.phase=Running"})
    assert [msgspec.json.decode(each)["metadata"]["name"] for each in found] == ["my-train-w-0"]
    assert msgspec.json.decode(found[0])["kind"] == "Pod"
    assert silent == []
    ((_, asked),) = api.asked
    assert (asked["labelSelector"], asked["fieldSelector"]) == (f"{HUB}=the-hub,a=b", "status.phase=Running")
    assert await pods.listed("nobody", {}) == ([], [])


@pytest.mark.parametrize("answer", [(403, {}), (200, {"items": "none"}), (200, {"items": [5]})])
async def test_a_member_that_does_not_list_its_pods_is_named_and_holds_nothing_up(world, answer):
    pods, api, _ = world
    api.pods["/api/v1/namespaces/team/pods"] = answer
    found, silent = await pods.listed("team", {})
    assert found == []
    assert "member a does not show its pods" in silent[0]


async def test_a_kind_of_a_users_own_that_cannot_be_read_hides_no_other_pods(world):
    pods, api, hub = world
    hub.put(CUSTOM_RESOURCE_DEFINITIONS, definition(SWARMS))
    api.pods["/api/v1/namespaces/team/pods"] = (200, {"items": [pod()]})
    api.pods["/api/v1/namespaces/team/pods/my-train-w-0"] = (200, pod())

    def broken(verb: str, plural: str, *_: str) -> None:
        if plural == SWARMS.plural:
            raise ApiError("the conversion webhook does not answer", code=500, reason="InternalError")

    hub.interceptor = broken
    found, silent = await pods.listed("team", {})
    assert len(found) == 1
    assert "conversion webhook" in silent[0]
    assert await pods.find("team", "my-train-w-0")


class FakeSocket:
    """A WebSocket of a member: messages that it sends, and those that it gets."""

    def __init__(self, protocol: str, *messages: bytes) -> None:
        self.protocol, self.messages = protocol, messages
        self.got: list[bytes] = []
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[WSMessage]:
        for data in self.messages:
            yield WSMessage(WSMsgType.BINARY, data, None)

    async def send_bytes(self, data: bytes) -> None:
        self.got.append(data)

    async def close(self) -> None:
        self.closed = True


FAILED = {
    "status": "Failure",
    "reason": "NonZeroExitCode",
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
}


async def test_a_command_in_a_member_has_its_streams_and_its_exit_code(world):
    pods, api, _ = world
    api.pods[PATH] = (200, pod())
    socket = FakeSocket("v5.channel.k8s.io", b"\x01out", b"\x02err", b"\x01more", b"\x03" + msgspec.json.encode(FAILED))
    opened: list[Any] = []

    async def web_socket(path: str, query: Any, protocols: Any) -> FakeSocket:
        opened.append((path, query))
        return socket

    api.web_socket = web_socket
    found, access = await pods.reach("team", "my-train-w-0")
    assert msgspec.json.decode(found)["metadata"]["name"] == "my-train-w-0"
    target = ContainerTarget("team", "my-train-w-0", "u", "n", "c")
    session = await access.exec(target, ["sh", "-c", "x"], Wanted(True, True, True, False))
    assert (await session.read(STDOUT), await session.read(STDOUT)) == (b"out", b"more")
    assert await session.read(STDERR) == b"err"
    assert await session.read(STDOUT) == await session.read(STDERR) == b""
    assert (await session.wait()).exit_code == 3
    await session.write(b"hi")
    session.close_stdin()
    session.resize(80, 24)
    await asyncio.sleep(0)
    assert socket.got == [b"\x00hi", b"\xff\x00", b'\x04{"Width":80,"Height":24}']
    await session.close()
    assert socket.closed
    ((path, query),) = opened
    assert path == f"{PATH}/exec"
    assert ("command", "-c") in query
    assert ("tty", "true") not in query


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (b'{"status": "Success"}', (0, "")),
        (b'{"status": "Failure", "message": "no such container"}', (0, "no such container")),
        (b"plain words", (0, "plain words")),
        (b"[1]", (0, "the member told no status")),
        (b'{"status": "Failure", "details": {"causes": [7]}}', (0, "the member told no reason")),
    ],
)
def test_the_end_of_a_command(text, end):
    found = end_of(text)
    assert (found.exit_code, found.problem) == end


async def test_a_port_of_a_pod_in_a_member_is_reached(world):
    pods, api, _ = world
    api.pods[PATH] = (200, pod())
    port = (8080).to_bytes(2, "little")
    socket = FakeSocket("v4.channel.k8s.io", b"\x00" + port, b"\x01" + port, b"\x00one", b"\x00two")
    opened: list[Any] = []

    async def web_socket(path: str, query: Any, protocols: Any) -> FakeSocket:
        opened.append((path, list(query)))
        return socket

    api.web_socket = web_socket
    _, access = await pods.reach("team", "my-train-w-0")
    target = ContainerTarget("team", "my-train-w-0", "u", "n", "")
    stream = await access.connect(target, 8080)
    assert [await stream.read(), await stream.read(), await stream.read()] == [b"one", b"two", b""]
    await stream.write(b"GET /")
    assert socket.got == [b"\x00GET /"]
    await stream.close()
    assert socket.closed
    assert opened == [(f"{PATH}/portforward", [("ports", "8080")])]
    socket = FakeSocket("v4.channel.k8s.io", b"\x00" + port, b"\x01" + port, b"\x01nothing listens")
    broken = await access.connect(target, 8080)
    with pytest.raises(Unavailable, match="member a: nothing listens"):
        await broken.read()


async def test_a_member_that_runs_no_commands_says_what_to_do(world):
    pods, api, _ = world
    api.pods[PATH] = (200, pod())
    _, access = await pods.reach("team", "my-train-w-0")
    target, wanted = ContainerTarget("team", "my-train-w-0", "u", "n", "c"), Wanted(False, True, False, False)

    async def refuse(*_: Any) -> Any:
        raise ApiError("no", code=403, reason="Forbidden")

    api.web_socket = refuse
    with pytest.raises(ApiError, match="join it again to renew its rights"):
        await access.exec(target, ["true"], wanted)

    async def silent(*_: Any) -> Any:
        return FakeSocket("")

    api.web_socket = silent
    with pytest.raises(ApiError, match="speaks none of"):
        await access.attach(target, wanted)


def event(version: int, kind: str = "Warning", name: str = "my-train-w-0") -> Event:
    return Event(
        metadata=ObjectMeta(name=f"e{version}", resource_version=str(version)),
        involved_object=ObjectReference(kind="Pod", name=name, namespace="team"),
        type=kind,
        reason="Failed",
        message="no such program",
    )


def test_news_of_a_member_are_told_once_and_old_ones_not_at_all():
    heard: list[Event] = []
    sink = NewsSink(heard.append)
    sink.replace([event(5)])
    assert heard == []
    sink.apply("ADDED", event(6))
    sink.apply("ADDED", event(7, "Normal"))
    sink.apply("DELETED", event(8))
    sink.replace([event(5), event(6), event(9)])
    assert [each.metadata.resource_version for each in heard] == ["6", "9"]
    assert told("gpu1", heard[0]) == ("Failed", "gpu1: pod/my-train-w-0: no such program")
    assert beginnings("my-train-w-0") == ["my-train-w-0", "my-train-w", "my-train", "my"]
