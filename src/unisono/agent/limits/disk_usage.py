"""How much of the disk folders take, counted by ``du`` in a process of its own, and why they could not be counted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

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
    wanted = list(places)
    if not wanted:
        return Usage()
    process = await asyncio.create_subprocess_exec(
        *("du", "-s", "-x", "--inodes" if inodes else "-B1", "--null", "--", *map(str, wanted)),
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
    return Usage(sizes, _problem(errors, [place for place in wanted if place not in sizes]))


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
