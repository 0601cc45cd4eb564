"""Jobs and pods that hold a resource, by the names that their owners know, and why they are not evicted."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from unisono.api import keys
from unisono.api.verdict import job_name
from unisono.cluster.records import Job, Task
from unisono.cluster.status import HOLDS
from unisono.engine.changes import amounts_text, counted
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Holder
from unisono.engine.verdicts.rivals import turn

_MOST_NAMED = 3
_MOST_PODS = 20_000
"""Pods in the cluster up to which those of other schedulers are looked for one by one."""
_OWNERS = (
    (keys.JOBSET_NAME, "JobSet"),
    (keys.KUBEFLOW_JOB_NAME, "Job"),
    (keys.BATCH_JOB_NAME, "Job"),
)


@dataclass(slots=True)
class _Known:
    """What was added up already: holders by resource row and queue, and pods outside of jobs by row."""

    jobs: dict[tuple[int, str], list[tuple[int, str]]] = field(default_factory=dict)
    others: dict[int, list[tuple[int, Holder]]] = field(default_factory=dict)


def owner_of(task: Task) -> Holder:
    """``Deployment ns/web`` for a pod of a controller that its labels tell, else ``Pod ns/name``; without amounts."""
    kind, name = _owner(task)
    return Holder(kind, f"{task.namespace}/{name}")


def _owner(task: Task) -> tuple[str, str]:
    labels = task.labels
    if labels.get(keys.POD_TEMPLATE_HASH):
        name, found, _ = task.name.rpartition(f"-{labels[keys.POD_TEMPLATE_HASH]}-")
        if found:
            return "Deployment", name
    if keys.STATEFUL_POD_NAME in labels:
        return "StatefulSet", task.name.rpartition("-")[0]
    for label, kind in _OWNERS:
        if labels.get(label):
            return kind, labels[label]
    if keys.CONTROLLER_REVISION_HASH in labels:
        return "DaemonSet", task.name.rpartition("-")[0]
    return "Pod", task.name


def holder_of(record: Job) -> Holder:
    """The job, or the pod or controller for which the PodGroup was made; without amounts."""
    task = next(iter(record.tasks.values()), None) if record.name.startswith("podgroup-") else None
    return owner_of(task) if task is not None else Holder("Job", job_name(record.key))


def named(holder: Holder) -> str:
    """``ns/train`` for a job, ``pod ns/p`` for others."""
    return holder.name if holder.kind == "Job" else f"{holder.kind.lower()} {holder.name}"


def jobs_holding(cycle: Cycle, name: str, but: JobState, queue: str = "") -> list[tuple[int, JobState]]:
    """The jobs that hold most of a resource, largest first, at most a few.

    Args:
        cycle: at its end.
        name: of the resource.
        but: is left out.
        queue: only jobs of this queue and those below it; empty: all.

    """
    row = cycle.session.registry.find(name)
    if row is None:
        return []
    known = cycle.session.shared.of(_Known, _Known).jobs
    found = known.get((row, queue))
    if found is None:
        found = known[row, queue] = heapq.nsmallest(_MOST_NAMED + 1, _amounts(cycle, row, queue))
    states = ((-less, cycle.session.job(key)) for less, key in found if key != but.key)
    return [(amount, job) for amount, job in states if job is not None][:_MOST_NAMED]


def _amounts(cycle: Cycle, row: int, queue: str) -> Iterable[tuple[int, str]]:
    """Negative amounts, so that the order is by amount and then by name."""
    session = cycle.session
    opened = session.opened()
    jobs = session.snapshot.jobs
    for key in _keys(cycle, queue) if queue else jobs:
        state = opened.get(key)
        held = state.allocated if state is not None else jobs[key].allocated
        amount = int(held[row]) if row < len(held) else 0
        if amount > 0:
            yield -amount, key


def _keys(cycle: Cycle, queue: str) -> list[str]:
    """PodGroups of a queue and of those below it."""
    queues = cycle.session.queues
    found: list[str] = []
    for name, state in queues.items():
        at, steps = name, 0
        while at != queue and at in queues and steps < len(queues):
            at, steps = queues[at].record.parent, steps + 1
        if at == queue:
            found += [key for key in state.record.jobs if key in cycle.session.snapshot.jobs]
    return found


def others_holding(cycle: Cycle, name: str) -> list[tuple[int, Holder]]:
    """Owners of pods outside of jobs (those of other schedulers), largest first, at most a few."""
    row = cycle.session.registry.find(name)
    tasks = cycle.session.snapshot.tasks
    if row is None or len(tasks) > _MOST_PODS:
        return []
    known = cycle.session.shared.of(_Known, _Known).others
    if row not in known:
        held: Counter[tuple[str, str]] = Counter()
        for task in tasks.values():
            if task.node and (not task.owned or not task.job) and HOLDS[task.status]:
                vector = task.pod_class.vector
                amount = int(vector[row]) if row < len(vector) else 0
                if amount:
                    owner = owner_of(task)
                    held[owner.kind, owner.name] += amount
        largest = heapq.nsmallest(_MOST_NAMED, ((-amount, owner) for owner, amount in held.items()))
        known[row] = [(-less, Holder(*owner)) for less, owner in largest]
    return known[row]


def holders_text(
    cycle: Cycle, job: JobState, name: str, queue: str = ""
) -> tuple[str, tuple[Holder, ...], list[JobState]]:
    """``ns/hog holds cpu 16``: the sentence, the holders and their jobs."""
    found = jobs_holding(cycle, name, job, queue)
    rows = [(amount, holder_of(other.record)) for amount, other in found]
    if not queue:
        rows = sorted([*rows, *others_holding(cycle, name)], key=lambda one: (-one[0], one[1].name))
    rows = rows[:_MOST_NAMED]
    text = ", ".join(f"{named(who)} holds {amounts_text({name: amount})}" for amount, who in rows)
    return text, tuple(replace(who, amounts={name: amount}) for amount, who in rows), [other for _, other in found]


def not_evicted(cycle: Cycle, job: JobState, holders: list[JobState], name: str) -> str:
    """Why none of the holders makes room; empty where nothing certain is known."""
    if not holders:
        return ""
    actions = frozenset(cycle.config.actions)
    reasons = [_kept(actions, cycle, job, other, name) for other in holders]
    first = reasons[0]
    return first if first and all(reason == first for reason in reasons) else next(filter(None, reasons), "")


def _kept(actions: frozenset[str], cycle: Cycle, job: JobState, other: JobState, name: str) -> str:
    if other.queue.name == job.queue.name:
        if other.priority == job.priority:
            return "no preemption among equal priorities"
        if other.priority > job.priority:
            return f"no preemption: the holder has a higher priority ({other.priority}, not {job.priority})"
        if not actions & {"preempt", "gangpreempt"}:
            return "no preemption: the action preempt is not configured"
        return ""
    queue = other.queue
    if not queue.record.reclaimable:
        return f"no reclaim: queue {queue.name} is not reclaimable"
    if not actions & {"reclaim", "gangreclaim"}:
        return "no reclaim: the action reclaim is not configured"
    row = cycle.session.registry.find(name)
    deserved: Mapping[str, int] = queue.record.deserved or {}
    if row is not None and name in deserved and int(queue.allocated[row]) <= deserved[name]:
        return f"no reclaim: queue {queue.name} is within its deserved {amounts_text({name: deserved[name]})}"
    return ""


@dataclass(slots=True)
class _Lines:
    """Waiting jobs by queue in the order of their turn, and each one's position."""

    by_queue: dict[str, list[JobState]] = field(default_factory=dict)
    position: dict[str, int] = field(default_factory=dict)


def place_in_line(cycle: Cycle, job: JobState) -> str:
    """``2 jobs of queue default are before it: ns/a and ns/b``; empty for the first one."""
    lines = cycle.session.shared.of(_Lines, _Lines)
    if not lines.by_queue:
        waiting = (other for other in cycle.jobs if other.is_starving and other.key in cycle.reports)
        for other in sorted(waiting, key=turn):
            line = lines.by_queue.setdefault(other.queue.name, [])
            lines.position[other.key] = len(line)
            line.append(other)
    at = lines.position.get(job.key, 0)
    if not at:
        return ""
    line = lines.by_queue[job.queue.name]
    names = [named(holder_of(other.record)) for other in line[: min(at, _MOST_NAMED - 1)]]
    more = f" and {at - len(names)} more" if at > len(names) else ""
    return f"{counted(at, 'job')} of queue {job.queue.name} {'is' if at == 1 else 'are'} before it: " + (
        f"{', '.join(names)}{more}" if more else " and ".join(names)
    )
