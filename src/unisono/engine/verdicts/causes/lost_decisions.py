"""The engine had decided, or could not: dropped decisions, refused binds, failed plug-ins."""

from __future__ import annotations

from unisono.api.times import rfc3339
from unisono.cluster.recent import Setback
from unisono.engine.verdict import Cause
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.waiting import Waiting


def dropped(waiting: Waiting) -> Draft | None:
    """Its placements broke an invariant."""
    what = waiting.report.dropped
    return waiting.simple(Cause.INVARIANT, f"the decision was dropped: {what}") if what else None


def refused_binds(waiting: Waiting) -> Draft | None:
    """Its binds failed lately."""
    setback = waiting.report.setback
    if setback is None:
        return None
    return waiting.simple(Cause.PLUGIN_FAILED if setback.plugin else Cause.BIND_FAILED, _told(setback))


def failed_plugin(waiting: Waiting) -> Draft | None:
    """A plug-in failed when it was asked about the job."""
    cycle, job = waiting.cycle, waiting.job
    failure = cycle.hooks.failure_of(job)
    if failure is None:
        return None
    message = failure.message(f"job {job.key}")
    if failure.plugin not in cycle.hooks.failed:
        cycle.decisions.failed_jobs[job.key] = message
    return waiting.simple(Cause.PLUGIN_FAILED, message)


def _told(setback: Setback) -> str:
    if setback.plugin:
        return f"{setback.why} ({setback.failures} times in a row); tried again at {rfc3339(setback.until)}"
    times = "once" if setback.failures == 1 else f"{setback.failures} times in a row"
    return f"binding failed {times}, the last time on {setback.why}; tried again at {rfc3339(setback.until)}"
