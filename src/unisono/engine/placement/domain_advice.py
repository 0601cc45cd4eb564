"""Why no allowed domain took a job, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from unisono.api.annotations import RELOCATE_AFTER
from unisono.api.messages import counted
from unisono.cluster.hypertree import CLUSTER_TIER
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.status import ALLOCATED_STATES
from unisono.engine.placement.domain_search import Counts, Search
from unisono.engine.placement.sub_group_solver import Solver
from unisono.engine.session.job_state import JobState
from unisono.engine.session.limit import tasks_fitting
from unisono.engine.session.sub_groups import limit_of

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Advice:
    """What the verdict says.

    Attributes:
        message: which domain comes closest, and how close.
        suggestion: which nodes would have to be free, ``""`` where that would not help either. Whether a higher tier
            would help is tried out with everything else that might.
        holds, needed: tasks that the closest domain could hold, and that have to be placed.
        task: one of these tasks.
        domain: name of the HyperNode that would hold them if ``nodes`` (columns) were empty; ``""``: none would.
        lost: columns of nodes that are cordoned or not ready; with them back ``domain`` would hold the tasks.
    """

    message: str
    suggestion: str
    holds: int
    needed: int
    task: Task
    domain: str = ""
    nodes: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is bound to a domain: the whole job, or the sub-groups of one policy.

    Attributes:
        tasks: those that wait.
        members: all of them.
        needed: how many of ``tasks`` have to be placed.
        inside: the HyperNode that they may not leave: the root, or that of those that have a place.
    """

    job: JobState
    name: str
    limit: int
    tasks: list[Task]
    members: list[Task]
    needed: int
    inside: int

    @property
    def staying(self) -> list[Task]:
        """Those that hold a place."""
        return [task for task in self.members if self.job.status(task) in ALLOCATED_STATES]


def advise(solver: Solver, missing: int) -> Advice | None:
    """Asked right after the solver found nothing; None where the cluster as a whole could not hold the tasks either."""
    search, tasks = solver.search, [task for key in solver.groups for task in solver.given.tasks(key)]
    if not tasks or int(search.slots.held(tasks, [search.tree.root])[0]) < missing:
        return None
    for subject in _subjects(solver, tasks, missing):
        domain, holds = _closest(search, subject)
        if holds < subject.needed:
            return _too_small(search, subject, domain, holds)
    bounded = list(_subjects(solver, tasks, missing))
    if not bounded:
        return None
    subject = bounded[0]
    holds = _closest(search, subject)[1]
    text = "no domain of an allowed tier takes the sub-groups together" if solver.rules.many else _nothing(subject)
    return Advice(text, "", min(holds, subject.needed), subject.needed, tasks[0])


def _nothing(subject: _Subject) -> str:
    if subject.limit >= CLUSTER_TIER:
        return f"no cluster takes the {counted(len(subject.tasks), 'task')} together"
    return f"no HyperNode of tier {subject.limit} or lower takes the tasks"


def _subjects(solver: Solver, tasks: list[Task], missing: int) -> Iterator[_Subject]:
    tree, job = solver.search.tree, solver.job
    limit = limit_of(job, tree)
    if limit is not None and limit < tree.top_tier:
        at = solver.all_groups.at
        allowed = tree.highest(at, limit) if at >= 0 else tree.root
        members = [task for group in solver.all_groups for task in group.tasks]
        yield _Subject(job, "", limit, tasks, members, missing, allowed if allowed >= 0 else at)
    seen: set[int] = set()
    for group in (*solver.all_groups.inner, *solver.groups.values()):
        if group.policy < 0 or group.policy in seen or group.limit is None or group.limit >= tree.top_tier:
            continue
        needed, own = group.lacking(), solver.given.of_group(group).left()
        if needed > 0 and own:
            seen.add(group.policy)
            allowed = tree.highest(group.at, group.limit) if group.at >= 0 else tree.root
            yield _Subject(job, group.key, group.limit, own, group.tasks, needed, allowed if allowed >= 0 else group.at)


def _closest(search: Search, subject: _Subject) -> tuple[int, int]:
    """The allowed domain that could hold most of the tasks (-1: no domain is allowed), and how many."""
    tree = search.tree
    domains = [at for at in tree.below(subject.inside) if tree.tiers[at] <= subject.limit]
    if not domains:
        return -1, 0
    held = search.slots.held(subject.tasks, domains)
    best = int(held.argmax())
    return domains[best], int(held[best])


def _too_small(search: Search, subject: _Subject, domain: int, holds: int) -> Advice:
    tree = search.tree
    who = f" of sub-group {subject.name}" if subject.name else ""
    if domain < 0:
        fleet = subject.limit >= CLUSTER_TIER
        text = "there is no cluster" if fleet else f"there is no HyperNode of tier {subject.limit} or lower"
    else:
        if not tree.columns[domain].size:
            text = (
                f"HyperNode {tree.names[domain]} (tier {int(tree.tiers[domain])}) has no nodes: no node is its member"
            )
            return Advice(text, "", holds, subject.needed, subject.tasks[0])
        fit = "fits" if holds == 1 else "fit"
        tier = int(tree.tiers[domain])
        where = (
            f"HyperNode {tree.names[domain]} (tier {tier})" if tier < CLUSTER_TIER else f"cluster {tree.names[domain]}"
        )
        text = f"{holds} of {counted(subject.needed, 'task')}{who} {fit} into the largest allowed domain: {where}"
    if tree.problems:
        name, problem = min(tree.problems.items())
        text += f"; HyperNode {name} is left out: {problem}"
    staying = subject.staying
    if staying:
        text += f"; the topology keeps them with {_pods(staying)} of its own"
    freeable = _free_nodes(search, subject)
    if freeable is None:
        task = subject.tasks[0]
        elsewhere = _elsewhere(search, subject) if staying else ""
        back = _out_of_sight(search, subject)
        if back is not None:
            return Advice(text, elsewhere, holds, subject.needed, task, tree.names[back[0]], lost=back[1])
        return Advice(text, elsewhere, holds, subject.needed, task)
    number, at, chosen = freeable
    table = search.session.snapshot.nodes
    names = ", ".join(table.names[column] for column in chosen[:_NAMED]) + (", ..." if number > _NAMED else "")
    suggestion = f"free {counted(number, 'node')} of HyperNode {tree.names[at]} ({names})"
    return Advice(text, suggestion, holds, subject.needed, subject.tasks[0], tree.names[at], tuple(chosen))


def _pods(tasks: list[Task]) -> str:
    names = ", ".join(task.name for task in tasks[:_NAMED]) + (", ..." if len(tasks) > _NAMED else "")
    return f"{'pod' if len(tasks) == 1 else 'pods'} {names}"


def _elsewhere(search: Search, subject: _Subject) -> str:
    """That another domain has room for all that run and all that are missing, so that they could start anew there."""
    tree, again = search.tree, [*subject.staying, *subject.tasks]
    domains = [at for at in range(len(tree.names)) if tree.tiers[at] <= subject.limit and tree.columns[at].size]
    held = search.slots.held(again, domains).tolist() if domains else []
    whole = [at for at, number in zip(domains, held, strict=True) if number >= len(subject.staying) + subject.needed]
    if not whole:
        return ""
    text = f"restart {_pods(subject.staying)}, too: HyperNode {tree.names[whole[0]]} has room for all of them together"
    by_itself = RELOCATE_AFTER in subject.job.record.annotations
    return text if by_itself else f"{text} (annotation {RELOCATE_AFTER} does that)"


def _emptied(search: Search, subject: _Subject, pod_class: PodClass) -> Counts:
    """``[N]`` how many tasks each node would hold if only those of the job itself ran there."""
    nodes, room = search.session.nodes, search.slots.slots(pod_class, empty=True)
    kept: dict[int, Vector] = {}
    for task in subject.job.record.tasks.values():
        column = nodes.table.index.get(task.node, -1)
        if column >= 0 and subject.job.status(task) in ALLOCATED_STATES:
            kept[column] = kept.get(column, 0) + fitted(task.pod_class.vector, search.session.rows)
    if kept:
        room = room.copy()
    for column, amounts in kept.items():
        left = np.maximum(nodes.allocatable[:, column] - amounts, 0)[:, None]
        room[column] = min(int(room[column]), int(tasks_fitting(left, pod_class)[0]))
    return room


def _out_of_sight(search: Search, subject: _Subject) -> tuple[int, tuple[int, ...]] | None:
    """The allowed domain that would hold equal tasks if its cordoned and unready nodes were back, and those nodes.

    One of which nodes are cordoned, rather than not ready, comes first: users can bring it back.
    """
    classes = {task.pod_class.id: task.pod_class for task in subject.tasks}
    if len(classes) != 1:
        return None
    (pod_class,) = classes.values()
    nodes, tree = search.session.nodes, search.tree
    away = nodes.table.unschedulable | ~nodes.table.ready
    room = np.where(away, tasks_fitting(nodes.allocatable, pod_class), search.slots.slots(pod_class, empty=True))
    candidates: list[tuple[int, tuple[int, ...]]] = []
    for at in tree.below(subject.inside):
        columns = tree.columns[at]
        if tree.tiers[at] <= subject.limit and int(room[columns].sum()) >= subject.needed and away[columns].any():
            candidates.append((at, tuple(column for column in columns.tolist() if away[column] and room[column])))
    broken = ~nodes.table.ready
    return min(candidates, key=lambda one: (bool(broken[list(one[1])].any()), len(one[1])), default=None)


def _free_nodes(search: Search, subject: _Subject) -> tuple[int, int, list[int]] | None:
    """The fewest nodes of one allowed domain that would have to be empty: how many, the domain, and their columns.

    For equal tasks only.
    """
    classes = {task.pod_class.id: task.pod_class for task in subject.tasks}
    if len(classes) != 1:
        return None
    (pod_class,) = classes.values()
    tree = search.tree
    now, empty = search.slots.slots(pod_class), _emptied(search, subject, pod_class)
    best: tuple[int, int, list[int]] | None = None
    for at in tree.below(subject.inside):
        columns = tree.columns[at]
        short = subject.needed - int(now[columns].sum())
        if tree.tiers[at] > subject.limit or int(empty[columns].sum()) < subject.needed or short <= 0:
            continue
        gain = empty[columns] - now[columns]
        order = np.argsort(-gain, kind="stable")
        number = int(np.searchsorted(np.cumsum(gain[order]), short)) + 1
        if best is None or number < best[0]:
            best = number, at, columns[order[:number]].tolist()
    return best
