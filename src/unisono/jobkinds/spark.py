"""Spark's applications, which Spark's own operator runs: a driver, which makes the executors once it runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from unisono.jobkinds.kind import NOTE, JobKind, PodSet, noted
from unisono.jobkinds.paths import first
from unisono.jobkinds.tables import FlagTable, StateTable, Table, family, number, pod_spec, quantity

_ROLES: Final = ("driver", "executor")
_DEFAULT_EXECUTORS: Final = 2
_MEBI: Final = {"": 1, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
_MEMORY: Final = re.compile(r"(\d{1,12})\s*([kmgt]?)b?", re.IGNORECASE)
_LEAST_OVERHEAD: Final = 384
_FACTORS: Final = {"Java": 0.1, "Scala": 0.1}
_OTHER_FACTOR: Final = 0.4
_PHASES: Final = {
    "Completed": ["COMPLETED"],
    "Failed": ["FAILED"],
    "Running": ["RUNNING", "SUCCEEDING", "FAILING"],
    "Restarting": ["SUBMISSION_FAILED", "PENDING_RERUN", "INVALIDATING"],
    "Suspended": ["SUSPENDED", "SUSPENDING"],
}


def _pods(at: str, obj: Any) -> Iterator[PodSet]:
    """The driver, and the executors that it makes; ``at`` leads to the application's spec."""
    for role in _ROLES:
        place = f"{at}.{role}"
        requests = {"cpu": _cpu(obj, place), "memory": _memory(obj, at, place)}
        if device := first(obj, f"{place}.gpu.name"):
            requests[str(device)] = quantity(first(obj, f"{place}.gpu.quantity"), "kubernetes")
        count = 1 if role == "driver" else _executors(obj, at)
        spec = pod_spec(first(obj, f"{place}.template.spec"), {name: each for name, each in requests.items() if each})
        later = role == "executor"
        yield PodSet(role, count, spec, 0 if later else count, later)


def _executors(obj: Any, at: str) -> int:
    """As many as there are from the start: with dynamic allocation there may be more later."""
    instances = number(first(obj, f"{at}.executor.instances"), _DEFAULT_EXECUTORS)
    dynamic = f"{at}.dynamicAllocation"
    if first(obj, f"{dynamic}.enabled") is not True:
        return instances
    stated = number(first(obj, f"{at}.executor.instances"), 0)
    return max(stated, *(number(first(obj, f"{dynamic}.{each}"), 0) for each in ("initialExecutors", "minExecutors")))


def _cpu(obj: Any, place: str) -> str:
    for name in ("coreRequest", "cores", "coreLimit"):
        if amount := quantity(first(obj, f"{place}.{name}"), "kubernetes"):
            return amount
    return "1"


def _memory(obj: Any, at: str, place: str) -> str:
    """Memory and what the operator adds to it, in the units of Java: ``512m`` are MiB."""
    own = _mebi(first(obj, f"{place}.memory")) or 1024
    more = _mebi(first(obj, f"{place}.memoryOverhead"))
    if more is None:
        stated = first(obj, f"{at}.memoryOverheadFactor")
        try:
            factor = float(stated)
        except (TypeError, ValueError):
            factor = _FACTORS.get(str(first(obj, f"{at}.type") or "Scala"), _OTHER_FACTOR)
        more = max(_LEAST_OVERHEAD, math.ceil(own * factor)) if 0 <= factor <= 10 else _LEAST_OVERHEAD
    return f"{own + more}Mi"


def _mebi(text: Any) -> int | None:
    match = _MEMORY.fullmatch(str(text).strip()) if isinstance(text, str | int) else None
    return math.ceil(int(match[1]) * _MEBI[match[2].lower()]) if match is not None else None


def _table(kind: str, plural: str, at: str, **more: Any) -> Table:
    """Driver and executor have annotations without metadata, and templates besides."""
    roles = tuple(f"{at}.{each}" for each in _ROLES)
    notes = tuple(f"{each}.{NOTE.removeprefix('metadata.')}" for each in roles)
    templates = [f"{each}.template" for each in roles]
    return Table(
        group="sparkoperator.k8s.io",
        version="v1beta2",
        kind=kind,
        plural=plural,
        templates=templates,
        queues=[f"{at}.batchSchedulerOptions.queue", *notes, *noted(*templates)],
        priorities=[f"{at}.batchSchedulerOptions.priorityClassName"],
        suspend=FlagTable(path="spec.suspend"),
        **more,
    )


_APPLICATION, _SCHEDULED = family(
    _table(
        "SparkApplication",
        "sparkapplications",
        "spec",
        replicas="spec.executor.instances",
        ended=StateTable(
            path="status.applicationState.state", phases=_PHASES, message="status.applicationState.errorMessage"
        ),
        pods_label="sparkoperator.k8s.io/app-name",
        part_label="spark-role",
        one_group=True,
    ),
    _table(
        "ScheduledSparkApplication",
        "scheduledsparkapplications",
        "spec.template",
        makes=["sparkapplications.sparkoperator.k8s.io"],
        own_pods=False,
    ),
)
SPARK: Final[tuple[JobKind, ...]] = (
    replace(_APPLICATION, pods=partial(_pods, "spec"), fleet="whole"),
    replace(_SCHEDULED, pods=partial(_pods, "spec.template")),
)
