"""One cycle, from a snapshot to its decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unisono.cluster.snapshot import Snapshot
from unisono.engine.actions import run_actions
from unisono.engine.calendar import close_reservations, follow_calendar
from unisono.engine.closing.invariants import enforce
from unisono.engine.closing.status_updates import close, close_briefly
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.cycle.context import Cycle
from unisono.engine.decisions import Decisions
from unisono.engine.idle_gpus import follow_idle_gpus
from unisono.engine.plugin_host.stopwatch import Stopwatch
from unisono.engine.plugins.registry import lookup_with
from unisono.engine.relocation import relocate
from unisono.engine.session.book import close_promises, open_promises
from unisono.engine.session.calendar import as_of
from unisono.engine.verdict import Asked
from unisono.engine.verdicts.explain import explain
from unisono.engine.verdicts.other_names import for_readers


def decide(
    snapshot: Snapshot,
    config: SchedulerConfig,
    now: float,
    seed: int,
    plugins: Mapping[str, type[Plugin]],
    monotonic: Callable[[], float] | None,
    *,
    advice: bool,
    verdicts: bool | Asked,
) -> Decisions:
    """What `unisono.engine.run` says."""
    watch = Stopwatch(monotonic, config.plugin_time_limit)
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
            full_verdicts = explain(cycle, advice=advice, asked=asked)
            cycle.decisions.verdicts = for_readers(cycle, full_verdicts)
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
