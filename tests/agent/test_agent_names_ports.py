"""Pods that talk to each other by name, and pods that want the same port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_node import Node, eventually, manifest

from support.ports import free_port
from unisono.api.annotations import SHARED_NETWORK
from unisono.api.base import ObjectMeta
from unisono.api.core import Service, ServiceSpec
from unisono.api.kinds import NODES, PODS, SERVICES
from unisono.api.pod_states import LogOptions

pytestmark = pytest.mark.processes

SERVER = """
import socket, sys
s = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
c, peer = s.accept()
c.sendall(sys.argv[2].encode())
c.close()
"""
CLIENT = """
import socket, sys, time
for _ in range(2000):
    try:
        c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
        break
    except OSError as error:
        last = error
        time.sleep(0.05)
else:
    sys.exit(f"no answer: {last}")
print(c.recv(100).decode(), flush=True)
"""


def server(name: str, port: int, text: str, **spec: Any) -> Any:
    return manifest(name, ["python", "-c", SERVER, str(port), text], **spec)


def client(name: str, host: str, port: int, **spec: Any) -> Any:
    return manifest(name, ["python", "-c", CLIENT, host, str(port)], **spec)


@pytest.mark.parametrize(
    "host", ["job-master-0.job", "job-master-0.job.default.svc.cluster.local", "job", "job.default.svc"]
)
async def test_two_pods_talk_by_name(node: Node, host: str) -> None:
    node.client.put(
        SERVICES,
        Service(
            metadata=ObjectMeta(name="job", namespace="default"),
            spec=ServiceSpec(cluster_ip="None", selector={"app": "job-master"}),
        ),
    )
    # The client comes first: the name must become known to a running pod.
    node.run(client("job-worker-0", host, 23456, subdomain="job"))
    await node.phase("job-worker-0", "Running")
    node.run(server("job-master-0", 23456, "weights", subdomain="job"))
    await node.phase("job-worker-0", "Succeeded", "Failed")
    assert await node.log("job-worker-0") == "weights\n"


def need_own_ports(node: Node) -> None:
    if SHARED_NETWORK in (node.client.find(NODES, "here").metadata.labels or {}):
        pytest.skip("pods share the ports of this machine: that needs root and a writable cgroup v2 tree")


async def test_two_jobs_use_the_same_port(node: Node) -> None:
    need_own_ports(node)
    for job in ("red", "blue"):
        node.run(server(f"{job}-master-0", 23456, job, subdomain=job))
    for job in ("red", "blue"):
        await node.phase(f"{job}-master-0", "Running")
        node.run(client(f"{job}-worker-0", f"{job}-master-0.{job}", 23456, subdomain=job))
    for job in ("red", "blue"):
        await node.phase(f"{job}-worker-0", "Succeeded", "Failed")
        assert await node.log(f"{job}-worker-0") == f"{job}\n"
        await node.phase(f"{job}-master-0", "Succeeded")


async def test_localhost_of_a_pod_is_its_own(node: Node) -> None:
    need_own_ports(node)
    script = (
        "import socket\n"
        "s = socket.create_server(('127.0.0.1', 23457))\n"
        "c = socket.create_connection(('localhost', 23457), 5)\n"
        "print(c.getpeername() == s.getsockname() != ('127.0.0.1', 23457))\n"
        "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "u.connect(('8.8.8.8', 53))\n"
        "print(u.getsockname()[0] == s.getsockname()[0])\n"
    )
    for name in ("one", "two"):
        node.run(manifest(name, ["python", "-c", script]))
    for name in ("one", "two"):
        await node.phase(name, "Succeeded", "Failed")
        lines = (await node.log(name)).splitlines()
        assert lines[0] == "True"


async def test_pods_serve_one_port_on_their_address_and_on_localhost(node: Node, tmp_path: Path) -> None:
    """Ray's agents do, several of them on one machine."""
    need_own_ports(node)
    script = (
        "import pathlib, socket, time\n"
        "hosts = (socket.gethostbyname(socket.gethostname()), '127.0.0.1')\n"
        "servers = [socket.create_server((host, 23459)) for host in hosts]\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "(folder / f'{socket.gethostname()}.up').touch()\n"
        "while len(list(folder.glob('*.up'))) < 2: time.sleep(0.01)\n"
        "for host, server in zip(hosts, servers):\n"
        "    client = socket.create_connection((host, 23459), 30)\n"
        "    server.settimeout(30)\n"
        "    print(server.accept()[1] == client.getsockname())\n"
    )
    for name in ("one", "two"):
        node.run(manifest(name, ["python", "-c", script]))
    for name in ("one", "two"):
        await node.phase(name, "Succeeded", "Failed")
        assert await node.log(name) == "True\nTrue\n"


async def test_a_pod_that_asks_by_which_address_it_reaches_another_is_told_its_own(node: Node) -> None:
    need_own_ports(node)
    node.run(manifest("peer-0", ["sleep", "600"], subdomain="job", terminationGracePeriodSeconds=0))
    await node.phase("peer-0", "Running")
    script = (
        "import socket\n"
        "def seen_from(connect, bind=''):\n"
        "    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "    if bind: u.bind((bind, 0))\n"
        "    if connect: u.connect((connect, 53))\n"
        "    return u.getsockname()[0]\n"
        "print(socket.gethostbyname(socket.gethostname()), seen_from('peer-0.job'), seen_from('127.0.0.1'),"
        " seen_from('', '127.0.0.1'))\n"
    )
    node.run(manifest("asks-0", ["python", "-c", script], subdomain="job"))
    await node.phase("asks-0", "Succeeded")
    own, to_peer, to_loopback, bound = (await node.log("asks-0")).split()
    assert own not in ("127.0.0.1", node.pod("peer-0").status.pod_ip)
    assert (to_peer, to_loopback, bound) == (own, "127.0.0.1", "127.0.0.1")


async def test_a_taken_port_is_told_clearly(node: Node) -> None:
    """With hostNetwork a pod shares the machine's ports, as in Kubernetes."""
    listen = f"s = socket.create_server(('', {free_port()}))"
    script = f"import socket, time; {listen}; print('up', flush=True); time.sleep(600)"
    node.run(manifest("first", ["python", "-c", script], hostNetwork=True, terminationGracePeriodSeconds=0))
    await node.phase("first", "Running")
    stream = node.logs.open(
        "default",
        "first",
        node.pod("first").metadata.uid,
        "main",
        LogOptions(follow=True),
    )
    assert await anext(stream) == b"up\n"
    await stream.aclose()
    node.run(manifest("second", ["python", "-c", script], hostNetwork=True))
    await node.phase("second", "Failed")
    await eventually(lambda: node.events("PortInUse"))
    own_ports = SHARED_NETWORK not in (node.client.find(NODES, "here").metadata.labels or {})
    assert ("hostPort" if own_ports else "containerPort") in node.events("PortInUse")[0].message


async def test_names_of_ended_pods_go(node: Node) -> None:
    node.run(manifest("stays-0", ["sleep", "600"], subdomain="job", terminationGracePeriodSeconds=0))
    node.run(manifest("goes-0", ["true"], subdomain="job"))
    await node.phase("stays-0", "Running")
    await node.phase("goes-0", "Succeeded")
    hosts = node.data_dir / "pods" / node.pod("stays-0").metadata.uid / "hosts"
    await eventually(lambda: "goes-0.job" not in hosts.read_text())
    assert "stays-0.job.default.svc.cluster.local" in hosts.read_text()
    await node.client.delete(PODS, "stays-0", "default", grace_seconds=0)
    await eventually(lambda: not hosts.exists())
