"""What programs of distributed jobs need on this runtime and a container image or network would give them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from unisono.agent.layout import RunDir
from unisono.agent.names import CLUSTER_DOMAIN
from unisono.agent.volumes import Mount

# Open MPI binds 0.0.0.0 at ports from 1024 on, which leads to the pod's own address, and tells its peers the address of
# a network interface, where nobody listens then. Ports that the kernel chooses are left alone (``pod_network``).
_OWN_PORTS = {"OMPI_MCA_btl_tcp_port_min_v4": "0"}
# A Ray process keeps its sockets, and the address of the cluster that it belongs to, below this folder.
_RAY_FOLDER = Path("/tmp/ray")  # noqa: S108 - the path is Ray's
_RAY = re.compile(r"\bray\b")
_SSH_CONFIG = Path("/etc/ssh/ssh_config.d")
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


def ssh_client_mounts(
    mounts: Sequence[Mount], subdomain: str, namespace: str, run: RunDir, folder: Path = _SSH_CONFIG
) -> list[Mount]:
    """Let a container that got keys log in to the pods of its job without questions, as images for MPI do.

    All pods show the machine's own host keys, so there is nothing to be learnt from them.

    Args:
        mounts: the container's volumes; keys are what stands at a path that ends in ``.ssh``.
        subdomain: the pods of the job have it; empty when the pod has none.
        namespace: of the pod.
        run: where the file is kept.
        folder: from where the machine's ssh client takes settings.
    """
    if not subdomain or not folder.is_dir() or not any(mount.target.endswith("/.ssh") for mount in mounts):
        return []
    suffixes = ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.{CLUSTER_DOMAIN}")
    hosts = " ".join(f"*.{subdomain}{suffix}" for suffix in suffixes)
    own = run.path / "ssh_config"
    own.write_text(f"Host {hosts}\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n")
    own.chmod(0o644)
    return [Mount(str(own), str(folder / "10-pods.conf"), read_only=True)]


def ray_mounts(argv: Sequence[str], mounts: Sequence[Mount], run: RunDir, folder: Path = _RAY_FOLDER) -> list[Mount]:
    """A folder of its own for a container that runs ``ray``: else the nodes of a cluster would share their sockets.

    Args:
        argv: the container's command; a shell's script counts.
        mounts: the container's volumes; one that holds the folder is its owner's choice.
        run: where the private folder is kept.
        folder: where Ray looks.
    """
    if not any(_RAY.search(word) for word in argv) or any(folder.is_relative_to(mount.target) for mount in mounts):
        return []
    # Made on the machine as Ray would make it: a mount point that is missing would make all of /tmp the container's.
    if not folder.exists():
        folder.mkdir()
        folder.chmod(0o777)  # whatever the umask: other users of the machine run Ray as well
    own = run.path / folder.name
    own.mkdir(mode=0o777, exist_ok=True)
    own.chmod(0o777)
    return [Mount(str(own), str(folder))]
