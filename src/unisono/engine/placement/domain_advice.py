"""Why no allowed domain took a job, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from unisono.api.words import counted
from unisono.cluster.records import Task
from unisono.engine.placement.domain_search import Search
from unisono.engine.placement.sub_group_solver import Solver
from unisono.engine.session.amounts import tasks_fitting
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
    """What is bound to a domain: the whole job, or the sub-groups of one policy."""

    name: str
    limit: int
    tasks: list[Task]
    needed: int
    inside: int


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
    return f"no HyperNode of tier {subject.limit} or lower takes the tasks"


def _subjects(solver: Solver, tasks: list[Task], missing: int) -> Iterator[_Subject]:
    tree, job = solver.search.tree, solver.job
    limit = limit_of(job, tree)
    if limit is not None and limit < tree.top_tier:
        at = solver.all_groups.at
        allowed = tree.highest(at, limit) if at >= 0 else tree.root
        yield _Subject("", limit, tasks, missing, allowed if allowed >= 0 else at)
    seen: set[int] = set()
    for group in solver.groups.values():
        if group.policy < 0 or group.policy in seen or group.limit is None or group.limit >= tree.top_tier:
            continue
        needed, own = group.minimum - group.ready_count, solver.given.tasks(group.key)
        if needed > 0 and own:
            seen.add(group.policy)
            allowed = tree.highest(group.at, group.limit) if group.at >= 0 else tree.root
            yield _Subject(group.key, group.limit, own, needed, allowed if allowed >= 0 else group.at)


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
        text = f"there is no HyperNode of tier {subject.limit} or lower"
    else:
        if not tree.columns[domain].size:
            text = (
                f"HyperNode {tree.names[domain]} (tier {int(tree.tiers[domain])}) has no nodes: no node is its member"
            )
            return Advice(text, "", holds, subject.needed, subject.tasks[0])
        fit = "fits" if holds == 1 else "fit"
        text = (
            f"{holds} of {counted(subject.needed, 'task')}{who} {fit} into the largest allowed domain: "
            f"HyperNode {tree.names[domain]} (tier {int(tree.tiers[domain])})"
        )
    if tree.problems:
        name, problem = min(tree.problems.items())
        text += f"; HyperNode {name} is left out: {problem}"
    found = _free_nodes(search, subject)
    if found is None:
        task = subject.tasks[0]
        back = _out_of_sight(search, subject)
        if back is not None:
            return Advice(text, "", holds, subject.needed, task, tree.names[back[0]], lost=back[1])
        return Advice(text, "", holds, subject.needed, task)
    number, at, chosen = found
    table = search.session.snapshot.nodes
    names = ", ".join(table.names[column] for column in chosen[:_NAMED]) + (", ..." if number > _NAMED else "")
    suggestion = f"free {counted(number, 'node')} of HyperNode {tree.names[at]} ({names})"
    return Advice(text, suggestion, holds, subject.needed, subject.tasks[0], tree.names[at], tuple(chosen))


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
    found: list[tuple[int, tuple[int, ...]]] = []
    for at in tree.below(subject.inside):
        columns = tree.columns[at]
        if tree.tiers[at] <= subject.limit and int(room[columns].sum()) >= subject.needed and away[columns].any():
            found.append((at, tuple(column for column in columns.tolist() if away[column] and room[column])))
    broken = ~nodes.table.ready
    return min(found, key=lambda one: (bool(broken[list(one[1])].any()), len(one[1])), default=None)


def _free_nodes(search: Search, subject: _Subject) -> tuple[int, int, list[int]] | None:
    """The fewest nodes of one allowed domain that would have to be empty: how many, the domain, and their columns.

    For equal tasks only.
    """
    classes = {task.pod_class.id: task.pod_class for task in subject.tasks}
    if len(classes) != 1:
        return None
    (pod_class,) = classes.values()
    tree = search.tree
    now, empty = search.slots.slots(pod_class), search.slots.slots(pod_class, empty=True)
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
