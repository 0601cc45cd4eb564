"""Verdicts: what the cycle already knows about each waiting job, put into one structured answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from unisono.api.near_names import did_you_mean, nearest
from unisono.api.times import rfc3339
from unisono.cluster.bind_failures import Setback
from unisono.cluster.records import Job, Task
from unisono.cluster.status import TaskStatus
from unisono.cluster.sums import total
from unisono.engine.answers import Refusal
from unisono.engine.candidates.empty_cluster import CapacityOf, EmptyFit
from unisono.engine.changes import CreateQueue, RaiseQuota, RequestAtMost, WaitFor, amounts_text, counted
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import FitErrors, JobReport
from unisono.engine.placement.domain_advice import Advice
from unisono.engine.placement.grouped_jobs import advice_of
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause, Holder, Verdict
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.advise import MOST_JOBS, Draft, advise
from unisono.engine.verdicts.candidates import Ladders
from unisono.engine.verdicts.claim_causes import claim_lacks
from unisono.engine.verdicts.filter_causes import FilterCauses, allowed_nowhere
from unisono.engine.verdicts.gate_messages import capability_message
from unisono.engine.verdicts.labels import nowhere as selected_nowhere
from unisono.engine.verdicts.missing_resources import remedy, unoffered, unoffered_text
from unisono.engine.verdicts.quotas import QuotaRoom, Shortage
from unisono.engine.verdicts.releasing_pods import leaving, names_text, pods_as_holders
from unisono.engine.verdicts.resource_holders import holders_of
from unisono.engine.verdicts.rivals import Rivals
from unisono.engine.verdicts.shortage import Shortages, contradiction

_EMPTY = JobReport()
_LIMITS = frozenset((Cause.CLUSTER_OVERCOMMITTED, Cause.OVER_CAPABILITY, Cause.OVER_SHARE))
_MOST_KINDS = 4
"""Kinds of pods of one job that are looked at."""
_OTHER_QUEUE = {
    Cause.QUEUE_CLOSED: "submit to another one",
    Cause.QUEUE_INVALID: "submit to another queue, or mend this one's place in the tree",
}
_PENDING, _PIPELINED, _ALLOCATED, _BINDING = (
    int(status) for status in (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED, TaskStatus.BINDING)
)


def explain(cycle: Cycle, *, advice: bool = True) -> dict[str, Verdict]:
    """A verdict for every job that waits, by PodGroup key; ``advice``: try what would start them."""
    explainer = Explainer(cycle)
    drafts: dict[str, Draft] = {}
    for job in cycle.jobs:
        if _is_served(cycle, job):
            continue
        try:
            draft = explainer.draft(job)
        except Exception as error:  # one job that cannot be explained takes no verdict from the others
            cycle.fail(f"explaining PodGroup {job.key}", error)
            continue
        if draft is not None:
            drafts[job.key] = draft
    for record in cycle.strays:
        if record.phase != "Completed":
            drafts[record.key] = _missing_queue(cycle, record)
    return advise(cycle, drafts, most=MOST_JOBS if advice else 0)


def _is_served(cycle: Cycle, job: JobState) -> bool:
    """All its tasks have got places, and nothing went wrong: the usual case, found out fast."""
    counts = job.counts
    if counts[_PENDING] or counts[_PIPELINED] or counts[_ALLOCATED] or not counts[_BINDING]:
        return False
    return job.phase != "Pending" and job.key not in cycle.reports


def _missing_queue(cycle: Cycle, record: Job) -> Draft:
    """A near miss of a queue that exists is no queue to be created."""
    known = sorted(cycle.session.queues)
    near = nearest(record.queue, known)
    verdict = Verdict(
        record.key,
        Cause.QUEUE_MISSING,
        f"queue {record.queue} does not exist{did_you_mean(record.queue, known)}",
        tasks_needed=record.min_member,
        queue=record.queue,
    )
    if near:
        return Draft(verdict, last=f"name queue {near} in spec.queue")
    return Draft(verdict, [[CreateQueue(record.queue)]], last="name another one in spec.queue")


def _progress(job: JobState, placeable: int) -> str:
    """How far the job got: its gang, one pod, or tasks beyond the gang's minimum."""
    if placeable and placeable >= job.min_member:
        pending = job.counts[TaskStatus.PENDING]
        return f"the gang has its minimum, and {pending} more {'task waits' if pending == 1 else 'tasks wait'}"
    if job.min_member > 1:
        return f"{placeable} of {job.min_member} tasks can be placed"
    return "no node takes it"


def _spare(job: JobState, placeable: int) -> str:
    """Said before the shortage of tasks beyond the gang's minimum."""
    return f"{_progress(job, placeable)}: " if placeable and placeable >= job.min_member else ""


def _places_nothing(job: JobState, actions: Collection[str]) -> str:
    """What is wrong with a configuration that never places the job; ``""`` where nothing is."""
    if "allocate" in actions or ("backfill" in actions and job.pending_best_effort):
        return ""
    names = ", ".join(actions) or "none"
    return f"the configuration of the scheduler places no pods: its actions are {names}, without allocate"


def _nodes_for(job: JobState, empty: EmptyFit) -> int:
    """How many empty nodes hold the gang, 0 where none holds even one task."""
    return -(-job.min_member // empty.per_node) if empty.per_node else 0


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _filtered(fit: FitErrors) -> str:
    """Nodes that are refused for anything but their amounts."""
    others = sorted(f"{count} {text}" for text, count in fit.counts.items() if not text.startswith("Insufficient "))
    return f"; {', '.join(others)}" if others else ""


def _told(setback: Setback) -> str:
    if setback.plugin:
        return f"{setback.why} ({setback.failures} times in a row); tried again at {rfc3339(setback.until)}"
    times = "once" if setback.failures == 1 else f"{setback.failures} times in a row"
    return f"binding failed {times}, the last time on {setback.why}; tried again at {rfc3339(setback.until)}"


class Explainer:
    """Finds the first cause for one job after the other."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.capacity = CapacityOf(cycle.session, cycle.hooks, cycle.fits.static)
        self.quotas = QuotaRoom(cycle.session)
        self.rivals = Rivals(cycle)
        self.filters = FilterCauses(cycle)
        self.shortages = Shortages(cycle)
        self._known_holders: dict[tuple[str, ...], tuple[Holder, ...]] = {}

    def _holders(self, need: Mapping[str, int]) -> tuple[Holder, ...]:
        names = tuple(need)
        found = self._known_holders.get(names)
        if found is None:
            found = self._known_holders[names] = holders_of(self.cycle, need)
        return found

    def draft(self, job: JobState) -> Draft | None:
        """None for jobs that do not wait."""
        report = self.cycle.reports.get(job.key, _EMPTY)
        if report.dropped:
            return self._simple(job, Cause.INVARIANT, f"the decision was dropped: {report.dropped}")
        if report.setback is not None:
            cause = Cause.PLUGIN_FAILED if report.setback.plugin else Cause.BIND_FAILED
            return self._simple(job, cause, _told(report.setback))
        pending = job.counts[TaskStatus.PENDING]
        waiting = pending + job.counts[TaskStatus.PIPELINED] + job.counts[TaskStatus.ALLOCATED]
        if job.phase != "Pending" and not waiting and (job.size or job.min_member == 0):
            return None if job.counts[TaskStatus.BINDING] else self._short(job, report)
        failure = self.cycle.hooks.failure_of(job)
        if failure is not None:
            if failure.plugin not in self.cycle.hooks.failed:
                self.cycle.decisions.failed_jobs[job.key] = failure.message()
            return self._simple(job, Cause.PLUGIN_FAILED, failure.message(f"job {job.key}"))
        if pending and (text := _places_nothing(job, self.cycle.config.actions)):
            return self._simple(job, Cause.NOT_TRIED, text, "add allocate to the actions of its configuration")
        limit = report.gate or report.quota
        if limit is not None and limit.cause is Cause.CLUSTER_OVERCOMMITTED and not job.size:
            # The API server would refuse the pods even if there were room.
            short = self.quotas.shortages(job, job.min_member)
            if short:
                return self._over_quota(job, f"the PodGroup has no pods; {job.min_member} are needed", short, [])
        if limit is not None and limit.cause in _LIMITS:
            nowhere = self._nowhere(job)
            if nowhere is not None:
                return nowhere
        if report.gate is not None:
            return self._refused(job, report, report.gate)
        if report.invalid is not None or job.size == 0:
            return self._invalid(job, report)
        if job.counts[TaskStatus.PIPELINED]:
            return self._waits_for_release(job)
        if report.quota is not None:
            return self._cluster_is_the_limit(job, report, report.quota) or self._refused(job, report, report.quota)
        advice = advice_of(self.cycle).get(job.key)
        if advice is not None:
            return self._no_domain(job, advice)
        if report.fit is not None and report.task is not None:
            return self._no_node(job, report, report.task)
        if self._gated(job):
            text = f"{counted(pending, 'pod')} {'has' if pending == 1 else 'have'} scheduling gates"
            return Draft(self._simple(job, Cause.GATED, text).verdict, candidates.for_gates(job))
        return self._simple(job, Cause.NOT_TRIED, "the cycle ended before the job's turn")

    # ---- causes

    def _simple(self, job: JobState, cause: Cause, message: str, last: str = "") -> Draft:
        verdict = Verdict(
            job.key,
            cause,
            message,
            tasks_needed=job.min_member,
            tasks_placeable=job.ready_count,
            queue=job.queue.name,
        )
        return Draft(verdict, last=last)

    def _short(self, job: JobState, report: JobReport) -> Draft | None:
        """Nothing is pending; a gang below its minimum has lost pods, or never had enough."""
        if job.phase in ("Running", "Completed") or job.is_ready or report.invalid is None:
            return None
        return self._invalid(job, report)

    def _refused(self, job: JobState, report: JobReport, refusal: Refusal) -> Draft:
        free = {name: max(limit - refusal.have.get(name, 0), 0) for name, limit in refusal.limit.items()}
        message, holders = refusal.message, self._holders(refusal.need)
        ladders = candidates.for_refusal(self.cycle, job, refusal, self.rivals)
        nowhere = unoffered(self.cycle, (name for name in refusal.need if free.get(name) == 0))
        wrong = contradiction(self.cycle, job, refusal.need) if refusal.cause in _LIMITS else None
        if wrong is not None:
            message, ladders = wrong[0], []
        elif nowhere:
            asked = amounts_text({name: refusal.need[name] for name in nowhere})
            message = f"{unoffered_text(self.cycle, nowhere)}; {asked} is asked for"
        elif refusal.need and (refusal.cause is Cause.CLUSTER_OVERCOMMITTED or self._whole_cluster(refusal)):
            lack = self.shortages.lack(job, refusal.need, refusal.have, None)
            message, free, holders = lack.message, lack.free, lack.holders
            less: Ladders = [[RequestAtMost(lack.at_most)]] if lack.at_most else []
            ladders = less if lack.pod_too_large else [*candidates.uncordoned(self.cycle, job), *ladders]
        elif refusal.cause is Cause.OVER_CAPABILITY and refusal.limit and refusal.event:
            message, holders = capability_message(self.cycle, job, refusal)
        elif refusal.need and refusal.limit and refusal.cause is not Cause.OVER_SHARE:
            message += f" (asks for {amounts_text(refusal.need)}; {amounts_text(free) or 'nothing'} is left)"
        verdict = Verdict(
            job.key,
            refusal.cause,
            message,
            need=dict(refusal.need),
            have=free or dict(refusal.have),
            tasks_placeable=job.ready_count + report.schedulable(),
            tasks_needed=job.min_member,
            holders=holders,
            queue=job.queue.name,
        )
        if wrong is not None:
            return Draft(verdict, last=wrong[1])
        if nowhere:
            return Draft(verdict, ladders, last=remedy(self.cycle, nowhere))
        first = f"wait for other jobs of queue {job.queue.name}" if refusal.cause is Cause.OVER_SHARE else ""
        last = _OTHER_QUEUE.get(refusal.cause, "")
        return Draft(verdict, ladders, first, last, evictions=refusal.cause is Cause.OVER_SHARE)

    def _whole_cluster(self, refusal: Refusal) -> bool:
        """The limit of the queue is all that the cluster has."""
        if refusal.cause not in (Cause.OVER_SHARE, Cause.OVER_CAPABILITY):
            return False
        session = self.cycle.session
        short = [name for name in refusal.need if name in refusal.limit]
        total = session.usable_total
        return bool(short) and all(refusal.limit[name] >= total[session.registry.requested(name)] for name in short)

    def _cluster_is_the_limit(self, job: JobState, report: JobReport, refusal: Refusal) -> Draft | None:
        """A share that is the whole cluster refuses what no other share would allow: speak of nodes, not of queues."""
        if report.refused is None or not self._whole_cluster(refusal):
            return None
        short = [name for name in refusal.need if name in refusal.limit]
        placeable = job.ready_count + report.schedulable()
        missing = max(job.min_member - placeable, 1)
        pod_class = report.refused.pod_class
        empty = self.capacity.empty(pod_class)
        too_large = empty.total < self._wanted(job, report.refused)
        cause = Cause.TOO_LARGE if too_large else Cause.NODES_FULL
        need = {name: pod_class.requests.get(name, 0) * missing for name in short}
        free = {name: max(refusal.limit[name] - refusal.have.get(name, 0), 0) for name in short}
        nowhere = unoffered(self.cycle, short)
        lack = self.shortages.lack(job, need, refusal.have, None)
        shortage = f"{_spare(job, placeable)}{lack.message}"
        verdict = Verdict(
            job.key,
            cause,
            unoffered_text(self.cycle, nowhere) if nowhere else shortage,
            need=need,
            have=free,
            tasks_placeable=placeable,
            tasks_needed=job.min_member,
            holders=lack.holders or self._holders(need),
            task=report.refused.key,
            queue=job.queue.name,
        )
        ladders = candidates.for_fit(self.cycle, job, report.refused, cause, placeable, empty)
        full = cause is Cause.NODES_FULL
        return Draft(verdict, ladders, last=remedy(self.cycle, nowhere), evictions=full, nodes=_nodes_for(job, empty))

    def _invalid(self, job: JobState, report: JobReport) -> Draft:
        refusal = report.invalid
        if job.size == 0:
            text = f"the PodGroup has no pods yet; {job.min_member} {'is' if job.min_member == 1 else 'are'} needed"
            short = self.quotas.shortages(job, job.min_member)
            if short:
                return self._over_quota(job, text, short, [])
            return self._simple(job, Cause.NO_PODS, text, "create pods that name this PodGroup")
        assert refusal is not None
        have, need = refusal.have.get("pods", job.valid_count), refusal.need.get("pods", job.min_member)
        short = self.quotas.shortages(job, need - have) if refusal.cause is Cause.TOO_FEW_PODS else []
        if short:
            raised: Ladders = [[short[0].change]] if len(short) == 1 else []
            return self._over_quota(job, refusal.message, short, candidates.for_too_few(job, have, need)[1:] + raised)
        verdict = Verdict(
            job.key,
            refusal.cause,
            refusal.message,
            need=dict(refusal.need),
            have=dict(refusal.have),
            tasks_placeable=job.valid_count,
            tasks_needed=job.min_member,
            queue=job.queue.name,
        )
        return Draft(verdict, candidates.for_too_few(job, have, need))

    def _over_quota(self, job: JobState, message: str, short: list[Shortage], ladders: Ladders) -> Draft:
        """The API server refuses to create the pods that are missing."""
        first = short[0]
        verdict = Verdict(
            job.key,
            Cause.QUOTA,
            "; ".join([message, *(one.text() for one in short)]),
            need=dict(first.need),
            have=first.left,
            tasks_placeable=job.valid_count,
            tasks_needed=job.min_member,
            queue=job.queue.name,
        )
        raised = ", and ".join(one.change.text() for one in short)
        if any(isinstance(change, RaiseQuota) for ladder in ladders for change in ladder):
            return Draft(verdict, ladders, fallback=raised)
        return Draft(verdict, ladders, last=raised)

    def _waits_for_release(self, job: JobState) -> Draft:
        number = job.counts[TaskStatus.PIPELINED]
        have = "has" if number == 1 else "have"
        text = f"{number} of {counted(job.size, 'pod')} {have} a place on resources that are being released"
        victims = leaving(self.cycle, job)
        if victims:
            text += f"; they start when {names_text(victims)} {'has' if len(victims) == 1 else 'have'} ended"
        verdict = self._simple(job, Cause.WAITING_FOR_VICTIMS, text).verdict
        keys = tuple(task.key for task in victims)
        return Draft(replace(verdict, holders=pods_as_holders(victims)), [[WaitFor(keys)]] if keys else [])

    def _nowhere(self, job: JobState) -> Draft | None:
        """No node takes some pod of the job even if empty: more important than what is free, or left of a limit."""
        tried: set[int] = set()
        for task in job.record.pending.values():
            if task.pod_class.kin in tried:
                continue
            if len(tried) == _MOST_KINDS:
                break
            tried.add(task.pod_class.kin)
            fit = allowed_nowhere(self.cycle, task.pod_class)
            if fit is not None:
                return self._no_node(job, JobReport(fit=fit, task=task), task)
        return None

    def _no_node(self, job: JobState, report: JobReport, task: Task) -> Draft:
        fit = report.fit
        assert fit is not None
        placeable = job.ready_count + report.schedulable()
        lacking = [name for name in task.pod_class.requests if name in fit.lacking] or list(fit.lacking)
        missing = max(job.min_member - placeable, 1)
        need = {name: task.pod_class.requests[name] * missing for name in lacking if name in task.pod_class.requests}
        empty = self.capacity.empty(task.pod_class)
        cause = fit.cause
        if cause is Cause.NODES_FULL and (empty.per_node == 0 or empty.total < self._wanted(job, task)):
            cause = Cause.TOO_LARGE if empty.allowed else Cause.FILTERS
        idle = self.cycle.session.nodes.idle
        registry = self.cycle.session.registry
        have = {name: int(total(idle[registry.requested(name)].clip(min=0), 0)) for name in lacking}
        nowhere = unoffered(self.cycle, lacking)
        message, holders = f"{_progress(job, placeable)}: {fit.text}", self._holders(need)
        ladders = candidates.for_fit(self.cycle, job, task, cause, placeable, empty)
        if nowhere:
            message += f" {_sentence(unoffered_text(self.cycle, nowhere))}"
        elif self._of_amounts(job, task, fit, empty):
            asked = need or dict.fromkeys(lacking, missing)
            lack = self.shortages.lack(job, asked, {}, self.capacity.allowed(task.pod_class))
            message, holders = f"{_spare(job, placeable)}{lack.message}{_filtered(fit)}", lack.holders or holders
            ladders = candidates.asking_less(ladders, lack.at_most)
        refused = self.filters.text(task.pod_class, fit, task.namespace)
        verdict = Verdict(
            job.key,
            cause,
            f"{message.removesuffix('.')}.{refused}" if refused else message,
            need=need,
            have=have,
            tasks_placeable=placeable,
            tasks_needed=job.min_member,
            reasons=dict(fit.counts),
            nodes=fit.nodes,
            holders=holders,
            task=task.key,
            queue=job.queue.name,
        )
        last = "add a node" if cause is Cause.NO_NODES else remedy(self.cycle, nowhere)
        fallback = selected_nowhere(task.pod_class, self.cycle.session.nodes) if cause is Cause.FILTERS else ""
        remedies = (lack.remedy for lack in claim_lacks(self.cycle, task.pod_class, fit.counts))
        fallback = fallback or next(filter(None, remedies), "")
        full = cause is Cause.NODES_FULL
        return Draft(verdict, ladders, last=last, fallback=fallback, evictions=full, nodes=_nodes_for(job, empty))

    def _of_amounts(self, job: JobState, task: Task, fit: FitErrors, empty: EmptyFit) -> bool:
        """The nodes that filters allow would do if they had more room."""
        if fit.cause is not Cause.NODES_FULL or not empty.allowed or not fit.lacking:
            return False
        return empty.total >= self._wanted(job, task) or not _filtered(fit)

    def _no_domain(self, job: JobState, advice: Advice) -> Draft:
        """The cluster could hold the tasks, but no domain that the job's topology allows."""
        placeable = job.ready_count + min(advice.holds, advice.needed)
        verdict = Verdict(
            job.key,
            Cause.TOPOLOGY,
            advice.message,
            need={"pods": advice.needed},
            have={"pods": advice.holds},
            tasks_placeable=placeable,
            tasks_needed=job.min_member,
            task=advice.task.key,
            queue=job.queue.name,
        )
        return Draft(verdict, candidates.for_topology(self.cycle, job, placeable), last=advice.suggestion)

    @staticmethod
    def _wanted(job: JobState, task: Task) -> int:
        """How many tasks of this class the gang cannot do without."""
        same = sum(1 for other in job.record.tasks.values() if other.pod_class is task.pod_class)
        return min(job.min_member, same) if same == job.size else 1

    def _gated(self, job: JobState) -> bool:
        return any(task.gated for task in job.record.pending.values())
