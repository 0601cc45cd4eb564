"""Bounds that users write and only some scheduler configurations keep: what each takes, what its writer is told.

What is not in force is told, by the API when the object is written and by the scheduler at the PodGroup (pure).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from unisono.api import annotations as ours
from unisono.api import keys

FOR_WAITING: Final = frozenset(("preempt", "reclaim", "gangpreempt", "gangreclaim"))
"""Actions that evict pods to make room for jobs that wait."""
EVICTING: Final = FOR_WAITING | {"shuffle", "defragment"}
"""All actions that evict pods; without any, bounds on evictions hold by themselves."""


class Bound(NamedTuple):
    """What keeps one.

    Attributes:
        plugins: of which one has to be in force.
        evictions: it is one on evictions.
    """

    plugins: tuple[str, ...]
    evictions: bool = False


HARD_TOPOLOGY: Final = "networkTopology: hard"

OF_JOBS: Final[Mapping[str, Bound]] = {
    ours.ONE_OF: Bound(("one-of",)),
    ours.RESERVATION: Bound(("calendar",)),
    **dict.fromkeys((ours.NEAR, ours.APART, ours.SPREAD), Bound(("predicates",))),
    ours.RETRY_ELSEWHERE: Bound(("failed-nodes",)),
    ours.FAILED_NODES: Bound(("failed-nodes",)),
    ours.MIN_RUN_TIME: Bound(("eviction-guard",), evictions=True),
    keys.COOLDOWN_TIME: Bound(("cdp",), evictions=True),
    keys.SLA_WAITING_TIME: Bound(("sla",)),
    keys.NUMA_TOPOLOGY_POLICY: Bound(("numa-aware",)),
    keys.TASK_TOPOLOGY_AFFINITY: Bound(("task-topology",)),
    keys.TASK_TOPOLOGY_ANTI_AFFINITY: Bound(("task-topology",)),
    keys.TASK_TOPOLOGY_ORDER: Bound(("task-topology",)),
    HARD_TOPOLOGY: Bound(("network-topology-aware",)),
}
"""Labels and annotations of jobs, PodGroups and pods, and the hard bound on a gang's network."""

OF_QUEUES: Final[Mapping[str, Bound]] = {
    ours.USER_LIMITS: Bound(("user-limits",)),
    ours.HOT_SPARES: Bound(("hot-spares",)),
    ours.MAX_RUN_TIME: Bound(("calendar",)),
    ours.MIN_RUN_TIME: Bound(("eviction-guard",), evictions=True),
    ours.MAX_EVICTIONS: Bound(("eviction-guard",), evictions=True),
    ours.SHARE_WEIGHTS: Bound(("fair-share",)),
    keys.HIERARCHY: Bound(("drf",)),
    keys.NODE_GROUP_LIMITS: Bound(("nodegroup",)),
}
"""Annotations of Queues; `unisono.api.queues.NEEDS` has the fields of their spec."""

OF_KINDS: Final[Mapping[str, Bound]] = {
    "Reservation": Bound(("calendar",)),
    "NodeCheck": Bound(("node-checks",)),
    "Budget": Bound(("budgets",)),
}
"""Whole objects; of Budgets the soft ones."""


def in_vain(words: Iterable[str], bounds: Mapping[str, Bound], parts: Collection[str]) -> Iterator[tuple[str, str]]:
    """Those of ``words`` that are bounds and not in force, each with what to do.

    Args:
        words: keys or names.
        bounds: one of the tables.
        parts: names of the actions and plug-ins that are in force.
    """
    for word in words:
        bound = bounds.get(word)
        if bound is None or (bound.evictions and EVICTING.isdisjoint(parts)):
            continue
        if not any(plugin in parts for plugin in bound.plugins):
            yield word, f"list the plug-in {' or '.join(bound.plugins)}"


def parts_told(lease_annotations: Mapping[str, str] | None) -> frozenset[str] | None:
    """What a scheduler's Lease says is in force; None where it does not say it."""
    parts = (lease_annotations or {}).get(ours.CONFIGURATION_PARTS)
    return None if parts is None else frozenset(filter(None, parts.split(",")))
