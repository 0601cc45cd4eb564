"""What programs of distributed jobs need on this runtime and a container image or network would give them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from unisono.agent.layout import PodDir, RunDir
from unisono.agent.network.names import Peer, names_in_subdomain, pod_names
from unisono.agent.processes.launch import Identity
from unisono.agent.processes.users import HOME
from unisono.agent.volumes.mounts import Mount

# Open MPI binds 0.0.0.0 at ports from 1024 on, which leads to the pod's own address, and tells its peers the address of
# a network interface, where nothing listens then. Ports that the kernel chooses are left alone (``pod_network``).
_OWN_PORTS = {"OMPI_MCA_btl_tcp_port_min_v4": "0"}
# A Ray process keeps its sockets, and the address of the cluster that it belongs to, below this folder.
_RAY_FOLDER = Path("/tmp/ray")  # noqa: S108  # nosec B108 # the path is Ray's
_RAY = re.compile(r"\bray\b")
_SSH_CONFIG = Path("/etc/ssh/ssh_config.d")
_SSHD = "sshd"
_SERVERS = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
_SSHD_FOLDER, _SSHD_PID = Path("/run/sshd"), Path("/run/sshd.pid")
_SSHD_CONFIG = Path("/etc/ssh/sshd_config.d")
# Where job plug-ins and the MPIJob controller mount keys: root's home directory, which other users may not enter.
_ROOT_KEYS = "/root/.ssh"


def network_variables(own_ports: bool) -> Mapping[str, str]:
    """Variables that let frameworks find each other where each pod has its own ports; manifests may override them."""
    return _OWN_PORTS if own_ports else {}


def sshd_mounts(
    argv: Sequence[str], run: RunDir, who: Identity, folder: Path = _SSHD_FOLDER, config: Path = _SSHD_CONFIG
) -> list[Mount]:
    """Places for an ssh server that a container starts as root, or as a user of its own.

    Args:
        argv: the container's command; a shell's script counts.
        run: where private files are kept.
        who: the container's user.
        folder: the empty directory that a server of root wants.
        config: from where the machine's ssh server takes settings.
    """
    return _server_places(run, who, folder, config) if _starts_sshd(argv) else []


def home_keys(mounts: Sequence[Mount], directory: PodDir) -> list[Mount]:
    """Show keys that are mounted for root in the home directory of a user of its own, where ssh looks for them.

    Args:
        mounts: the container's volumes.
        directory: the pod's directory.
    """
    target = str(HOME / ".ssh")
    keys = next((mount for mount in mounts if mount.target == _ROOT_KEYS), None)
    if keys is None or any(mount.target == target for mount in mounts):
        return []
    (directory.home / ".ssh").mkdir(exist_ok=True)
    return [replace(keys, target=target)]


def ssh_client_mounts(
    argv: Sequence[str],
    mounts: Sequence[Mount],
    peer: Peer,
    run: RunDir,
    who: Identity,
    *,
    folder: Path = _SSH_CONFIG,
    server_folder: Path = _SSHD_FOLDER,
    server_config: Path = _SSHD_CONFIG,
    server: str | None = None,
) -> list[Mount]:
    """Let a container that got keys log in to the pods of its job without questions, as images for MPI do.

    All pods show the machine's own host keys, so there is nothing to be learnt from them.

    A launcher of MPI that computes as well stands in its own list of hosts. In a network namespace of its own, mpirun
    sees by its interfaces' addresses that the name is its own; a pod's address is on no interface here, so mpirun logs
    in to itself, where no server runs. Such a login gets a server for this one connection, without a port.

    Args:
        argv: the container's command; one that starts a server of its own needs no other.
        mounts: the container's volumes; keys are what stands at a path that ends in ``.ssh``.
        peer: the pod's names; the pods of its job have the subdomain that it has.
        run: where private files are kept.
        who: the container's user.
        folder: from where the machine's ssh client takes settings.
        server_folder: the empty directory that a server of root wants.
        server_config: from where the machine's ssh server takes settings.
        server: path of the ssh server; that of this machine by default.
    """
    if not peer.subdomain or not folder.is_dir() or not any(mount.target.endswith("/.ssh") for mount in mounts):
        return []
    hosts = " ".join(f"*.{name}" for name in names_in_subdomain(peer))
    text = f"Host {hosts}\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
    server = server or shutil.which(_SSHD, path=_SERVERS)
    serves = server is not None and not _starts_sshd(argv)
    if server_mounts := _server_places(run, who, server_folder, server_config) if serves else []:
        names = " ".join(pod_names(peer, peer.namespace))
        text = f"Host {names}\n  ProxyCommand {server} -i -o LogLevel=ERROR\n{text}"
    own = run.path / "ssh_config"
    own.write_text(text)
    own.chmod(0o644)
    return [*server_mounts, Mount(str(own), str(folder / "10-pods.conf"), read_only=True)]


def _starts_sshd(argv: Sequence[str]) -> bool:
    return any(_SSHD in word for word in argv)


def _server_places(run: RunDir, who: Identity, folder: Path, config: Path) -> list[Mount]:
    """What a server wants of the machine; nothing where it would not work.

    Root's server wants an empty directory that the machine's service manager makes, and only on machines that run one.
    The number of its process must not go into the file by which the machine's own server is found. The server of
    another user cannot read the machine's host keys, nor ask PAM about accounts; it lets in that user alone.
    """
    if who.own and who.uid:
        return _own_server_places(run, who.uid, config)
    if (os.geteuid() if who.uid is None else who.uid) != 0:
        return []
    own = run.path / _SSHD_PID.name
    own.touch(mode=0o644)
    mounts = [Mount(str(own), str(_SSHD_PID))]
    if not folder.exists():
        mounts.append(Mount("tmpfs:mode=755,size=4k", str(folder), read_only=True))
    return mounts


def _own_server_places(run: RunDir, uid: int, config: Path) -> list[Mount]:
    if not config.is_dir():
        return []
    settings, key, shown = run.path / "sshd_config", run.path / "host_key", config / "10-pods.key"
    settings.write_text(f"HostKey {shown}\nPidFile none\nUsePAM no\n")
    settings.chmod(0o644)
    key.touch(mode=0o600)
    key.write_bytes(_host_key())
    os.chown(key, uid, -1)
    return [
        Mount(str(settings), str(config / "10-pods.conf"), read_only=True),
        Mount(str(key), str(shown), read_only=True),
    ]


def _host_key() -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    return ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )


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
