"""Decisions, pure: session, transaction, actions, plug-ins and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.cluster.snapshot import Snapshot
    from unisono.engine.config import SchedulerConfig
    from unisono.engine.decisions import Decisions
    from unisono.engine.plugin import Plugin

__all__ = ["run"]


def run(
    snapshot: Snapshot,
    config: SchedulerConfig,
    now: float,
    seed: int = 0,
    *,
    plugins: Mapping[str, type[Plugin]] | None = None,
) -> Decisions:
    """Decide one cycle.

    Args:
        snapshot: the cluster; not changed (its memo is filled).
        config: actions and plug-ins.
        now: seconds since the epoch.
        seed: for plug-ins that use randomness; the engine itself uses none.
        plugins: plug-ins by name, looked up before the registry.

    Returns:
        decisions that depend on nothing but the arguments.

    """
    from unisono.engine.close import close
    from unisono.engine.cycle import Cycle
    from unisono.engine.explain import explain
    from unisono.engine.hooks import lookup_with
    from unisono.engine.invariants import enforce

    cycle = Cycle(snapshot, config, now, seed, lookup_with(plugins or {}))
    for name in config.actions:
        cycle.run_action(name)
    cycle.hooks.close(cycle.session)
    enforce(cycle)
    cycle.write_out()
    verdicts = explain(cycle)
    close(cycle, verdicts)
    cycle.decisions.verdicts = verdicts
    cycle.decisions.violations += cycle.hooks.failures
    return cycle.decisions
