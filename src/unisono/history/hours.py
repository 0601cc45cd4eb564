"""Older records as sums of hours: what they say of use, ends and evictions stays, single pods are forgotten (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.history.records import EVICTED, Hour, Interval, JobRecord, ended_as

HOUR = 3_600_000
"""Milliseconds."""

ENDED = "ended/"
EVICTIONS = "evictions"
FAILURES = "failures"


def hour_of(moment: int) -> int:
    """The beginning of the hour that a moment is in."""
    return moment - moment % HOUR


def pieces(start: int, end: int, step: int = HOUR) -> Iterator[tuple[int, int, int]]:
    """``(begin of the step, start, end)`` of each piece of an interval, cut where steps begin."""
    at = start
    while at < end:
        begin = at - at % step
        until = min(end, begin + step)
        yield begin, at, until
        at = until


def hours_of_interval(interval: Interval, job: JobRecord) -> Iterator[tuple[Hour, float]]:
    """The sums that a closed interval adds to."""

    def key(moment: int, measure: str) -> Hour:
        return Hour(hour_of(moment), interval.queue, job.namespace, job.resource, job.user, measure)

    for _, start, end in pieces(interval.start, interval.end):
        for name, amount in interval.resources.items():
            yield key(start, name), amount * (end - start) / 1000
    if interval.outcome == EVICTED:
        yield key(interval.end, EVICTIONS), 1
    elif interval.outcome == "Failed":
        yield key(interval.end, FAILURES), 1


def hours_of_job(job: JobRecord) -> Iterator[tuple[Hour, float]]:
    """The sums that a job which has ended adds to."""
    yield Hour(hour_of(job.ended), job.queue, job.namespace, job.resource, job.user, f"{ENDED}{ended_as(job)}"), 1
