"""Why each member cannot take a gang that waits, in one sentence each (pure).

The engine has decided that no member takes it whole; this counts, member by member, what is in the way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unisono.api.keys import JOB_NAME
from unisono.cluster.nodes import NodeTable
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.controllers.workloads.templates import allows, tolerates
from unisono.fleet.jobs.translation import cluster_of, is_to_come

MOST_CLASSES = 32
"""Kinds of pods of one gang that are looked at."""
MOST_PARTS = 16
"""Parts of one gang that are spoken of."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Pods of one class, of a gang."""

    pod_class: PodClass
    number: int


def by_member(
    table: NodeTable,
    tasks: Iterable[Task],
    closed: Mapping[str, str],
    least: int,
    outside: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """One sentence for each member.

    Args:
        table: the hub's nodes, settled.
        tasks: pods of the gang.
        closed: members that take no work, and why.
        least: pods that must have a place together.
        outside: members that may not have the gang, and why.
    """
    requests = [
        Wanted(pod_class, number)
        for pod_class, number in Counter(task.pod_class for task in tasks if task.status is TaskStatus.PENDING).items()
    ][:MOST_CLASSES]
    columns: dict[str, list[int]] = defaultdict(list)
    for column, name in enumerate(table.names):
        if not is_to_come(name):
            columns[cluster_of(name)].append(column)
    sentences = {**{cluster: f"takes no work: {why}" for cluster, why in closed.items()}, **(outside or {})}
    for cluster, own in columns.items():
        if cluster and cluster not in sentences:
            sentences[cluster] = _sentence(table, own, requests, least)
    return dict(sorted(sentences.items()))


def by_part(
    table: NodeTable,
    tasks: Iterable[Task],
    closed: Mapping[str, str],
    least: Mapping[str, int],
    clusters: Mapping[str, Collection[str]],
) -> dict[str, str]:
    """One sentence for each member about the parts of a gang that spans members.

    Args:
        table: the hub's nodes, settled.
        tasks: pods of the gang.
        closed: members that take no work, and why.
        least: pods that must have a place together, by part; of parts that wait.
        clusters: members that may take a part, of parts with a bound.
    """
    own: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        own[task.labels.get(JOB_NAME, "")].append(task)
    sentences_by_cluster: dict[str, list[str]] = defaultdict(list)
    for part in sorted(least)[:MOST_PARTS]:
        for cluster, sentence in by_member(table, own[part], closed, least[part]).items():
            allowed = clusters.get(part)
            outside = allowed and cluster not in allowed
            sentences_by_cluster[cluster].append(
                f"part {part}: {'not one of its clusterNames' if outside else sentence}"
            )
    return {cluster: "; ".join(sentences) for cluster, sentences in sentences_by_cluster.items()}


def room_by_member(table: NodeTable, pod_class: PodClass) -> dict[str, tuple[int, int]]:
    """How many pods of a class each member has room for: now, and if it were empty."""
    columns: dict[str, list[int]] = defaultdict(list)
    for column, name in enumerate(table.names):
        usable = table.ready[column] and not table.unschedulable[column] and not is_to_come(name)
        if usable and (cluster := cluster_of(name)) and is_allowed(table, column, pod_class):
            columns[cluster].append(column)
    return {cluster: _places(table, own, pod_class) for cluster, own in columns.items()}


def _sentence(table: NodeTable, own: Sequence[int], wanted: Sequence[Wanted], least: int) -> str:
    usable = [column for column in own if table.ready[column] and not table.unschedulable[column]]
    if not usable:
        return f"none of its {len(own)} nodes is ready"
    fitting: list[list[int]] = []
    missing: set[str] = set()
    for each in wanted:
        positions = [at for at, column in enumerate(usable) if _selected(table, column, each.pod_class)]
        if not positions:
            return f"none of its {len(usable)} nodes has the labels that the job asks for"
        fitting.append(positions)
        missing |= _missing(table, [usable[at] for at in positions], each.pod_class)
    if missing:
        return f"no node offers {', '.join(sorted(missing))}"
    whole = table.allocatable[:, usable]
    ever = int(together(whole, wanted, fitting).sum())
    if ever < least:
        return f"is too small: it would have room for {ever} of {least} pods if it were empty"
    room = int(together((whole - table.used[:, usable]).clip(min=0), wanted, fitting).sum())
    if room < least:
        return f"is full: it has room for {room} of {least} pods"
    return f"has room for {room} of {least} pods; a queue, a taint or the network is in the way"


def together(
    amounts: NDArray[np.int64], wanted: Sequence[Wanted], fitting: Sequence[Sequence[int]]
) -> NDArray[np.int64]:
    """``[C, N]`` how many of the pods of each class find room on each node, beside each other.

    Those that ask for most are placed first, or those that ask for least, whichever finds room for more; each on the
    node on which the fewest of its like have room. Another order may find room for one or two more.

    Args:
        amounts: ``[R, N]`` what the nodes have.
        wanted: pods by class.
        fitting: positions of the nodes that each class may use.
    """
    total = amounts.sum(axis=1).clip(min=1)
    sizes = [float((_aligned(each.pod_class.vector, len(total)) / total).max(initial=0)) for each in wanted]
    order = sorted(range(len(wanted)), key=sizes.__getitem__)
    tried = (_packed(amounts, wanted, fitting, each) for each in (order, order[::-1]))
    return max(tried, key=lambda placed: int(placed.sum()))


def _aligned(vector: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    return np.pad(vector[:rows], (0, max(rows - len(vector), 0)))


def _packed(
    amounts: NDArray[np.int64], wanted: Sequence[Wanted], fitting: Sequence[Sequence[int]], order: Iterable[int]
) -> NDArray[np.int64]:
    left, placed = amounts.copy(), np.zeros((len(wanted), amounts.shape[1]), dtype=np.int64)
    for at in order:
        vector, waiting = wanted[at].pod_class.vector, wanted[at].number
        rows = np.flatnonzero(vector)
        if not len(rows):
            if fitting[at]:
                placed[at, fitting[at][0]] = waiting
            continue
        if rows[-1] >= len(left) or not fitting[at]:
            continue
        nodes = np.array(fitting[at], dtype=np.intp)
        places = (left[np.ix_(rows, nodes)] // vector[rows][:, None]).min(axis=0)
        for position in np.argsort(places, kind="stable").tolist():
            number = min(int(places[position]), waiting)
            left[rows, nodes[position]] -= number * vector[rows]
            placed[at, nodes[position]] = number
            waiting -= number
    return placed


def _places(table: NodeTable, columns: Sequence[int], pod_class: PodClass) -> tuple[int, int]:
    """How many pods of the class find room on these nodes: now, and if they were empty."""
    rows = np.flatnonzero(pod_class.vector)
    if not len(rows):
        return 10**6, 10**6
    if rows[-1] >= len(table.allocatable):
        return 0, 0
    asked = pod_class.vector[rows][:, None]
    whole = table.allocatable[rows][:, list(columns)]
    free = (whole - table.used[rows][:, list(columns)]).clip(min=0)
    return int((free // asked).min(axis=0).sum()), int((whole // asked).min(axis=0).sum())


def _missing(table: NodeTable, columns: Sequence[int], pod_class: PodClass) -> set[str]:
    names = table.registry.names
    rows = np.flatnonzero(pod_class.vector)
    return {
        names[row]
        for row in rows.tolist()
        if row >= len(table.allocatable) or not table.allocatable[row, list(columns)].any()
    }


def is_allowed(table: NodeTable, column: int, pod_class: PodClass) -> bool:
    """Whether selector, required affinity and taints let a pod of the class on the node."""
    facts = table.facts[column]
    nodes = pod_class.affinity.node_affinity if pod_class.affinity is not None else None
    required = nodes.required_during_scheduling_ignored_during_execution if nodes is not None else None
    return (
        _selected(table, column, pod_class)
        and (required is None or allows(required, facts.name, facts.labels))
        and all(each.effect == "PreferNoSchedule" or tolerates(pod_class.tolerations, each) for each in facts.taints)
    )


def _selected(table: NodeTable, column: int, pod_class: PodClass) -> bool:
    labels = table.facts[column].labels
    return all(labels.get(key) == value for key, value in pod_class.node_selector.items())
