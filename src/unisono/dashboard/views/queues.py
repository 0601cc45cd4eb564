"""The tree of queues with what each uses and may use, and who waits in it (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import yaml

from unisono.api.resources import add, resource_list
from unisono.api.selecting import queue_of
from unisono.api.verdict import job_name, verdict_in
from unisono.dashboard.views.units import ordered, quantity
from unisono.dashboard.views.wire import QueueLine, QueuesView, Share
from unisono.sdk.overview.queues import queue_views

if TYPE_CHECKING:
    from unisono.api.core import Node
    from unisono.api.groups.scheduling import PodGroup, Queue

_ROOT = "root"
_WAITING = frozenset({"", "Pending", "Inqueue"})
# Jobs of a queue that are named.
_MOST_NAMED = 20
_DEEPEST = 20
_LEFT_OUT = ("pods", "ephemeral-storage")


def queues_view(
    queues: Iterable[Queue], groups: Iterable[PodGroup], nodes: Iterable[Node], *, editable: bool, ready: bool = True
) -> QueuesView:
    """All queues that the viewer may see, each below its parent.

    Args:
        queues: of the cluster.
        groups: PodGroups that the viewer may see.
        nodes: of the cluster; what they have together is the measure of a queue without limits.
        editable: whether the viewer may change queues.
        ready: everything was listed once.

    """
    queues, groups = list(queues), list(groups)
    total: dict[str, int] = {}
    for node in nodes:
        add(total, resource_list(node.status.allocatable))
    by_name = {queue.metadata.name: queue for queue in queues}
    waiting = _lines(groups)
    rows = {}
    for told in queue_views(queues, groups):
        queue = by_name[told.name]
        rows[told.name] = QueueLine(
            name=told.name,
            parent=told.parent,
            state=told.state,
            weight=told.weight,
            reclaimable=queue.spec.reclaimable is not False,
            waiting=told.groups["Pending"] + told.groups["Inqueue"],
            running=told.groups["Running"],
            shares=_shares(queue, total),
            line=waiting.get(told.name, [])[:_MOST_NAMED],
            spec=yaml.safe_dump(msgspec.to_builtins(queue.spec), sort_keys=False, default_flow_style=False),
            editable=editable,
        )
    order = _order(rows)
    placed = {name: msgspec.structs.replace(rows[name], depth=depth) for name, depth in order}
    return QueuesView(ready=ready, order=[name for name, _ in order], rows=placed)


def _order(rows: Mapping[str, QueueLine]) -> list[tuple[str, int]]:
    """Names with their depth, each queue right after its parent; a circle of parents is listed at the end."""
    children: dict[str, list[str]] = defaultdict(list)
    for name in sorted(rows):
        parent = rows[name].parent
        children[parent if parent in rows and parent != name else ""].append(name)
    found: dict[str, int] = {}
    todo = [(name, 0) for name in reversed(children[""])]
    while todo:
        name, depth = todo.pop()
        if name in found:
            continue
        found[name] = depth
        todo += [(child, min(depth + 1, _DEEPEST)) for child in reversed(children[name])]
    return [*found.items(), *((name, 0) for name in sorted(rows) if name not in found)]


def _lines(groups: Sequence[PodGroup]) -> dict[str, list[str]]:
    """Jobs that wait in each queue: in the scheduler's order where verdicts tell it, then by age."""
    places: dict[str, list[tuple[float, str, str]]] = defaultdict(list)
    for group in groups:
        if (group.status.phase or "") in _WAITING:
            verdict = verdict_in(group.metadata.annotations)
            place = float(verdict.position) if verdict is not None and verdict.position else float("inf")
            created = group.metadata.creation_timestamp or ""
            places[queue_of(group)].append((place, created, job_name(group.key)))
    return {queue: [name for _, _, name in sorted(line)] for queue, line in places.items()}


def _shares(queue: Queue, total: Mapping[str, int]) -> list[Share]:
    spec = queue.spec
    amounts = {
        "used": resource_list(queue.status.allocated),
        "deserved": resource_list(spec.deserved),
        "guarantee": resource_list(spec.guarantee.resource if spec.guarantee else None),
        "capability": resource_list(spec.capability),
    }
    names = dict.fromkeys(name for each in amounts.values() for name in each if name not in _LEFT_OUT)
    found = []
    for name in ordered(names):
        # Where the viewer sees no nodes, and nothing limits the queue, there is no measure.
        most = max(total.get(name, 0), *(each.get(name, 0) for part, each in amounts.items() if part != "used"))
        used = amounts["used"].get(name, 0)
        texts = {part: quantity(name, each[name]) for part, each in amounts.items() if name in each}
        texts["total"] = quantity(name, total[name]) if name in total else ""
        parts = {f"{part}_part": round(each.get(name, 0) / most, 4) if most else 0.0 for part, each in amounts.items()}
        if most or used:
            found.append(msgspec.convert({"name": name, **texts, **_camel(parts)}, Share))
    return found


def _camel(parts: Mapping[str, float]) -> dict[str, float]:
    return {name.replace("_part", "Part"): value for name, value in parts.items()}
