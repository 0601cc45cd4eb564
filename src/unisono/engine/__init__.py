"""Decisions, pure: session, transaction, actions, plug-ins and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.cluster.snapshot import Snapshot
    from unisono.engine.config.model import SchedulerConfig
    from unisono.engine.contract.plugin import Plugin
    from unisono.engine.decisions import Decisions
    from unisono.engine.verdict import Asked

__all__ = ["run"]


def run(
    snapshot: Snapshot,
    config: SchedulerConfig,
    now: float,
    seed: int = 0,
    *,
    plugins: Mapping[str, type[Plugin]] | None = None,
    monotonic: Callable[[], float] | None = None,
    advice: bool = True,
    verdicts: bool | Asked = True,
) -> Decisions:
    """Decide one cycle.

    A cycle makes many small objects. A long-lived program should pause the garbage collector around the call
    (`unisono.gc_pauses.collector_paused`), as the scheduler does.

    Args:
        snapshot: the cluster; not changed (its memo is filled).
        config: actions and plug-ins.
        now: seconds since the epoch.
        seed: for plug-ins that use randomness; the engine itself uses none.
        plugins: plug-ins by name, looked up before the registry.
        monotonic: seconds that only grow: fills ``Decisions.seconds``, and holds plug-ins that are not built in to
            their time limit.
        advice: try what would start waiting jobs; without it suggestions are words only, and verdicts cost less.
        verdicts: explain what waits; without it binds, evictions, phases and nominations are the same, and there are
            no verdicts, conditions, queue statuses and figures. Most of a cycle's time goes into them where much waits.
            With `Asked` only some jobs have verdicts and conditions, and all else is as without.

    Returns:
        decisions that depend on nothing but the arguments (with a clock, also on which plug-ins were too slow).
    """
    from unisono.engine.one_cycle import decide  # imported here, as the engine is large and many import only its types

    return decide(snapshot, config, now, seed, plugins or {}, monotonic, advice=advice, verdicts=verdicts)
