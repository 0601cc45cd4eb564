"""What Open MPI and ssh servers find in a pod, and what they leave alone on the machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from agent_node import Node, manifest

from unisono.agent.layout import RunDir
from unisono.agent.network.names import Peer
from unisono.agent.processes.frameworks import network_variables, ray_mounts, ssh_client_mounts, sshd_mounts
from unisono.agent.processes.launch import Identity
from unisono.agent.volumes.mounts import Mount


@pytest.mark.parametrize(
    ("argv", "euid", "exists", "targets"),
    [
        (["/usr/sbin/sshd", "-D"], 0, False, ["/run/sshd.pid", "{folder}"]),
        (["sh", "-c", "mkdir -p /x; exec /usr/sbin/sshd -De"], 0, False, ["/run/sshd.pid", "{folder}"]),
        (["/usr/sbin/sshd", "-D"], 0, True, ["/run/sshd.pid"]),
        (["/usr/sbin/sshd", "-D", "-p", "2222"], 1000, False, []),
        (["mpirun", "-np", "4", "hello"], 0, False, []),
    ],
)
def test_ssh_servers_of_root_get_places_of_their_own(
    tmp_path: Path, argv: list[str], euid: int, exists: bool, targets: list[str]
) -> None:
    folder = tmp_path / "sshd"
    if exists:
        folder.mkdir()
    mounts = sshd_mounts(argv, RunDir(tmp_path, 0), Identity(euid), folder)
    assert [mount.target for mount in mounts] == [target.format(folder=folder) for target in targets]


@pytest.mark.parametrize(
    ("argv", "mounted", "private"),
    [
        (["ray", "start", "--head"], [], True),
        (["bash", "-c", "ray start --head --port=6379 && python3 compute.py"], [], True),
        (["/opt/venv/bin/ray", "job", "submit"], ["/data"], True),
        (["python", "arrays.py", "--x-ray"], [], True),
        (["python", "arrays.py"], [], False),
        (["ray", "start"], ["{folder}"], False),
        (["ray", "start"], ["{parent}"], False),
    ],
)
def test_ray_nodes_have_their_sockets_to_themselves_unless_a_volume_says_otherwise(
    tmp_path: Path, argv: list[str], mounted: list[str], private: bool
) -> None:
    folder, run = tmp_path / "tmp" / "ray", tmp_path / "run"
    folder.parent.mkdir()
    run.mkdir()
    volumes = [Mount("/x", each.format(folder=folder, parent=folder.parent)) for each in mounted]
    mounts = ray_mounts(argv, volumes, RunDir(run, 0), folder)
    assert mounts == ([Mount(str(run / "ray"), str(folder))] if private else [])
    assert folder.exists() == private
    assert not private or folder.stat().st_mode & 0o777 == 0o777


KEYS, DATA = Mount("/x", "/root/.ssh"), Mount("/x", "/data")
ROOT, OWN, OTHER = Identity(0), Identity(54321, 54321, [], own=True), Identity(1000)
LAUNCHER = Peer("team", "127.64.0.1", "sums-launcher", "sums")


def ssh_settings(folder: Path, *mounts: Mount, argv: Sequence[str] = ("mpirun",), peer: Peer = LAUNCHER,
                 who: Identity = ROOT, server: str | None = "/sbin/sshd") -> tuple[list[str], list[str]]:  # fmt: skip
    """Lines of the client's settings, and where something was mounted."""
    found = ssh_client_mounts(argv, mounts, peer, RunDir(folder, 0), who, folder=folder,
                              server_folder=folder / "sshd", server_config=folder, server=server)  # fmt: skip
    if not found:
        return [], []
    assert found[-1] == Mount(str(folder / "ssh_config"), str(folder / "10-pods.conf"), read_only=True)
    return (folder / "ssh_config").read_text().splitlines(), [mount.target for mount in found[:-1]]


def test_whoever_has_keys_logs_in_to_pods_of_the_job_without_questions(tmp_path: Path) -> None:
    settings, _ = ssh_settings(tmp_path, DATA, KEYS)
    begin = settings.index("Host *.sums *.sums.team *.sums.team.svc *.sums.team.svc.cluster.local")
    assert "  StrictHostKeyChecking no" in settings[begin:]
    assert not any("Proxy" in line for line in settings[begin:]), "others are reached over the network"
    assert not ssh_settings(tmp_path, DATA)[0]
    assert not ssh_settings(tmp_path, KEYS, peer=Peer("team", "127.64.0.1", "sums-launcher"))[0]
    assert not ssh_client_mounts(["mpirun"], [KEYS], LAUNCHER, RunDir(tmp_path, 0), ROOT, folder=tmp_path / "missing")


@pytest.mark.parametrize(
    ("argv", "who", "places"),
    [
        (["sh", "-c", "mpirun -np 2 hello"], ROOT, ["/run/sshd.pid", "{}/sshd"]),
        (["sh", "-c", "mpirun -np 2 hello"], OWN, ["{}/10-pods.conf", "{}/10-pods.key"]),
        (["sh", "-c", "exec /usr/sbin/sshd -D"], ROOT, []),
        (["mpirun", "-np", "2", "hello"], OTHER, []),
    ],
)
def test_a_launcher_logs_in_to_itself_unless_it_serves(
    tmp_path: Path, argv: list[str], who: Identity, places: list[str]
) -> None:
    settings, targets = ssh_settings(tmp_path, KEYS, argv=argv, who=who)
    names = "sums-launcher.sums sums-launcher.sums.team sums-launcher.sums.team.svc"
    own = [f"Host {names} sums-launcher.sums.team.svc.cluster.local", "  ProxyCommand /sbin/sshd -i -o LogLevel=ERROR"]
    assert (settings[:2] == own) == bool(places)
    assert targets == [place.format(tmp_path) for place in places]


def test_open_mpi_takes_ports_of_the_kernel_only_where_pods_have_their_own() -> None:
    assert network_variables(own_ports=True) == {"OMPI_MCA_btl_tcp_port_min_v4": "0"}
    assert not network_variables(own_ports=False)


@pytest.mark.processes
async def test_a_manifest_has_the_last_word_on_variables_of_frameworks(node: Node) -> None:
    name = "OMPI_MCA_btl_tcp_port_min_v4"
    node.run(
        manifest("says", ["sh", "-c", f"echo ${name}"], container={"env": [{"name": name, "value": "5000"}]}),
    )
    await node.phase("says", "Succeeded")
    assert await node.log("says") == "5000\n"


@pytest.mark.processes
@pytest.mark.skipif(os.geteuid() != 0, reason="an ssh server of an ordinary user needs no folder in /run")
@pytest.mark.skipif(shutil.which("sshd", path="/usr/sbin:/usr/bin") is None, reason="sshd is not installed")
async def test_an_ssh_server_starts_and_leaves_nothing_in_run(node: Node) -> None:
    before = sorted(entry.name for entry in Path("/run").iterdir())
    node.run(manifest("logs-in", ["sh", "-c", "/usr/sbin/sshd -t && ls -d /run/sshd && wc -c < /run/sshd.pid"]))
    await node.phase("logs-in", "Succeeded")
    assert await node.log("logs-in") == "/run/sshd\n0\n"
    assert sorted(entry.name for entry in Path("/run").iterdir()) == before


@pytest.mark.processes
async def test_nodes_of_ray_do_not_see_each_others_files(node: Node) -> None:
    for name in ("one", "two"):
        node.run(manifest(name, ["sh", "-c", f"touch /tmp/ray/{name}; : ray start; ls /tmp/ray"]))
    for name in ("one", "two"):
        await node.phase(name, "Succeeded")
        assert await node.log(name) == f"{name}\n"
        assert not Path("/tmp/ray", name).exists()
