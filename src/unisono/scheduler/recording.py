"""Writes down what a scheduler sees and decides, so that its cycles can be repeated.

A recording is JSON lines: a header, then everything that changes the cluster state in its order, the configuration
where it changes, and for each cycle its time and seed before the decision and the binds and evictions after it.
Containers lose commands, arguments and environment, which decisions do not read and which may hold secrets.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
import structlog

from unisono.api.base import Object
from unisono.api.core import Container, Pod
from unisono.api.kind import Kind
from unisono.api.node_usage import NodeUsage
from unisono.cluster.recent import Setback
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import Decisions
from unisono.errors import ConfigError
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.reflector import Reflector
from unisono.scheduler.feed import KINDS, OPTIONAL, Feed

VERSION = 1
MOST_BYTES = 8 << 30
_FILES = 1000

_log = structlog.get_logger(__name__)


class RecordingSink(Protocol):
    """Where lines go."""

    def write(self, line: Any) -> None:
        """Take one line's value."""
        ...

    def flush(self) -> None:
        """Let readers see what was written."""
        ...

    def close(self) -> None:
        """Write no more."""
        ...


class RecordingFile:
    """Lines in a file, packed where its name ends in ``.gz``; a file that cannot be written any more is given up."""

    def __init__(self, path: Path) -> None:
        """Begin a file; where there is one of that name, the new one gets a number.

        Raises:
            OSError: it cannot be made.
        """
        self.path = _free(path)
        raw = self.path.open("xb")
        self._file: IO[bytes] | None = raw
        if path.suffix == ".gz":
            self._file = gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=4, mtime=0)  # type: ignore[assignment]
        self._raw = raw
        self._left = MOST_BYTES
        self._encode = msgspec.json.Encoder().encode

    def write(self, line: Any) -> None:
        """Write one line."""
        if self._file is None:
            return
        text = self._encode(line) + b"\n"
        self._left -= len(text)
        try:
            if self._left < 0:
                raise OSError("the recording has reached its largest size")
            self._file.write(text)
        except OSError as error:
            _log.error("recording.stopped", file=str(self.path), error=str(error))
            self.close()

    def flush(self) -> None:
        """Let readers see what was written; packed files are only whole when they are closed."""
        if self._file is not None:
            try:
                self._file.flush()
            except OSError as error:
                _log.error("recording.stopped", file=str(self.path), error=str(error))
                self.close()

    def close(self) -> None:
        """Write no more."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
                self._raw.close()
            except OSError as error:
                _log.error("recording.stopped", file=str(self.path), error=str(error))


def _free(path: Path) -> Path:
    if not path.exists():
        return path
    name, suffix = (path.name[:-3], ".gz") if path.suffix == ".gz" else (path.name, "")
    for number in range(1, _FILES):
        other = path.with_name(f"{name}.{number}{suffix}")
        if not other.exists():
            return other
    raise FileExistsError(17, "there are too many recordings of that name", str(path))


def recorder_to(path: Path) -> Recorder:
    """A recorder into a new file.

    Raises:
        ConfigError: the file cannot be made.
    """
    try:
        return Recorder(RecordingFile(path))
    except OSError as error:
        raise ConfigError(f"the recording cannot be begun: {error.strerror or error}", file=str(path)) from None


class RecordingState(ClusterState):
    """A cluster state that writes down every change before it takes it in."""

    def __init__(self, sink: RecordingSink, scheduler_names: Iterable[str], default_queue: str) -> None:
        names = list(scheduler_names)
        super().__init__(names, default_queue)
        self._sink = sink
        self._held_back: Mapping[str, Setback] = {}
        sink.write({"unisono": "recording", "version": VERSION, "schedulerNames": names, "defaultQueue": default_queue})

    def apply(self, event_type: str, kind: Kind[Any], obj: Object) -> None:
        """As in the base class."""
        self._sink.write({"op": "apply", "event": event_type, "kind": _name(kind), "object": _slim(obj)})
        super().apply(event_type, kind, obj)

    def replace(self, kind: Kind[Any], objects: Iterable[Object]) -> None:
        """As in the base class."""
        listed = list(objects)
        self._sink.write({"op": "list", "kind": _name(kind), "count": len(listed)})
        for obj in listed:
            self._sink.write({"op": "item", "object": _slim(obj)})
        super().replace(kind, listed)

    def reject(self, kind: Kind[Any], obj: Object, why: str) -> None:
        """As in the base class."""
        self._sink.write({"op": "reject", "kind": _name(kind), "object": _slim(obj), "why": why})
        super().reject(kind, obj, why)

    def assume(self, pod_key: str, node: str, annotations: Mapping[str, str] | None = None) -> None:
        """As in the base class."""
        self._sink.write({"op": "assume", "pod": pod_key, "node": node, "annotations": dict(annotations or {})})
        super().assume(pod_key, node, annotations)

    def forget(self, pod_key: str) -> None:
        """As in the base class."""
        self._sink.write({"op": "forget", "pod": pod_key})
        super().forget(pod_key)

    def release(self, pod_key: str, at: float | None = None) -> None:
        """As in the base class."""
        self._sink.write({"op": "release", "pod": pod_key, "at": at})
        super().release(pod_key, at)

    def keep(self, pod_key: str) -> None:
        """As in the base class."""
        self._sink.write({"op": "keep", "pod": pod_key})
        super().keep(pod_key)

    def promise(self, key: str, owner: str, until: float, pods: Iterable[Pod]) -> None:
        """As in the base class."""
        stands = list(pods)
        line = {"op": "promise", "promise": key, "owner": owner, "until": until, "pods": [_slim(pod) for pod in stands]}
        self._sink.write(line)
        super().promise(key, owner, until, stands)

    def withdraw(self, key: str, pods: Collection[str] | None = None) -> None:
        """As in the base class."""
        if key in self.promises.by_key:
            self._sink.write({"op": "withdraw", "promise": key, "stands": None if pods is None else sorted(pods)})
        super().withdraw(key, pods)

    def set_back(self, setbacks: Mapping[str, Setback]) -> None:
        """As in the base class."""
        if dict(setbacks) != self._held_back:
            self._held_back = dict(setbacks)
            self._sink.write({"op": "setBack", "setbacks": self._held_back})
        super().set_back(setbacks)

    def report_usage(self, usage: Mapping[str, NodeUsage]) -> None:
        """As in the base class."""
        self._sink.write({"op": "usage", "usage": dict(usage)})
        super().report_usage(usage)


class Recorder:
    """What the scheduler tells while it records."""

    def __init__(self, sink: RecordingSink) -> None:
        self._sink = sink
        self._config: SchedulerConfig | None = None

    def state(self, scheduler_names: Sequence[str], default_queue: str) -> ClusterState:
        """The state to work on."""
        return RecordingState(self._sink, scheduler_names, default_queue)

    def cycle(self, config: SchedulerConfig, now: float, seed: int) -> None:
        """A cycle begins; the state stands still until it ends."""
        if config is not self._config:
            self._config = config
            self._sink.write({"op": "config", "config": config})
        self._sink.write({"op": "cycle", "now": now, "seed": seed})

    def decided(self, decisions: Decisions) -> None:
        """What came of it."""
        self._sink.write(
            {
                "op": "decided",
                "binds": [[bind.namespace, bind.pod, bind.uid, bind.node] for bind in decisions.binds],
                "evictions": [[one.namespace, one.pod, one.uid, one.beneficiary] for one in decisions.evictions],
            }
        )
        self._sink.flush()

    def time(self, now: float) -> None:
        """What follows was seen at ``now``, seconds since the epoch."""
        self._sink.write({"op": "time", "now": now})
        self._sink.flush()

    def close(self) -> None:
        """Write no more."""
        self._sink.close()


def _name(kind: Kind[Any]) -> str:
    return f"{kind.api_version} {kind.kind}"


def _slim(obj: Object) -> Object:
    """The object without what decisions never read: who changed what, and what containers run."""
    slim: Object = msgspec.structs.replace(
        obj, metadata=msgspec.structs.replace(obj.metadata, managed_fields=None, self_link=None)
    )
    if isinstance(slim, Pod):
        spec = slim.spec
        inits = spec.init_containers
        slim.spec = msgspec.structs.replace(
            spec,
            containers=[_bare(each) for each in spec.containers or ()],
            init_containers=None if inits is None else [_bare(each) for each in inits],
        )
    return slim


def _bare(container: Container) -> Container:
    return msgspec.structs.replace(container, command=None, args=None, env=None, env_from=None)


# Watches what a scheduler watches and writes it down, without deciding anything.

_SECONDS = 1.0


class Watching:
    """Records the events of a cluster until cancelled.

    Attributes:
        feed: what is known of the cluster.
        synced: set once every list has been read.
    """

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        scheduler_names: Sequence[str],
        default_queue: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._recorder, self._clock = recorder, clock
        self.feed = Feed(recorder.state(scheduler_names, default_queue), lambda: None)
        self.synced = asyncio.Event()
        self._reflectors: list[Reflector[Any]] = [
            Reflector(client, kind, self.feed.sink(kind), clock=clock, absent_seconds=OPTIONAL.get(kind))
            for kind in KINDS
        ]

    async def run(self) -> None:
        """Watch until cancelled; the time is written down with the events of each second."""
        try:
            async with asyncio.TaskGroup() as group:
                for reflector in self._reflectors:
                    group.create_task(reflector.run())
                for reflector in self._reflectors:
                    await reflector.synced.wait()
                self.synced.set()
                recorded = -1
                while True:
                    if self.feed.events != recorded:
                        recorded = self.feed.events
                        self._recorder.time(self._clock.time())
                    await self._clock.sleep(_SECONDS)
        finally:
            self._recorder.close()
