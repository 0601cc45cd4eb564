"""Lower bounds of mean job completion time and makespan, for schedulers that neither share GPUs nor resize jobs.

The cluster is replaced by one machine as fast as all of its GPUs together, on which the job with least work left runs,
preempted at will (shortest remaining processing time). Its mean flow time is at most that of any schedule of the jobs.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

Work = tuple[float, float, float]
"""Arrival and run time in seconds, and GPUs."""


def mean_completion(jobs: Sequence[Work], gpus: float) -> float:
    """Least mean time in seconds from arrival to end on a cluster of so many GPUs.

    Raises:
        ValueError: there are no jobs, or no GPUs.

    """
    if not jobs or gpus <= 0:
        raise ValueError("a bound needs jobs and GPUs")
    alone = sum(seconds for _, seconds, _ in jobs) / len(jobs)
    return max(alone, _squashed(jobs, gpus))


def _squashed(jobs: Sequence[Work], gpus: float) -> float:
    """Mean flow time of shortest remaining work first on one machine of speed ``gpus``."""
    left: list[tuple[float, float]] = []
    now = total = 0.0
    for arrival, seconds, width in (*sorted(jobs), (float("inf"), 0.0, 0.0)):
        while left and now < arrival:
            work, began = heapq.heappop(left)
            ends = now + work / gpus
            if ends > arrival:
                heapq.heappush(left, (work - (arrival - now) * gpus, began))
                now = arrival
            else:
                now = ends
                total += now - began
        if arrival < float("inf"):
            now = max(now, arrival)
            heapq.heappush(left, (seconds * width, arrival))
    return total / len(jobs)


def makespan(jobs: Sequence[Work], gpus: float) -> float:
    """Least time in seconds from the first arrival to the last end.

    No job ends before it has run, and what arrives from some moment on cannot be done faster than by all GPUs.
    """
    if not jobs or gpus <= 0:
        raise ValueError("a bound needs jobs and GPUs")
    first = min(arrival for arrival, _, _ in jobs)
    longest = max(arrival + seconds for arrival, seconds, _ in jobs)
    work = packed = 0.0
    for arrival, seconds, width in sorted(jobs, reverse=True):
        work += seconds * width
        packed = max(packed, arrival + work / gpus)
    return max(longest, packed) - first
