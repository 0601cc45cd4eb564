"""Volumes of a pod as directories of this machine, and where its containers see them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from unisono.agent.environment import MissingSource, Sources, expand
from unisono.agent.layout import PodDir
from unisono.agent.volumes.written_files import PodFacts, inside_volume, is_written, write_files
from unisono.api.core import Container, HostPathVolumeSource, Pod, Volume
from unisono.api.messages import volume_claim_not_found
from unisono.api.quantity import to_int
from unisono.api.volumes import claim_name
from unisono.errors import AgentError

TMPFS = "tmpfs:"
_MADE_BY = {
    "DirectoryOrCreate": ["/bin/mkdir", "-p", "-m", "755", "--"],
    "FileOrCreate": ["/usr/bin/touch", "--"],
}


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of this machine (or ``tmpfs:OPTIONS``) and where the container sees it.

    Attributes:
        sub_path: what of the source is meant, found without leaving it; a missing directory is made.
        by_user: the container's user, not the agent's, must be able to reach the source.
    """

    source: str
    target: str
    read_only: bool = False
    sub_path: str = ""
    by_user: bool = False


def prepare_volumes(
    pod: Pod,
    directory: PodDir,
    claims: Mapping[str, Path],
    sources: Sources,
    facts: PodFacts,
    owner: tuple[int, int] | None = None,
) -> dict[str, Path]:
    """Make every volume of a pod.

    Args:
        pod: the pod.
        directory: the pod's directory.
        claims: directories of the claims that exist, by claim name.
        sources: ConfigMaps and Secrets.
        facts: values for downward API files.
        owner: user and group of the pod, where that is not the agent's.

    Returns:
        The directory (or file, for a hostPath) of each volume by its name.

    Raises:
        MissingSource: something that the volume refers to does not exist yet.
        AgentError: the volume cannot be had on this machine.
    """
    places: dict[str, Path] = write_files(pod, directory, sources, facts, owner)
    for volume in pod.spec.volumes or ():
        if is_written(volume):
            continue
        if (claim := claim_name(pod.metadata.name, volume)) is not None:
            if claim not in claims:
                raise MissingSource(volume_claim_not_found(claim))
            places[volume.name] = claims[claim]
        elif volume.host_path is not None:
            places[volume.name] = host_path(volume.name, volume.host_path, owner)
        elif _is_empty_dir(volume):
            places[volume.name] = empty_dir(directory.volume(volume.name), pod)
        else:
            raise AgentError(
                f"Volume {volume.name} is of a type that this runtime does not have: "
                "use emptyDir, hostPath, configMap, secret, downwardAPI, projected, persistentVolumeClaim or ephemeral."
            )
    return places


def empty_dir(place: Path, pod: Pod) -> Path:
    """A directory that every user of the pod may write, of the pod's ``fsGroup`` where it has one."""
    if not place.exists():
        place.mkdir(parents=True)
        group = pod.spec.security_context.fs_group if pod.spec.security_context else None
        if group is not None and os.geteuid() == 0:
            os.chown(place, -1, group)
        place.chmod(0o777 if group is None else 0o2777)
    return place


def mounts_of(container: Container, volumes: Mapping[str, Volume], places: Mapping[str, Path],
              environment: Mapping[str, str], *, alone: bool) -> list[Mount]:  # fmt: skip
    """Where a container sees the pod's volumes.

    Args:
        container: one container of the pod.
        volumes: the pod's volumes by name.
        places: their directories, from ``prepare``.
        environment: the container's variables, for ``subPathExpr``.
        alone: the pod has no other container, so that memory volumes need not be shared.

    Raises:
        AgentError: a mount names no volume of the pod, or a sub-path leads out of its volume.
    """
    mounts = []
    for mount in container.volume_mounts or ():
        volume = volumes.get(mount.name)
        if volume is None:
            raise AgentError(f"Container {container.name} mounts the volume {mount.name}, which the pod does not have.")
        target = str(PurePosixPath("/") / mount.mount_path)
        sub_path = expand(mount.sub_path_expr, environment) if mount.sub_path_expr else mount.sub_path or ""
        claim = volume.persistent_volume_claim
        read_only = bool(mount.read_only) or is_written(volume) or bool(claim is not None and claim.read_only)
        if (options := _memory_options(volume)) is not None and alone and not sub_path:
            mounts.append(Mount(TMPFS + options, target, read_only))
            continue
        inside = str(PurePosixPath(inside_volume(sub_path))) if sub_path else ""
        source, by_user = str(places[mount.name]), volume.host_path is not None
        mounts.append(Mount(source, target, read_only, inside, by_user))
    return mounts


def _memory_options(volume: Volume) -> str | None:
    """Mount options of a memory volume; None when the volume is not one."""
    if volume.empty_dir is None or volume.empty_dir.medium != "Memory":
        return None
    limit = volume.empty_dir.size_limit
    return f"size={to_int(limit)}" if limit else ""


def _is_empty_dir(volume: Volume) -> bool:
    """An emptyDir, or a volume without source, which means the same."""
    if volume.empty_dir is not None:
        return True
    sources = (getattr(volume, name) for name in volume.__struct_fields__ if name != "name")
    return all(source is None for source in sources)


def host_path(name: str, source: HostPathVolumeSource, owner: tuple[int, int] | None = None) -> Path:
    """The path of the machine that a hostPath names, made where its type asks for that.

    Args:
        name: name of the volume.
        source: the hostPath.
        owner: user and group with whose rights it is made; None takes the agent's.

    Raises:
        AgentError: it does not exist, or is something else than its type says.
    """
    path, kind = Path(source.path), source.type or ""
    if owner is not None and kind in _MADE_BY and not path.exists():
        _make_as(name, [*_MADE_BY[kind], str(path)], owner)
    elif kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(mode=0o644, exist_ok=True)
    if not path.exists():
        raise AgentError(
            f"Volume {name}: the path {path} does not exist on this node; create it or set type: DirectoryOrCreate."
        )
    wanted = {
        "Directory": path.is_dir, "DirectoryOrCreate": path.is_dir, "File": path.is_file, "FileOrCreate": path.is_file,
        "Socket": path.is_socket, "CharDevice": path.is_char_device, "BlockDevice": path.is_block_device,
    }.get(kind)  # fmt: skip
    if wanted is not None and not wanted():
        raise AgentError(f"Volume {name}: hostPath type check failed: {path} is not a {kind.removesuffix('OrCreate')}.")
    return path


def _make_as(name: str, command: list[str], owner: tuple[int, int]) -> None:
    """Make a path as another user: what that user may not make must not come about either."""
    uid, gid = owner
    done = subprocess.run(
        command, user=uid, group=gid, extra_groups=[], env={}, capture_output=True, text=True, check=False, cwd="/"
    )
    if done.returncode:
        raise AgentError(f"Volume {name}: user {uid} of the pod cannot make the path: {done.stderr.strip()[-300:]}.")
