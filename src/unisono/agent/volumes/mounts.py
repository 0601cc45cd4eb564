"""Volumes of a pod as directories of this machine, and where its containers see them."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from unisono.agent.environment import MOST_BYTES, MissingSource, Sources, expand, field_value, resource_value
from unisono.agent.layout import PodDir, write_whole
from unisono.api.core import Container, DownwardAPIVolumeFile, HostPathVolumeSource, KeyToPath, Pod, Volume
from unisono.api.messages import volume_claim_not_found
from unisono.api.quantity import to_int
from unisono.api.volumes import claim_name
from unisono.errors import AgentError

# Volumes that the agent fills with files: ConfigMaps, Secrets, downward API and projections, kept up to date.

_DEFAULT_MODE = 0o644
# Files that the agent writes for one pod. A small pod may name a key of a ConfigMap many thousand times.
MOST_FILES = 8192


@dataclass(frozen=True, slots=True)
class FileContent:
    """One file of a volume."""

    data: bytes
    mode: int = _DEFAULT_MODE


class WriteLimit:
    """What may still be written into the volumes of one pod."""

    def __init__(self) -> None:
        self._bytes, self._files = MOST_BYTES, MOST_FILES

    def file(self, data: bytes, mode: int) -> FileContent:
        """A file that takes of it.

        Raises:
            AgentError: there is no more.
        """
        self._bytes -= len(data)
        self._files -= 1
        if self._bytes < 0 or self._files < 0:
            raise AgentError(
                f"The pod's ConfigMaps, Secrets and downward API files are more than {MOST_BYTES >> 20} MiB or "
                f"{MOST_FILES} files in its volumes: mount fewer of them, or use a claim."
            )
        return FileContent(data, mode)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What downward API files show beside the pod itself."""

    pod_ip: str
    host_ip: str
    allocatable: Mapping[str, int]


def is_written(volume: Volume) -> bool:
    """Whether the agent fills the volume with files, which it keeps up to date."""
    return any((volume.config_map, volume.secret, volume.downward_api, volume.projected))


def write_files(
    pod: Pod, directory: PodDir, sources: Sources, facts: PodFacts, owner: tuple[int, int] | None = None
) -> dict[str, Path]:
    """Write, or bring up to date, the files of configMap, secret, downwardAPI and projected volumes.

    Returns:
        The directory of each of these volumes by its name.

    Raises:
        MissingSource: something that a volume refers to does not exist yet.
        AgentError: a volume cannot be had on this machine; nothing was written.
    """
    limit = WriteLimit()
    written = [volume for volume in pod.spec.volumes or () if is_written(volume)]
    files = {volume.name: volume_files(pod, volume, sources, facts, limit) for volume in written}
    places = {name: directory.volume(name) for name in files}
    for name, place in places.items():
        place.mkdir(parents=True, exist_ok=True)
        _sync(place, files[name], owner)
    return places


def volume_files(
    pod: Pod, volume: Volume, sources: Sources, facts: PodFacts, limit: WriteLimit | None = None
) -> dict[str, FileContent]:
    """Files that a volume consists of, by relative path.

    Args:
        pod: the pod.
        volume: one of its volumes.
        sources: ConfigMaps and Secrets.
        facts: values for downward API files.
        limit: what may still be written.

    Raises:
        MissingSource: an object or key that is not optional does not exist.
        AgentError: a projection that this runtime does not have, a path that leads out of the volume, or too much.
    """
    limit = limit or WriteLimit()
    files: dict[str, FileContent] = {}
    if (config_map := volume.config_map) is not None:
        data = sources.config_map(config_map.name or "")
        files |= _keys(
            data, "configmap", config_map.name, config_map.items, config_map.default_mode, config_map.optional, limit
        )
    if (secret := volume.secret) is not None:
        data = sources.secret(secret.secret_name or "")
        files |= _keys(data, "secret", secret.secret_name, secret.items, secret.default_mode, secret.optional, limit)
    if (downward := volume.downward_api) is not None:
        files |= _downward(pod, downward.items or (), downward.default_mode, facts, limit)
    if (projected := volume.projected) is not None:
        mode = projected.default_mode
        for source in projected.sources or ():
            if (part := source.config_map) is not None:
                data = sources.config_map(part.name or "")
                files |= _keys(data, "configmap", part.name, part.items, mode, part.optional, limit)
            elif (hidden := source.secret) is not None:
                data = sources.secret(hidden.name or "")
                files |= _keys(data, "secret", hidden.name, hidden.items, mode, hidden.optional, limit)
            elif source.downward_api is not None:
                files |= _downward(pod, source.downward_api.items or (), mode, facts, limit)
            else:
                raise AgentError(f"Volume {volume.name} projects a source that this runtime does not have.")
    return files


def _keys(data: Mapping[str, bytes] | None, kind: str, name: str | None, items: list[KeyToPath] | None,
          mode: int | None, optional: bool | None, limit: WriteLimit) -> dict[str, FileContent]:  # fmt: skip
    if data is None:
        if optional:
            return {}
        raise MissingSource(f'{kind} "{name}" not found')
    default = _DEFAULT_MODE if mode is None else mode
    if items is None:
        return {inside_volume(key): limit.file(value, default) for key, value in data.items()}
    files = {}
    for item in items:
        if item.key in data:
            files[inside_volume(item.path)] = limit.file(data[item.key], default if item.mode is None else item.mode)
        elif not optional:
            raise MissingSource(f'{kind} "{name}" references non-existent key: {item.key}')
    return files


def _downward(
    pod: Pod, items: Iterable[DownwardAPIVolumeFile], mode: int | None, facts: PodFacts, limit: WriteLimit
) -> dict[str, FileContent]:
    default = _DEFAULT_MODE if mode is None else mode
    files = {}
    for item in items:
        text = ""
        if item.field_ref is not None:
            text = field_value(pod, item.field_ref.field_path, pod_ip=facts.pod_ip, host_ip=facts.host_ip)
        elif item.resource_field_ref is not None:
            text = resource_value(pod, item.resource_field_ref, "", facts.allocatable)
        files[inside_volume(item.path)] = limit.file(text.encode(), default if item.mode is None else item.mode)
    return files


def inside_volume(path: str) -> str:
    """The relative path, as it was given.

    Raises:
        AgentError: it leads out of its volume.
    """
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts:
        raise AgentError(f"The path {path} leads out of its volume.")
    return path


def _sync(place: Path, files: Mapping[str, FileContent], owner: tuple[int, int] | None) -> None:
    """Let a directory hold exactly these files, replacing only those that differ."""
    for existing in sorted(place.rglob("*"), reverse=True):
        name = str(existing.relative_to(place))
        if existing.is_dir():
            if not any(existing.iterdir()):
                existing.rmdir()
        elif name not in files:
            existing.unlink()
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        if not _same(path, content):
            write_whole(path, content.data, content.mode, owner)


def _same(path: Path, content: FileContent) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    same_size = status.st_size == len(content.data) and stat.S_IMODE(status.st_mode) == content.mode
    return same_size and path.read_bytes() == content.data


TMPFS = "tmpfs:"
_MADE_BY = {"DirectoryOrCreate": ["/bin/mkdir", "-p", "-m", "755", "--"], "FileOrCreate": ["/usr/bin/touch", "--"]}


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
    check = {
        "Directory": path.is_dir, "DirectoryOrCreate": path.is_dir, "File": path.is_file, "FileOrCreate": path.is_file,
        "Socket": path.is_socket, "CharDevice": path.is_char_device, "BlockDevice": path.is_block_device,
    }.get(kind)  # fmt: skip
    if check is not None and not check():
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
