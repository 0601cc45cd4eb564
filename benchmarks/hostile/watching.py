"""What the processes of a control plane use, and what they write."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> dict[int, str]:
    """The process and its descendants, by id: their command lines; without copies of them that work for a moment."""
    found: dict[int, str] = {}
    waiting = [(pid, "")]
    while waiting:
        one, parent = waiting.pop()
        try:
            line = Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if line == parent:
                continue
            found[one] = line
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += [(int(child), line) for child in (task / "children").read_text().split()]
        except OSError:
            found.pop(one, None)
    return found


def resident(pid: int) -> int:
    """Bytes of memory in use; 0 of a process that has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Iterable[int]) -> float:
    """Processor time of all threads of some processes since they began; those that have ended count nothing."""
    total = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / _TICKS


@dataclass(frozen=True)
class Work:
    """What the main threads of some processes did: seconds at work by process, and seconds ready without a processor.

    A thread holds up its process alone while it is at work, so the longest time at work is how long others wait for it.
    """

    at_work: dict[int, float]
    delayed: float

    @classmethod
    def of(cls, pids: Iterable[int]) -> Work:
        """Since the processes began."""
        at_work, delayed = {}, 0
        for pid in pids:
            with suppress(OSError, ValueError):
                busy, waited, _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
                at_work[pid] = busy / 1e9
                delayed += waited
        return cls(at_work, delayed / 1e9)

    def own_share(self, waited: float, before: Work) -> float:
        """What remains of ``waited`` seconds when the machine does nothing else, at least."""
        busy = max((value - before.at_work.get(pid, 0.0) for pid, value in self.at_work.items()), default=0.0)
        return max(busy, waited - (self.delayed - before.delayed))


@dataclass
class Log:
    """A log that grows: how far it was read, what of it was bad, and what it tells most."""

    path: Path
    size: int = 0
    events: Counter[str] = field(default_factory=Counter)

    def news(self) -> list[str]:
        """New lines that tell of a crash."""
        with self.path.open("rb") as file:
            file.seek(self.size)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self.size += len(data)
        bad = []
        for line in data.decode(errors="replace").splitlines():
            try:
                told = json.loads(line)
                event, level = str(told["event"]), told.get("level")
            except (ValueError, KeyError, TypeError):
                event, level = line[:100], "text"
            if level not in ("info", "text"):
                self.events[event] += 1
            # An error without a traceback is told of one object whose owner is told too.
            if "Traceback" in line or '"exception"' in line or level == "critical":
                bad.append(line[:3000])
        return bad
