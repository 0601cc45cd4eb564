"""Its pods have places on resources that are being released."""

from __future__ import annotations

from msgspec import structs

from unisono.api.messages import counted
from unisono.cluster.status import TaskStatus
from unisono.engine.changes import WaitFor
from unisono.engine.verdict import Cause
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.releasing_pods import leaving, names_text, pods_as_holders
from unisono.engine.verdicts.waiting import Waiting


def promised(waiting: Waiting) -> Draft | None:
    """It starts by itself when others have ended."""
    job = waiting.job
    number = job.counts[TaskStatus.PIPELINED]
    if not number or waiting.report.gate is not None:
        return None
    text = f"{number} of {counted(job.size, 'pod')} {'has' if number == 1 else 'have'} a place on resources"
    text += " that are being released"
    victims = leaving(waiting.cycle, job)
    if victims:
        text += f"; they start when {names_text(victims)} {'has' if len(victims) == 1 else 'have'} ended"
    verdict = waiting.simple(Cause.WAITING_FOR_VICTIMS, text).verdict
    keys = tuple(task.key for task in victims)
    return Draft(structs.replace(verdict, holders=pods_as_holders(victims)), [[WaitFor(keys)]] if keys else [])
