"""Something that the pods require exists nowhere: more important than what is free, or left of a limit."""

from __future__ import annotations

from msgspec import structs

from unisono.cluster.records import Task
from unisono.engine.cycle.reports import JobReport
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.causes.no_node import without_node
from unisono.engine.verdicts.causes.queue_limits import capability_message
from unisono.engine.verdicts.claim_causes import absent_claims, ways_out
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.filter_causes import allowed_nowhere
from unisono.engine.verdicts.limits import LIMITS, is_whole_cluster
from unisono.engine.verdicts.waiting import Waiting


def labels_and_taints(waiting: Waiting) -> Draft | None:
    """No node takes some pod of the job even if empty, also none of those that are cordoned or not ready."""
    if not _limited(waiting):
        return None
    for task in waiting.samples:
        fit = allowed_nowhere(waiting.cycle, task.pod_class)
        if fit is not None:
            draft = without_node(waiting, JobReport(fit=fit, task=task))
            draft.verdict = structs.replace(draft.verdict, message=f"{draft.verdict.message}{_besides(waiting)}")
            draft.ladders += _limit(waiting)
            draft.necessary = True
            return draft
    return None


def claims(waiting: Waiting) -> Draft | None:
    """A claim that the pods name does not exist."""
    if not _limited(waiting):
        return None
    for task in waiting.samples:
        lack = next(absent_claims(waiting.cycle, task.pod_class), None)
        if lack is not None:
            verdict = waiting.verdict(Cause.FILTERS, f"{_who(task)}: {lack.text}.{_besides(waiting)}".rstrip("."))
            tried, untried = ways_out(waiting.cycle, (lack,))
            return Draft(verdict, [*tried, *_limit(waiting)], fallback=lack.remedy, untried=untried)
    return None


def _who(task: Task) -> str:
    return f"no node takes pods of role {task.role}" if task.role else "no node takes its pods"


def _limit(waiting: Waiting) -> Ladders:
    """Against a limit that would be named next."""
    refusal = waiting.report.gate or waiting.report.quota
    if refusal is None or refusal.cause not in LIMITS:
        return []
    return [one for one in candidates.for_refusal(waiting.cycle, waiting.job, refusal, waiting.tools.rivals) if one]


def _besides(waiting: Waiting) -> str:
    """The limit of its queue that refuses the job as well."""
    refusal = waiting.report.gate or waiting.report.quota
    if refusal is None or refusal.cause is not Cause.OVER_CAPABILITY or not (refusal.limit and refusal.event):
        return ""
    if is_whole_cluster(waiting.cycle.session, refusal):
        return ""
    return f" Besides, {capability_message(waiting.cycle, waiting.job, refusal)[0]}"


def _limited(waiting: Waiting) -> bool:
    """A limit, or nodes without room, would be named; else the filters themselves say what they refuse."""
    report = waiting.report
    limit = report.gate or report.quota
    if limit is not None and limit.cause in (*LIMITS, Cause.NOT_TRIED):
        return True
    return report.fit is not None and bool(report.fit.lacking)
