"""Lines of a recording as changes of a cluster state, and its cycles repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from unisono import engine
from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.field_error import UNREADABLE
from unisono.api.kind import Kind
from unisono.api.kinds import find
from unisono.api.node_usage import NodeUsage
from unisono.cluster.recent import Setback
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig
from unisono.gc_pauses import collector_paused
from unisono.scheduler.recording import VERSION
from unisono.simulator.files import InputError, open_bytes


class RecordingError(InputError):
    """A recording cannot be read; the message names file and line."""


class RecordedLine(msgspec.Struct, rename="camel"):
    """One line; which fields are set follows from ``op``."""

    op: str = ""
    event: str = ""
    kind: str = ""
    object: msgspec.Raw = msgspec.Raw()
    count: int = 0
    why: str = ""
    pod: str = ""
    node: str = ""
    annotations: dict[str, str] = {}
    at: float | None = None
    setbacks: dict[str, Setback] = {}
    promise: str = ""
    owner: str = ""
    until: float = 0.0
    pods: list[Pod] = []
    stands: list[str] | None = None
    usage: dict[str, NodeUsage] = {}
    config: msgspec.Raw = msgspec.Raw()
    now: float = 0.0
    seed: int = 0
    binds: list[tuple[str, str, str, str]] = []
    evictions: list[tuple[str, str, str, str]] = []


class Header(msgspec.Struct, rename="camel"):
    """The first line."""

    unisono: str = ""
    version: int = 0
    scheduler_names: list[str] = []
    default_queue: str = "default"


Seen = Callable[[str, Kind[Any], Object], None]
"""Is told of each object: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``LISTED``."""


@dataclass(slots=True)
class Cycle:
    """A cycle that the recorded scheduler ran; what it decided is None where the recording ends before."""

    number: int
    now: float
    seed: int
    config: SchedulerConfig
    decided: RecordedLine | None = None


class Recording:
    """Reads a recording and keeps a state as the scheduler had it.

    Attributes:
        state: at the moment of the latest cycle.
        seen: is told of each object, if set.
        time: when the latest line was written, seconds since the epoch, as far as lines say so.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = ClusterState()
        self.seen: Seen | None = None
        self.time = 0.0
        self._kinds: dict[str, Kind[Any]] = {}

    def cycles(self) -> Iterator[Cycle]:
        """Each cycle, with the state as it was when it began; what was decided follows when the next one is asked for.

        Raises:
            RecordingError: a line cannot be understood.
        """
        with open_bytes(self.path) as lines:
            numbered = enumerate(lines, start=1)
            self._open(numbered)
            decoder = msgspec.json.Decoder(RecordedLine)
            config: SchedulerConfig | None = None
            count = 0
            for number, text in numbered:
                try:
                    line = decoder.decode(text)
                    if line.op == "config":
                        config = msgspec.json.decode(line.config, type=SchedulerConfig)
                    elif line.op == "cycle":
                        if config is None:
                            raise RecordingError(f"{self.path}:{number}: a cycle comes before any configuration")
                        self.time = line.now
                        yield self._cycle(count, line, config, numbered, decoder)
                        count += 1
                    elif line.op == "list":
                        self._list(line, numbered, decoder)
                    else:
                        self._change(line)
                except (*UNREADABLE, KeyError) as error:
                    if not text.endswith(b"\n"):
                        return  # the scheduler was killed in the middle of this line
                    raise RecordingError(f"{self.path}:{number}: {error}") from None

    def _open(self, lines: Iterator[tuple[int, bytes]]) -> None:
        try:
            header = msgspec.json.decode(next(lines, (1, b"{}"))[1], type=Header)
        except UNREADABLE as error:
            raise RecordingError(f"{self.path}:1: {error}") from None
        if header.unisono != "recording":
            raise RecordingError(f"{self.path}:1: the file is no recording of a scheduler")
        if header.version != VERSION:
            raise RecordingError(f"{self.path}:1: version {header.version} is not known; this program reads {VERSION}")
        self.state = ClusterState(header.scheduler_names, header.default_queue)

    def _cycle(
        self,
        count: int,
        line: RecordedLine,
        config: SchedulerConfig,
        lines: Iterator[tuple[int, bytes]],
        decoder: msgspec.json.Decoder[RecordedLine],
    ) -> Cycle:
        """The state stands still between the beginning of a cycle and its decisions, so these are the next line."""
        _, text = next(lines, (0, b""))
        decided = decoder.decode(text) if text.endswith(b"\n") else None
        return Cycle(count, line.now, line.seed, config, decided)

    def _list(
        self, line: RecordedLine, lines: Iterator[tuple[int, bytes]], decoder: msgspec.json.Decoder[RecordedLine]
    ) -> None:
        kind = self._kind(line.kind)
        items = [self._object(kind, decoder.decode(next(lines)[1])) for _ in range(line.count)]
        for obj in items:
            self._tell("LISTED", kind, obj)
        self.state.replace(kind, items)

    def _change(self, line: RecordedLine) -> None:
        state, op = self.state, line.op
        if op in ("apply", "reject"):
            kind = self._kind(line.kind)
            obj = self._object(kind, line)
            if op == "reject":
                state.reject(kind, obj, line.why)
            else:
                self._tell(line.event, kind, obj)
                state.apply(line.event, kind, obj)
        elif op == "assume":
            state.assume(line.pod, line.node, line.annotations)
        elif op == "forget":
            state.forget(line.pod)
        elif op == "release":
            state.release(line.pod, line.at)
        elif op == "keep":
            state.keep(line.pod)
        elif op == "promise":
            state.promise(line.promise, line.owner, line.until, line.pods)
        elif op == "withdraw":
            state.withdraw(line.promise, line.stands)
        elif op == "setBack":
            state.set_back(line.setbacks)
        elif op == "usage":
            state.report_usage(line.usage)
        elif op == "time":
            self.time = line.now
        elif op != "decided":
            raise KeyError(f"there is no change '{op}'")

    def _tell(self, event: str, kind: Kind[Any], obj: Object) -> None:
        if self.seen is not None:
            self.seen(event, kind, obj)

    def _kind(self, name: str) -> Kind[Any]:
        cached = self._kinds.get(name)
        if cached is None:
            version, _, word = name.rpartition(" ")
            kind = find(version, word)
            if kind is None:
                raise KeyError(f"there is no kind {name}")
            cached = self._kinds[name] = kind
        return cached

    @staticmethod
    def _object(kind: Kind[Any], line: RecordedLine) -> Object:
        obj: Object = msgspec.json.decode(line.object, type=kind.struct)
        return obj


def is_recording(path: Path) -> bool:
    """Whether a file looks like a recording."""
    with open_bytes(path) as lines:
        return next(lines, b"")[:80].startswith(b'{"unisono":"recording"')


# Repeats the cycles of a recorded scheduler and compares what is decided.
#
# Cycle by cycle the state is as the recorded scheduler had it, whatever the repetition decides. With the same
# configuration the decisions are the same; with another one the differences are what it would have done.

MOST_DIFFERENCES = 1000


@dataclass(frozen=True, slots=True)
class Difference:
    """A pod that one of the two cycles bound or evicted otherwise than the other.

    Attributes:
        cycle: number of the cycle, from 0; ``now`` its time, seconds since the epoch.
        what: ``bind`` or ``eviction``.
        pod: ``namespace/name``.
        recorded, repeated: the node or the beneficiary; None where the pod was left alone.
    """

    cycle: int
    now: float
    what: str
    pod: str
    recorded: str | None
    repeated: str | None


@dataclass(slots=True)
class Replayed:
    """What the repetition found.

    Attributes:
        cycles: cycles compared.
        binds, evictions: that were recorded.
        same_binds, same_evictions: of those, how many came again.
        differences: the first so many.
        different: how many there are.
        more: binds and evictions that came only in the repetition.
    """

    cycles: int = 0
    binds: int = 0
    evictions: int = 0
    same_binds: int = 0
    same_evictions: int = 0
    different: int = 0
    more: int = 0
    differences: list[Difference] = field(default_factory=list)


def replay(
    path: Path,
    config: SchedulerConfig | None = None,
    seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Replayed:
    """Repeat all cycles of a recording.

    Args:
        path: of the recording.
        config: instead of the recorded one.
        seed: instead of the recorded one.
        progress: is told after each cycle how many there were.

    Raises:
        RecordingError: a line cannot be understood.
        InputError: the configuration asks a service, which is not there any more.
    """
    recording, replayed = Recording(path), Replayed()
    for cycle in recording.cycles():
        used = config or cycle.config
        _check(used, path)
        if cycle.decided is None:
            break
        with collector_paused():
            snapshot = recording.state.snapshot()
            decisions = engine.run(snapshot, used, cycle.now, cycle.seed if seed is None else seed, verdicts=False)
        recorded = {f"{namespace}/{pod}": node for namespace, pod, _, node in cycle.decided.binds}
        repeated = {f"{bind.namespace}/{bind.pod}": bind.node for bind in decisions.binds}
        replayed.binds += len(recorded)
        replayed.same_binds += _compare(replayed, cycle.number, cycle.now, "bind", recorded, repeated)
        recorded = {f"{namespace}/{pod}": to for namespace, pod, _, to in cycle.decided.evictions}
        repeated = {f"{one.namespace}/{one.pod}": one.beneficiary for one in decisions.evictions}
        replayed.evictions += len(recorded)
        replayed.same_evictions += _compare(replayed, cycle.number, cycle.now, "eviction", recorded, repeated)
        replayed.cycles += 1
        if progress is not None:
            progress(replayed.cycles)
    return replayed


def _check(config: SchedulerConfig, path: Path) -> None:
    if any(plugin.name == "extender" for plugin in config.plugins):
        raise InputError(
            f"{path}: the configuration has the plug-in extender, whose service cannot be asked again: give a --config "
            "without it"
        )


def _compare(
    found: Replayed, cycle: int, now: float, what: str, recorded: dict[str, str], repeated: dict[str, str]
) -> int:
    same = 0
    for pod in sorted({*recorded, *repeated}):
        one, other = recorded.get(pod), repeated.get(pod)
        if one == other:
            same += 1
            continue
        found.different += 1
        found.more += one is None
        if len(found.differences) < MOST_DIFFERENCES:
            found.differences.append(Difference(cycle, now, what, pod, one, other))
    return same


def as_json(found: Replayed) -> dict[str, object]:
    """The result for programs; docs/simulator.md gives its form."""
    return {
        "unisono": "replay",
        "version": 1,
        "cycles": found.cycles,
        "binds": found.binds,
        "sameBinds": found.same_binds,
        "evictions": found.evictions,
        "sameEvictions": found.same_evictions,
        "different": found.different,
        "differences": [
            {
                "cycle": each.cycle,
                "what": each.what,
                "pod": each.pod,
                "recorded": each.recorded,
                "repeated": each.repeated,
            }
            for each in found.differences
        ],
    }
