"""What of a scheduler's configuration acts in a simulated world as it acts live, and what cannot.

A simulated cluster has nodes, topology, queues, jobs and their users; no measured load, no objects beside these, and no
services to ask. An action or plug-in that goes by something else would do nothing, so it is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unisono.api import annotations as ours
from unisono.api import keys
from unisono.api.bounds import FOR_WAITING
from unisono.engine.config.model import SchedulerConfig
from unisono.errors import ConfigError

LIVE_RECHECK: Final = 30.0
"""Seconds after which the running scheduler looks again at jobs that wait."""

MISSING: Final[Mapping[str, str]] = {
    "usage": "the measured load of nodes",
    "extender": "a service that is asked over HTTP",
    "numa-aware": "Numatopologies of nodes",
    "resourcequota": "ResourceQuotas of namespaces",
    "pdb": "PodDisruptionBudgets",
    "cluster-preference": "member clusters of a fleet",
    "node-checks": "checks of nodes",
}
"""Plug-ins that go by what a simulated world does not have, and what that is."""

ACTING: Final = frozenset(
    (
        *("priority", "gang", "conformance", "drf", "proportion", "capacity", "overcommit", "predicates", "nodeorder"),
        *("binpack", "network-topology-aware", "deviceshare", "fragmentation", "gpu-aware", "gpu-placement"),
        *("service-order", "sla", "nodegroup", "tdm", "resource-strategy-fit", "reservation", "eviction-guard"),
        *("rescheduling", "cost", "fair-share", "user-limits", "cdp", "task-topology", "failed-nodes", "calendar"),
        *("hot-spares", "budgets", "one-of"),
    )
)
"""Plug-ins that act as they do live."""

ACTIONS: Final = frozenset(
    (
        *("enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim"),
        *("shuffle", "defragment"),
    )
)
"""Actions that act as they do live."""

QUEUE_NOTES: Final = frozenset(
    (
        *(keys.HIERARCHY, keys.HIERARCHY_WEIGHTS, keys.NODE_GROUP_LIMITS),
        *(ours.USER_LIMITS, ours.SHARE_WEIGHTS, ours.MIN_RUN_TIME, ours.MAX_EVICTIONS, ours.EVICTABLE),
        *(ours.MAX_RUN_TIME, ours.DEFAULT_RUN_TIME, ours.HOT_SPARES),
    )
)
"""Annotations of queues by which a simulation goes."""

JOB_NOTES: Final = frozenset(
    (
        *(keys.COOLDOWN_TIME, keys.REVOCABLE_ZONE, keys.PREEMPTABLE, keys.JDB_MIN_AVAILABLE, keys.JDB_MAX_UNAVAILABLE),
        *(keys.TASK_TOPOLOGY_AFFINITY, keys.TASK_TOPOLOGY_ANTI_AFFINITY, keys.TASK_TOPOLOGY_ORDER),
        *(keys.SLA_WAITING_TIME, keys.SCORING_TYPE, keys.SCORING_WEIGHT, keys.TASK_PRIORITY),
        *(ours.MIN_RUN_TIME, ours.EVICTABLE, ours.FAILED_NODES, ours.RESERVATION, ours.LICENSES),
        *(ours.ONE_OF, ours.ONE_OF_BY, ours.NEAR, ours.APART, ours.SPREAD),
    )
)
"""Annotations of jobs, and so of their PodGroups and pods, by which a simulation goes."""

NODE_NOTES: Final = frozenset((ours.PRICES,))
"""Annotations of nodes by which a simulation goes."""

_OWN_DOMAINS = frozenset(("volcano.sh", "scheduling.volcano.sh", "unisono.io"))
_BY_CLOCK = frozenset(("sla", "tdm", "defragment", "shuffle"))
_EVICTIONS_BY_CLOCK = frozenset(("eviction-guard", "cdp"))
_SAVED_WORK = frozenset(("eviction-guard", "defragment"))


def refuse_missing(config: SchedulerConfig, name: str) -> None:
    """Refuse a configuration of which a part would be ignored.

    Args:
        config: of the scheduler.
        name: of its file, for messages.

    Raises:
        ConfigError: it names all such actions and plug-ins, and what each of them lacks.
    """
    # What takes part only where it is needed is not needed here.
    needed = [one for one in config.plugins if not one.arguments.get(f"{one.name}.AutoEnable")]
    lacking = [f"plug-in {one.name} goes by {MISSING[one.name]}" for one in needed if one.name in MISSING]
    for one in config.plugins:
        strategies = one.arguments.get("strategies") if one.name == "rescheduling" else None
        named = [entry.get("name") for entry in strategies or () if isinstance(entry, Mapping)]
        if "lowNodeUtilization" in named:
            lacking.append("strategy lowNodeUtilization of rescheduling goes by the measured load of nodes")
    if lacking:
        raise ConfigError(
            f"a simulation has nothing of what this configuration needs: {'; '.join(lacking)}. Take it out of the "
            "configuration: what is left is decided as on a live cluster without it",
            file=name,
        )


def unknown_note(annotations: Mapping[str, str], known: frozenset[str]) -> str:
    """What is wrong with the first annotation of Volcano's or Unisono's own by which a simulation does not go.

    Annotations of others are nothing that a scheduler goes by. Empty when all are in order.
    """
    for key in annotations:
        if key.partition("/")[0] in _OWN_DOMAINS and key not in known:
            return f"a simulation does not go by {key}; it goes by {', '.join(sorted(known))}"
    return ""


def recheck_seconds(config: SchedulerConfig) -> float:
    """After how many quiet seconds the clock alone may change a decision; 0.0: never."""
    named = {*config.actions, *(one.name for one in config.plugins)}
    evicts = not FOR_WAITING.isdisjoint(named)
    by_clock = _BY_CLOCK | (_EVICTIONS_BY_CLOCK if evicts else frozenset())
    return LIVE_RECHECK if not by_clock.isdisjoint(named) else 0.0


def goes_by_saved_work(config: SchedulerConfig) -> bool:
    """Whether decisions look at when running jobs last saved their work."""
    return not _SAVED_WORK.isdisjoint({*config.actions, *(one.name for one in config.plugins)})
