"""What must hold of every set of decisions; what breaks a rule is left out and reported.

Everything is recomputed from the snapshot and the requests of the pods, not from the session's own books.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.messages import counted
from unisono.api.selecting import lineage
from unisono.cluster.hypertree import HyperNodeTree
from unisono.cluster.job_licenses import keeps_places
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.status import ALLOCATED_STATES, PREEMPTABLE_STATES, TaskStatus
from unisono.engine.answers import BUDGET, CALENDAR, IDLE, RELOCATE, RUN_TIME, Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.transaction import Placement
from unisono.engine.decisions import Violation
from unisono.engine.session.budgets import spendings_of
from unisono.engine.session.choices import Choices
from unisono.engine.session.floating import floating_limits
from unisono.engine.session.job_state import JobState
from unisono.engine.session.queue_limits import limits_of
from unisono.engine.session.sub_groups import effective, is_grouped
from unisono.engine.session.sub_groups import lineage as outer_groups

if TYPE_CHECKING:
    from unisono.cluster.records import Task

# What must hold of placements with topology, recomputed from node sets and not from the search's own books.

_KEEPER = "network-topology-aware"


def outside(cycle: Cycle) -> dict[str, str]:
    """Jobs of which tasks would be bound outside of every domain that their topology allows, and in which words.

    Where the plug-in that keeps the bounds has
    failed in this cycle they hold all the same: such a job waits for a cycle in which it works.
    """
    if not cycle.bound:
        return {}
    if not cycle.hooks.has("domain_gradients") and _KEEPER not in cycle.hooks.failed:
        return {}
    tree = cycle.session.snapshot.hyper_nodes
    index = cycle.session.snapshot.nodes.index
    places: dict[str, dict[str, int]] = defaultdict(dict)
    records: dict[str, Job] = {}
    for placement in cycle.bound:
        if is_grouped(placement.job, tree):
            records[placement.job.key] = placement.job.record
            for task, column in zip(placement.tasks, placement.columns, strict=True):
                places[placement.job.key][task.key] = column
    broken: dict[str, str] = {}
    for key, bound in places.items():
        record = records[key]
        held = {task.key: index[task.node] for task in record.tasks.values() if _counts(task) and task.node in index}
        held |= bound
        if not _inside(tree, held.values(), effective(record.topology, tree)) or not _groups_inside(
            record, tree, held, bound
        ):
            broken[key] = "its pods would be bound outside of the domain that its network topology allows"
    return broken


def _counts(task: Task) -> bool:
    return task.status in ALLOCATED_STATES


def _inside(tree: HyperNodeTree, columns: Iterable[int], limit: int | None) -> bool:
    """Whether one HyperNode of at most that tier holds all nodes."""
    if limit is None or limit >= tree.top_tier:
        return True
    shared: set[int] | None = None
    for column in tree.one_a_line(columns):
        owners = {int(at) for at in tree.holders(column) if tree.tiers[at] <= limit}
        shared = owners if shared is None else shared & owners
        if not shared:
            return False
    return True


def _groups_inside(record: Job, tree: HyperNodeTree, held: dict[str, int], bound: dict[str, int]) -> bool:
    whole = effective(record.topology, tree)
    groups: dict[tuple[int, tuple[str, ...]], list[Task]] = defaultdict(list)
    outer = {policy.name: number for number, policy in enumerate(record.sub_groups)}
    for task in record.tasks.values():
        if task.key in held:
            for number, policy in enumerate(record.sub_groups):
                values = policy.values(task.labels, task.part)
                if values is not None:
                    groups[number, values].append(task)
                    for above in outer_groups(record.sub_groups, outer, policy):
                        groups[above, ()].append(task)
                    break
    return all(
        _inside(tree, [held[task.key] for task in tasks], effective(record.sub_groups[number].wish, tree, whole))
        for (number, _), tasks in groups.items()
        if any(task.key in bound for task in tasks)
    )


_HELD = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED)

_FOR_OTHERS = (Purpose.PREEMPT, Purpose.RECLAIM, Purpose.GANG_PREEMPT, Purpose.GANG_RECLAIM)

_FOR_NOBODY = (Purpose.SHUFFLE.value, RELOCATE, CALENDAR, RUN_TIME, BUDGET, IDLE)

_SHUFFLED = "action shuffle"
"""Stands for the beneficiary of evictions that have none."""


def enforce(cycle: Cycle) -> None:
    """Drop the placements of every job that breaks a rule.

    A pod is bound once and only while pending, to a node that exists; no node gets more than its allocatable; a gang's
    binds reach its minimum; no queue of the tree goes beyond its capability, and no floating resource beyond what there
    is; nothing starts over a hard budget that is used up; a pod is evicted once, only while it holds a place, and for a
    beneficiary that gets all it needs (but for shuffle) and is not dropped; no gang gets pods and loses others; one
    whose members are taken for others keeps its minimum or goes whole; jobs stay in their domains, and on nodes of one
    kind where they take one of several.
    """
    broken: dict[str, str] = {}
    _check_pods(cycle.bound, broken)
    _check_nodes(cycle, broken)
    _check_gangs(cycle, broken)
    _check_queues(cycle, broken)
    _check_floating(cycle, broken)
    _check_budgets(cycle, broken)
    _check_evictions(cycle, broken)
    _check_beneficiaries(cycle, broken)
    _check_victims(cycle, broken)
    broken |= outside(cycle)
    _check_kinds(cycle, broken)
    if not broken:
        return
    cycle.bound = [placement for placement in cycle.bound if placement.job.key not in broken]
    cycle.evicted = [(placement, key) for placement, key in cycle.evicted if (key or _SHUFFLED) not in broken]
    for key, text in sorted(broken.items()):
        cycle.decisions.violations.append(Violation(key if key == _SHUFFLED else f"PodGroup {key}", text))
        job = cycle.session.job(key)
        if job is not None:
            cycle.report(job).dropped = text


def _check_kinds(cycle: Cycle, broken: dict[str, str]) -> None:
    """Pods of a part of a gang that takes one kind of nodes, of several, are on nodes of that kind."""
    choices = cycle.session.shared.find(Choices)
    if choices is None:
        return
    for placement in cycle.bound:
        part = choices.part(placement.job, placement.pod_class)
        if part is not None and not choices.nodes(part.kind)[placement.columns].all():
            broken[placement.job.key] = f"its pods would be bound to nodes that are not of {part.kind.name}"


def _check_pods(bound: list[Placement], broken: dict[str, str]) -> None:
    seen: set[str] = set()
    for placement in bound:
        for task in placement.tasks:
            if task.key in seen:
                broken[placement.job.key] = f"pod {task.key} would be bound twice"
            elif task.status is not TaskStatus.PENDING:
                broken[placement.job.key] = f"pod {task.key} is not pending and cannot be bound"
            seen.add(task.key)


def _check_nodes(cycle: Cycle, broken: dict[str, str]) -> None:
    """Sum of what is used and bound per node against allocatable."""
    table = cycle.session.snapshot.nodes
    columns: dict[PodClass, list[int]] = defaultdict(list)
    for placement in cycle.bound:
        columns[placement.pod_class].extend(placement.columns)
    if not columns:
        return
    used = table.used.copy()
    taken = np.zeros(len(table), dtype=np.bool_)
    for pod_class, where in columns.items():
        number = np.bincount(np.array(where, dtype=np.intp), minlength=len(table))
        used += pod_class.vector[:, None] * number
        if not pod_class.best_effort:
            taken |= number > 0
    over = (used > np.maximum(table.allocatable, table.used)) & taken
    _blame(cycle, over, broken)


def _blame(cycle: Cycle, over: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], broken: dict[str, str]) -> None:
    """Every job with a pod on a node that is over: whose pod was the last one is not known here."""
    table = cycle.session.snapshot.nodes
    names = cycle.session.registry.names
    too_full = {int(c): names[int(np.flatnonzero(over[:, c])[0])] for c in np.flatnonzero(over.any(axis=0))}
    if not too_full:
        return
    for placement in cycle.bound:
        for column in placement.columns:
            if column in too_full:
                name = too_full[column]
                broken[placement.job.key] = f"node {table.names[column]} would be given more {name} than it has"


def _check_gangs(cycle: Cycle, broken: dict[str, str]) -> None:
    if not cycle.hooks.has("ready"):
        return
    numbers: dict[str, int] = defaultdict(int)
    jobs: dict[str, JobState] = {}
    whole: set[str] = set()
    for placement in cycle.bound:
        job, number = placement.job, len(placement.tasks)
        if number >= job.record.min_member:
            whole.add(job.key)
            continue
        numbers[job.key] += number
        jobs[job.key] = job
    for key, number in numbers.items():
        record = jobs[key].record
        if key in whole or number >= record.min_member:
            continue
        reached = _held(record) + number
        if reached < record.min_member:
            broken[key] = (
                f"{counted(number, 'pod')} would be bound, which leaves the gang below minMember {record.min_member}"
            )


def _check_queues(cycle: Cycle, broken: dict[str, str]) -> None:
    """No queue in the tree is given more than its capability; terminating pods hold theirs until they are gone."""
    registry = cycle.session.registry
    limits = limits_of(cycle.session.snapshot, registry) if cycle.bound else None
    if not limits:
        return
    parents = {name: queue.record.parent for name, queue in cycle.session.queues.items()}
    given = {name: registry.zeros() for name in limits}
    for placement in cycle.bound:
        amounts = fitted(placement.pod_class.vector, len(registry)) * len(placement.tasks)
        for name in lineage(placement.job.queue.name, parents):
            if name in given:
                given[name] += amounts
    over = {
        name: registry.names[row]
        for name, limit in limits.items()
        for row, most in limit.most.items()
        if given[name][row] and limit.held[row] + limit.leaving[row] + given[name][row] > most
    }
    for placement in cycle.bound if over else ():
        for name in lineage(placement.job.queue.name, parents):
            if name in over:
                broken[placement.job.key] = f"queue {name} would go beyond its capability for {over[name]}"


def _check_floating(cycle: Cycle, broken: dict[str, str]) -> None:
    """No more of a floating resource is held than there is; a job as a whole counts with its first pod."""
    session = cycle.session
    registry, snapshot = session.registry, session.snapshot
    if not registry.floating or not cycle.bound:
        return
    given, first = registry.zeros(), set[str]()
    asked: dict[str, Vector] = {}
    for placement in cycle.bound:
        job, amounts = placement.job.record, fitted(placement.pod_class.vector, len(registry)) * len(placement.tasks)
        if job.license_vector is not None and not keeps_places(job):
            amounts = amounts + (fitted(job.license_vector, len(registry)) if job.key not in first else 0)
            first.add(job.key)
        given += amounts
        asked[job.key] = asked.get(job.key, registry.zeros()) + amounts
    over = [
        limit
        for limit in floating_limits(snapshot, session.now, session.queues)
        if given[limit.row]
        and limit.held[limit.row] + limit.leaving[limit.row] + given[limit.row] > limit.most[limit.row]
    ]
    for limit in over:
        for key, amounts in asked.items():
            if amounts[limit.row]:
                broken[key] = f"more of {limit.name} would be held than there is"


def _check_budgets(cycle: Cycle, broken: dict[str, str]) -> None:
    """Nothing starts once a hard budget is used up."""
    spendings = spendings_of(cycle.session)
    if spendings is None:
        return
    shut = {at: one.purse.name for at, one in enumerate(spendings.all) if one.purse.hard and one.up}
    for placement in cycle.bound if shut else ():
        for at in spendings.of(placement.job.record):
            if at in shut:
                broken[placement.job.key] = f"budget {shut[at]} is used up"


def _check_evictions(cycle: Cycle, broken: dict[str, str]) -> None:
    seen: set[str] = set()
    for placement, key in cycle.evicted:
        for task in placement.tasks:
            if task.key in seen:
                broken[key or _SHUFFLED] = f"pod {task.key} would be evicted twice"
            elif task.status not in PREEMPTABLE_STATES:
                broken[key or _SHUFFLED] = f"pod {task.key} holds no place and cannot be evicted"
            seen.add(task.key)


def _check_beneficiaries(cycle: Cycle, broken: dict[str, str]) -> None:
    """Whom pods are evicted for gets places, and a gang as many as it needs with what it keeps."""
    if not cycle.evicted:
        return
    got: Counter[str] = Counter()
    for placement in (*cycle.bound, *cycle.transaction.log):
        got[placement.job.key] += len(placement.tasks)
    gone: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for placement, key in cycle.evicted:
        lost[placement.job.key] += len(placement.tasks)
        if key or placement.reason not in _FOR_NOBODY:
            gone[key] += len(placement.tasks)
    for key, number in gone.items():
        record = cycle.session.snapshot.jobs.get(key)
        text = f"{counted(number, 'pod')} would be evicted"
        if record is None or not got[key]:
            broken[key or _SHUFFLED] = f"{text} and no pod gets their places"
        elif cycle.hooks.has("ready") and _held(record) - lost[key] + got[key] < record.min_member:
            broken[key] = f"{text} and the gang would have {got[key]} of {counted(record.min_member, 'pod')}"


def _check_victims(cycle: Cycle, broken: dict[str, str]) -> None:
    """No gang gets pods and loses others; one that loses members to others keeps its minimum or goes whole."""
    if not cycle.evicted:
        return
    bound = {placement.job.key for placement in cycle.bound}
    lost: Counter[str] = Counter()
    takers: dict[str, set[str]] = defaultdict(set)
    given_up: set[str] = set()
    keeping = {purpose.value for purpose in _FOR_OTHERS if cycle.hooks.keeps_gangs(purpose)}
    for placement, key in cycle.evicted:
        victim = placement.job.key
        lost[victim] += len(placement.tasks)
        if victim in bound:
            broken[key or _SHUFFLED] = f"pods of PodGroup {victim} would be evicted while others of it are bound"
        elif key != victim and placement.reason in keeping:
            takers[victim].add(key)
        elif key != victim:
            given_up.add(victim)  # by a purpose that may break gangs, after which what is left is of no use
    for victim, keys in takers.items():
        if victim in given_up:
            continue
        record = cycle.session.snapshot.jobs[victim]
        held, ended = _held(record), record.counts[TaskStatus.SUCCEEDED]
        left = held - ended - lost[victim]
        if left and left + ended < record.min_member <= held:
            broken |= dict.fromkeys(keys, f"PodGroup {victim} would go on with {left} of {record.min_member} pods")


def _held(record: Job) -> int:
    """Pods that hold a place of a gang, or have used it."""
    return sum(record.counts[status] for status in _HELD)
