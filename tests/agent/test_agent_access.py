"""Commands in running containers, attached streams, and ports: what ``kubectl`` reaches through the API."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from agent_node import DEADLINE, Node, eventually, manifest

from support.ports import free_port
from unisono.agent.access import FilePodAccess
from unisono.apiserver.nodes import STDERR, STDOUT, ContainerTarget, Wanted
from unisono.errors import AgentError

pytestmark = [pytest.mark.processes]

ALL = Wanted(stdin=True, stdout=True, stderr=True, tty=False)
OUT = Wanted(stdin=False, stdout=True, stderr=True, tty=False)
TTY = Wanted(stdin=True, stdout=True, stderr=False, tty=True)


@pytest.fixture
def access(node: Node) -> FilePodAccess:
    assert node.agent is not None
    return FilePodAccess(node.data_dir, node.agent._spawner)


def target(node: Node, name: str, container: str = "main") -> ContainerTarget:
    pod = node.pod(name)
    assert pod is not None
    return ContainerTarget("default", name, pod.metadata.uid or "", "here", container)


async def everything(session: Any, stream: int = STDOUT) -> bytes:
    found = b""
    async with asyncio.timeout(DEADLINE):
        while data := await session.read(stream):
            found += data
    return found


async def ran(
    access: FilePodAccess, where: ContainerTarget, *command: str, wanted: Wanted = OUT
) -> tuple[str, str, int, str]:
    session = await access.exec(where, list(command), wanted)
    try:
        out, err = await everything(session), await everything(session, STDERR)
        ended = await session.wait()
    finally:
        await session.close()
    return out.decode(), err.decode(), ended.exit_code, ended.problem


async def test_a_command_has_the_surroundings_of_its_container(
    node: Node, access: FilePodAccess, tmp_path: Path
) -> None:
    container = {
        "env": [{"name": "COLOUR", "value": "blue"}],
        "workingDir": str(tmp_path),
        "volumeMounts": [{"name": "v", "mountPath": "/of-the-pod"}],
    }
    node.run(manifest("web", ["sleep", "600"], container=container, volumes=[{"name": "v", "emptyDir": {}}]))
    await node.phase("web", "Running")
    script = (
        "echo $COLOUR; pwd; echo hi > /of-the-pod/f; cat /of-the-pod/f; hostname; grep -c web /etc/hosts; echo no >&2"
    )
    out, err, code, problem = await ran(access, target(node, "web"), "sh", "-c", script + "; exit 3")
    assert out.split() == ["blue", str(tmp_path), "hi", "web", "1"]
    assert (err, code, problem) == ("no\n", 3, "")
    pid = (
        await ran(access, target(node, "web"), "sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '; cat /proc/self/cgroup")
    )[0]
    assert "unisono" in pid  # process 1 is the container's, and the cgroup the pod's


@pytest.mark.parametrize(
    ("command", "code", "problem"),
    [
        (["true"], 0, ""),
        (["sh", "-c", "exit 255"], 255, ""),
        (["sh", "-c", "kill -9 $$"], 137, ""),
        (["nosuch"], 1, 'exec: "nosuch": executable file not found in $PATH'),
        (["/no/such"], 1, 'exec: "/no/such": no such file or directory'),
    ],
)
async def test_how_a_command_ended_is_told(
    node: Node, access: FilePodAccess, command: list[str], code: int, problem: str
) -> None:
    node.run(manifest("web", ["sleep", "600"]))
    await node.phase("web", "Running")
    _, _, found, why = await ran(access, target(node, "web"), *command)
    assert found == code
    assert problem in why


async def test_stdin_reaches_the_command_and_ends(node: Node, access: FilePodAccess) -> None:
    node.run(manifest("web", ["sleep", "600"]))
    await node.phase("web", "Running")
    session = await access.exec(target(node, "web"), ["wc", "-c"], ALL)

    async def feed() -> None:
        for _ in range(40):
            await session.write(b"x" * 50_000)  # more than a pipe holds
        session.close_stdin()

    out, _ = await asyncio.gather(everything(session), feed())
    assert out.strip() == b"2000000"
    assert (await session.wait()).exit_code == 0
    await session.close()


async def test_a_terminal_is_the_command_s_own(node: Node, access: FilePodAccess) -> None:
    node.run(manifest("web", ["sleep", "600"]))
    await node.phase("web", "Running")
    session = await access.exec(
        target(node, "web"), ["sh", "-c", "read line; stty size; test -t 1 && echo $TERM; cat"], TTY
    )
    session.resize(101, 33)
    # A shell may lose a Ctrl-C while it starts a command. The second "here", after the terminal's echo, is cat's own.
    await session.write(b"go\nhere\n")
    seen = b""
    async with asyncio.timeout(DEADLINE):
        while b"xterm" not in seen or seen.count(b"here") < 2:
            seen += await session.read(STDOUT)
    assert b"33 101" in seen
    await session.write(b"\x03")  # Ctrl-C
    await everything(session)
    assert (await session.wait()).exit_code == 128 + signal.SIGINT
    await session.close()


async def test_what_a_command_leaves_behind_holds_nobody_up(node: Node, access: FilePodAccess) -> None:
    node.run(manifest("web", ["sleep", "600"]))
    await node.phase("web", "Running")
    out, _, code, _ = await ran(access, target(node, "web"), "sh", "-c", "sleep 500 & echo started")
    assert (out, code) == ("started\n", 0)


async def test_a_command_that_nobody_reads_waits_and_one_that_is_left_meets_closed_pipes(
    node: Node, access: FilePodAccess, tmp_path: Path
) -> None:
    node.run(manifest("web", ["sleep", "600"]))
    await node.phase("web", "Running")
    told = tmp_path / "told"
    script = f"yes; echo $? > {told}"
    session = await access.exec(target(node, "web"), ["sh", "-c", script], OUT)
    assert await session.read(STDOUT)
    await session.close()
    await eventually(lambda: told.exists() and told.read_text())
    assert told.read_text().strip() in {"1", "141"}  # a broken pipe


async def test_a_command_ends_with_its_container(node: Node, access: FilePodAccess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    node.run(manifest("web", ["sh", "-c", f"while ! test -e {go}; do sleep 0.1; done"]))
    await node.phase("web", "Running")
    session = await access.exec(target(node, "web"), ["sh", "-c", "echo up; exec sleep 600"], OUT)
    assert await session.read(STDOUT) == b"up\n"  # a command that comes after the end of its container fails otherwise
    go.touch()
    assert (await session.wait()).exit_code == 137
    await session.close()
    await node.phase("web", "Succeeded")
    with pytest.raises(AgentError, match=r'container not found \("main"\)'):
        await access.exec(target(node, "web"), ["true"], OUT)


async def test_pods_that_have_no_processes_here_are_told_so(node: Node, access: FilePodAccess) -> None:
    with pytest.raises(AgentError, match="node gpu-7 is simulated"):
        await access.exec(ContainerTarget("default", "p", "no-such-uid", "gpu-7", "main"), ["true"], OUT)
    with pytest.raises(AgentError, match="node gpu-7 is simulated"):
        await access.attach(ContainerTarget("default", "p", "no-such-uid", "gpu-7", "main"), OUT)
    with pytest.raises(AgentError, match="node gpu-7 is simulated"):
        await access.connect(ContainerTarget("default", "p", "no-such-uid", "gpu-7"), 80)


async def test_who_is_attached_types_and_reads_and_the_log_has_it_too(node: Node, access: FilePodAccess) -> None:
    container = {"stdin": True, "stdinOnce": True}
    node.run(manifest("cat", ["sh", "-c", "echo ready; cat; echo bye >&2"], container=container))
    await node.phase("cat", "Running")
    session = await access.attach(target(node, "cat"), ALL)
    await session.write(b"typed\n" * 30_000)
    session.close_stdin()
    out, err = await asyncio.gather(everything(session), everything(session, STDERR))
    assert out.count(b"typed\n") == 30_000
    assert err == b"bye\n"
    assert (await session.wait()).exit_code == 0
    await session.close()
    await node.phase("cat", "Succeeded")
    assert (await node.log("cat")).count("typed\n") == 30_000


async def test_a_container_with_a_terminal_is_attached_to_it(node: Node, access: FilePodAccess) -> None:
    node.run(manifest("sh", ["sh", "-c", "read x; stty size; exit 4"], container={"stdin": True, "tty": True}))
    await node.phase("sh", "Running")
    session = await access.attach(target(node, "sh"), TTY)
    session.resize(90, 20)
    await session.write(b"go\n")
    assert b"20 90" in await everything(session)
    await session.close()
    pod = await node.phase("sh", "Failed")
    assert pod.status.container_statuses is not None
    ended = pod.status.container_statuses[0].state.terminated
    assert ended is not None
    assert ended.exit_code == 4


async def test_who_does_not_read_what_is_attached_is_let_go_and_the_container_goes_on(
    node: Node, access: FilePodAccess, tmp_path: Path
) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    much = "head -c 8000000 /dev/zero | tr '\\0' x | fold -w 1000"
    script = f"while ! test -e {go}; do sleep 0.1; done; {much}; touch {done}; sleep 600"
    node.run(manifest("loud", ["sh", "-c", script]))
    await node.phase("loud", "Running")
    session = await access.attach(target(node, "loud"), OUT)
    go.touch()
    await eventually(done.exists)
    await everything(session)
    assert "not read for too long" in (await session.wait()).problem
    await session.close()
    again = await access.attach(target(node, "loud"), OUT)
    await again.close()


async def test_ports_of_a_pod_are_reached_and_closed_ones_told(
    node: Node, access: FilePodAccess, tmp_path: Path
) -> None:
    (tmp_path / "page").write_text("hello")
    # As root the port is the pod's own; elsewhere it must be free on the machine.
    port = free_port()
    node.run(
        manifest("web", ["python", "-u", "-m", "http.server", str(port), "--bind", "127.0.0.1", "-d", str(tmp_path)])
    )
    await node.phase("web", "Running")
    where = target(node, "web", "")

    async def fetch() -> bytes:
        connection = await access.connect(where, port)
        await connection.write(b"GET /page HTTP/1.0\r\n\r\n")
        connection.end_writing()
        found = b""
        while data := await connection.read():
            found += data
        await connection.close()
        return found

    log = node.data_dir / "pods" / where.uid / "runs" / "main" / "0" / "log"
    await eventually(lambda: log.exists() and b"Serving HTTP" in log.read_bytes())
    assert (await fetch()).endswith(b"hello")
    with pytest.raises(AgentError, match="failed to connect to localhost:9 inside the pod"):
        await access.connect(where, 9)
