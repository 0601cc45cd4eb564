"""What programs of distributed jobs need on this runtime and a container image or network would give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from unisono.agent.layout import RunDir
from unisono.agent.volumes import Mount

# Open MPI binds 0.0.0.0 at ports from 1024 on, which leads to the pod's own address, and tells its peers the address of
# a network interface, where nobody listens then. Ports that the kernel chooses are left alone (``pod_network``).
_OWN_PORTS = {"OMPI_MCA_btl_tcp_port_min_v4": "0"}
_SSHD = "sshd"
_SSHD_FOLDER, _SSHD_PID = Path("/run/sshd"), Path("/run/sshd.pid")


def network_variables(own_ports: bool) -> Mapping[str, str]:
    """Variables that let frameworks find each other where each pod has its own ports; manifests may override them."""
    return _OWN_PORTS if own_ports else {}


def sshd_mounts(argv: Sequence[str], run: RunDir, euid: int, folder: Path = _SSHD_FOLDER) -> list[Mount]:
    """Places for an ssh server that a container of root starts.

    The server wants an empty directory that the machine's service manager makes, and only on machines that run one. The
    number of its process must not go into the file by which the machine's own server is found.

    Args:
        argv: the container's command; a shell's script counts.
        run: where the private file is kept.
        euid: the agent's user; servers of other users need neither.
        folder: the empty directory.
    """
    if euid != 0 or not any(_SSHD in word for word in argv):
        return []
    own = run.path / _SSHD_PID.name
    own.touch(mode=0o644)
    mounts = [Mount(str(own), str(_SSHD_PID))]
    if not folder.exists():
        mounts.append(Mount("tmpfs:mode=755,size=4k", str(folder), read_only=True))
    return mounts
