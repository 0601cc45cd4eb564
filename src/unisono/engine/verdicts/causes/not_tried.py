"""The cycle ended before the job's turn."""

from __future__ import annotations

from unisono.engine.verdict import Cause
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.waiting import Waiting


def end_of_cycle(waiting: Waiting) -> Draft:
    """Nothing else is known."""
    return waiting.simple(Cause.NOT_TRIED, "the cycle ended before the job's turn")
