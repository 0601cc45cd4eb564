"""Decisions, pure: session, transaction, actions, plug-ins and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.cluster.snapshot import Snapshot
    from unisono.engine.config.model import SchedulerConfig
    from unisono.engine.contract.plugin import Plugin
    from unisono.engine.decisions import Decisions
    from unisono.engine.plugin_host.stopwatch import Stopwatch
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
    from unisono.engine.plugin_host.stopwatch import Stopwatch

    watch = Stopwatch(monotonic, config.plugin_time_limit)
    return _decide(snapshot, config, now, seed, plugins or {}, watch, advice=advice, verdicts=verdicts)


def _decide(
    snapshot: Snapshot,
    config: SchedulerConfig,
    now: float,
    seed: int,
    plugins: Mapping[str, type[Plugin]],
    watch: Stopwatch,
    *,
    advice: bool,
    verdicts: bool | Asked,
) -> Decisions:
    from unisono.engine.actions import run_actions
    from unisono.engine.calendar import close_reservations, follow_calendar
    from unisono.engine.closing.invariants import enforce
    from unisono.engine.closing.status_updates import close, close_briefly
    from unisono.engine.cycle.context import Cycle
    from unisono.engine.idle_gpus import follow_idle_gpus
    from unisono.engine.plugins.registry import lookup_with
    from unisono.engine.relocation import relocate
    from unisono.engine.session.book import close_promises, open_promises
    from unisono.engine.session.calendar import as_of
    from unisono.engine.verdict import Asked
    from unisono.engine.verdicts.explain import explain
    from unisono.engine.verdicts.other_names import for_readers

    with watch.stage("open"):
        snapshot, changes_at = as_of(snapshot, now)
        open_promises(snapshot, now)
        cycle = Cycle(snapshot, config, now, seed, lookup_with(plugins), watch, reasons=bool(verdicts))
    run_actions(cycle)
    again_at = close_promises(snapshot, now, cycle.jobs)
    if cycle.session.book.hopeful:
        cycle.decisions.again_at = again_at
    if changes_at is not None:
        cycle.wake(changes_at)
    relocate(cycle)
    follow_calendar(cycle)
    follow_idle_gpus(cycle)
    cycle.hooks.close(cycle.session)
    with watch.stage("check"):
        enforce(cycle)
        cycle.write_out()
    cycle.decisions.explained = bool(verdicts)
    asked = verdicts if isinstance(verdicts, Asked) else None
    if verdicts:
        with watch.stage("explain"):
            found = explain(cycle, advice=advice, asked=asked)
            cycle.decisions.verdicts = for_readers(cycle, found)
        with watch.stage("close"):
            close(cycle, cycle.decisions.verdicts, asked)
            close_reservations(cycle)
    else:
        with watch.stage("close"):
            close_briefly(cycle)
    cycle.decisions.violations += cycle.hooks.violations()
    cycle.decisions.plugin_failures = cycle.hooks.guard.failures
    cycle.decisions.plugins_off = sorted(cycle.hooks.failed)
    cycle.decisions.seconds = watch.seconds
    cycle.end()
    return cycle.decisions
