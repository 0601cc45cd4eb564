"""The scheduler: whether its parts are alive, what its configuration enforces, and how long its cycles take (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from unisono.api.annotations import SCHEDULER_CYCLES
from unisono.dashboard.views.overview import component_view
from unisono.dashboard.views.wire import Fact, SchedulerView, Timing
from unisono.sdk.components import components
from unisono.sdk.scheduler_health import trusted

if TYPE_CHECKING:
    from unisono.api.core import Lease

# Histograms of Volcano's names, in milliseconds, with the labels that tell their rows apart.
_TIMES = {
    "volcano_e2e_scheduling_latency_milliseconds": ("cycle", ()),
    "volcano_action_scheduling_latency_milliseconds": ("action", ("action",)),
    "volcano_plugin_scheduling_latency_milliseconds": ("plug-in", ("plugin", "OnSession")),
}


def scheduler_view(
    leases: Sequence[Lease],
    metrics: str,
    now: float,
    *,
    configuration: str = "",
    hidden: Sequence[str] = (),
    ready: bool = True,
) -> SchedulerView:
    """What is known of the scheduler.

    Args:
        leases: by which components tell that they are alive.
        metrics: in Prometheus' text format; empty where the viewer may not read them, or none are served.
        now: seconds since 1970.
        configuration: text of it, where the viewer may read it.
        hidden: kinds that the viewer may not see; without leases it is not known which components are alive.
        ready: everything was listed once.

    """
    families = _families(metrics)
    return SchedulerView(
        ready=ready,
        components=[component_view(each) for each in components(leases, now, seen="leases" not in hidden)[1:]],
        facts=list(_facts(leases)),
        times=timings(families),
        metrics=bool(families),
        violations=_violations(families),
        configuration=configuration,
        hidden=[kind for kind in hidden if kind == "leases"],
    )


def _families(metrics: str) -> list[Metric]:
    """What a text of metrics says; nothing of a text that is none."""
    try:
        return list(text_string_to_metric_families(metrics))
    except ValueError:
        return []


def timings(families: Iterable[Metric]) -> list[Timing]:
    """How often and how long each part of a cycle has run, what takes longest together first."""
    sums: dict[tuple[str, str], float] = {}
    counts: dict[tuple[str, str], float] = {}
    buckets: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for family in families:
        if family.name not in _TIMES:
            continue
        kind, labels = _TIMES[family.name]
        for sample in family.samples:
            row = kind, " ".join(sample.labels.get(label, "") for label in labels)
            if sample.name.endswith("_sum"):
                sums[row] = sample.value
            elif sample.name.endswith("_count"):
                counts[row] = sample.value
            elif sample.name.endswith("_bucket"):
                buckets[row].append((float(sample.labels["le"]), sample.value))
    order = [kind for kind, _ in _TIMES.values()]
    rows = sorted(
        (row for row, count in counts.items() if count),
        key=lambda row: (order.index(row[0]), -sums.get(row, 0.0), row[1]),
    )
    return [
        Timing(
            kind=row[0],
            name=row[1],
            count=int(counts[row]),
            mean=sums.get(row, 0.0) / counts[row],
            most=_most(buckets[row], counts[row]),
        )
        for row in rows
    ]


def _most(buckets: list[tuple[float, float]], count: float) -> float:
    """The bound that 99 of 100 are within; 0 where the last bucket, which has none, is needed."""
    return next((bound for bound, below in sorted(buckets) if below >= 0.99 * count and bound != float("inf")), 0.0)


def _violations(families: Iterable[Metric]) -> int:
    return sum(
        int(sample.value)
        for family in families
        for sample in family.samples
        if sample.name == "unisono_scheduler_violations_total"
    )


def _facts(leases: Iterable[Lease]) -> Iterable[Fact]:
    """What schedulers say of themselves on their Leases."""
    for lease in trusted(lease for lease in leases if SCHEDULER_CYCLES in (lease.metadata.labels or {})):
        for name, value in sorted((lease.metadata.annotations or {}).items()):
            yield Fact(name=name.rpartition("/")[2].replace("-", " "), text=value)
