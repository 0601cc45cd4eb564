"""Who holds what a job waits for: jobs, queues, pods on ports, and pods that are about to leave."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import structs

from unisono.api import keys
from unisono.api.resources import amounts_text, by_importance
from unisono.api.verdict import job_name
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job, Task
from unisono.cluster.status import HOLDS, TaskStatus
from unisono.engine.answers import BoolArray
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.session.once import once
from unisono.engine.verdict import Holder, reference
from unisono.engine.verdicts.limits import chain
from unisono.jobkinds.registry import OWNER_LABELS

# ---- Jobs and pods that hold a resource, by the names that their owners know

_MOST_NAMED = 3
_MOST_PODS = 20_000
"""Pods in the cluster up to which those of other schedulers are looked for one by one."""
_MOST_PODS_ON_NODES = 2_000
"""The same on the nodes that a waiting pod may use, where those are not all."""

_Held = tuple[str, tuple[Holder, ...], list[JobState]]


def owner_of(task: Task) -> Holder:
    """``Deployment ns/web`` for a pod of a controller that its labels tell, else ``Pod ns/name``; without amounts."""
    kind, name = _owner(task)
    return Holder(kind, f"{task.namespace}/{name}")


def is_created_again(task: Task) -> bool:
    """Whether a controller replaces the pod when it is deleted, as far as its labels tell."""
    return keys.JOB_NAME in task.labels or _owner(task)[0] != "Pod"


def is_of_daemonset(task: Task) -> bool:
    """Whether a DaemonSet has put the pod on its node, and would put one on any node like it."""
    return _owner(task)[0] == "DaemonSet"


def _owner(task: Task) -> tuple[str, str]:
    labels = task.labels
    if labels.get(keys.POD_TEMPLATE_HASH):
        name, separator, _ = task.name.rpartition(f"-{labels[keys.POD_TEMPLATE_HASH]}-")
        if separator:
            return "Deployment", name
    if keys.STATEFUL_POD_NAME in labels:
        return "StatefulSet", task.name.rpartition("-")[0]
    for label, kind in OWNER_LABELS:
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
    """A reference: ``ns/train`` for a job, ``pod ns/p`` for others."""
    return reference(holder.name, "" if holder.kind == "Job" else holder.kind.lower())


def jobs_holding(cycle: Cycle, name: str, but: JobState | None, queue: str = "") -> list[tuple[int, JobState]]:
    """The jobs that hold most of a resource, largest first, at most a few.

    Args:
        cycle: at its end.
        name: of the resource.
        but: is left out; None: nobody is.
        queue: only jobs of this queue and those below it; empty: all.
    """
    row = cycle.session.registry.find(name)
    if row is None:
        return []
    states = ((-less, cycle.session.job(key)) for less, key in _largest(cycle, row, queue))
    return [(amount, job) for amount, job in states if job is not None and job is not but][:_MOST_NAMED]


@once
def _largest(cycle: Cycle, row: int, queue: str) -> list[tuple[int, str]]:
    return heapq.nsmallest(_MOST_NAMED + 1, _amounts(cycle, row, queue))


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
    group_keys: list[str] = []
    for name, state in cycle.session.queues.items():
        if queue in chain(cycle.session, name):
            group_keys += [key for key in state.record.jobs if key in cycle.session.snapshot.jobs]
    return group_keys


@once
def others_holding(cycle: Cycle, name: str) -> list[tuple[int, Holder]]:
    """Owners of pods outside of jobs (those of other schedulers), largest first, at most a few."""
    row = cycle.session.registry.find(name)
    tasks = cycle.session.snapshot.tasks
    if row is None or len(tasks) > _MOST_PODS:
        return []
    held: Counter[tuple[str, str]] = Counter()
    for task in tasks.values():
        if task.node and (not task.owned or not task.job) and HOLDS[task.status]:
            vector = task.pod_class.vector
            amount = int(vector[row]) if row < len(vector) else 0
            if amount:
                owner = owner_of(task)
                held[owner.kind, owner.name] += amount
    largest = heapq.nsmallest(_MOST_NAMED, ((-amount, owner) for owner, amount in held.items()))
    return [(-less, Holder(*owner)) for less, owner in largest]


def holders_text(cycle: Cycle, job: JobState, name: str, queue: str = "", *, nodes: BoolArray | None = None) -> _Held:
    """``ns/hog holds cpu 16``: the sentence, the holders and their jobs.

    Args:
        cycle: at its end.
        job: waits; is left out.
        name: of the resource.
        queue: only jobs of this queue and those below it; empty: all.
        nodes: ``[N]`` only what is held on these; None: on all.
    """
    if nodes is not None and not nodes.all():
        on_nodes = holders_on(cycle, job, name, nodes)
        if on_nodes is not None:
            return on_nodes
    # A job that holds nothing is left out of nothing.
    return _holders_text(cycle, job if job.allocated.any() else None, name, queue)


@once
def _holders_text(cycle: Cycle, job: JobState | None, name: str, queue: str) -> _Held:
    holdings = jobs_holding(cycle, name, job, queue)
    rows = [(amount, holder_of(other.record)) for amount, other in holdings]
    if not queue:
        rows = sorted([*rows, *others_holding(cycle, name)], key=lambda one: (-one[0], one[1].name))
    rows = rows[:_MOST_NAMED]
    text = ", ".join(f"{named(who)} holds {amounts_text({name: amount})}" for amount, who in rows)
    return (
        text,
        tuple(structs.replace(who, amounts={name: amount}) for amount, who in rows),
        [other for _, other in holdings],
    )


def holders_on(cycle: Cycle, job: JobState, name: str, nodes: BoolArray) -> _Held | None:
    """Holders on some of the nodes; None where too many pods would have to be looked at."""
    session, row = cycle.session, cycle.session.registry.find(name)
    names = [session.snapshot.nodes.names[at] for at in np.flatnonzero(nodes).tolist()]
    on = session.snapshot.tasks_on
    if row is None or sum(len(on.get(node, ())) for node in names) > _MOST_PODS_ON_NODES:
        return None
    held: Counter[tuple[str, str]] = Counter()
    states: dict[tuple[str, str], JobState] = {}
    for task in _tasks_on(cycle, names):
        vector = task.pod_class.vector
        amount = int(vector[row]) if row < len(vector) else 0
        if not amount or task.job == job.key:
            continue
        state = session.job(task.job) if task.owned and task.job else None
        who = holder_of(state.record) if state is not None else owner_of(task)
        held[who.kind, who.name] += amount
        if state is not None:
            states[who.kind, who.name] = state
    rows = heapq.nsmallest(_MOST_NAMED, ((-amount, key) for key, amount in held.items()))
    holders = tuple(Holder(*key, amounts={name: -less}) for less, key in rows)
    text = ", ".join(f"{named(who)} holds {amounts_text(who.amounts)}" for who in holders)
    return text, holders, [states[key] for _, key in rows if key in states]


def _tasks_on(cycle: Cycle, names: list[str]) -> Iterator[Task]:
    """Pods that hold resources of nodes, those that this cycle has placed there included."""
    on, table = cycle.session.snapshot.tasks_on, cycle.session.snapshot.nodes
    for node in names:
        yield from (task for task in on.get(node, {}).values() if HOLDS[task.status])
    columns = {table.index[node] for node in names}
    for placement in cycle.bound:
        for task, column in zip(placement.tasks, placement.columns, strict=True):
            if column in columns:
                yield task


# ---- Who holds what a job waits for


@once
def holders_of(cycle: Cycle, need: tuple[str, ...]) -> tuple[Holder, ...]:
    """Queues that hold most of the resources that are needed, largest first."""
    registry = cycle.session.registry
    rows = {name: row for name in sorted(need, key=by_importance) if (row := registry.find(name)) is not None}
    if not rows:
        return ()
    first = next(iter(rows.values()))
    holding = sorted(
        (queue for queue in cycle.session.queues.values() if queue.allocated[first] > 0),
        key=lambda queue: (-int(queue.allocated[first]), queue.name),
    )
    return tuple(
        Holder("Queue", queue.name, {name: int(queue.allocated[row]) for name, row in rows.items()})
        for queue in holding[:_MOST_NAMED]
    )


# ---- Which pods hold host ports, on which nodes, and whether they would come back there


def port_holders(cycle: Cycle) -> dict[str, dict[str, PodClass]]:
    """By node name and pod key: pods with host ports, those that this cycle places included."""
    session = cycle.session
    held = {name: dict(pods) for name, pods in session.snapshot.port_holders.items() if pods}
    names = session.snapshot.nodes.names
    for placement in cycle.bound:
        if placement.pod_class.host_ports:
            for task, column in zip(placement.tasks, placement.columns, strict=True):
                held.setdefault(names[column], {})[task.key] = placement.pod_class
    return held


def comes_again(cycle: Cycle, key: str) -> bool:
    """Whether a controller makes another pod in place of this one (by its key), which may take the port first."""
    task = cycle.session.snapshot.tasks.get(key)
    return task is not None and is_created_again(task)


def daemonset_of(cycle: Cycle, key: str) -> str:
    """``ns/name`` of the DaemonSet that has put a pod (by its key) on its node and would again; ``""`` for others."""
    task = cycle.session.snapshot.tasks.get(key)
    return owner_of(task).name if task is not None and is_of_daemonset(task) else ""


# ---- Whom a job waits for that has places on resources not yet free


def leaving(cycle: Cycle, job: JobState) -> list[Task]:
    """Pods evicted for the job in this cycle, and those that are ending on the nodes of its pipelined tasks."""
    pods = dict(_victims(cycle).get(job.key, {}))
    columns = {column for status, column in job.places.values() if status is TaskStatus.PIPELINED}
    names, tasks_on = cycle.session.snapshot.nodes.names, cycle.session.snapshot.tasks_on
    for column in columns:
        for key, task in tasks_on.get(names[column], {}).items():
            if task.status is TaskStatus.RELEASING:
                pods[key] = task
    return [pods[key] for key in sorted(pods)]


@once
def _victims(cycle: Cycle) -> dict[str, dict[str, Task]]:
    """Victims of the cycle by beneficiary and key; sorted out when its actions are over."""
    by_job: dict[str, dict[str, Task]] = {}
    for placement, beneficiary in cycle.evicted:
        by_job.setdefault(beneficiary, {}).update((task.key, task) for task in placement.tasks)
    return by_job


def names_text(tasks: Sequence[Task]) -> str:
    """``ns/a, ns/b, ns/c and 2 more``."""
    text = ", ".join(reference(task.key) for task in tasks[:_MOST_NAMED])
    return text if len(tasks) <= _MOST_NAMED else f"{text} and {len(tasks) - _MOST_NAMED} more"


def pods_as_holders(tasks: Sequence[Task]) -> tuple[Holder, ...]:
    """The first few pods and what they request."""
    return tuple(Holder("Pod", task.key, dict(task.pod_class.requests)) for task in tasks[:_MOST_NAMED])
