"""Container logs as files of this machine, including those of deleted pods until they have been read."""

from __future__ import annotations

import asyncio
import mmap
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

from unisono.agent.layout import Layout, PodDir, RunDir
from unisono.api.pod_states import LogOptions
from unisono.api.times import parse_time
from unisono.errors import AgentError
from unisono.kube.clock import SYSTEM_CLOCK, Clock

# Container logs from the files that the shims write; implements the API server's ``LogSource`` by shape.
#
# A record is a line ``TIME STREAM F|P TEXT`` (the CRI format). A line of the container is its partial records (``P``)
# and the full one (``F``) that ends it.

# Holds more lines than the end of a log has, however short they are.
_END_BYTES = 1 << 16
# What Kubernetes takes of it as a message.
_MOST_LINES, _MOST_BYTES = 80, 2048
_POLL_SECONDS = 0.1
_ALL = LogOptions()
_BLOCK = 1 << 16
# The shim cuts records at a quarter of this; a longer one means a damaged file.
_LONGEST_RECORD = 1 << 18
# Records that are looked at between two chances for others to run.
_TURN = 1000


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
        text_of = _Text(None if age is None else self._clock.time() - age, options.timestamps)
        left = options.limit_bytes
        blocks = self._blocks(run, options.follow and not options.previous, options.tail_lines)
        async with aclosing(blocks):
            async for block in blocks:
                text = text_of.block(block)
                if left is not None:
                    text = text[:left]
                    left -= len(text)
                if text:
                    yield text
                if left is not None and left <= 0:
                    return
                # A long log must not keep others from being served.
                await asyncio.sleep(0)

    def keeps(self, namespace: str, pod: str, uid: str, container: str) -> bool:
        """Whether the log of a pod that is gone from the API can still be read."""
        directory = self._directory(uid)
        record = directory.record()
        matches = record is not None and (record.namespace, record.name) == (namespace, pod)
        return matches and bool(directory.spawned_runs(container))

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

    async def _blocks(self, run: RunDir, follow: bool, tail_lines: int | None) -> AsyncGenerator[bytes, None]:
        """Blocks of whole records: what is there, then, when following, what comes."""
        reader = GrowingFile(run.log)
        try:
            files, offset = renamed_files(run.log, reader), 0
            if tail_lines is not None:
                files, offset = await _tail(files, reader, tail_lines)
            for path in files:
                for block in blocks_of(path, offset):
                    yield block
                offset = 0
            reader.skip_to(offset)
            for block in reader.blocks():
                yield block
            while follow:
                # Read once more after the end was seen: the last lines come before the exit file.
                ended = run.exit() is not None or not run.is_held()
                for block in reader.blocks():
                    yield block
                if ended:
                    break
                await self._clock.sleep(_POLL_SECONDS)
        finally:
            reader.close()


async def _tail(files: list[Path], reader: GrowingFile, lines: int) -> tuple[list[Path], int]:
    """The renamed files that hold the last lines, and where those begin in the first of them, or in the present one."""
    tail = Tail(lines)
    offset = 0 if reader.fd is None else await _search(tail, reader.fd)
    needed: list[Path] = []
    for path in reversed(files):
        if offset:
            break
        try:
            with path.open("rb") as file:
                offset = await _search(tail, file.fileno())
        except FileNotFoundError:
            break
        needed.insert(0, path)
    return needed, offset


async def _search(tail: Tail, fd: int) -> int:
    position = 0
    for place in tail.search(fd):
        if place is None:
            await asyncio.sleep(0)
        else:
            position = place
    return position


class _Text:
    """What records say.

    Args:
        since: Unix seconds; records before it are left out.
        timestamps: put the time of its first record in front of each line.
    """

    def __init__(self, since: float | None, timestamps: bool) -> None:
        self._since, self._timestamps = since, timestamps
        self._begun = False

    def block(self, block: bytes) -> bytes:
        """The text of whole records."""
        out = []
        for record in block.split(b"\n"):
            parts = record.split(b" ", 3)
            if len(parts) < 4 or (self._since is not None and _time(parts[0]) < self._since):
                continue
            if self._timestamps and not self._begun:
                out.append(parts[0] + b" ")
            out.append(parts[3])
            self._begun = parts[2] != b"F"
            if not self._begun:
                out.append(b"\n")
        return b"".join(out)


def _time(stamp: bytes) -> float:
    text = stamp.decode("ascii", "replace")
    try:
        # Nanoseconds are cut to microseconds, which is what Python's parser of 3.11 takes.
        return parse_time(f"{text[:26]}Z" if len(text) > 27 else text)
    except ValueError:
        return 0.0


def last_lines(run: RunDir) -> str:
    """The end of a run's log, for ``terminationMessagePolicy: FallbackToLogsOnError``."""
    text = _Text(None, False).block(last_bytes(run.log, _END_BYTES))[-_MOST_BYTES:]
    lines = text.decode("utf-8", "replace").split("\n")
    ended = lines[-1] == ""
    return "\n".join(lines[-_MOST_LINES - ended :])


class GrowingFile:
    """Reads a growing log file, over its renaming when it is full."""

    def __init__(self, path: Path) -> None:
        self._path, self._rest = path, bytearray()
        self._file = self._open()

    @property
    def fd(self) -> int | None:
        """Descriptor of the file as it is now; None while there is none."""
        return self._file

    def skip_to(self, offset: int) -> None:
        """Begin there."""
        if self._file is not None:
            os.lseek(self._file, offset, os.SEEK_SET)

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

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int | None:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None

    def _drain(self) -> Iterator[bytes]:
        if self._file is None:
            self._file = self._open()
        while self._file is not None and (data := os.read(self._file, _BLOCK)):
            whole, newline, rest = data.rpartition(b"\n")
            if newline:
                yield bytes(self._rest) + whole + newline
                self._rest.clear()
            self._rest += rest
            if len(self._rest) > _LONGEST_RECORD:
                self._rest.clear()

    def _renamed(self) -> bool:
        if self._file is None:
            return False
        try:
            return self._path.stat().st_ino != os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False


def renamed_files(log: Path, reader: GrowingFile) -> list[Path]:
    """The files that were renamed when they were full, oldest first, without the one that ``reader`` has open."""
    own = None if reader.fd is None else os.fstat(reader.fd).st_ino
    candidates = (path for path in log.parent.glob(f"{log.name}.*") if path.suffix[1:].isdigit())
    return [
        path for path in sorted(candidates, key=lambda path: -int(path.suffix[1:])) if _inode(path) not in (None, own)
    ]


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def blocks_of(path: Path, offset: int = 0) -> Iterator[bytes]:
    """Blocks of whole records of a file that does not grow any more."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            while lines := file.readlines(_BLOCK):
                yield b"".join(lines)
    except FileNotFoundError:
        return


class Tail:
    """Counts lines from the end, file after file.

    Args:
        lines: how many are wanted.
    """

    def __init__(self, lines: int) -> None:
        self._left = lines
        self._last = True

    def search(self, fd: int) -> Iterator[int | None]:
        """Where the wanted lines begin in a file; None in between, to let others run, and 0 where all of it is wanted.

        When the last value is 0 the file before it may hold more of them.
        """
        if not os.fstat(fd).st_size:
            yield 0
            return
        with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
            place, seen = data.rfind(b"\n") + 1, 0
            while place:
                begin = data.rfind(b"\n", 0, place - 1) + 1
                # A line that has not ended yet is the last one.
                if is_full(data[begin : begin + 64]) or self._last:
                    if not self._left:
                        yield place
                        return
                    self._left -= 1
                self._last = False
                place, seen = begin, seen + 1
                if seen % _TURN == 0:
                    yield None
        yield 0


def is_full(record: bytes) -> bool:
    """Whether a record ends its line."""
    return record.split(b" ", 3)[2:3] == [b"F"]


def last_bytes(path: Path, most: int) -> bytes:
    """Whole records from the last ``most`` bytes of a file; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read(most)
    except FileNotFoundError:
        return b""
    whole = data[: data.rfind(b"\n") + 1]
    return whole if size <= most else whole[whole.find(b"\n") + 1 :]


# Logs of deleted pods, kept for clients that have seen the pod and are about to read them.
#
# A pod that has ended is gone from the API as soon as it is deleted, and a controller may delete it a moment after its
# last line. A client that follows a job would miss the lines of such pods.

KEPT_SECONDS = 30.0


class LastWords:
    """Keeps the logs of removed pods for a while.

    Args:
        layout: where pods are kept.
        clock: tells how long.
    """

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout, self._clock = layout, clock
        self._kept: deque[tuple[float, str]] = deque()
        self._trash = asyncio.Event()

    def clear(self) -> None:
        """Forget those that an earlier agent kept."""
        self._kept.clear()
        for directory in self._layout.gone_pods():
            self._layout.discard(directory.path)
        self._trash.set()

    def keep(self, uid: str) -> None:
        """Put the pod's directory aside; its volumes are out of reach at once."""
        if self._layout.put_aside(uid):
            self._kept.append((self._clock.monotonic() + KEPT_SECONDS, uid))
        self._trash.set()

    async def run(self) -> None:
        """Remove what has been kept long enough, and what was thrown away, for ever."""
        emptying = asyncio.create_task(self._empty())
        try:
            while True:
                while self._kept and self._kept[0][0] <= self._clock.monotonic():
                    self._layout.discard(self._layout.gone_pod(self._kept.popleft()[1]).path)
                    self._trash.set()
                await self._clock.sleep(KEPT_SECONDS / 3)
        finally:
            emptying.cancel()
            await asyncio.gather(emptying, return_exceptions=True)

    async def _empty(self) -> None:
        """In a thread: a pod may have left any number of files."""
        while True:
            await self._trash.wait()
            self._trash.clear()
            await asyncio.to_thread(self._layout.empty_trash)
