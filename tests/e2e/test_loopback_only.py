"""What ``unisono up`` listens on: loopback addresses and Unix sockets, unless ``--host`` says otherwise."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from support.plane import RunningPlane, wait_until
from support.ports import free_port
from unisono.cli.main import COMMANDS, cli

pytestmark = [pytest.mark.kubectl, pytest.mark.processes]

Start = Callable[..., RunningPlane]
_LISTENS = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
NODES = "[{name: far, count: 2, capacity: {cpu: 4, memory: 8Gi}}]"
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: gang}
spec:
  minAvailable: 2
  plugins: {ssh: [], svc: [], env: []}
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        nodeSelector: {kubernetes.io/hostname: HOST}
        containers: [{name: main, image: none, command: [sleep, "600"]}]
"""


def family(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        # A process or a thread may end at any moment.
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in task.read_text().split():
                yield from family(int(child))


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address of a line of /proc/net: words of the machine's byte order, least significant byte first."""
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    return ipaddress.ip_address(b"".join(words))


def listening(pid: int) -> set[tuple[str, int]]:
    """Addresses and ports at which a process and its descendants take connections or datagrams."""
    found = set()
    for each in family(pid):
        inodes = set()
        with suppress(FileNotFoundError, ProcessLookupError):
            for descriptor in Path(f"/proc/{each}/fd").iterdir():
                with suppress(FileNotFoundError):
                    inodes.update(re.findall(r"socket:\[(\d+)\]", str(descriptor.readlink())))
        for table, state in _LISTENS.items():
            try:
                lines = Path(f"/proc/{each}/net/{table}").read_text().splitlines()[1:]
            except (FileNotFoundError, ProcessLookupError):  # a machine without IPv6, or an ended process
                continue
            for fields in map(str.split, lines):
                if fields[3] == state and fields[9] in inodes:
                    where, _, port = fields[1].partition(":")
                    found.add((str(address(where)), int(port, 16)))
    return found


def test_only_this_machine_reaches_what_listens(start_plane: Start) -> None:
    plane = start_plane(nodes=NODES)
    assert plane.process is not None
    (host,) = [node["metadata"]["name"] for node in plane.objects("nodes") if "far" not in node["metadata"]["name"]]
    plane.apply(JOB.replace("HOST", host))
    wait_until("the gang runs", lambda: len(plane.pods("Running")) == 2)
    assert len(list(family(plane.process.pid))) >= 4, "its parts and the containers are looked at, too"
    found = listening(plane.process.pid)
    port = int((plane.data_dir / "port").read_text())
    assert ("127.0.0.1", port) in found
    assert all(ipaddress.ip_address(where).is_loopback for where, _ in found), found


def test_who_names_an_address_gets_that_one_with_a_warning(start_plane: Start) -> None:
    port = free_port()
    plane = start_plane("--no-agent", "--host", "0.0.0.0", "--port", str(port))
    assert plane.process is not None
    assert {each for each in listening(plane.process.pid) if each[0] == "0.0.0.0"} == {("0.0.0.0", port)}
    assert "other machines reach the API" in (plane.data_dir.parent / "up.log").read_text()


def test_every_option_that_names_where_to_listen_defaults_to_this_machine() -> None:
    found = {}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for option in command.params:
            if {"--listen", "--serve", "--host"} & set(option.opts):
                found[f"{name} {option.opts[0]}"] = str(option.default)
    assert len(found) >= 6, found
    for what, default in found.items():
        assert ipaddress.ip_address(default.partition(":")[0]).is_loopback, what
