"""Something that the pods require exists nowhere: more important than what is free, or left of a limit."""

from __future__ import annotations

from unisono.cluster.records import Task
from unisono.engine.cycle.reports import JobReport
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.causes.no_node import without_node
from unisono.engine.verdicts.claim_causes import absent_claims, ways_out
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.filter_causes import allowed_nowhere
from unisono.engine.verdicts.limits import LIMITS
from unisono.engine.verdicts.waiting import Waiting


def labels_and_taints(waiting: Waiting) -> Draft | None:
    """No node takes some pod of the job even if empty, also none of those that are cordoned or not ready."""
    if not _limited(waiting):
        return None
    for task in waiting.samples:
        fit = allowed_nowhere(waiting.cycle, task.pod_class)
        if fit is not None:
            return without_node(waiting, JobReport(fit=fit, task=task))
    return None


def claims(waiting: Waiting) -> Draft | None:
    """A claim that the pods name does not exist."""
    if not _limited(waiting):
        return None
    for task in waiting.samples:
        lack = next(absent_claims(waiting.cycle, task.pod_class), None)
        if lack is not None:
            verdict = waiting.verdict(Cause.FILTERS, f"{_who(task)}: {lack.text}")
            tried, untried = ways_out(waiting.cycle, (lack,))
            besides = candidates.for_kinds(waiting)
            return Draft(verdict, tried, fallback=lack.remedy, besides=besides, untried=untried)
    return None


def _who(task: Task) -> str:
    return f"no node takes pods of role {task.role}" if task.role else "no node takes its pods"


def _limited(waiting: Waiting) -> bool:
    """A limit, or nodes without room, would be named; else the filters themselves say what they refuse."""
    report = waiting.report
    limit = report.gate or report.quota
    return (limit is not None and limit.cause in LIMITS) or (report.fit is not None and bool(report.fit.lacking))
