"""The line of each queue: which jobs wait in it, in which order, and what others in it ask for of the same limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from unisono.api.messages import counted
from unisono.engine.answers import Refusal
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.session.once import once
from unisono.engine.verdict import Cause
from unisono.engine.verdicts.holders import holder_of, named

_MOST_NAMED = 2


@dataclass(slots=True)
class _Lines:
    """How many jobs wait by queue, the names of the first ones, and each one's position in the order of their turn."""

    length: dict[str, int] = field(default_factory=dict)
    first: dict[str, tuple[str, ...]] = field(default_factory=dict)
    position: dict[str, int] = field(default_factory=dict)


@once
def _lines(cycle: Cycle) -> _Lines:
    """The lines of all queues, when every action has run."""
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


Amounts = Mapping[str, int]
_LIMITS = frozenset((Cause.QUOTA, Cause.OVER_CAPABILITY, Cause.OVER_SHARE))


def turn(job: JobState) -> tuple[int, float, str]:
    """Sort key of jobs that wait: priority, then age."""
    return -job.priority, job.created, job.key


def whole_need(job: JobState, refusal: Refusal, *, admission: bool) -> dict[str, int]:
    """What a refused job asks for in all: a refusal that came from placing speaks of one task only."""
    times = 1 if admission else max(job.min_member - job.ready_count, 1)
    return {name: amount * times for name, amount in refusal.need.items()}


class _Asked(NamedTuple):
    """What a refused job asks for of a limit, what those before it do, and what all do together."""

    need: Amounts
    before: Amounts
    every: Amounts

    def others(self, names: Iterable[str]) -> dict[str, int]:
        """What all others ask for."""
        return {name: self.every.get(name, 0) - self.need.get(name, 0) for name in names}


class Rivals:
    """Answers for the refused jobs of one cycle; the sums are made once, when first asked for."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle

    @cached_property
    def _sums(self) -> dict[str, _Asked]:
        """By job key: what it asks for of a limit, and others with it."""
        refused: dict[tuple[Cause, str, str], list[tuple[JobState, dict[str, int]]]] = {}
        for job in sorted((job for job in self.cycle.jobs if job.key in self.cycle.reports), key=turn):
            report = self.cycle.reports[job.key]
            refusal = report.gate or report.quota
            if refusal is None or refusal.cause not in _LIMITS:
                continue
            place = job.namespace if refusal.cause is Cause.QUOTA else job.queue.name
            need = whole_need(job, refusal, admission=report.gate is not None)
            refused.setdefault((refusal.cause, place, refusal.owner), []).append((job, need))
        sums: dict[str, _Asked] = {}
        for jobs in refused.values():
            if len(jobs) == 1:
                continue
            every: dict[str, int] = {}
            for job, need in jobs:
                sums[job.key] = _Asked(need, dict(every), every)
                for name, amount in need.items():
                    every[name] = every.get(name, 0) + amount
        return sums

    def steps(self, job: JobState, short: Amounts) -> list[dict[str, int]]:
        """How far to raise a limit that a job exceeds by ``short``.

        First for itself, then for those before it as well, then for all.
        """
        steps, asked = [dict(short)], self._sums.get(job.key)
        for more in (asked.before, asked.others(short)) if asked is not None else ():
            step = {name: amount + more.get(name, 0) for name, amount in short.items()}
            if step != steps[-1]:
                steps.append(step)
        return steps
