"""The calendar at a moment: reservations with their windows and nodes, and the numbers of queues."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unisono.api.names import did_you_mean
from unisono.api.reservations import Booking, Times, Window
from unisono.api.resources import readable
from unisono.cluster.hypertree import HyperNodeTree
from unisono.cluster.nodes import NodeTable
from unisono.cluster.records import Queue
from unisono.cluster.resources import ResourceRegistry, scheduled
from unisono.cluster.snapshot import Snapshot

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

Index = npt.NDArray[np.intp]
_NAMED = 3
"""Names of absent nodes that are told."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A reservation at a moment.

    Attributes:
        booking: what it says.
        window: the present one, or the next.
        columns: of its nodes, ascending.
        lacks: what it asks for that the cluster does not have, in words; empty where it has all.
    """

    booking: Booking
    window: Window
    columns: Index
    lacks: str = ""


@lru_cache(maxsize=4096)
def _window(times: Times, moment: float) -> Window | None:
    return times.window(moment)


def slots_of(
    bookings: Mapping[str, Booking], table: NodeTable, tree: HyperNodeTree, registry: ResourceRegistry, now: float
) -> list[Slot]:
    """All that are not over, the oldest first.

    Where only some of the nodes are meant, those come first that can take pods and that no older reservation has within
    the same window, then by name: so the choice stays the same from the first moment to the last.
    """
    slots: list[Slot] = []
    for booking in sorted(bookings.values(), key=lambda one: (one.created, one.name)):
        # One that is over goes on to have had its nodes: another one that has begun beside it keeps its own.
        window = booking.times.window(now) or booking.times.only
        if window is None:
            continue
        columns = np.flatnonzero(_matching(booking, table, tree))
        lacks = _lacking(booking, columns, table, tree, registry)
        if booking.count is not None or booking.amounts:
            taken = np.zeros(len(table), dtype=np.bool_)
            for other in slots:
                beside = _window(other.booking.times, window.start)
                if beside is not None and beside.overlaps(window):
                    taken[other.columns] = True
            usable = table.ready & (~table.unschedulable | booking.maintenance)
            order = np.lexsort((columns, ~usable[columns], taken[columns]))
            columns = _enough(booking, table, registry, columns[order])
        slots.append(Slot(booking, window, np.sort(columns), lacks))
    return [slot for slot in slots if slot.window.end > now]


def _matching(booking: Booking, table: NodeTable, tree: HyperNodeTree) -> npt.NDArray[np.bool_]:
    mask = np.ones(len(table), dtype=np.bool_)
    if booking.nodes:
        mask &= np.array([name in booking.nodes for name in table.names], dtype=np.bool_)
    for key, value in booking.labels.items():
        code = table.label_code(key, value)
        mask &= (table.label_column(key) == code) & (code >= 0)
    if booking.hyper_node:
        inside = np.zeros(len(table), dtype=np.bool_)
        if booking.hyper_node in tree.names:
            inside[tree.columns[tree.names.index(booking.hyper_node)]] = True
        mask &= inside
    return mask


def _enough(booking: Booking, table: NodeTable, registry: ResourceRegistry, columns: Index) -> Index:
    """As many of the nodes, from the first on, as it asks for; none where no node has a resource that it names."""
    if booking.count is not None:
        return columns[: booking.count]
    least = 0
    for name, amount in booking.amounts.items():
        have = np.cumsum(_offered(name, columns, table, registry))
        if amount and not (len(have) and have[-1]):
            return columns[:0]
        least = max(least, int(np.searchsorted(have, amount)) + 1)
    return columns[:least]


def _offered(name: str, columns: Index, table: NodeTable, registry: ResourceRegistry) -> npt.NDArray[np.int64]:
    """``[M]`` how much of a resource each of these nodes has."""
    row = registry.find(name)
    return np.zeros(len(columns), dtype=np.int64) if row is None else table.allocatable[row, columns]


def _lacking(
    booking: Booking, columns: Index, table: NodeTable, tree: HyperNodeTree, registry: ResourceRegistry
) -> str:
    """What it asks for that is not there, of the nodes that match."""
    problems = [
        f"there is no node {name}{did_you_mean(name, table.names)}" for name in booking.nodes - table.index.keys()
    ]
    problems = [*sorted(problems)[:_NAMED], *([f"and {len(problems) - _NAMED} more"] if len(problems) > _NAMED else [])]
    if booking.hyper_node and booking.hyper_node not in tree.names:
        problems.append(f"there is no HyperNode {booking.hyper_node}{did_you_mean(booking.hyper_node, tree.names)}")
    elif not len(columns) and not problems:
        problems.append("no node matches")
    elif booking.count is not None and len(columns) < booking.count:
        problems.append(f"{len(columns)} of {booking.count} nodes match")
    for name, amount in booking.amounts.items():
        have = int(_offered(name, columns, table, registry).sum())
        if len(columns) and not have:
            problems.append(f"no node of these has {name}{did_you_mean(name, registry.names)}")
        elif len(columns) and have < amount:
            there, asked = readable({name: have})[name], readable({name: amount})[name]
            problems.append(f"these nodes have {there} of {asked} {name}")
    return "; ".join(problems)


@dataclass(slots=True)
class _Kept:
    """The slots of the last cycle, and for which state they are: it lives in the state's memo."""

    key: tuple[int, int, int] = (-1, -1, -1)
    tree: HyperNodeTree | None = None
    since: float = inf
    until: float = -inf
    slots: list[Slot] = field(default_factory=list)


def slots_at(session: Session) -> list[Slot]:
    """All reservations that are not over, each with its present or next window and its nodes."""
    snapshot = session.snapshot
    if not snapshot.catalogue.bookings:
        return []
    table, tree, now = snapshot.nodes, snapshot.hyper_nodes, session.now
    kept, key = snapshot.memo.of(_Kept, _Kept), (snapshot.catalogue.bookings.version, table.generation, table.layout)
    if kept.key != key or kept.tree is not tree or not kept.since <= now < kept.until:
        kept.slots = slots_of(snapshot.catalogue.bookings, table, tree, snapshot.registry, now)
        kept.key, kept.tree, kept.since = key, tree, now
        kept.until = min((slot.window.end for slot in kept.slots), default=inf)
    return kept.slots


# Numbers of queues that hold for a time.


def as_of(snapshot: Snapshot, now: float) -> tuple[Snapshot, float | None]:
    """A snapshot in which queues have the numbers that hold now, and when these may be others, None: never.

    Of several for one queue the one that was created last counts. Names of resources that nothing in the cluster has
    stand for nothing.
    """
    quotas = snapshot.catalogue.temporary_quotas
    changed: dict[str, Queue] = {}
    until = inf
    for each in sorted(quotas.values(), key=lambda one: (one.created, one.name)) if quotas else ():
        window, original = each.times.window(now), snapshot.queues.get(each.queue)
        if window is None or original is None:
            continue
        until = min(until, window.end if window.holds(now) else window.start)
        if not window.holds(now):
            continue
        record = changed.get(each.queue)
        if record is None:
            record = changed[each.queue] = copy(original)
        for name, amounts in each.amounts.items():
            there = {key: amount for key, amount in amounts.items() if snapshot.registry.find(key) is not None}
            setattr(record, name, {**(getattr(record, name) or {}), **scheduled(there)})
        record.weight = each.weight or record.weight
    if changed:
        snapshot = replace(snapshot, queues={**snapshot.queues, **changed})
    return snapshot, until if until < inf else None
