"""What must hold of placements with topology, recomputed from node sets and not from the search's own books."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from unisono.cluster.hypertree import HyperNodeTree
from unisono.cluster.status import ALLOCATED_STATES
from unisono.engine.session.sub_groups import effective, is_grouped, lineage

if TYPE_CHECKING:
    from unisono.cluster.records import Job, Task
    from unisono.engine.cycle.context import Cycle

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
                    for above in lineage(record.sub_groups, outer, policy):
                        groups[above, ()].append(task)
                    break
    return all(
        _inside(tree, [held[task.key] for task in tasks], effective(record.sub_groups[number].wish, tree, whole))
        for (number, _), tasks in groups.items()
        if any(task.key in bound for task in tasks)
    )
