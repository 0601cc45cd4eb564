"""The parts that keep pods apart, and what happens on machines without them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_node import Node, eventually, manifest

from support.memory import MemoryClient
from support.ports import free_port
from unisono.agent.devices.inventory import choose, variables_of
from unisono.agent.devices.nvidia import Gpu, gpu_labels, inventory
from unisono.agent.layout import Layout
from unisono.agent.machine.cgroups import Cgroups
from unisono.agent.machine.facts import Machine
from unisono.agent.network import pod_network
from unisono.agent.network.pod_network import Ins, assemble
from unisono.agent.node import build_node
from unisono.agent.processes.launch import base_environment, identity, python_folder
from unisono.api.annotations import SHARED_NETWORK
from unisono.api.keys import NVIDIA_GPU
from unisono.api.kinds import NODES, PODS
from unisono.errors import AgentError

CARDS = tuple(Gpu(f"GPU-{n}", "NVIDIA A100 80GB", 80 << 30, "550.54.15", (8, 0)) for n in range(4))
MACHINE = Machine("Box", 8000, 32 << 30, 100 << 30, ("10.0.0.5",), gpus=CARDS)


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Node]:
    """An agent that may use no namespaces."""
    node = Node(MemoryClient(), tmp_path / "agent", isolation="none")
    await node.start()
    yield node
    await node.stop()


@pytest.mark.processes
async def test_names_give_way_to_addresses_in_the_environment(plain: Node) -> None:
    plain.run(manifest("job-master-0", ["sleep", "600"], subdomain="job", terminationGracePeriodSeconds=0))
    master = await plain.phase("job-master-0", "Running")
    container = {"env": [{"name": "MASTER_ADDR", "value": "job-master-0.job"}], "args": ["http://job-master-0.job:80"]}
    plain.run(manifest("job-worker-0", ["sh", "-c", "echo $MASTER_ADDR $0"], subdomain="job", container=container))
    await plain.phase("job-worker-0", "Succeeded")
    ip = master.status.pod_ip
    assert await plain.log("job-worker-0") == f"{ip} http://{ip}:80\n"


@pytest.mark.processes
async def test_a_node_without_namespaces_says_so(plain: Node) -> None:
    await eventually(lambda: plain.events("NoNamespaces"))
    assert "no namespaces of their own (switched off)" in plain.events("NoNamespaces")[0].message


@pytest.mark.processes
async def test_mount_paths_give_way_to_directories_or_fail(plain: Node) -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/cache"}]}
    plain.run(manifest("named", ["sh", "-c", "touch /cache/x && ls /cache"], container=mount, volumes=volumes))
    plain.run(manifest("hidden", ["true"], container=mount, volumes=volumes))
    await plain.phase("named", "Succeeded")
    assert await plain.log("named") == "x\n"
    pod = await plain.phase("hidden", "Failed")
    assert "mounts a volume at /cache, and this machine allows no mounts" in pod.status.message


@pytest.mark.processes
async def test_orphans_end_without_namespaces(plain: Node) -> None:
    plain.run(manifest("forks", ["sh", "-c", "(setsid sleep 86391 &); echo started; exit 0"]))
    await plain.phase("forks", "Succeeded")
    assert await plain.log("forks") == "started\n"
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 86391" not in found.splitlines()


@pytest.mark.processes
async def test_probes(node: Node, tmp_path: Path) -> None:
    flag = tmp_path / "ready"
    check = ["sh", "-c", f"test -e {flag} && hostname | grep -q probed"]
    container = {
        "readinessProbe": {"exec": {"command": check}, "periodSeconds": 1},
        "lifecycle": {"postStart": {"exec": {"command": ["touch", str(tmp_path / "hooked")]}}},
    }
    node.run(manifest("probed", ["sleep", "600"], container=container, terminationGracePeriodSeconds=0))
    pod = await node.phase("probed", "Running")
    assert not pod.status.container_statuses[0].ready
    await eventually(lambda: node.events("Unhealthy"))
    assert node.events("Unhealthy")[0].message == "Readiness probe failed: exit code 1"
    await eventually((tmp_path / "hooked").exists)
    flag.touch()
    pod = await node.until("probed", lambda pod: pod.status.container_statuses[0].ready)
    assert {c.type: c.status for c in pod.status.conditions}["Ready"] == "True"


@pytest.mark.processes
async def test_a_failing_liveness_probe_restarts_the_container(node: Node) -> None:
    port = free_port()
    server = f"import socket, time; s = socket.create_server(('', {port})); s.accept(); s.close(); time.sleep(600)"
    container = {
        "ports": [{"name": "http", "containerPort": port}],
        "startupProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1, "failureThreshold": 30},
        "livenessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 1},
    }
    node.run(manifest("sick", ["python", "-c", server], container=container, restartPolicy="Always",
                      terminationGracePeriodSeconds=0))  # fmt: skip
    pod = await node.until("sick", lambda pod: any(c.restart_count for c in pod.status.container_statuses or ()))
    assert pod.status.container_statuses[0].last_state.terminated.exit_code == 137
    assert "Liveness probe failed" in node.events("Killing")[0].message
    await node.client.delete(PODS, "sick", "default", grace_seconds=0)


@pytest.mark.processes
async def test_pre_stop_runs_before_the_end(node: Node, tmp_path: Path) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", f"hostname > {tmp_path}/hook"]}}}
    script = f"trap 'cat {tmp_path}/hook > {tmp_path}/seen; exit 0' TERM; while true; do sleep 0.05; done"
    node.run(manifest("hooked", ["sh", "-c", script], container={"lifecycle": hook}))
    await node.phase("hooked", "Running")
    run = Layout(node.data_dir).pod(node.pod("hooked").metadata.uid).runs("main")[0]
    await eventually(run.started)
    await node.client.delete(PODS, "hooked", "default")
    await eventually(lambda: node.pod("hooked") is None)
    assert (tmp_path / "seen").read_text() == "hooked\n"


@pytest.mark.processes
async def test_cards_are_shared_out(tmp_path: Path) -> None:
    node = Node(MemoryClient(), tmp_path / "agent", machine=MACHINE)
    await node.start()
    assert node.client.find(NODES, "here").status.capacity["nvidia.com/gpu"] == "4"
    want = {"resources": {"limits": {"nvidia.com/gpu": 3}}}
    node.run(manifest("trains", ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], container=want))
    node.run(manifest("plain", ["sh", "-c", 'echo "<$CUDA_VISIBLE_DEVICES>"']))
    await node.phase("trains", "Succeeded")
    await node.phase("plain", "Succeeded")
    assert await node.log("trains") == "GPU-0,GPU-1,GPU-2\n"
    assert await node.log("plain") == "<>\n"
    node.run(manifest("greedy", ["true"], container={"resources": {"limits": {"nvidia.com/gpu": 5}}}))
    pod = await node.phase("greedy", "Failed")
    assert pod.status.reason == "OutOfnvidia.com/gpu"
    assert "requested: 5, used: 0, capacity: 4" in (pod.status.message or ""), "who has ended holds none"
    await node.stop()


def test_choosing_cards() -> None:
    found, wanted = inventory(CARDS), {"a": {NVIDIA_GPU: 2}, "b": {NVIDIA_GPU: 1}, "c": {NVIDIA_GPU: 0}}
    assert choose(found.devices, wanted, ["GPU-1"]) == {"a": ["GPU-0", "GPU-2"], "b": ["GPU-3"]}
    assert variables_of([], []) == {}
    assert variables_of([found], [])["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert variables_of([found], ["GPU-2", "GPU-3"])["CUDA_VISIBLE_DEVICES"] == "GPU-2,GPU-3"


def test_labels_of_cards() -> None:
    labels = gpu_labels(CARDS)
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-80GB"
    assert labels["nvidia.com/gpu.memory"] == "81920"
    assert labels["nvidia.com/cuda.driver.rev"] == "15"
    assert gpu_labels([]) == {}


def test_node_offers_part_of_the_machine() -> None:
    node = build_node("box", MACHINE, now=0.0, cpus=1.5, memory=1 << 30, shared_network=True, labels={"a": "b"})
    assert node.status.capacity["cpu"] == "8"
    assert (node.status.allocatable["cpu"], node.status.allocatable["memory"]) == ("1500m", "1Gi")
    assert node.metadata.labels[SHARED_NETWORK] == "true"
    assert node.metadata.labels["a"] == "b"


def test_assembler_resolves_jumps() -> None:
    program = [
        Ins(pod_network.JUMP, to="end"),
        Ins(pod_network.MOV_IMM, 0, imm=0),
        Ins(pod_network.MOV_IMM, 0, imm=-1, label="end"),
        Ins(pod_network.EXIT),
    ]
    code = assemble(program)
    assert code[:8] == bytes([pod_network.JUMP, 0, 1, 0, 0, 0, 0, 0])
    assert code[16:24] == bytes([pod_network.MOV_IMM, 0, 0, 0, 255, 255, 255, 255])
    with pytest.raises(KeyError):
        assemble([Ins(pod_network.JUMP, to="nowhere")])


@pytest.mark.parametrize("machine_ips", [(), ("10.0.0.5",), ("10.0.0.5", "192.168.1.1")])
def test_programs_end_in_exit(machine_ips: tuple[str, ...]) -> None:
    programs = [
        pod_network.bind_program("127.64.0.2"),
        pod_network.connect_program("127.64.0.2"),
        pod_network.own_address_program("127.64.0.2", machine_ips),
        pod_network.no_ipv6_program(),
        pod_network.no_ipv6_program(with_error=False),
    ]
    for program in programs:
        assert program[-1].op == pod_network.EXIT
        assert len(assemble(program)) == 8 * len(program)


@pytest.mark.skipif(os.geteuid() != 0, reason="attaching BPF programs needs root")
def test_the_kernel_accepts_the_programs(tmp_path: Path) -> None:
    cgroups = Cgroups.find(tmp_path)
    if cgroups is None:
        pytest.skip("this machine has no writable cgroup v2 tree")
    path = cgroups.create("probe")
    try:
        for ips in ((), ("10.0.0.5", "192.168.1.1")):
            pod_network.isolate(path, "127.64.0.2", ips)
    finally:
        cgroups.remove("probe")
        cgroups.remove_root()


def test_cgroups_in_a_plain_directory(tmp_path: Path) -> None:
    cgroups = Cgroups(tmp_path)
    path = cgroups.create("u")
    assert path is not None and path.is_dir()
    assert cgroups.path("nope") is None
    assert cgroups.processes("u") == []
    (path / "main.0").mkdir()
    (path / "main.0" / "cgroup.procs").write_text("7\n8\n")
    assert cgroups.processes("u") == [7, 8]


def test_no_cgroup_tree(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mounts").write_text("proc /proc proc rw 0 0\n")
    assert Cgroups.find(tmp_path, proc=tmp_path) is None


def test_environment_of_the_agent_is_not_passed_on() -> None:
    agent = {"PATH": "/bin:/usr/bin", "HOME": "/home/a", "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "x", "PYTHONPATH": "y"}
    found = base_environment(agent, "job-0")
    assert found["PATH"] == f"{Path(sys.executable).parent}:/bin:/usr/bin"
    assert found["HOSTNAME"] == "job-0"
    assert set(found) == {"PATH", "HOME", "LC_ALL", "HOSTNAME"}


def test_python_is_found_where_distributions_have_only_python3(tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "python3").touch()
    for interpreter in (Path(sys.executable).resolve(), beside / "python3", beside / "python3"):
        folder = python_folder(tmp_path, interpreter)
        assert (folder / "python").exists()
    assert folder == tmp_path / "bin"
    assert (folder / "python").readlink() == beside / "python3"
    (beside / "python").touch()
    assert python_folder(tmp_path, beside / "python3") == beside
    assert base_environment({"PATH": "/bin"}, "h", folder)["PATH"] == f"{folder}:/bin"


@pytest.mark.parametrize(
    ("for_pod", "own", "euid", "expected"),
    [
        (None, None, 0, (None, None, None)),
        ({"runAsUser": 1000}, None, 0, (1000, None, [])),
        ({"runAsUser": 1000, "fsGroup": 5}, {"runAsUser": 7, "runAsGroup": 8}, 0, (7, 8, [5])),
        ({"runAsUser": 1000}, None, 1000, (None, None, None)),
    ],
)
def test_identity(for_pod: object, own: object, euid: int, expected: tuple[object, ...]) -> None:
    pod = manifest("p", ["true"], container={"securityContext": own}, securityContext=for_pod)
    found = identity(pod, pod.spec.containers[0], euid)
    assert (found.uid, found.gid, found.groups) == expected


@pytest.mark.parametrize(
    ("own", "euid", "message"),
    [({"runAsNonRoot": True}, 0, "set runAsUser"), ({"runAsUser": 5}, 1000, "run the agent as root")],
)
def test_identities_that_cannot_be_had(own: object, euid: int, message: str) -> None:
    pod = manifest("p", ["true"], container={"securityContext": own})
    with pytest.raises(AgentError, match=message):
        identity(pod, pod.spec.containers[0], euid)
