"""The line of each queue: which jobs wait in it, in the order of their turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from unisono.api.messages import counted
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.verdicts.holders import holder_of, named
from unisono.engine.verdicts.rivals import turn

_MOST_NAMED = 2


@dataclass(slots=True)
class _Lines:
    """How many jobs wait by queue, the names of the first ones, and each one's position in the order of their turn."""

    length: dict[str, int] = field(default_factory=dict)
    first: dict[str, tuple[str, ...]] = field(default_factory=dict)
    position: dict[str, int] = field(default_factory=dict)


def _lines(cycle: Cycle) -> _Lines:
    """The lines of all queues; every action has run by then, so they are worked out once."""
    return cycle.session.shared.of(_Lines, lambda: _in_line(cycle))


def _in_line(cycle: Cycle) -> _Lines:
    lines = _Lines()
    waiting = (other for other in cycle.jobs if other.key in cycle.reports and other.is_starving)
    for other in sorted(waiting, key=turn):
        queue = other.queue.name
        at = lines.position[other.key] = lines.length.get(queue, 0)
        lines.length[queue] = at + 1
        if at < _MOST_NAMED:
            lines.first[queue] = (*lines.first.get(queue, ()), named(holder_of(other.record)))
    return lines


def place(cycle: Cycle, job: JobState) -> tuple[int, tuple[str, ...]]:
    """The job's position in the line of its queue (1 for the first, 0: it stands in none), and the first ones ahead."""
    lines = _lines(cycle)
    at = lines.position.get(job.key)
    if at is None:
        return 0, ()
    return at + 1, lines.first[job.queue.name][:at]


def place_in_line(cycle: Cycle, job: JobState) -> str:
    """``3rd in queue default, behind ns/a and ns/b``; empty for the first one."""
    position, ahead = place(cycle, job)
    if position < 2:
        return ""
    rest = position - 1 - len(ahead)
    names = f"{', '.join(ahead)} and {counted(rest, 'more job')}" if rest else " and ".join(ahead)
    return f"{_ordinal(position)} in queue {job.queue.name}, behind {names}"


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
