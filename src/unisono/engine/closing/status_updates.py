"""The end of a cycle: phases, conditions, pod conditions, queue status and verdicts become decisions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from unisono.api.bounds import HARD_TOPOLOGY, OF_JOBS, OF_QUEUES, in_vain
from unisono.api.resources import to_wire
from unisono.cluster.jobs import phase_of, totals_of
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector
from unisono.cluster.status import SCHEDULED_STATES, TaskStatus, count
from unisono.engine import decisions
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import JobReport
from unisono.engine.placement.first_gangs import has_room
from unisono.engine.session.choices import Choices
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.session import Session
from unisono.engine.verdict import Asked, Cause, Verdict

# Texts that users and tools know, as Volcano words them.

_NUMBERS = re.compile(r"(?<![\w-])\d[\d.]*[a-zA-Z]{0,2}(?![\w-])")
_LABELS = [status.label for status in TaskStatus]
NOT_ENFORCED = "NotEnforced"
"""Reason of the event about a bound that no configured plug-in enforces."""
SCHEDULED_REASON = "tasks in gang are ready to be scheduled"


def histogram(counts: dict[str, int]) -> str:
    """``2 Pending, 1 Running``: entries sorted as strings, zeros left out."""
    return ", ".join(sorted(f"{count} {label}" for label, count in counts.items() if count))


def job_fit_text(job: JobState, report: JobReport | None) -> str:
    """``pod group is not ready, 6 Pending, 6 minAvailable; Pending: 3 Schedulable, 3 Unschedulable. Origin ...``."""
    counts = {_LABELS[at]: number for at, number in enumerate(job.counts) if number}
    if job.min_member:
        counts["minAvailable"] = job.min_member
    head = "pod group is ready" if job.is_ready else "pod group is not ready"
    text = f"{head}, {histogram(counts)}" if counts else head
    pending = job.counts[TaskStatus.PENDING]
    if pending:
        could = min(report.schedulable(), pending) if report is not None else 0
        text += f"; Pending: {histogram({'Schedulable': could, 'Unschedulable': pending - could})}"
    if report is not None and report.fit is not None and report.task is not None:
        text += f". Origin reason is {report.task.name}: {report.fit.text}"
    return text


def condition_message(job: JobState, report: JobReport | None) -> str:
    """``3/6 tasks in gang unschedulable: ...``: how many of the gang's minimum have no place, of how many pods."""
    could = report.schedulable() if report is not None else 0
    short = max(job.min_member - job.ready_count - could, 0)
    return f"{short}/{job.size or job.min_member} tasks in gang unschedulable: {job_fit_text(job, report)}"


def not_enforced(cycle: Cycle, job: JobState) -> list[str]:
    """Bounds that hold for a job and that no configured plug-in enforces, one sentence each."""
    record, parts = job.record, cycle.config.parts
    wishes = [record.topology, *(policy.wish for policy in record.sub_groups)]
    hard = any(wish is not None and wish.hard for wish in wishes) and len(cycle.session.snapshot.hyper_nodes) > 1
    classes = {task.pod_class for task in islice(record.tasks.values(), _LOOKED_AT)}
    words = dict.fromkeys((*record.annotations, *(key for each in classes for key in each.notes)))
    own = in_vain([HARD_TOPOLOGY, *words] if hard else words, OF_JOBS, parts)
    of_queue = in_vain(job.queue.record.annotations, OF_QUEUES, parts)
    return [
        *(f"{word} is not enforced; {what}" for word, what in own),
        *(f"{word} of queue {job.queue.name} is not enforced; {what}" for word, what in of_queue),
    ]


def with_verdict(message: str, verdict: Verdict | None) -> str:
    """Volcano's text, and behind it the verdict, as every other place words it, and what would help."""
    if verdict is None:
        return message
    if verdict.cause is not Cause.NOT_TRIED:
        message = f"{message.rstrip('.')}: {verdict.message}"
    if verdict.spared:
        message = f"{message.rstrip('.')}; no pod is evicted for it: {verdict.spared}"
    return f"{message.rstrip('.')}; to start it: {verdict.suggestion}" if verdict.suggestion else message


def event_message(job: JobState, report: JobReport | None, verdict: Verdict | None) -> str:
    """The same with the number of pending pods, for the event, which does not say what would help."""
    pods = f"{job.counts[TaskStatus.PENDING]}/{job.size or job.min_member}"
    text = f"{pods} tasks in gang unschedulable: {job_fit_text(job, report)}"
    return f"{text.rstrip('.')}: {verdict.message}" if verdict is not None else text


def pod_message(own: str, verdict: Verdict | None) -> str:
    """Why a pod has no node: what the nodes say of it, and the verdict on its gang."""
    if verdict is None or verdict.cause is Cause.NOT_TRIED:
        return own
    reason = own.rstrip(".")
    return verdict.message if reason in verdict.message else f"{reason}: {verdict.message}"


@lru_cache(maxsize=4096)
def without_numbers(message: str) -> str:
    """What stays of a message while amounts change, which are no reason to tell every pod again."""
    return _NUMBERS.sub("", message)


def pod_waits_for_gang(namespace: str, name: str, node: str) -> str:
    """The pod has a place; its gang does not."""
    return f"Pod {namespace}/{name} can possibly be assigned to {node}, once minAvailable is satisfied"


def pod_waits_for_release(namespace: str, name: str, node: str) -> str:
    """The pod's place is still being released."""
    last = "once resource is released and minAvailable is satisfied"
    return f"Pod {namespace}/{name} can possibly be assigned to {node}, {last}"


# The amounts of a queue for metrics, from what it holds and what plug-ins know of its share.


def figures_of(session: Session, queue: QueueState, allocated: Vector) -> decisions.QueueMetrics:
    """Figures of one queue; ``allocated`` is what it and its children hold."""
    record, registry = queue.record, session.registry
    capability = None
    if record.capability is not None:
        capability = [record.capability.get(name, decisions.UNLIMITED) for name in registry.names]
    metrics_of = session.book.shares.metrics_of
    shares = metrics_of(queue) if metrics_of is not None else None
    return decisions.QueueMetrics(
        queue.name, record.weight, allocated.tolist(), record.request.tolist(), capability, shares
    )


Events = tuple[tuple[str, str, str], ...]
Status = tuple[str, int, int, int, tuple[decisions.Condition, ...], Events, Mapping[str, str]] | None
Held = list[tuple[Task, TaskStatus, int]]
_WAITING_PHASES = ("Pending", "Inqueue", "Unknown")
_LOOKED_AT = 64
"""Pods of a job of which bounds are read."""
_SAID = "closing.said"
"""Under this name a job's record notes that its PodGroup says already how it is, where gangs are judged."""
_TOO_FEW = (Cause.NO_PODS, Cause.TOO_FEW_PODS)


def close(cycle: Cycle, verdicts: dict[str, Verdict], asked: Asked | None = None) -> None:
    """Fill everything of the decisions that follows from the placements; of jobs not ``asked`` for what must be."""
    held = cycle.held_back()
    statuses: dict[tuple[object, ...], Status] = {}
    choices = cycle.session.shared.find(Choices)
    choosing = choices.jobs if choices is not None else ()
    if asked is not None:
        close_briefly(cycle, but=asked.wants)
    for job in cycle.jobs if asked is None else [job for job in cycle.jobs if asked.wants(job.key)]:
        report = cycle.reports.get(job.key)
        try:
            _close_job(cycle, job, report, verdicts.get(job.key), None if job.key in choosing else statuses)
            if job.counts[TaskStatus.PENDING] or job.key in held:
                _close_pods(cycle, job, report, verdicts.get(job.key), held.get(job.key, []))
        except Exception as error:  # one job's status does not keep others from being written
            cycle.fail(f"status of PodGroup {job.key}", error)
    _close_queues(cycle)


def close_briefly(cycle: Cycle, but: Callable[[str], bool] = lambda _: False) -> None:
    """Only what later cycles go by: phases and totals of PodGroups, and promised places with their nominations.

    Jobs are left out whose keys ``but`` says.
    """
    names, held = cycle.session.snapshot.nodes.names, cycle.held_back()
    jobs = cycle.jobs
    if cycle.asleep:
        jobs = sorted([*cycle.served(), *_misstated(cycle)], key=lambda job: job.key)
    for job in [job for job in dict.fromkeys(jobs) if not but(job.key)]:
        update = _brief_update(cycle, job)
        if update is not None:
            cycle.decisions.pod_groups.append(update)
        if job.key in held:
            _close_held(cycle, job, held[job.key], names)


def _brief_update(cycle: Cycle, job: JobState) -> decisions.PodGroupUpdate | None:
    """New phase and totals, and that it is scheduled; None when the PodGroup says so already.

    A gang that runs is not looked at again, so what it waited for before must not go on standing there.
    """
    record = job.record
    untouched = cycle.hooks.has("ready") and job.phase == record.phase and job.counts == record.counts
    notes = _notes(cycle, job)
    if untouched and not notes and record.derived.get(_SAID):
        return None
    (phase, unschedulable), totals = next_phase(cycle, job), totals_of(job.counts)
    conditions, events = record.conditions, tuple[tuple[str, str, str], ...]()
    if not unschedulable and phase not in _WAITING_PHASES:
        conditions = _conditions(job, None, None, judged=cycle.hooks.has("ready"), unschedulable=False)
        if conditions != record.conditions:
            events = (*_events(job, phase, None, None), *_not_enforced_events(cycle, job))
    if not notes and (phase, totals, conditions) == (record.reported_phase, record.totals, record.conditions):
        if untouched:
            record.derived[_SAID] = True
        return None
    stated = tuple(decisions.Condition(kind, *rest) for kind, rest in conditions.items())
    return decisions.PodGroupUpdate(job.namespace, job.name, job.uid, phase, *totals, stated, events, notes)


def _notes(cycle: Cycle, job: JobState) -> Mapping[str, str]:
    """Annotations that the PodGroup shall have and has not: which kind of nodes the gang got."""
    choices = cycle.session.shared.find(Choices)
    if choices is None:
        return decisions.NO_ANNOTATIONS
    return {key: text for key, text in choices.got(job).items() if job.record.annotations.get(key) != text}


def _misstated(cycle: Cycle) -> list[JobState]:
    """Sleeping jobs whose PodGroups do not say how they are: those of a shape all do, or none does."""
    session = cycle.session
    misstated: list[JobState] = []
    for alike in cycle.asleep:
        record = session.snapshot.jobs[alike.sample]
        if record.derived.get(_SAID):
            continue
        fresh = JobState(record, session.queues[record.queue], 0)
        if _brief_update(cycle, fresh) is not None:
            misstated += [job for _, key in alike.aged if (job := session.job(key)) is not None]
    return misstated


# ---- PodGroups


def _close_job(
    cycle: Cycle,
    job: JobState,
    report: JobReport | None,
    verdict: Verdict | None,
    known: dict[tuple[object, ...], Status] | None,
) -> None:
    """Write the status of a PodGroup; jobs of one shape that fared well and alike have the same, which is ``known``."""
    if not job.shape or report is not None or verdict is not None or known is None:
        status = _status(cycle, job, report, verdict)
    else:
        key = (job.shape, job.phase, *job.counts, *job.record.conditions.items())
        if key not in known:
            known[key] = _status(cycle, job, None, None)
        status = known[key]
    if status is not None:
        cycle.decisions.pod_groups.append(decisions.PodGroupUpdate(job.namespace, job.name, job.uid, *status))


def _status(cycle: Cycle, job: JobState, report: JobReport | None, verdict: Verdict | None) -> Status:
    """Phase, totals, conditions and events to write; None when the PodGroup says so already."""
    record = job.record
    judged = cycle.hooks.has("ready")
    phase, unschedulable = next_phase(cycle, job)
    conditions = _conditions(job, report, verdict, judged=judged, unschedulable=unschedulable)
    totals = totals_of(job.counts)
    notes = _notes(cycle, job)
    if not notes and (phase, totals, conditions) == (record.reported_phase, record.totals, record.conditions):
        return None
    events: tuple[tuple[str, str, str], ...] = ()
    if conditions != record.conditions or not record.reported_phase:
        events = (*_events(job, phase, report, verdict), *_not_enforced_events(cycle, job))
    running, succeeded, failed = totals
    stated = tuple(decisions.Condition(kind, *rest) for kind, rest in conditions.items())
    return phase, running, succeeded, failed, stated, events, notes


def next_phase(cycle: Cycle, job: JobState) -> tuple[str, bool]:
    """The phase that the PodGroup gets, and whether the gang was found unschedulable in this cycle."""
    unschedulable = cycle.hooks.has("ready") and job.size > 0 and not job.is_ready and not _only_terminating(job)
    phase = phase_of(job.counts, job.min_member, job.phase, _releasing(job), unschedulable=unschedulable)
    if phase == "Pending" != job.phase and job.counts[TaskStatus.PIPELINED]:
        phase = "Inqueue"  # the gate might refuse it the room that was made for it
    return phase, unschedulable


def _releasing(job: JobState) -> int:
    """Tasks that are going and still occupy a node, evictions of this session included."""
    going = job.counts[TaskStatus.RELEASING]
    return min(going, job.record.releasing_on_node + max(going - job.record.counts[TaskStatus.RELEASING], 0))


def _only_terminating(job: JobState) -> bool:
    """The gang falls short only because members are terminating: nothing is waiting, so nothing is unschedulable."""
    releasing = _releasing(job)
    waiting = job.counts[TaskStatus.PENDING] + job.counts[TaskStatus.PIPELINED]
    return releasing > 0 and waiting == 0 and count(job.counts, SCHEDULED_STATES) + releasing >= job.min_member


def _conditions(
    job: JobState, report: JobReport | None, verdict: Verdict | None, *, judged: bool, unschedulable: bool
) -> dict[str, tuple[str, str, str]]:
    """Conditions that shall stand, by type. Scheduled and Unschedulable replace each other."""
    kept = dict(job.record.conditions)
    if unschedulable or (verdict is not None and job.size == 0):
        kept.pop("Scheduled", None)
        too_few = verdict is not None and verdict.cause in _TOO_FEW
        reason = "NotEnoughTasks" if too_few else "NotEnoughResources"
        kept["Unschedulable"] = ("True", reason, with_verdict(condition_message(job, report), verdict))
    elif judged and job.is_ready and job.size > 0:
        kept.pop("Unschedulable", None)
        kept["Scheduled"] = ("True", SCHEDULED_REASON, "")
    return kept


def _not_enforced_events(cycle: Cycle, job: JobState) -> Events:
    return tuple(("Warning", NOT_ENFORCED, each) for each in not_enforced(cycle, job))


def _events(
    job: JobState, phase: str, report: JobReport | None, verdict: Verdict | None
) -> tuple[tuple[str, str, str], ...]:
    events: list[tuple[str, str, str]] = []
    if report is not None and report.gate is not None and report.gate.event:
        events.append(("Normal", "Unschedulable", report.gate.message))
    if phase not in _WAITING_PHASES:
        events.append(("Normal", "Scheduled", "pod group is ready"))
    elif verdict is not None:
        events.append(("Warning", "Unschedulable", event_message(job, report, verdict)))
    return tuple(events)


# ---- pods


def _close_held(cycle: Cycle, job: JobState, held: Held, names: Sequence[str]) -> None:
    """Tasks that keep a place without being bound: promised ones are nominated, others wait for their gang."""
    for task, status, column in held:
        node = names[column]
        if status is TaskStatus.PIPELINED:
            cycle.decisions.pipelined.append(decisions.Pipelined(task.namespace, task.name, task.uid, node, job.key))
            text = pod_waits_for_release(task.namespace, task.name, node)
            _condition(cycle, task, "Unschedulable", text, node if cycle.decisions.evictions else "")
        elif status is TaskStatus.ALLOCATED:
            text = pod_waits_for_gang(task.namespace, task.name, node)
            _condition(cycle, task, "Schedulable", text, "")


def _close_pods(cycle: Cycle, job: JobState, report: JobReport | None, verdict: Verdict | None, held: Held) -> None:
    names = cycle.session.snapshot.nodes.names
    _close_held(cycle, job, held, names)
    if not job.counts[TaskStatus.PENDING]:
        return
    last = report.last_places() if report is not None else {}
    fit = report.fit.text if report is not None and report.fit is not None else ""
    # Node autoscalers act on Unschedulable alone, and try those on the free nodes first. Where a gang lacks nodes, all
    # of it must take part: else the pods without a place seem to fit where the others are to go, and no node comes.
    waits = "Unschedulable" if fit else "Schedulable"
    stuck = report.task.pod_class if report is not None and report.task is not None else None
    of_stuck = pod_message(fit, verdict)  # only of pods like the one that found no node
    whole = job_fit_text(job, report)
    general = pod_message(whole, verdict)
    pending = job.record.pending
    for key in sorted(pending):
        task = pending[key]
        if task.gated or not task.owned or key in job.places:
            continue
        place = last.get(key)
        if place is None:
            own, text = (fit, of_stuck) if fit and task.pod_class is stuck else (whole, general)
            withdrawn = bool(task.nominated_node) and not has_room(cycle, task, task.nominated_node)
            if withdrawn or task.told[0] != "Unschedulable" or not _is_told(task, own, text):
                _condition(cycle, task, "Unschedulable", text, "", withdrawn=withdrawn)
            continue
        status, column = place
        if status is TaskStatus.PIPELINED:
            text = pod_waits_for_release(task.namespace, task.name, names[column])
            _condition(cycle, task, "Unschedulable", text, "")
        else:
            own = pod_waits_for_gang(task.namespace, task.name, _possible(cycle, task, names[column]))
            text = pod_message(own, verdict)
            if task.told[0] != waits or not _is_told(task, own, text):
                _condition(cycle, task, waits, text, "")


@dataclass(slots=True)
class _Possible:
    """By waiting pod the node that it was told of last; lives in the state's memo."""

    nodes: dict[str, str] = field(default_factory=dict)


def _possible(cycle: Cycle, task: Task, found: str) -> str:
    """The node that a pod is told of: the one that it knows already, while that has room, else the one found now.

    Which one is found changes with every pod that comes or goes and every check of a node, and the pod goes to none.
    """
    snapshot, table = cycle.session.snapshot, cycle.session.nodes.table
    told = snapshot.memo.of(_Possible, _Possible).nodes
    previous = told.get(task.key, "")
    column = table.index.get(previous)
    usable = column is not None and table.ready[column] and not table.unschedulable[column]
    if not (usable and has_room(cycle, task, previous)):
        if len(told) > 2 * len(snapshot.tasks):
            for gone in told.keys() - snapshot.tasks.keys():
                del told[gone]
        told[task.key] = found
    return told[task.key]


def _is_told(task: Task, own: str, text: str) -> bool:
    """Whether what the pod says is the same already, but for amounts in the verdict on its gang."""
    said = task.told[1]
    return own.rstrip(".") in said and without_numbers(said) == without_numbers(text)


def _condition(cycle: Cycle, task: Task, reason: str, message: str, nominated: str, *, withdrawn: bool = False) -> None:
    same = task.told == (reason, message) and not withdrawn
    if same and (not nominated or task.nominated_node == nominated):
        return
    cycle.decisions.pod_conditions.append(
        decisions.PodCondition(task.namespace, task.name, task.uid, reason, message, nominated, withdrawn)
    )


# ---- queues


def _close_queues(cycle: Cycle) -> None:
    """``status.allocated`` of every queue: its own tasks and those of its children, up to the root."""
    queues = cycle.session.queues
    registry = cycle.session.registry
    totals = {name: queue.allocated.copy() for name, queue in queues.items()}
    for name, queue in queues.items():
        seen = {name}
        parent = queue.record.parent or ("root" if name != "root" else "")
        while parent in queues and parent not in seen:
            totals[parent] += queue.allocated
            seen.add(parent)
            parent = queues[parent].record.parent or ("root" if parent != "root" else "")
    cycle.decisions.resources = tuple(registry.names)
    cycle.decisions.figures = [figures_of(cycle.session, queue, totals[name]) for name, queue in queues.items()]
    if any(plugin.name == "drf" for plugin in cycle.hooks.plugins()):
        cycle.decisions.sharable = cycle.session.sharable_total.tolist()
    for name in sorted(queues):
        allocated = to_wire(registry.amounts(totals[name]))
        if allocated != queues[name].record.reported:
            cycle.decisions.queues.append(decisions.QueueUpdate(name, allocated))
