"""What other jobs ask for that the same limit refuses: who raises it for one job serves them as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from unisono.engine.answers import Refusal
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause

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
