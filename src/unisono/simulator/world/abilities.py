"""What of a scheduler's configuration acts in a simulated world as it acts live, and what cannot.

A simulated cluster has nodes, topology, queues, jobs and their users; no measured load, no objects beside these, and no
services to ask. An action or plug-in that goes by something else would do nothing, so it is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
    "cdp": "annotations of pods with the time for which they may not be evicted",
    "task-topology": "annotations of jobs on which tasks stand together",
    "cluster-preference": "member clusters of a fleet",
}
"""Plug-ins that go by what a simulated world does not have, and what that is."""

ACTING: Final = frozenset(
    (
        *("priority", "gang", "conformance", "drf", "proportion", "capacity", "overcommit", "predicates", "nodeorder"),
        *("binpack", "network-topology-aware", "deviceshare", "fragmentation", "gpu-aware", "gpu-placement"),
        *("service-order", "sla", "nodegroup", "tdm", "resource-strategy-fit", "reservation", "eviction-guard"),
        *("rescheduling", "cost", "fair-share", "user-limits"),
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

_BY_CLOCK = frozenset(("sla", "tdm", "defragment", "shuffle"))
_EVICTIONS_BY_CLOCK = frozenset(("eviction-guard",))
_EVICTING = frozenset(("preempt", "reclaim", "gangpreempt", "gangreclaim"))
_SAVED_WORK = frozenset(("eviction-guard", "defragment"))


def refuse_missing(config: SchedulerConfig, name: str) -> None:
    """Refuse a configuration of which a part would be ignored.

    Args:
        config: of the scheduler.
        name: of its file, for messages.

    Raises:
        ConfigError: it names all such actions and plug-ins, and what each of them lacks.

    """
    lacking = [f"plug-in {one.name} goes by {MISSING[one.name]}" for one in config.plugins if one.name in MISSING]
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


def recheck_seconds(config: SchedulerConfig) -> float:
    """After how many quiet seconds the clock alone may change a decision; 0.0: never."""
    named = {*config.actions, *(one.name for one in config.plugins)}
    evicts = not _EVICTING.isdisjoint(named)
    by_clock = _BY_CLOCK | (_EVICTIONS_BY_CLOCK if evicts else frozenset())
    return LIVE_RECHECK if not by_clock.isdisjoint(named) else 0.0


def goes_by_saved_work(config: SchedulerConfig) -> bool:
    """Whether decisions look at when running jobs last saved their work."""
    return not _SAVED_WORK.isdisjoint({*config.actions, *(one.name for one in config.plugins)})
