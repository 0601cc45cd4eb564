"""Limits of local storage (``sizeLimit`` of emptyDir volumes, ``ephemeral-storage``): evicts pods above theirs."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from unisono.agent.layout import PodDir
from unisono.api.core import Pod
from unisono.api.fields import Quantity
from unisono.api.quantity import to_int
from unisono.api.resources import resource_list
from unisono.kube.clock import Clock

# As often as the kubelet looks.
_PERIOD_SECONDS = 10.0
# A pod whose files take longer to count than this is evicted too: it must not hide behind their number.
_LONGEST_SECONDS = 120.0
_STORAGE = "ephemeral-storage"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """A pod with a limit.

    Attributes:
        pod: the pod.
        directory: where its volumes and logs are.
        exceeded: called on the event loop with a message when it uses more than it may.
    """

    pod: Pod
    directory: PodDir
    exceeded: Callable[[str], None]


class StorageWatch:
    """Watches the pods of one node that have limits of storage.

    Args:
        clock: paces the looks.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched: dict[str, Stored] = {}
        self._any = asyncio.Event()

    def add(self, stored: Stored) -> None:
        """Watch a pod until ``remove``, if it has a limit."""
        if _has_limit(stored.pod):
            self._watched[stored.directory.uid] = stored
            self._any.set()

    def remove(self, uid: str) -> None:
        """Nothing of the pod runs any more."""
        self._watched.pop(uid, None)

    async def run(self) -> None:
        """Look until cancelled, at one pod after the other; costs nothing while no pod has a limit."""
        while True:
            await self._any.wait()
            await self._clock.sleep(_PERIOD_SECONDS)
            if not self._watched:
                self._any.clear()
            for stored in list(self._watched.values()):
                try:
                    message = await asyncio.to_thread(_look, stored)
                except Exception as error:
                    # One pod's failure never ends the node.
                    self.remove(stored.directory.uid)
                    _log.warning("pod.storage_not_watched", pod=stored.pod.key, error=str(error))
                    continue
                if message is not None and self._watched.pop(stored.directory.uid, None) is not None:
                    stored.exceeded(message)


def above_limit(pod: Pod, volumes: Mapping[str, int], logs: Mapping[str, int]) -> str | None:
    """Which limit a pod exceeds, in the words of the kubelet; None when it keeps them.

    Args:
        pod: the pod.
        volumes: bytes that its volumes take on the disk, by name.
        logs: bytes of the logs by container.
    """
    for volume in pod.spec.volumes or ():
        limit = volume.empty_dir.size_limit if volume.empty_dir else None
        if limit and volumes.get(volume.name, 0) > to_int(limit):
            return f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}".'
    limits = {each.name: bytes_ for each in pod.spec.containers or () if (bytes_ := _limit(each.resources.limits))}
    if limits and sum(volumes.values()) + sum(logs.values()) > sum(limits.values()):
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {sum(limits.values())}."
    for name, limit in limits.items():
        if logs.get(name, 0) > limit:
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}".'
    return None


def _look(stored: Stored) -> str | None:
    volumes = {place.name: place for place in _folders(stored.directory.path / "volumes")}
    logs = {place.name: place for place in _folders(stored.directory.path / "runs")}
    sizes = disk_usage([*volumes.values(), *logs.values()])
    if sizes is None:
        return f"Usage of local storage could not be determined within {_LONGEST_SECONDS:.0f} seconds."
    return above_limit(
        stored.pod,
        {name: sizes.get(place, 0) for name, place in volumes.items()},
        {name: sizes.get(place, 0) for name, place in logs.items()},
    )


def disk_usage(places: Iterable[Path]) -> dict[Path, int] | None:
    """Bytes that folders take on the disk, a file with several names once; None when they are too many to count.

    By ``du``: counting in this process would hold up everything else in it.
    """
    command = ["du", "-s", "-x", "-B1", "--null", "--", *map(str, places)]
    if command[-1] == "--":
        return {}
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LONGEST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    lines = (line.partition(b"\t") for line in done.stdout.split(b"\0") if line)
    return {Path(name.decode(errors="surrogateescape")): int(size) for size, _, name in lines}


def _folders(root: Path) -> list[Path]:
    return [each for each in root.iterdir() if each.is_dir()] if root.is_dir() else []


def _limit(limits: Mapping[str, Quantity] | None) -> int:
    return resource_list(limits).get(_STORAGE, 0)


def _has_limit(pod: Pod) -> bool:
    return any(each.empty_dir and each.empty_dir.size_limit for each in pod.spec.volumes or ()) or any(
        _limit(each.resources.limits) for each in pod.spec.containers or ()
    )
