"""A limit that is the cluster itself: promises to admitted jobs, or a share of everything. Speaks of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from unisono.engine.answers import Refusal
from unisono.engine.changes import RequestAtMost
from unisono.engine.verdict import Cause, Holder, Verdict
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.causes.no_node import spare, wanted, without_node
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.limits import is_whole_cluster, left, shortened
from unisono.engine.verdicts.missing_resources import asked_text, remedy, unoffered
from unisono.engine.verdicts.nodes_away import bringing_back
from unisono.engine.verdicts.waiting import Waiting


def admitted_jobs(waiting: Waiting) -> Draft | None:
    """Admission refuses what the cluster has no room for."""
    refusal = waiting.report.gate
    if refusal is None or not refusal.need:
        return None
    if refusal.cause is not Cause.CLUSTER_OVERCOMMITTED and not is_whole_cluster(waiting.cycle.session, refusal):
        return None
    cycle, job = waiting.cycle, waiting.job
    ladders = candidates.for_refusal(cycle, job, refusal, waiting.tools.rivals)
    nowhere = unoffered(cycle, (name for name in refusal.need if left(refusal).get(name) == 0))
    if nowhere:
        message = asked_text(cycle, refusal.need, nowhere, waiting.kinds)
        verdict = _verdict(waiting, refusal, message, left(refusal), waiting.tools.holders(refusal.need))
        meant = candidates.meant_resources(cycle, nowhere)
        return Draft(verdict, [*meant, *ladders], last=remedy(cycle, nowhere), necessary=bool(meant))
    nodes, usable = cycle.session.nodes, candidates.usable_nodes(cycle, job)
    some = bool((nodes.table.ready & ~nodes.table.unschedulable & ~usable).any())
    lack = waiting.tools.shortages.lack(job, refusal.need, refusal.have, usable if some else None)
    of_all = f"; its pods may use {int(usable.sum())} of {nodes.size} nodes" if some else ""
    verdict = _verdict(waiting, refusal, f"{lack.message}{of_all}", lack.free, lack.holders)
    less: Ladders = [[RequestAtMost(lack.at_most)]] if lack.at_most else []
    if lack.pod_too_large:
        return Draft(verdict, less)
    alike = waiting.samples[0] if len(waiting.samples) == 1 else None
    if alike is not None and not lack.too_large:
        less.append(candidates.slightly_less(cycle, alike, waiting.missing))
    if not less:
        less = candidates.smaller_pods(waiting)
    ladders += [] if lack.too_large else candidates.giving_back(cycle, job)
    return Draft(
        verdict,
        [*candidates.uncordoned(cycle, job), *less, *ladders],
        fallback=bringing_back(cycle, refusal.need),
        evictions=not lack.too_large,
    )


def _verdict(
    waiting: Waiting, refusal: Refusal, message: str, free: Mapping[str, int], holders: tuple[Holder, ...]
) -> Verdict:
    # Whose limit it is called does not matter: more nodes would help, and machines are bought by this cause.
    return waiting.verdict(
        Cause.CLUSTER_OVERCOMMITTED,
        message,
        need=dict(refusal.need),
        have=dict(free) or dict(refusal.have),
        tasks_placeable=max(waiting.placeable, waiting.findable),
        holders=holders,
    )


def share(waiting: Waiting) -> Draft | None:
    """The share of its queue is all that there is: no other share would allow more."""
    refusal, task = waiting.report.quota, waiting.report.refused
    if refusal is None or task is None or not is_whole_cluster(waiting.cycle.session, refusal):
        return None
    cycle, job, short = waiting.cycle, waiting.job, shortened(refusal)
    usable, requested = cycle.session.usable_total, cycle.session.registry.requested
    if all(refusal.need[name] + refusal.have[name] <= usable[requested(name)] for name in short):
        # What queues share leaves out nodes that no pod may use: there lies the cause.
        # In a report of its own: that of the job says what the actions did, whoever of its like is explained first.
        report = copy(waiting.report)
        report.task, report.fit = task, cycle.fits.errors(task.pod_class)
        return without_node(waiting, report)
    pod_class, placeable = task.pod_class, waiting.placeable
    empty = waiting.tools.capacity.empty(pod_class)
    cause = Cause.TOO_LARGE if empty.total < wanted(job, task) else Cause.NODES_FULL
    need = {name: pod_class.requests.get(name, 0) * waiting.missing for name in short}
    nowhere = unoffered(cycle, short)
    lack = waiting.tools.shortages.lack(job, need, refusal.have, None)
    verdict = waiting.verdict(
        cause,
        asked_text(cycle, need, nowhere, waiting.kinds) if nowhere else f"{spare(job, placeable)}{lack.message}",
        need=need,
        have={name: amount for name, amount in left(refusal).items() if name in short},
        tasks_placeable=placeable,
        holders=lack.holders or waiting.tools.holders(need),
        task=task.key,
    )
    ladders = [*candidates.meant_resources(cycle, nowhere)]
    ladders += candidates.for_fit(cycle, job, task, cause, placeable, empty)
    full = cause is Cause.NODES_FULL
    ladders += candidates.giving_back(cycle, job) if full else []
    return Draft(verdict, ladders, last=remedy(cycle, nowhere), evictions=full)
