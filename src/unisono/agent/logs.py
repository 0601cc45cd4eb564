"""Container logs from the files that the shims write; implements the API server's ``LogSource`` by shape."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from unisono.agent.layout import Layout, PodDir, RunDir
from unisono.api.log_options import LogOptions
from unisono.api.times import parse_time
from unisono.errors import AgentError
from unisono.kube.clock import SYSTEM_CLOCK, Clock

_CHUNK = 1 << 16
_POLL_SECONDS = 0.1
_ALL = LogOptions()


class FileLogSource:
    """Reads the logs below an agent's data directory.

    Args:
        data_dir: the agent's data directory.
        clock: paces how often a followed file is looked at.
    """

    def __init__(self, data_dir: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._layout, self._clock = Layout(data_dir), clock

    async def open(
        self, namespace: str, pod: str, uid: str, container: str, options: LogOptions = _ALL
    ) -> AsyncIterator[bytes]:
        """Stream one container's log, as the API server's ``LogSource`` describes it.

        Raises:
            AgentError: there is no such run.

        """
        run = self._find(namespace, pod, uid, container, options.previous)
        age = options.since_seconds
        since = None if age is None else self._clock.time() - age
        left = options.limit_bytes
        async for record in self._records(run, options.follow and not options.previous, options.tail_lines):
            text = _shown(record, since, options.timestamps)
            if left is not None:
                text = text[:left]
                left -= len(text)
            if text:
                yield text
            if left is not None and left <= 0:
                return

    def keeps(self, namespace: str, pod: str, uid: str, container: str) -> bool:
        """Whether the log of a pod that is gone from the API can still be read."""
        directory = self._directory(uid)
        record = directory.record()
        known = record is not None and (record.namespace, record.name) == (namespace, pod)
        return known and bool(directory.spawned_runs(container))

    def _directory(self, uid: str) -> PodDir:
        present = self._layout.pod(uid)
        return present if present.path.is_dir() else self._layout.gone_pod(uid)

    def _find(self, namespace: str, pod: str, uid: str, container: str, previous: bool) -> RunDir:
        runs = self._directory(uid).spawned_runs(container)
        if previous:
            if len(runs) < 2:
                raise AgentError(f'previous terminated container "{container}" in pod "{pod}" not found')
            return runs[-2]
        if not runs:
            raise AgentError(f'container "{container}" in pod "{namespace}/{pod}" has no log on this node yet')
        return runs[-1]

    async def _records(self, run: RunDir, follow: bool, tail_lines: int | None) -> AsyncIterator[bytes]:
        """Blocks of whole records: what is there, then, when following, what comes."""
        reader = _Reader(run.log)
        written: Iterator[bytes] = _history(run.log, reader)
        if tail_lines is not None:
            written = _tail(written, tail_lines)
        for block in written:
            yield block
        while follow:
            # Read once more after the end was seen: the last lines come before the exit file.
            ended = run.exit() is not None or not run.is_held()
            for block in reader.blocks():
                yield block
            if ended:
                break
            await self._clock.sleep(_POLL_SECONDS)
        reader.close()


class _Reader:
    """Reads a growing log file, over its renaming when it is full."""

    def __init__(self, path: Path) -> None:
        self._path, self._rest = path, b""
        self._file = self._open()

    def _open(self) -> int | None:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None

    def blocks(self) -> Iterator[bytes]:
        """Whole records written since the last call."""
        while True:
            yield from self._drain()
            if not self._renamed():
                return
            # The shim may have written between our last read and its renaming.
            yield from self._drain()
            self.close()
            self._file = self._open()

    def _drain(self) -> Iterator[bytes]:
        if self._file is None:
            self._file = self._open()
        while self._file is not None and (data := os.read(self._file, _CHUNK)):
            whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
            if newline:
                yield whole + newline

    def _renamed(self) -> bool:
        if self._file is None:
            return False
        try:
            return self._path.stat().st_ino != os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _history(log: Path, reader: _Reader) -> Iterator[bytes]:
    """Blocks of the renamed files, oldest first, then of the present one."""
    renamed = sorted(
        (path for path in log.parent.glob(f"{log.name}.*") if path.suffix[1:].isdigit()),
        key=lambda path: -int(path.suffix[1:]),
    )
    for path in renamed:
        with path.open("rb") as file:
            while lines := file.readlines(_CHUNK):
                yield b"".join(lines)
    yield from reader.blocks()


def _tail(blocks: Iterator[bytes], count: int) -> Iterator[bytes]:
    """The last ``count`` lines; a line is all its partial records and the one that ends it."""
    kept: deque[bytes] = deque(maxlen=max(count, 0))
    line = b""
    for block in blocks:
        for record in block.splitlines(keepends=True):
            line += record
            if _is_full(record):
                kept.append(line)
                line = b""
    if line and count > 0:
        kept.append(line)
    if kept:
        yield b"".join(kept)


def _is_full(record: bytes) -> bool:
    return record.split(b" ", 3)[2:3] == [b"F"]


def _shown(block: bytes, since: float | None, timestamps: bool) -> bytes:
    out = []
    for record in block.splitlines():
        parts = record.split(b" ", 3)
        if len(parts) < 4 or (since is not None and _time(parts[0]) < since):
            continue
        text = parts[0] + b" " + parts[3] if timestamps else parts[3]
        out.append(text + b"\n" if parts[2] == b"F" else text)
    return b"".join(out)


def _time(stamp: bytes) -> float:
    text = stamp.decode("ascii", "replace")
    try:
        # Nanoseconds are cut to microseconds, which is what Python's parser of 3.11 takes.
        return parse_time(f"{text[:26]}Z" if len(text) > 27 else text)
    except ValueError:
        return 0.0


def last_lines(run: RunDir, max_lines: int = 80, max_bytes: int = 2048) -> str:
    """The end of a run's log, for ``terminationMessagePolicy: FallbackToLogsOnError``."""
    reader = _Reader(run.log)
    try:
        block = b"".join(_tail(reader.blocks(), max_lines))
    finally:
        reader.close()
    return _shown(block, None, False)[-max_bytes:].decode("utf-8", "replace")
