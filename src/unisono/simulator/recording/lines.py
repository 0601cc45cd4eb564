"""Lines of a recording (`unisono.scheduler.recording` writes them) as changes of a cluster state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.kinds import find
from unisono.api.node_usage import NodeUsage
from unisono.api.unreadable import UNREADABLE
from unisono.cluster.bind_failures import Setback
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig
from unisono.scheduler.recording import VERSION
from unisono.simulator.files import InputError, open_bytes


class RecordingError(InputError):
    """A recording cannot be read; the message names file and line."""


class Line(msgspec.Struct, rename="camel"):
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
    decided: Line | None = None


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
            decoder = msgspec.json.Decoder(Line)
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
        line: Line,
        config: SchedulerConfig,
        lines: Iterator[tuple[int, bytes]],
        decoder: msgspec.json.Decoder[Line],
    ) -> Cycle:
        """The state stands still between the beginning of a cycle and its decisions, so these are the next line."""
        _, text = next(lines, (0, b""))
        decided = decoder.decode(text) if text.endswith(b"\n") else None
        return Cycle(count, line.now, line.seed, config, decided)

    def _list(self, line: Line, lines: Iterator[tuple[int, bytes]], decoder: msgspec.json.Decoder[Line]) -> None:
        kind = self._kind(line.kind)
        items = [self._object(kind, decoder.decode(next(lines)[1])) for _ in range(line.count)]
        for obj in items:
            self._tell("LISTED", kind, obj)
        self.state.replace(kind, items)

    def _change(self, line: Line) -> None:
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
        found = self._kinds.get(name)
        if found is None:
            version, _, word = name.rpartition(" ")
            known = find(version, word)
            if known is None:
                raise KeyError(f"there is no kind {name}")
            found = self._kinds[name] = known
        return found

    @staticmethod
    def _object(kind: Kind[Any], line: Line) -> Object:
        obj: Object = msgspec.json.decode(line.object, type=kind.struct)
        return obj


def is_recording(path: Path) -> bool:
    """Whether a file looks like a recording."""
    with open_bytes(path) as lines:
        return next(lines, b"")[:80].startswith(b'{"unisono":"recording"')
