"""Compares two sets of runs: pairs of the same workload, cluster and seed, and workloads as what is drawn by chance.

Seeds of one workload repeat the same jobs, so they are no evidence of their own: each workload gives the mean of its
pairs, and the interval is Student's t over workloads. Where the same policy runs twice it holds 0 in 94 to 99 % of
studies of 3 to 20 workloads, also with heavy tails; percentiles of a bootstrap hold it in 73 to 93 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from unisono.api.field_error import UNREADABLE
from unisono.simulator.files import InputError, open_text
from unisono.simulator.metrics.summary import VERSION

# Results of runs as they stand in files: one JSON object per line.

PAIRED = ("workload", "cluster", "seed")
"""What two runs must have in common to be compared."""


def read_results(path: Path) -> list[dict[str, Any]]:
    """Runs of a file, as ``unisono simulate -o json`` and ``sweep`` write them.

    Raises:
        InputError: a line is no result.
    """
    results = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                value = msgspec.json.decode(line)
            except UNREADABLE as error:
                raise InputError(f"{path}:{number}: {error}") from None
            if not isinstance(value, dict) or value.get("unisono") != "run":
                raise InputError(f"{path}:{number}: the line is no result of a run")
            if value.get("version") != VERSION:
                raise InputError(f"{path}:{number}: version {value.get('version')!r} is not known")
            results.append(value)
    if not results:
        raise InputError(f"{path}: there are no results in the file")
    return results


def numbers(result: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """All metrics of a result with their path, such as ``jct.mean``."""
    for key, value in result.items():
        if not prefix and key in (*PAIRED, "unisono", "version", "config", "configHash", "nodes", "gpus", "censored"):
            continue
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{key}", float(value)


def read_jobs(path: Path) -> list[dict[str, Any]]:
    """Lines of a file that ``--jobs-out`` wrote.

    Raises:
        InputError: a line is no record of a job.
    """
    jobs = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                value = msgspec.json.decode(line)
            except UNREADABLE as error:
                raise InputError(f"{path}:{number}: {error}") from None
            if not isinstance(value, dict) or not {"name", "state", "queue", "gpus"} <= value.keys():
                raise InputError(f"{path}:{number}: the line is no record of a job")
            jobs.append({"evictions": 0, "failures": 0, **value})
    return jobs


_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Quantiles 0.975 of Student's t by degrees of freedom, from 1."""
_COARSE = ((40, 2.042), (60, 2.021), (120, 2.000), (10**9, 1.980))
"""Beyond the table: the value of the next smaller number of degrees of freedom, which is on the safe side."""


@dataclass(frozen=True, slots=True)
class Change:
    """How a metric differs.

    Attributes:
        metric: its path, such as ``jct.mean``.
        before: mean over workloads of the mean over a workload's pairs.
        after: the same of the second set.
        difference: of the workloads.
        pairs: of runs.
        distinct: how many pairs differ in this metric from all others of their workload; as many as there are workloads
            means that seeds change nothing.
    """

    metric: str
    before: float
    after: float
    difference: Interval
    pairs: int = 1
    distinct: int = 1

    @property
    def relative(self) -> float | None:
        """The difference as a share of what was before."""
        return self.difference.mean / abs(self.before) if self.before else None


def compare(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> list[Change]:
    """What differs from the first set of runs to the second, metric by metric.

    Raises:
        InputError: no run of one set has a partner in the other, or two runs of a set would be the same partner.
    """
    before, after = _by_pair(first), _by_pair(second)
    pairs = [pair for pair in before if pair in after]
    if not pairs:
        raise InputError("no two runs have the same workload, cluster and seed: there is nothing to compare")
    values: dict[str, dict[Any, list[tuple[float, float]]]] = {}
    for pair in pairs:
        ours, theirs = dict(numbers(before[pair])), dict(numbers(after[pair]))
        for metric in ours.keys() & theirs.keys():
            values.setdefault(metric, {}).setdefault(pair[0], []).append((ours[metric], theirs[metric]))
    changes = []
    for metric in dict(numbers(before[pairs[0]])):
        workloads = list(values.get(metric, {}).values())
        if not workloads:
            continue
        means = [(fmean(one for one, _ in each), fmean(other for _, other in each)) for each in workloads]
        changes.append(
            Change(
                metric,
                fmean(one for one, _ in means),
                fmean(other for _, other in means),
                interval([other - one for one, other in means]),
                pairs=sum(len(each) for each in workloads),
                distinct=sum(len(set(each)) for each in workloads),
            )
        )
    return changes


def _by_pair(results: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    results_by_pair: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for result in results:
        pair = tuple(result.get(name) for name in PAIRED)
        if pair in results_by_pair:
            description = ", ".join(f"{name} {value}" for name, value in zip(PAIRED, pair, strict=True))
            raise InputError(f"two runs have {description}: compare files with one configuration each")
        results_by_pair[pair] = result
    return results_by_pair


def as_json(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """For programs; docs/simulator.md gives the form."""
    return [
        {
            "metric": change.metric,
            "before": change.before,
            "after": change.after,
            "difference": change.difference.mean,
            "interval": change.difference.half,
            "workloads": change.difference.count,
            "pairs": change.pairs,
            "distinct": change.distinct,
            "clear": change.difference.clear,
        }
        for change in changes
    ]


# ---- jobs


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job that fared otherwise: seconds by which it started and ended later, and what it was that differed."""

    name: str
    queue: str
    gpus: float
    wait: float | None
    end: float | None
    why: str


def compare_jobs(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> list[JobChange]:
    """Jobs of two runs (lines that ``--jobs-out`` writes) that differ, those that win or lose most first."""
    others = {job["name"]: job for job in second}
    changes = []
    for job in first:
        other = others.get(job["name"])
        if other is None:
            continue
        wait, end = _later(job, other, "started"), _later(job, other, "ended")
        why = _why(job, other)
        if why:
            changes.append(JobChange(job["name"], job["queue"], job["gpus"], wait, end, why))
    changes.sort(key=lambda change: (-abs(change.end or change.wait or 0.0), change.name))
    return changes


def _later(job: Mapping[str, Any], other: Mapping[str, Any], key: str) -> float | None:
    one, two = job.get(key), other.get(key)
    return None if one is None or two is None else two - one


def _why(job: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first thing that differs, in words."""
    if job["state"] != other["state"]:
        return f"{job['state']} before, {other['state']} now"
    if job["evictions"] != other["evictions"]:
        return f"evicted pods: {job['evictions']} before, {other['evictions']} now"
    if job["failures"] != other["failures"]:
        return f"failures: {job['failures']} before, {other['failures']} now"
    started = _later(job, other, "started")
    if started:
        return "started later" if started > 0 else "started earlier"
    ended = _later(job, other, "ended")
    if ended:
        return "started at the same time and ran longer" if ended > 0 else "started at the same time and ran shorter"
    places = [[place["nodes"] for place in each.get("places", ())] for each in (job, other)]
    return "on other nodes" if places[0] != places[1] else ""


def jobs_as_json(changes: Sequence[JobChange]) -> list[dict[str, Any]]:
    """For programs."""
    return [
        {
            "name": change.name,
            "queue": change.queue,
            "gpus": change.gpus,
            "waitLonger": change.wait,
            "endLater": change.end,
            "why": change.why,
        }
        for change in changes
    ]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of so many values; ``half`` is half the width of its 95 % interval, None for a single value."""

    mean: float
    half: float | None
    count: int

    @property
    def clear(self) -> bool:
        """The interval does not hold 0."""
        return self.half is not None and abs(self.mean) > self.half


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % interval by Student's t; at least one value."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Interval(mean, None, count)
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Interval(mean, student(count - 1) * deviation / sqrt(count), count)


def student(freedom: int) -> float:
    """Quantile 0.975 of Student's t."""
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    return next(value for below, value in _COARSE if freedom < below)
