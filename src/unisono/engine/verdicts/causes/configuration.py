"""The configuration of the scheduler places no pods."""

from __future__ import annotations

from unisono.engine.verdict import Cause
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.waiting import Waiting


def places_nothing(waiting: Waiting) -> Draft | None:
    """None of its actions places the job."""
    actions = waiting.cycle.config.actions
    if not waiting.pending or "allocate" in actions or ("backfill" in actions and waiting.job.pending_best_effort):
        return None
    names = ", ".join(actions) or "none"
    text = f"the configuration of the scheduler places no pods: its actions are {names}, without allocate"
    return waiting.simple(Cause.NOT_TRIED, text, "add allocate to the actions of its configuration")
