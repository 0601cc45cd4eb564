"""Limits of local storage (``sizeLimit`` of emptyDir volumes, ``ephemeral-storage``): evicts pods above theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from unisono.agent.layout import PodDir
from unisono.agent.limits.disk_usage import Usage, disk_usage
from unisono.agent.limits.watch_loop import WatchLoop
from unisono.api.core import Pod
from unisono.api.fields import Quantity
from unisono.api.quantity import to_int
from unisono.api.resources import resource_list
from unisono.kube.clock import Clock

# As often as the kubelet looks.
_PERIOD_SECONDS = 10.0
# A pod whose files cannot be counted that often in a row is evicted: it must not hide behind them.
_TRIES = 6
# Pods that are counted at a time: one that takes long does not hold up the others.
_AT_ONCE = 2
_STORAGE = "ephemeral-storage"


@dataclass(frozen=True, slots=True)
class Stored:
    """A pod with a limit.

    Attributes:
        pod: the pod.
        directory: where its volumes and logs are.
        exceeded: called on the event loop with a message when it uses more than it may, or cannot be measured.
        unmeasured: called on the event loop with a message when measuring fails and is tried again.
    """

    pod: Pod
    directory: PodDir
    exceeded: Callable[[str], None]
    unmeasured: Callable[[str], None]


class StorageWatch:
    """Watches the pods of one node that have limits of storage.

    Args:
        clock: paces the looks.
    """

    def __init__(self, clock: Clock) -> None:
        self._loop: WatchLoop[str, Stored] = WatchLoop("ephemeral-storage", clock, _PERIOD_SECONDS, self._look)
        # By pod: how often in a row it could not be measured, and what its owner was told last.
        self._failures: dict[str, tuple[int, str]] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)

    def add(self, stored: Stored) -> None:
        """Watch a pod until ``remove``, if it has a limit."""
        if _has_limit(stored.pod):
            self._loop.add(stored.directory.uid, stored)

    def remove(self, uid: str) -> None:
        """Nothing of the pod runs any more."""
        self._loop.remove(uid)
        self._failures.pop(uid, None)

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.run()

    async def _look(self, watched: dict[str, Stored]) -> None:
        await asyncio.gather(*(self._look_at(uid, stored) for uid, stored in watched.items()))

    async def _look_at(self, uid: str, stored: Stored) -> None:
        """Measure one pod. An error of the machine is repeated for ever; one that the pod can cause, a few times."""
        async with self._turn:
            try:
                usage, message = await _measure(stored)
            except Exception as error:
                self._failed(uid, stored, f"{type(error).__name__}: {error}")
                return
        if message is None and usage.problem:
            tries = self._failed(uid, stored, usage.problem)
            if usage.final or tries >= _TRIES:
                message = f"Usage of local storage could not be determined: {usage.problem}."
        elif message is None:
            self._failures.pop(uid, None)
        if message is not None and self._loop.remove(uid) is not None:
            self._failures.pop(uid, None)
            stored.exceeded(message)

    def _failed(self, uid: str, stored: Stored, problem: str) -> int:
        """Tell the owner, once per cause; answers how often in a row the pod could not be measured."""
        if self._loop.get(uid) is None:
            return 0
        times, told = self._failures.get(uid, (0, ""))
        self._failures[uid] = (times + 1, problem)
        if problem != told:
            stored.unmeasured(f"Usage of local storage could not be determined: {problem}. It will be measured again.")
        return times + 1


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


async def _measure(stored: Stored) -> tuple[Usage, str | None]:
    """What a pod uses as far as it can be counted, and which limit that exceeds."""
    try:
        volumes = {place.name: place for place in _folders(stored.directory.path / "volumes")}
        logs = {place.name: place for place in _folders(stored.directory.path / "runs")}
    except PermissionError as error:
        return Usage(problem=f"{Path(error.filename).name}: {error.strerror}"), None
    usage = await disk_usage([*volumes.values(), *logs.values()])
    return usage, above_limit(
        stored.pod,
        {name: usage.sizes.get(place, 0) for name, place in volumes.items()},
        {name: usage.sizes.get(place, 0) for name, place in logs.items()},
    )


def _folders(root: Path) -> list[Path]:
    return [each for each in root.iterdir() if each.is_dir()] if root.is_dir() else []


def _limit(limits: Mapping[str, Quantity] | None) -> int:
    return resource_list(limits).get(_STORAGE, 0)


def _has_limit(pod: Pod) -> bool:
    return any(each.empty_dir and each.empty_dir.size_limit for each in pod.spec.volumes or ()) or any(
        _limit(each.resources.limits) for each in pod.spec.containers or ()
    )
