"""Local storage: how much folders take, disk pressure of the node, and pods above their own limits."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import resource
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import structlog

from unisono.agent.layout import PodDir
from unisono.agent.lifecycle import Reason
from unisono.agent.limits.memory_watch import WatchLoop
from unisono.api.base import Quantity
from unisono.api.core import Pod
from unisono.api.quantity import readable_bytes, to_int
from unisono.api.resources import pod_requests, resource_list
from unisono.errors import ConfigError, UnisonoError
from unisono.kube.clock import Clock

# When a node's disk counts as full: thresholds in the words of the kubelet's ``--eviction-hard``. Pure.

Signal = Literal["nodefs.available", "nodefs.inodesFree"]


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system.

    Attributes:
        available: bytes that programs may still write.
        capacity: bytes.
        inodes_free: files that can still be made.
        inodes: files that there can be; 0 where the file system sets no number.
    """

    available: int
    capacity: int
    inodes_free: int
    inodes: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """Pressure begins where less than this is available.

    Attributes:
        amount: bytes or inodes; None where ``percent`` counts.
        percent: of the capacity.
    """

    signal: Signal
    amount: int | None = None
    percent: float = 0.0


@dataclass(frozen=True, slots=True)
class Shortage:
    """A threshold that is passed; bytes or inodes."""

    signal: Signal
    limit: int
    available: int


# Less than a kubelet's 10 % and 5 %: the disk is not the node's alone, and what fills it may not be pods.
DEFAULT_EVICTION = (Threshold("nodefs.available", 500 << 20), Threshold("nodefs.inodesFree", percent=1.0))


def parse_eviction(text: str) -> tuple[Threshold, ...]:
    """Thresholds from text such as ``nodefs.available<10%,nodefs.inodesFree<5%``; an empty text has none.

    Raises:
        ConfigError: a part cannot be read.
    """
    return tuple(_parse(part.strip()) for part in text.split(",") if part.strip())


def shortage(thresholds: Sequence[Threshold], disk: Disk) -> Shortage | None:
    """The first threshold that is passed; None when there is room."""
    for threshold in thresholds:
        free, total = (
            (disk.available, disk.capacity)
            if threshold.signal == "nodefs.available"
            else (disk.inodes_free, disk.inodes)
        )
        limit = int(total * threshold.percent / 100) if threshold.amount is None else threshold.amount
        if total > 0 and free < limit:
            return Shortage(threshold.signal, limit, free)
    return None


def _parse(part: str) -> Threshold:
    name, _, value = part.partition("<")
    signal = next((each for each in get_args(Signal) if each == name.strip()), None)
    value = value.strip()
    if signal is not None and value.endswith("%"):
        try:
            percent = float(value[:-1])
        except ValueError:
            percent = -1.0
        if 0 <= percent <= 100:
            return Threshold(signal, percent=percent)
    elif signal is not None and value:
        try:
            amount = to_int(value)
        except (UnisonoError, ValueError):
            amount = -1
        if amount >= 0:
            return Threshold(signal, amount)
    raise ConfigError(
        f"--eviction-hard: {part[:80]!r} is no threshold: write nodefs.available<10% or nodefs.inodesFree<5%, with a "
        "percentage or a quantity such as 1Gi."
    )


# How much of the disk folders take, counted by ``du`` in a process of its own, and why they could not be counted.

LONGEST_SECONDS = 120.0
# Of du: it remembers every file that has several names.
_MOST_MEMORY = 1 << 30
_MOST_TEXT = 1 << 16
_GONE = b"No such file or directory"


@dataclass(frozen=True, slots=True)
class Usage:
    """What was counted.

    Attributes:
        sizes: bytes by folder; at least that many where there is a problem.
        problem: why not everything was counted; empty when it was.
        final: counting again would take as long and end in the same way.
    """

    sizes: dict[Path, int] = field(default_factory=dict)
    problem: str = ""
    final: bool = False


async def disk_usage(places: Iterable[Path], seconds: float = LONGEST_SECONDS, *, inodes: bool = False) -> Usage:
    """Bytes that folders take on the disk, a file with several names once.

    Counting in this process would hold up everything else in it. What pods can make of their folders costs bounded
    time, memory and text.

    Args:
        places: folders; ones that vanish count nothing.
        seconds: how long counting may take.
        inodes: count files, not bytes.

    Raises:
        OSError: this machine cannot start ``du``.
    """
    folders = list(places)
    if not folders:
        return Usage()
    process = await asyncio.create_subprocess_exec(
        *("du", "-s", "-x", "--inodes" if inodes else "-B1", "--null", "--", *map(str, folders)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
    )
    try:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
        async with asyncio.timeout(seconds):
            out, errors = await _output(process)
    except TimeoutError:
        return Usage({}, f"it takes more than {seconds:.0f} seconds to count its files", final=True)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    lines = (line.partition(b"\t") for line in out.split(b"\0") if line)
    sizes = {Path(os.fsdecode(name)): int(size) for size, _, name in lines}
    return Usage(sizes, _problem(errors, [place for place in folders if place not in sizes]))


async def _output(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    if process.stdout is None or process.stderr is None:
        return b"", b""
    answers = asyncio.ensure_future(process.stdout.read())
    try:
        errors = b""
        while len(errors) < _MOST_TEXT and (more := await process.stderr.read(_MOST_TEXT)):
            errors += more
        if len(errors) >= _MOST_TEXT:
            process.kill()
        return await answers, errors
    finally:
        answers.cancel()


def _problem(errors: bytes, missing: list[Path]) -> str:
    """What du complains of; files and folders that were deleted meanwhile are no problem."""
    for line in errors.splitlines():
        if line.strip() and not line.endswith(_GONE):
            return line.removeprefix(b"du: ").decode(errors="replace")[:200]
    left = next((place for place in missing if os.path.lexists(place)), None)
    return "" if left is None else f"{left.name} could not be read"


# Disk pressure: a node whose disk runs full says so, takes no further pods and evicts some, as a kubelet does.

_PERIOD_SECONDS = 10.0
# How long the condition outlives its cause, so that it does not come and go (eviction-pressure-transition-period).
_TRANSITION_SECONDS = 300.0
_STORAGE = "ephemeral-storage"
# Priority of system-cluster-critical; such pods start under pressure, too.
_CRITICAL = 2_000_000_000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Occupant:
    """A pod whose files are on the node's disk.

    Attributes:
        pod: the pod.
        directory: where its files are.
        ended: nothing of it runs any more, nor will.
        ending: it is being evicted or deleted.
        evict: ends it, with a message.
    """

    pod: Pod
    directory: PodDir
    ended: bool
    ending: bool
    evict: Callable[[str], None]


def read_disk(path: Path) -> Disk:
    """The file system below a path."""
    file_system = os.statvfs(path)
    return Disk(
        file_system.f_bavail * file_system.f_frsize,
        file_system.f_blocks * file_system.f_frsize,
        file_system.f_favail,
        file_system.f_files,
    )


def ranked(occupants: Sequence[Occupant], usage: Mapping[Path, int], requests: bool = True) -> list[Occupant]:
    """Pods in the order in which they are evicted: above their requests, then low priority, then large usage.

    Args:
        occupants: pods that run.
        usage: bytes or inodes by the pod's directory; a pod that could not be measured counts as the largest.
        requests: what is measured can be requested.
    """

    def key(occupant: Occupant) -> tuple[bool, int, float]:
        above = usage.get(occupant.directory.path, math.inf) - (_requested(occupant.pod) if requests else 0)
        return above <= 0, occupant.pod.spec.priority or 0, -above

    return sorted(occupants, key=key)


class DiskPressure:
    """Watches the disk of one node.

    Args:
        clock: paces the looks.
        read: tells how full the disk is.
        occupants: the pods whose files are on it.
        report: tells the API of pressure, or of its end.
        thresholds: from when on there is pressure.
    """

    def __init__(
        self,
        clock: Clock,
        read: Callable[[], Disk],
        occupants: Callable[[], Sequence[Occupant]],
        report: Callable[[bool], Awaitable[None]],
        thresholds: Sequence[Threshold] = DEFAULT_EVICTION,
    ) -> None:
        self._clock, self._read, self._occupants, self._report = clock, read, occupants, report
        self._thresholds = thresholds
        self._pressure = self._reported = False
        self._last = 0.0
        self._loop: WatchLoop[str, None] = WatchLoop("disk", clock, _PERIOD_SECONDS, self._look)
        self._loop.add("node", None)

    def refusal(self, pod: Pod) -> Reason | None:
        """Why the node does not take a pod now; None when it does."""
        if not self._pressure or (pod.spec.priority or 0) >= _CRITICAL:
            return None
        return Reason("Evicted", "The node had condition: [DiskPressure].")

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.run()

    async def _look(self, _: object) -> None:
        short = shortage(self._thresholds, await asyncio.to_thread(self._read))
        now = self._clock.monotonic()
        if short is not None:
            self._last = now
        pressure = short is not None or (self._pressure and now - self._last < _TRANSITION_SECONDS)
        if pressure != self._pressure:
            self._pressure = pressure
            if short is not None:
                _log.warning("node.disk_pressure", signal=short.signal, available=short.available, limit=short.limit)
            else:
                _log.info("node.disk_pressure_over")
        try:
            if short is not None:
                await self._relieve(short)
        finally:
            # Told again at the next look when the API did not hear of it.
            if self._reported != self._pressure:
                await self._report(self._pressure)
                self._reported = self._pressure

    async def _relieve(self, short: Shortage) -> None:
        """Remove files of pods that have ended; where that is not enough, evict one pod and wait for its end."""
        occupants = self._occupants()
        left = [each.directory.path / "volumes" for each in occupants if each.ended]
        if await asyncio.to_thread(_remove, left) and shortage(self._thresholds, self._read()) is None:
            return
        running = [each for each in occupants if not each.ended]
        if not running or any(each.ending for each in running):
            return
        inodes = short.signal == "nodefs.inodesFree"
        usage = await disk_usage([each.directory.path for each in running], inodes=inodes)
        first = ranked(running, usage.sizes, requests=not inodes)[0]
        used = usage.sizes.get(first.directory.path)
        first.evict(_message(short, used, 0 if inodes else _requested(first.pod)))


def _message(short: Shortage, used: int | None, requested: int) -> str:
    inodes = short.signal == "nodefs.inodesFree"
    write = str if inodes else readable_bytes
    return (
        f"The node was low on resource: {'inodes' if inodes else _STORAGE}. Threshold quantity: {write(short.limit)}, "
        f"available: {write(short.available)}. The pod was using {'an unknown amount' if used is None else write(used)}"
        f"{'' if inodes else f', request is {write(requested)}'}."
    )


def _requested(pod: Pod) -> int:
    return pod_requests(pod.spec).get(_STORAGE, 0)


def _remove(folders: list[Path]) -> bool:
    """Remove folders; whether there were any."""
    there = [folder for folder in folders if folder.is_dir()]
    for folder in there:
        shutil.rmtree(folder, ignore_errors=True)
    return bool(there)


# Limits of local storage (``sizeLimit`` of emptyDir volumes, ``ephemeral-storage``): evicts pods above theirs.

# As often as the kubelet looks.
# A pod whose files cannot be counted that often in a row is evicted: it must not hide behind them.
_TRIES = 6
# Pods that are counted at a time: one that takes long does not hold up the others.
_AT_ONCE = 2


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
        times, reported = self._failures.get(uid, (0, ""))
        self._failures[uid] = (times + 1, problem)
        if problem != reported:
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
