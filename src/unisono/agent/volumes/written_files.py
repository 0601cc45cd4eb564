"""Volumes that the agent fills with files: ConfigMaps, Secrets, downward API and projections, kept up to date."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from unisono.agent.environment import MOST_BYTES, MissingSource, Sources, field_value, resource_value
from unisono.agent.files import write_whole
from unisono.agent.layout import PodDir
from unisono.api.core import DownwardAPIVolumeFile, KeyToPath, Pod, Volume
from unisono.errors import AgentError

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
    for found in sorted(place.rglob("*"), reverse=True):
        name = str(found.relative_to(place))
        if found.is_dir():
            if not any(found.iterdir()):
                found.rmdir()
        elif name not in files:
            found.unlink()
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        if not _same(path, content):
            write_whole(path, content.data, content.mode, owner)


def _same(path: Path, content: FileContent) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    same_size = found.st_size == len(content.data) and stat.S_IMODE(found.st_mode) == content.mode
    return same_size and path.read_bytes() == content.data
