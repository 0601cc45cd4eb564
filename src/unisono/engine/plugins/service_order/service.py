"""Service: what a job asks for times how long it has run, and the levels that it passes through as it runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import floor, log
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.keys import GPU_COUNT, GPU_MILLI, NVIDIA_GPU

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

_SIZE = "service-order.size"


def gpus_of(amounts: Mapping[str, int]) -> float:
    """GPUs among amounts in the engine's units, parts counted as such."""
    whole = amounts.get(NVIDIA_GPU, 0) / 1000
    return whole + amounts.get(GPU_MILLI, 0) / 1_000_000 * max(amounts.get(GPU_COUNT, 0) / 1000, 1)


def size_of(job: JobState) -> tuple[float, bool]:
    """GPUs of all its pods, and whether it asks for any; cores (1 at least) where it does not."""
    found: tuple[float, bool] | None = job.record.derived.get(_SIZE)
    if found is None:
        gpus = cores = 0.0
        for task in job.record.tasks.values():
            asked = task.pod_class.requests
            gpus += gpus_of(asked)
            cores += asked.get("cpu", 0) / 1000
        found = job.record.derived[_SIZE] = (gpus, True) if gpus else (max(cores, 1.0), False)
    return found


def capacity_of(session: Session, *, gpus: bool) -> tuple[float, float]:
    """GPUs, or cores, of all nodes that can be used, and the most of any node."""
    total, nodes, registry = session.usable_total, session.nodes.allocatable, session.registry
    units = {NVIDIA_GPU: 1000, GPU_MILLI: 1_000_000} if gpus else {"cpu": 1000}
    there = 0.0
    each = np.zeros(session.nodes.size)
    for name, unit in units.items():
        row = registry.find(name)
        if row is not None and row < len(total):
            there += int(total[row]) / unit
            each += nodes[row] / unit
    return there, float(each.max(initial=0.0))


class Levels:
    """Levels of service, each of which ends where the next one begins.

    Args:
        ends: GPU-seconds at which levels end, growing; the last level has no end.
        factor: how many times as far each level after ``ends`` reaches as the one before; 0.0: there are none.

    """

    def __init__(self, ends: Sequence[float], factor: float = 0.0) -> None:
        self.ends, self.factor = tuple(ends), factor

    def of(self, service: float) -> int:
        """The level of a job that has had so much, 0 for the first."""
        level = bisect_right(self.ends, service)
        if not self.factor or level < len(self.ends):
            return level
        return level + floor(log(service / self.ends[-1], self.factor))
