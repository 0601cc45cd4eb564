"""The configuration of the scheduler places no pods, or none that request nothing."""

from __future__ import annotations

from unisono.engine.verdict import Cause
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.waiting import Waiting


def places_nothing(waiting: Waiting) -> Draft | None:
    """None of its actions places the job's pods: `allocate` takes gangs that request something, `backfill` the rest."""
    actions, idle = waiting.cycle.config.actions, waiting.job.pending_best_effort
    if not waiting.pending or ("backfill" in actions and idle):
        return None
    names = ", ".join(actions) or "none"
    if "allocate" not in actions:
        text = f"the configuration of the scheduler places no pods: its actions are {names}, without allocate"
        return waiting.simple(Cause.NOT_TRIED, text, "add allocate to the actions of its configuration")
    if idle < waiting.pending:
        return None
    text = "the configuration of the scheduler places no pods that request nothing, as the job's do"
    help_ = "add backfill to the actions of its configuration, or let its pods request some cpu"
    return waiting.simple(Cause.NOT_TRIED, f"{text}: its actions are {names}, without backfill", help_)
