"""The target workload: what usual pods ask for, on the nodes of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from unisono.api.core import NodeSelector
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.node_selectors import match_labels, match_selector
from unisono.engine.plugins.deviceshare.book import FamilyBook
from unisono.engine.plugins.deviceshare.model import Part
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session

# The measure of fragmentation and the score, as array formulas.
#
# Units: CPU in milli-cores, GPUs in thousandths of a card. Shapes: ``n`` nodes, ``C`` cards of a node, ``K`` items of
# the target workload, ``G`` groups of items that ask for the same cards. All sums are of whole numbers, so no answer
# depends on which nodes are asked about together.

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

NEVER = np.int64(1) << 40
"""A need that no card meets."""
_MANY = 48
"""From so many states on, equal ones are counted once."""
_MOST = 1 << 21
"""Elements of an intermediate array, so that large clusters need little memory."""
_FACTORS: Ints = (2 * np.arange(64, dtype=np.int64) + 1) * np.int64(0x1E3779B97F4A7C15)
"""Odd numbers that mix a row into one number; sums wrap around. Equal numbers of different rows are noticed."""


@dataclass(frozen=True)
class Workload:
    """What the cluster's pods usually ask for.

    Attributes:
        total: pods that it stands for, those without GPU included.
        weight: ``[K]`` how many pods an item with GPUs stands for; items of a group follow each other.
        cpu: ``[K]`` CPU of one.
        starts: ``[G]`` first item of each group.
        count: ``[G]`` cards of one.
        need: ``[G, N]`` what it needs of each card, by node; `NEVER` on nodes that cannot run it.
        balance: thousandths; with it a node is of use to an item only as far as its CPU reaches: for so many times the
            GPUs that pods of this item could fill with the node's idle CPU. 0: as published, CPU for one pod is enough.
    """

    total: int
    weight: Ints
    cpu: Ints
    starts: Index
    count: Ints
    need: Ints
    balance: int = 0

    @cached_property
    def group(self) -> Index:
        """``[K]`` the group of each item."""
        sizes = np.diff(np.append(self.starts, len(self.weight)))
        return np.repeat(np.arange(len(self.starts), dtype=np.intp), sizes)

    @cached_property
    def kind(self) -> Ints:
        """``[N]`` equal for nodes of which all items need the same."""
        if not len(self.starts):
            return np.zeros(self.need.shape[1], dtype=np.int64)
        _, kind = np.unique(self.need, axis=1, return_inverse=True)
        return np.asarray(kind, dtype=np.int64).reshape(-1)

    def useful(self, cpu: Ints, idle: Ints, ask: Ints) -> Ints:
        """``[n]`` what the items can use of the idle GPUs, summed over the pods that they stand for.

        Args:
            cpu: ``[n]`` idle CPU.
            idle: ``[G, n]`` idle parts of cards with enough room for a group; 0 where too few have.
            ask: ``[G, n]`` GPUs of one pod.
        """
        if not len(self.starts):
            return np.zeros(len(cpu), dtype=np.int64)
        enough = cpu[None] >= self.cpu[:, None]
        if not self.balance:
            runnable = np.add.reduceat(self.weight[:, None] * enough, self.starts, axis=0)
            return np.asarray((runnable * idle).sum(axis=0))
        reach = self.balance * ask[self.group] * cpu[None] // (1000 * np.maximum(self.cpu, 1))[:, None]
        used = np.where(enough, np.minimum(idle[self.group], reach), 0)
        return np.asarray(self.weight @ used)


def fragments(work: Workload, columns: Index, cpu: Ints, free: Ints) -> Ints:
    """``[n]`` expected fragment of each node, times ``work.total``.

    A node's fragment for an item is all that is idle where the item cannot run (or needs no GPU), else what is idle on
    cards too full for it; with `Workload.balance`, also what the node's CPU does not reach.

    Args:
        work: the target workload.
        columns: ``[n]`` positions of the nodes in ``work.need``.
        cpu: ``[n]`` idle CPU.
        free: ``[n, C]`` idle part of each card.
    """
    if len(cpu) < _MANY:
        return _fragments(work, columns, cpu, free)
    states = np.column_stack((work.kind[columns], cpu, np.sort(free, axis=1)))
    first, same = _distinct(states)
    step = max(1, _MOST // max(1, len(work.starts) * free.shape[1], len(work.weight)))
    parts = [first[at : at + step] for at in range(0, len(first), step)]
    amounts = np.concatenate([_fragments(work, columns[part], cpu[part], free[part]) for part in parts])
    return np.asarray(amounts[same])


def _fragments(work: Workload, columns: Index, cpu: Ints, free: Ints) -> Ints:
    need = work.need[:, columns]
    room = free[None] >= need[:, :, None]
    idle = np.where(room, free[None], 0).sum(axis=2)
    idle[np.count_nonzero(room & (free > 0)[None], axis=2) < work.count[:, None]] = 0
    ask = np.where(need < NEVER, work.count[:, None] * need, 0)
    return np.asarray(work.total * free.sum(axis=1) - work.useful(cpu, idle, ask))


def _distinct(states: Ints) -> tuple[Index, Index]:
    """``[m]`` one row of each set of equal rows, and ``[n]`` which of these each row equals."""
    mixed = states @ _FACTORS[: states.shape[1]] if states.shape[1] <= len(_FACTORS) else np.arange(len(states))
    _, first, same = np.unique(mixed, return_index=True, return_inverse=True)
    if (states[first[same]] == states).all():
        return first, same
    every = np.arange(len(states), dtype=np.intp)
    return every, every


def gain_by_card(
    work: Workload, columns: Index, cpu: tuple[Ints, Ints], free: Ints, taken: Ints, which: BoolArray
) -> Floats:
    """``[n, C]`` by how many cards less is fragmented, if ``taken`` (``[n]``) of that one card were taken.

    ``which`` (``[n, C]``) says for which cards; the answer is 0 for the others. ``cpu`` is what is idle before and
    after, the rest is as for `fragments`.
    """
    row, card = np.nonzero(which)
    states = np.concatenate((free, free[row]))
    states[np.arange(len(free), len(states)), card] -= taken[row]
    amounts = fragments(work, np.append(columns, columns[row]), np.append(cpu[0], cpu[1][row]), states)
    gains = np.zeros(free.shape)
    gains[row, card] = gain(amounts[row], amounts[len(free) :], work.total)
    return gains


def first_of_equals(free: Ints, which: BoolArray) -> BoolArray:
    """``[n, C]`` the cards of ``which`` before which there is none with as much idle."""
    equal = (free[:, :, None] == free[:, None, :]) & which[:, None, :]
    return np.asarray(which & ~np.tril(equal, -1).any(axis=2))


def points(gain: Floats) -> Ints:
    """``trunc(100 / (1 + exp(-gain)))``, 50 where nothing changes; ``gain`` in cards, such as fragments that go."""
    return np.asarray(np.trunc(100.0 / (1.0 + np.exp(-gain))), dtype=np.int64)


def gain(before: Ints, after: Ints, total: int) -> Floats:
    """By how many cards less is fragmented; ``before`` and ``after`` are fragments times ``total``."""
    return np.asarray((before - after) / (1000.0 * max(total, 1)))


COVERAGE = 0.95
_SCALE = 1000
"""Weights are whole numbers; with an exponent they are in thousandths."""

_Selector = tuple[list[tuple[str, str]], NodeSelector | None] | None


@dataclass(frozen=True, slots=True)
class Item:
    """Pods that ask for the same, as far as fragmentation goes.

    Attributes:
        cpu: milli-cores.
        family: of shared cards, or ``""``.
        parts: what is asked of shared cards.
        whole: whole GPUs.
        selector: node selector and required node affinity, encoded.
    """

    cpu: int
    family: str
    parts: tuple[Part, ...]
    whole: int
    selector: bytes

    @property
    def count(self) -> int:
        """Cards."""
        return sum(part.count for part in self.parts) if self.parts else self.whole


def item_of(pod_class: PodClass, resource: str, books: Sequence[FamilyBook]) -> Item:
    """What pods of a class are counted as; ``resource`` is the name of whole GPUs."""
    affinity = pod_class.affinity.node_affinity if pod_class.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    constraints = (sorted(pod_class.node_selector.items()), required) if pod_class.node_selector or required else None
    book = next((book for book in books if book.parts(pod_class)), None)
    return Item(
        cpu=pod_class.requests.get("cpu", 0),
        family=book.family.name if book else "",
        parts=book.parts(pod_class) if book else (),
        whole=-(-pod_class.requests.get(resource, 0) // 1000),
        selector=msgspec.json.encode(constraints),
    )


def frequent(items: Counter[Item], coverage: float) -> list[tuple[Item, int]]:
    """Items and their number of pods, most frequent first, until they cover a share of all."""
    ordered = sorted(items.items(), key=lambda pair: (-pair[1], repr(pair[0])))
    kept: list[tuple[Item, int]] = []
    missing = coverage * sum(items.values())
    for item, number in ordered:
        if missing <= 0:
            break
        kept.append((item, number))
        missing -= number
    return kept


@dataclass(frozen=True, slots=True)
class Measure:
    """How fragmentation is measured.

    Attributes:
        coverage: the most frequent items that make up this share of the pods count.
        balance: see `Workload`, but not in thousandths.
        size_exponent: pods count by their GPUs to the power of this; 0: each counts as one.
    """

    coverage: float = COVERAGE
    balance: float = 0.0
    size_exponent: float = 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """The target workload on the session's nodes.

    Attributes:
        work: for the formulas.
        demand: ``[G]`` GPUs, in thousandths, that the pods of a group ask for together.
        allowed: ``[G, N]`` nodes that their selectors allow.
    """

    work: Workload
    demand: Ints
    allowed: BoolArray


def target(
    session: Session, items: Counter[Item], books: Sequence[FamilyBook], whole: BoolArray, measure: Measure
) -> Target:
    """The target workload on the session's nodes; ``whole[i]``: node ``i`` gives its GPUs as whole ones."""
    kept = frequent(items, measure.coverage)
    groups: dict[Item, list[tuple[int, int]]] = {}
    for item, number in kept:
        if item.count:
            groups.setdefault(replace(item, cpu=0), []).append((item.cpu, number))
    need = np.full((len(groups), session.nodes.size), NEVER, dtype=np.int64)
    allowed = np.zeros(need.shape, dtype=np.bool_)
    selected: dict[bytes, BoolArray] = {}
    for row, item in enumerate(groups):
        may = selected.get(item.selector)
        if may is None:
            may = selected[item.selector] = _selected(item.selector, session.nodes)
        allowed[row] = may
        need[row] = np.where(may, _needs(item, books, whole), NEVER)
    members = list(groups.values())
    sizes = [0, *(len(group) for group in members)]
    count = np.array([item.count for item in groups], dtype=np.int64)
    least = need.min(axis=1, initial=NEVER) if need.size else np.zeros(len(groups), dtype=np.int64)
    ask = np.where(least < NEVER, least * count, 0)
    pods = np.array([number for group in members for _, number in group], dtype=np.int64)
    group_of = np.repeat(np.arange(len(groups)), sizes[1:])
    weight, scale = pods, 1
    if measure.size_exponent:
        scale = _SCALE
        cards = np.maximum(ask[group_of], 1) / 1000.0
        weight = np.rint(scale * pods * cards**measure.size_exponent).astype(np.int64)
    others = sum(number for item, number in kept if not item.count)
    work = Workload(
        total=scale * others + int(weight.sum()),
        weight=weight,
        cpu=np.array([cpu for group in members for cpu, _ in group], dtype=np.int64),
        starts=np.cumsum(sizes[:-1], dtype=np.intp),
        count=count,
        need=need,
        balance=round(1000 * measure.balance),
    )
    together = np.bincount(group_of, weights=pods, minlength=len(groups)).astype(np.int64)
    return Target(work, together * ask, allowed)


def _selected(selector: bytes, nodes: NodeView) -> BoolArray:
    decoded = msgspec.json.decode(selector, type=_Selector)
    if decoded is None:
        return np.ones(nodes.size, dtype=np.bool_)
    labels, required = decoded
    mask = match_labels(dict(labels), nodes)
    return mask if required is None else mask & match_selector(required, nodes)


def _needs(item: Item, books: Sequence[FamilyBook], whole: BoolArray) -> Ints:
    """``[N]`` thousandths of each card that the item needs; `NEVER` on nodes of another kind."""
    if not item.parts:
        return np.where(whole, np.int64(1000), NEVER)
    need = np.full(len(whole), NEVER, dtype=np.int64)
    book = next(book for book in books if book.family.name == item.family)
    if book.columns:
        need[book.columns] = part_needs(item.parts, book.table.memory.max(axis=1))
    return need


def part_needs(parts: Sequence[Part], memory: Ints) -> Ints:
    """``[n]`` thousandths of a card with ``memory`` that the largest part takes, rounded up."""
    size = np.maximum(memory, 1)
    most = np.ones_like(size)
    for part in parts:
        taken = size * part.percent // 100 if part.percent else np.full_like(size, part.memory)
        share = np.full_like(size, 1000) if part.whole else np.maximum(-(-1000 * taken // size), 10 * part.cores)
        most = np.maximum(most, share)
    return most
