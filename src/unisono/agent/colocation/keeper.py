"""Keeps online pods of this machine well beside offline ones: looks, decides (``decide``), and tells kernel and API."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from unisono.agent.colocation import decide
from unisono.agent.limits.disk import Occupant
from unisono.agent.limits.memory_watch import WatchLoop
from unisono.agent.machine.cgroups import Cgroups, LimitGroups, write
from unisono.agent.machine.procfs import PROC
from unisono.api.core import ConfigMap, Node, Pod, Taint
from unisono.api.keys import BATCH_CPU, BATCH_MEMORY, CONFIG_MAP_NAMESPACE, OFFLINE_EVICTING
from unisono.api.kinds import NODES
from unisono.api.pod_states import CRITICAL, borrows, is_offline, limits_of, qos_level, requests_of
from unisono.api.resources import effective_requests
from unisono.errors import ConfigError
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.events import EventRecorder
from unisono.kube.informer import Informer

# Online and offline pods as the machine has them: their shares of cgroups, and how much of it is in use.

# How much of the machine a pod gets beside others, by its QoS level: weights and memory of its cgroup.

_WEIGHTS = {2: 800, 1: 200}
_DEFAULT_WEIGHT = 100
# Above this part of its limit an offline pod is slowed down and its memory reclaimed, before it reaches the limit.
_HIGH_PERCENT = 90


@dataclass(frozen=True, slots=True)
class Treatment:
    """What the kernel is told of a pod.

    Attributes:
        weight: of its CPU against the other pods', 100 is usual.
        idle: it gets CPU only where no other pod wants it.
        spared: bytes that are not reclaimed while others have memory to give.
        kept: they are not reclaimed at all.
        high: above so many bytes its memory is reclaimed; None is nowhere.
        first: its memory is reclaimed before that of others.
    """

    weight: int = _DEFAULT_WEIGHT
    idle: bool = False
    spared: int = 0
    kept: bool = False
    high: int | None = None
    first: bool = False


def treatment(pod: Pod) -> Treatment:
    """What its QoS level asks for; nothing where it has none."""
    level = qos_level(pod)
    if level < 0:
        limits = [limits_of(each)[1] for each in pod.spec.containers or ()]
        bounded = [each for each in limits if each is not None]
        high = sum(bounded) * _HIGH_PERCENT // 100 if bounded and len(bounded) == len(limits) else None
        return Treatment(weight=1, idle=True, high=high, first=True)
    if level == 0:
        return Treatment()
    return Treatment(weight=_WEIGHTS[level], spared=requests_of(pod.spec)[1], kept=level > 1)


def treat(groups: LimitGroups, uid: str, wanted: Treatment) -> frozenset[str]:
    """Tell the kernel; its groups are there already.

    Returns:
        The controllers, of ``cpu`` and ``memory``, that took it.
    """
    if wanted == Treatment():
        return frozenset()
    done = {"cpu": _cpu(groups, uid, wanted), "memory": _memory(groups, uid, wanted)}
    return frozenset(name for name, well in done.items() if well)


def _cpu(groups: LimitGroups, uid: str, wanted: Treatment) -> bool:
    location = groups.folder("cpu", uid)
    if location is None:
        return False
    folder, version = location
    if wanted.idle and write(folder / "cpu.idle", "1"):
        return True
    # Kernels before 5.15 have no idle groups: the least weight comes closest.
    if version == 2:
        return write(folder / "cpu.weight", str(wanted.weight))
    return write(folder / "cpu.shares", str(max(2, wanted.weight * 1024 // _DEFAULT_WEIGHT) if not wanted.idle else 2))


def _memory(groups: LimitGroups, uid: str, wanted: Treatment) -> bool:
    location = groups.folder("memory", uid)
    if location is None:
        return False
    folder, version = location
    if version == 1:
        if wanted.first:
            return write(folder / "memory.soft_limit_in_bytes", "0")
        return not wanted.spared or write(folder / "memory.soft_limit_in_bytes", str(wanted.spared))
    done = True
    if wanted.high is not None:
        done = write(folder / "memory.high", str(wanted.high))
    if wanted.spared:
        name = "memory.min" if wanted.kept else "memory.low"
        done = write(folder / name, str(wanted.spared)) and _raise_parent(folder.parent, name)
    return done


def _raise_parent(root: Path, name: str) -> bool:
    """What a group keeps comes out of what its parent keeps."""
    total = 0
    for path in root.glob(f"*/{name}"):
        with contextlib.suppress(OSError, ValueError):
            total += int(path.read_text())
    return write(root / name, str(total))


# How much of the machine is in use, and how much of that by offline pods.

_TICKS = os.sysconf("SC_CLK_TCK")
# Columns of the first line of /proc/stat in which no process runs: idle, iowait; guests are in user already.
_IDLE = (3, 4)
_COLUMNS = 8


class UseMeter:
    """Measures between one look and the next.

    Args:
        cgroups: the pods' cgroups (v2), which count CPU time also where they limit nothing; None where there are none.
        limits: groups of which the memory of pods is read.
        proc: where the kernel tells of the machine.
    """

    def __init__(self, cgroups: Cgroups | None, limits: LimitGroups, proc: Path = PROC) -> None:
        self._cgroups, self._limits, self._proc = cgroups, limits, proc
        self._before: tuple[float, float, dict[str, float]] | None = None

    @property
    def tells_pods(self) -> bool:
        """Whether the use of pods can be told from that of others; else all use counts as that of online pods."""
        return self._cgroups is not None

    def read(self, offline: Iterable[str], now: float) -> decide.Use | None:
        """What was in use since the look before; None at the first one.

        Args:
            offline: uids of the offline pods.
            now: monotonic seconds.

        Raises:
            OSError: the kernel does not tell.
        """
        uids = list(offline)
        machine, pods = machine_seconds(self._proc), {uid: self._pod_seconds(uid) for uid in uids}
        before, self._before = self._before, (now, machine, pods)
        if before is None or now <= before[0]:
            return None
        seconds = now - before[0]
        spent = sum(max(0.0, pods[uid] - before[2].get(uid, 0.0)) for uid in uids)
        return decide.Use(
            cpu=round(max(0.0, machine - before[1]) / seconds * 1000),
            memory=machine_memory(self._proc),
            offline_cpu=round(spent / seconds * 1000),
            offline_memory=sum(map(self._pod_memory, uids)),
        )

    def _pod_seconds(self, uid: str) -> float:
        if self._cgroups is None:
            return 0.0
        return _value(self._cgroups.root / uid / "cpu.stat", "usage_usec") / 1e6

    def _pod_memory(self, uid: str) -> int:
        """Bytes without files that the kernel can drop at once."""
        location = self._limits.folder("memory", uid)
        if location is None:
            return 0
        folder, version = location
        used, dropped = (
            ("memory.current", "inactive_file") if version == 2 else ("memory.usage_in_bytes", "total_inactive_file")
        )
        try:
            total = int((folder / used).read_text())
        except (OSError, ValueError):
            return 0
        return max(0, total - _value(folder / "memory.stat", dropped))


def machine_seconds(proc: Path = PROC) -> float:
    """Processor time that the machine has spent since it started, in seconds."""
    line = (proc / "stat").read_text().split("\n", 1)[0].split()
    columns = [int(each) for each in line[1 : 1 + _COLUMNS]]
    return sum(each for index, each in enumerate(columns) if index not in _IDLE) / _TICKS


def machine_memory(proc: Path = PROC) -> int:
    """Bytes of the machine's memory that are in use."""
    amounts = {}
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            amounts[name] = int(value.split()[0]) << 10
    return amounts["MemTotal"] - amounts["MemAvailable"]


def _value(path: Path, name: str) -> int:
    """One number of a file of names and numbers; 0 where it is missing: the pod may have ended."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


LOOK_SECONDS = 2.0
_SAMPLE_EVERY = 5
_OFF = "Evict offline pod due to node overSubscription is turned off"

_log = structlog.get_logger(__name__)


class Colocation:
    """Looks after one node while its labels ask for it.

    Args:
        client: the API.
        clock: paces the looks.
        name: of the node.
        nodes: knows the node.
        config_maps: all ConfigMaps.
        recorder: tells the node's events.
        offer: what the node offers its pods, and of what part of it is lent.
        limits: groups of pods.
        meter: measures use.
        occupants: the pods of the node.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        name: str,
        nodes: Informer[Node],
        config_maps: Informer[ConfigMap],
        recorder: EventRecorder,
        offer: Callable[[], decide.Offer],
        limits: LimitGroups,
        meter: UseMeter,
        occupants: Callable[[], Sequence[Occupant]],
    ) -> None:
        self._client, self._clock, self._name = client, clock, name
        self._nodes, self._config_maps, self._recorder = nodes, config_maps, recorder
        self._offer, self._limits, self._meter, self._occupants = offer, limits, meter, occupants
        self._settings = decide.Settings()
        self._lending, self._pressure = decide.Lending(), decide.Pressure()
        self._bound: int | None = None
        # By uid and run of an offline container: the bound that the kernel was told.
        self._bounds: dict[tuple[str, str], int | None] = {}
        self._looks, self._off = 0, False
        self._problem = ""
        self._told_of_limits = False
        self._loop: WatchLoop[str, None] = WatchLoop("colocation", clock, LOOK_SECONDS, self._look)
        self._loop.add(name, None)

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.run()

    async def _look(self, _: object) -> None:
        node = self._nodes.get(self._name)
        if node is None:
            return
        self._read_settings(node)
        settings = self._settings
        if not settings.colocation:
            await self._switch_off(node)
            return
        self._off = False
        self._say_what_is_missing(node)
        offline = [each for each in self._occupants() if is_offline(each.pod) and not each.ended]
        uids = [each.directory.uid for each in offline]
        use = await asyncio.to_thread(self._meter.read, uids, self._clock.monotonic())
        if use is None:
            return
        offer = self._offer()
        self._bound = decide.bound(self._bound, use, offer, settings) if settings.throttles else None
        await asyncio.to_thread(self._apply, offline)
        self._looks += 1
        if self._looks % _SAMPLE_EVERY == 0:
            await self._sample(node, use, offer, offline)

    def _read_settings(self, node: Node) -> None:
        """A mistake is told, and what was read before it stays in force; the labels always count."""
        config_map = self._config_maps.get(f"{CONFIG_MAP_NAMESPACE}/{decide.CONFIG_NAME}")
        try:
            self._settings, problem = (
                decide.settings_of(node, ((config_map.data or {}) if config_map else {}).get(decide.CONFIG_KEY, "")),
                "",
            )
        except ConfigError as error:
            problem = str(error)
            by_labels = decide.settings_of(_bare(node))
            if not by_labels.colocation or not self._settings.colocation:
                # After a start with a mistake the defaults are in force: pods are not evicted for it.
                self._settings = by_labels
        if problem and problem != self._problem:
            _log.warning("colocation.configuration", error=problem)
            self._recorder.event(node, "Warning", "ColocationConfigurationError", problem)
        self._problem = problem

    async def _sample(self, node: Node, use: decide.Use, offer: decide.Offer, offline: Sequence[Occupant]) -> None:
        if self._pressure.pressed is False and tainted(node):
            # An earlier agent was evicting when it ended.
            self._pressure = decide.Pressure(pressed=True)
        self._pressure, short = decide.press(self._pressure, use, offer, self._settings)
        if short is not None and not any(each.ending for each in offline):
            candidates = {each.directory.uid: each for each in offline if (each.pod.spec.priority or 0) < CRITICAL}
            listed = [decide.Candidate(uid, *requests_of(each.pod.spec)) for uid, each in candidates.items()]
            if (uid := decide.victim(short, listed)) is not None:
                _log.info("colocation.evict", pod=candidates[uid].pod.key, resource=short)
                candidates[uid].evict(f"Evict offline pod due to {short} resource pressure")
        pressed = self._pressure.pressed
        await report_taint(self._client, node, wanted=pressed)
        if not self._settings.lends:
            await self._lend_nothing(node)
            return
        before = self._lending
        self._lending, due = decide.lend(before, use, offer, self._settings, pressed=pressed)
        if (due and self._lending.told is not None) or lent(node) is None:
            try:
                await report_lent(self._client, self._name, self._lending.told or (0, 0))
            except BaseException:
                # Told at the next sample.
                self._lending = decide.Lending(self._lending.samples)
                raise

    async def _switch_off(self, node: Node) -> None:
        if not self._off:
            # At the first look, too: an earlier agent may have left bounds.
            self._bound, self._off = None, True
            offline = [each for each in self._occupants() if is_offline(each.pod) and not each.ended]
            await asyncio.to_thread(self._apply, offline)
            self._bounds.clear()
        self._pressure, self._looks = decide.Pressure(), 0
        await self._lend_nothing(node)
        await report_taint(self._client, node, wanted=False)

    async def _lend_nothing(self, node: Node) -> None:
        """Take back what was lent; who holds some of it is evicted."""
        self._lending = decide.Lending()
        if lent(node) is None:
            return
        for each in self._occupants():
            if borrows(each.pod) and not each.ended:
                each.evict(_OFF)
        await report_lent(self._client, self._name, None)

    def _apply(self, offline: Sequence[Occupant]) -> None:
        """Divide the bound among the containers of offline pods that run."""
        runs: list[tuple[str, str, decide.CpuShare]] = []
        for each in offline:
            uid = each.directory.uid
            for leaf in sorted(self._limits.processes(uid)):
                container = next((c for c in each.pod.spec.containers or () if c.name == leaf.rpartition(".")[0]), None)
                if container is None:
                    continue
                requests = effective_requests(container.resources)
                weight = max(requests.get("cpu", 0), requests.get(BATCH_CPU, 0) // 1000)
                runs.append((uid, leaf, decide.CpuShare(weight, limits_of(container)[0])))
        given: Sequence[int | None] = [share.most for _, _, share in runs]
        if self._bound is not None:
            given = decide.divide(self._bound, [share for _, _, share in runs])
        now = {(uid, leaf): amount for (uid, leaf, _), amount in zip(runs, given, strict=True)}
        for (uid, leaf), amount in now.items():
            if self._bounds.get((uid, leaf), -1) != amount:
                self._limits.bound_cpu(uid, leaf, amount)
        self._bounds = now

    def _say_what_is_missing(self, node: Node) -> None:
        """Say once what of co-location this machine does not allow."""
        if self._told_of_limits:
            return
        self._told_of_limits = True
        missing = []
        if "cpu" not in self._limits.enforced:
            missing.append("offline pods are not held back from the CPU (no writable cgroup of controller cpu)")
        if "memory" not in self._limits.enforced:
            missing.append("memory of online pods is not spared (no writable cgroup of controller memory)")
        elif "memory" not in self._limits.handed_down:
            missing.append("memory of online pods is spared by soft limits only (cgroup v1)")
        if not self._meter.tells_pods:
            missing.append("the CPU time of offline pods counts as that of online ones (no writable cgroup v2)")
        if missing:
            self._recorder.event(node, "Warning", "ColocationLimited", f"On this node {'; '.join(missing)}.")


def _bare(node: Node) -> Node:
    """The node with its labels alone."""
    bare = Node()
    bare.metadata.labels = node.metadata.labels
    return bare


def lent(node: Node) -> tuple[int, int] | None:
    """CPU in milli-cores and memory in bytes that the Node says it lends; None where it says nothing of that."""
    amounts = node.status.allocatable or {}
    if BATCH_CPU not in amounts and BATCH_MEMORY not in amounts:
        return None
    try:
        return int(str(amounts.get(BATCH_CPU, 0))), int(str(amounts.get(BATCH_MEMORY, 0)))
    except ValueError:
        return -1, -1


def tainted(node: Node) -> bool:
    """Whether the Node says that offline pods are being evicted."""
    return any(each.key == OFFLINE_EVICTING for each in node.spec.taints or ())


async def report_lent(client: Client, name: str, amounts: tuple[int, int] | None) -> None:
    """Write what the node lends; None removes the resources.

    Raises:
        ApiError: the API did not take it.
    """
    values = (None, None) if amounts is None else tuple(map(str, amounts))
    resources = dict(zip((BATCH_CPU, BATCH_MEMORY), values, strict=True))
    body = {"status": {"capacity": resources, "allocatable": resources}}
    await client.patch(NODES, name, body, subresource="status")


async def report_taint(client: Client, node: Node, *, wanted: bool) -> None:
    """Add or remove the taint; others stay.

    It only discourages: with ``NoSchedule`` it would keep out the very pods for which room is made.

    Raises:
        Conflict: the Node has changed in the meantime.
        ApiError: the API did not take it.
    """
    if tainted(node) == wanted:
        return
    taints = [each for each in node.spec.taints or () if each.key != OFFLINE_EVICTING]
    if wanted:
        taints.append(Taint(key=OFFLINE_EVICTING, effect="PreferNoSchedule"))
    body = {
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "spec": {"taints": msgspec.to_builtins(taints) or None},
    }
    await client.patch(NODES, node.metadata.name, body)
