"""The scheduler: whether its parts are alive, what its configuration enforces, and how long its cycles take (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from unisono.api.annotations import SCHEDULER_CYCLES
from unisono.dashboard.views.overview import component_view
from unisono.dashboard.views.wire import Fact, SchedulerView, Timing
from unisono.sdk.overview import Found, overview

if TYPE_CHECKING:
    from unisono.api.core import Lease

# Histograms of Volcano's names, in milliseconds, with the labels that tell their rows apart.
_TIMES = {
    "volcano_e2e_scheduling_latency_milliseconds": ("cycle", ()),
    "volcano_action_scheduling_latency_milliseconds": ("action", ("action",)),
    "volcano_plugin_scheduling_latency_milliseconds": ("plug-in", ("plugin", "OnSession")),
}


def scheduler_view(found: Found, metrics: str, now: float, *, ready: bool = True) -> SchedulerView:
    """What is known of the scheduler.

    Args:
        found: what the viewer may see; its Leases tell who is alive.
        metrics: in Prometheus' text format; empty where the viewer may not read them, or none are served.
        now: seconds since 1970.
        ready: everything was listed once.

    """
    alone = Found("", [], [], [], [], found.leases)
    return SchedulerView(
        ready=ready,
        components=[component_view(each) for each in overview(alone, now).components[1:]],
        facts=list(_facts(found.leases)),
        times=timings(metrics),
    )


def timings(metrics: str) -> list[Timing]:
    """How often and how long each part of a cycle has run; nothing of a text that is none."""
    sums: dict[tuple[str, str], float] = {}
    counts: dict[tuple[str, str], float] = {}
    try:
        for family in text_string_to_metric_families(metrics):
            if family.name not in _TIMES:
                continue
            kind, labels = _TIMES[family.name]
            for sample in family.samples:
                row = kind, " ".join(sample.labels.get(label, "") for label in labels)
                if sample.name.endswith("_sum"):
                    sums[row] = sample.value
                elif sample.name.endswith("_count"):
                    counts[row] = sample.value
    except ValueError:
        return []
    rows = [(kind, name, count, sums.get((kind, name), 0.0)) for (kind, name), count in counts.items() if count]
    order = [kind for kind, _ in _TIMES.values()]
    rows.sort(key=lambda row: (order.index(row[0]), -row[3], row[1]))
    return [Timing(kind=kind, name=name, count=int(count), mean=total / count) for kind, name, count, total in rows]


def _facts(leases: Iterable[Lease]) -> Iterable[Fact]:
    """What schedulers say of themselves on their Leases."""
    for lease in leases:
        if SCHEDULER_CYCLES in (lease.metadata.labels or {}):
            for name, value in sorted((lease.metadata.annotations or {}).items()):
                yield Fact(name=name.rpartition("/")[2].replace("-", " "), text=value)
