"""``exec``, ``attach`` and ``portforward`` over HTTP, with a node that plays what a test has put in."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.serving import ScriptedService, WebClient, serving
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, PODS
from unisono.apiserver.authorization.authorizer import Authorizer
from unisono.apiserver.flow_control import Limits
from unisono.apiserver.nodes import ContainerTarget, Wanted
from unisono.errors import AgentError

PATH = "/api/v1/namespaces/default/pods/p/"
V5 = "v5.channel.k8s.io"


class Ended:
    exit_code, problem = 3, ""


class Session:
    """A command that says what a test wants, and remembers what it was sent."""

    def __init__(self, out: list[bytes], hold: bool = False) -> None:
        self.out, self.hold = out, hold
        self.read_pieces = 0
        self.sent: list[bytes] = []
        self.sizes: list[tuple[int, int]] = []
        self.stdin_closed, self.closed = asyncio.Event(), asyncio.Event()

    async def read(self, stream: int) -> bytes:
        if stream == 1 and self.out:
            self.read_pieces += 1
            return self.out.pop(0)
        if self.hold:
            await asyncio.Event().wait()
        return b""

    async def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close_stdin(self) -> None:
        self.stdin_closed.set()
        self.hold = False

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    async def wait(self) -> Ended:
        await self.stdin_closed.wait()
        return Ended()

    async def close(self) -> None:
        self.closed.set()


class Echo:
    """A port that sends back what it gets."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def read(self) -> bytes:
        return await self.pieces.get()

    async def write(self, data: bytes) -> None:
        await self.pieces.put(data)

    def end_writing(self) -> None:
        self.pieces.put_nowait(b"")

    async def close(self) -> None:
        self.closed.set()


class Access:
    def __init__(self) -> None:
        self.session = Session([b"out"])
        self.ports: dict[int, Echo] = {}
        self.asked: list[tuple[Any, ...]] = []
        self.failure: Exception | None = None

    async def exec(self, target: ContainerTarget, command: list[str], wanted: Wanted) -> Session:
        self.asked.append((target, command, wanted))
        if self.failure is not None:
            raise self.failure
        return self.session

    async def attach(self, target: ContainerTarget, wanted: Wanted) -> Session:
        self.asked.append((target, wanted))
        if self.failure is not None:
            raise self.failure
        return self.session

    async def connect(self, target: ContainerTarget, port: int) -> Echo:
        if port == 81:
            raise AgentError("connection refused")
        return self.ports.setdefault(port, Echo())


@pytest.fixture
def service() -> ScriptedService:
    made = ScriptedService()
    spec = {"containers": [{"name": "main"}], "initContainers": [{"name": "first"}], "nodeName": "n1"}
    made.put(PODS, "p", "default", spec=spec, status={"phase": "Running"})
    made.put(PODS, "two", "default", spec={"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n1"})
    made.put(PODS, "waits", "default", spec={"containers": [{"name": "main"}]})
    return made


@pytest.fixture
def access() -> Access:
    return Access()


@pytest.fixture
async def web(service: ScriptedService, access: Access, tmp_path: Path) -> AsyncIterator[WebClient]:
    async with serving(service, tmp_path, pod_access=access) as client:
        yield client


def socket(web: WebClient, path: str, *protocols: str, **headers: str) -> Any:
    return web.session.ws_connect(
        web.server.url + path,
        protocols=protocols,
        headers={"Authorization": f"Bearer {web.token}", **headers},
    )


async def messages(client: aiohttp.ClientWebSocketResponse) -> list[bytes]:
    return [message.data async for message in client if message.type is aiohttp.WSMsgType.BINARY]


async def test_a_command_s_streams_and_exit_code_arrive(web: WebClient, access: Access) -> None:
    url = PATH + "exec?command=sh&command=-c&command=exit+3&stdin=true&stdout=1&stderr=1"
    async with socket(web, url, V5, "v4.channel.k8s.io") as client:
        assert client.protocol == V5
        await client.send_bytes(b"\x00typed")
        await client.send_str("\x00too")
        await client.send_bytes(b'\x04{"Width":80,"Height":24}')
        await client.send_bytes(b"\xff\x00")
        received = await messages(client)
    assert received[0] == b"\x01"  # the streams are open
    assert b"\x01out" in received
    status = json.loads(received[-1][1:])
    assert received[-1][0] == 3
    assert status["details"]["causes"][0]["message"] == "3"
    assert access.session.sent == [b"typed", b"too"]
    assert access.session.sizes == [(80, 24)]
    target, command, wanted = access.asked[0]
    assert (target.pod, target.uid, target.container, target.node) == ("p", "uid-p", "main", "n1")
    assert command == ["sh", "-c", "exit 3"]
    assert wanted == Wanted(stdin=True, stdout=True, stderr=True, tty=False)


async def test_version_1_tells_the_problem_in_words(web: WebClient, access: Access) -> None:
    access.session.stdin_closed.set()
    async with socket(web, PATH + "exec?command=x&stdout=true", "base64.channel.k8s.io") as client:
        received = [message.data async for message in client]
    assert received[-1][:1] in (b"3", "3")
    assert b"b3V0" in b"".join(part if isinstance(part, bytes) else part.encode() for part in received)


async def test_a_client_that_leaves_takes_its_session_along(web: WebClient, access: Access) -> None:
    access.session.hold = True
    async with socket(web, PATH + "attach?stdin=1&stdout=1", V5) as client:
        await client.receive()
    async with asyncio.timeout(300):
        await access.session.closed.wait()


async def test_a_client_that_does_not_read_holds_the_command_and_no_memory(web: WebClient, access: Access) -> None:
    pieces = 4000
    access.session = Session([b"x" * 65536] * pieces, hold=True)
    async with socket(web, PATH + "exec?command=yes&stdout=1", V5) as client:
        before = -1
        # Until nothing moves any more: what was taken by then fills buffers and sockets.
        while access.session.read_pieces != before:
            before = access.session.read_pieces
            for _ in range(50):
                await web.get("/version")
        assert before < pieces / 2
        assert (await client.receive()).data == b"\x01"


REFUSALS = [
    ("exec?command=ls&stdout=1&container=nope", 400, "container nope is not valid for pod p"),
    ("exec?stdout=1", 400, "you must specify at least one command for the container"),
    ("exec?command=ls", 400, "you must specify at least 1 of stdin, stdout, stderr"),
    ("../two/exec?command=ls&stdout=1", 400, "a container name must be specified for pod two"),
    ("../waits/attach?stdout=1", 400, "pod waits does not have a host assigned"),
    ("../gone/portforward", 404, 'pods "gone" not found'),
    ("portforward?ports=0", 400, 'unable to parse "0" as a port'),
    ("portforward", 400, 'query parameter "ports" is required'),
]


@pytest.mark.parametrize(("path", "code", "message"), REFUSALS)
async def test_what_cannot_be_is_told_before_the_upgrade(web: WebClient, path: str, code: int, message: str) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "v4.channel.k8s.io"}
    answer = await web.get((PATH + path).replace("p/../", ""), headers=headers)
    assert (answer.status, answer.json()["code"]) == (code, code)
    assert message in answer.json()["message"]


async def test_a_container_that_does_not_run_is_told_in_the_kubelet_s_words(web: WebClient, access: Access) -> None:
    access.failure = AgentError('container not found ("main")')
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    answer = await web.get(PATH + "exec?command=ls&stdout=1", headers=headers)
    assert answer.status == 500
    assert answer.json()["message"] == 'unable to upgrade connection: container not found ("main")'


async def test_ordinary_requests_and_unknown_protocols_are_refused(web: WebClient) -> None:
    plain = await web.post(PATH + "exec?command=ls&stdout=1", None)
    assert (plain.status, plain.json()["message"]) == (400, "Upgrade request required")
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "v9.channel.k8s.io"}
    unknown = await web.get(PATH + "exec?command=ls&stdout=1", headers=headers)
    assert "are not supported" in unknown.json()["message"]
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v9.channel.k8s.io"}
    spdy = await web.call("POST", PATH + "exec?command=ls&stdout=1", headers=headers)
    assert spdy.status == 403
    assert "unable to negotiate protocol" in spdy.json()["message"]


async def test_without_a_node_nothing_can_be_reached(service: ScriptedService, tmp_path: Path) -> None:
    async with serving(service, tmp_path) as web:
        answer = await web.get(
            PATH + "exec?command=ls&stdout=1", headers={"Connection": "Upgrade", "Upgrade": "websocket"}
        )
    assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable")


class Reader:
    """A view in which ``reader`` may get what reaches into pods, and not create it."""

    def all(self, kind: Any, namespace: str | None = None) -> Any:
        import msgspec

        rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "pods/exec"]}
        binding = {
            "metadata": {"name": "r"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "reader"}],
        }
        if kind is CLUSTER_ROLES:
            return iter([msgspec.convert({"metadata": {"name": "r"}, "rules": [rule]}, kind.struct)])
        if kind is CLUSTER_ROLE_BINDINGS:
            return iter([msgspec.convert(binding, kind.struct)])
        return iter(())

    def find(self, kind: Any, name: str, namespace: str | None = None) -> Any:
        return next((one for one in self.all(kind) if one.metadata.name == name), None)


async def test_a_right_to_read_is_not_enough_to_run_commands(
    service: ScriptedService, access: Access, tmp_path: Path
) -> None:
    service.authorizer = Authorizer(Reader(), lambda: 0)
    async with serving(service, tmp_path, pod_access=access) as web:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Impersonate-User": "reader"}
        answer = await web.get(PATH + "exec?command=ls&stdout=1", headers=headers)
    assert answer.status == 403
    assert 'cannot create resource "pods/exec"' in answer.json()["message"]
    assert not access.asked


async def test_ports_are_forwarded_on_channels(web: WebClient, access: Access) -> None:
    async with socket(web, PATH + "portforward?ports=80&ports=81", "v4.channel.k8s.io") as client:
        heads = [(await client.receive()).data for _ in range(4)]
        assert heads == [bytes([n]) + struct.pack("<H", 80 + n // 2) for n in range(4)]
        refused = (await client.receive()).data
        assert refused == b"\x03error forwarding port 81 to pod p, uid uid-p: connection refused"
        await client.send_bytes(b"\x00ping")
        assert (await client.receive()).data == b"\x00ping"
    async with asyncio.timeout(300):
        await access.ports[80].closed.wait()


async def test_a_client_that_breaks_the_protocol_is_told_why(web: WebClient) -> None:
    async with socket(web, PATH + "portforward?ports=80", "v4.base64.channel.k8s.io") as client:
        await client.send_bytes(b"\xff")
        async for _ in client:
            continue
        assert client.close_code == aiohttp.WSCloseCode.PROTOCOL_ERROR


async def test_discovery_shows_the_subresources(web: WebClient) -> None:
    found = {item["name"]: item for item in (await web.get("/api/v1")).json()["resources"]}
    for name, kind in (("exec", "PodExecOptions"), ("attach", "PodAttachOptions"),
                       ("portforward", "PodPortForwardOptions")):  # fmt: skip
        assert found[f"pods/{name}"]["kind"] == kind
        assert found[f"pods/{name}"]["verbs"] == ["create", "get"]


async def test_a_session_forwards_so_many_connections(service: ScriptedService, access: Access, tmp_path: Path) -> None:
    limits = Limits(forwarded_of_one=2)
    async with serving(service, tmp_path, pod_access=access, limits=limits) as web:
        for _ in range(2):
            # The second time shows that the first session has given its connections back.
            async with socket(web, PATH + "portforward?ports=80&ports=82&ports=83", "v4.channel.k8s.io") as client:
                for _ in range(6):
                    await client.receive()
                refused = (await client.receive()).data
                assert refused.startswith(b"\x05error forwarding port 83 to pod p")
                assert b"too many connections are forwarded" in refused
            for port in access.ports.values():
                await port.closed.wait()
            access.ports.clear()
        text = (await web.get("/metrics")).body.decode()
    assert 'apiserver_request_rejected_total{what="session_forwarded"} 2.0' in text


@pytest.mark.parametrize("path", ["exec?command=sh&stdin=1", "portforward?ports=80"])
async def test_a_session_in_which_nothing_moves_ends(
    service: ScriptedService, access: Access, tmp_path: Path, path: str
) -> None:
    access.session = Session([], hold=True)
    limits = Limits(session_idle_seconds=0.05)
    async with serving(service, tmp_path, pod_access=access, limits=limits) as web:
        async with asyncio.timeout(300), socket(web, PATH + path, "v4.channel.k8s.io") as client:
            while (await client.receive()).type is aiohttp.WSMsgType.BINARY:
                pass
            await (access.session.closed if "exec" in path else access.ports[80].closed).wait()


async def test_one_user_cannot_take_all_sessions(service: ScriptedService, access: Access, tmp_path: Path) -> None:
    access.session = Session([], hold=True)
    async with serving(service, tmp_path, pod_access=access, limits=Limits(sessions_of_one=1)) as web:
        async with socket(web, PATH + "exec?command=sh&stdin=1", "v4.channel.k8s.io") as client:
            await client.receive()
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await socket(web, PATH + "exec?command=sh&stdin=1", "v4.channel.k8s.io")
    assert refused.value.status == 429
