"""Container logs from the files that the shims write; implements the API server's ``LogSource`` by shape."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

from unisono.agent.layout import Layout, PodDir, RunDir
from unisono.agent.logs.files import GrowingFile, Tail, blocks_of, last_bytes, renamed_files
from unisono.api.log_options import LogOptions
from unisono.api.times import parse_time
from unisono.errors import AgentError
from unisono.kube.clock import SYSTEM_CLOCK, Clock

# Holds more lines than the end of a log has, however short they are.
_END_BYTES = 1 << 16
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
    found = 0
    for place in tail.search(fd):
        if place is None:
            await asyncio.sleep(0)
        else:
            found = place
    return found


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


def last_lines(run: RunDir, max_lines: int = 80, max_bytes: int = 2048) -> str:
    """The end of a run's log, for ``terminationMessagePolicy: FallbackToLogsOnError``."""
    text = _Text(None, False).block(last_bytes(run.log, _END_BYTES))[-max_bytes:]
    lines = text.decode("utf-8", "replace").split("\n")
    ended = lines[-1] == ""
    return "\n".join(lines[-max_lines - ended :])
