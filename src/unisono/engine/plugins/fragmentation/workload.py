"""The target workload: what usual pods ask for, on the nodes of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from unisono.api.core import NodeSelector
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.node_selectors import match_labels, match_selector
from unisono.engine.plugins.deviceshare.book import FamilyBook
from unisono.engine.plugins.deviceshare.model import Part
from unisono.engine.plugins.fragmentation.formula import NEVER, Ints, Workload
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session

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
    wanted = (sorted(pod_class.node_selector.items()), required) if pod_class.node_selector or required else None
    book = next((book for book in books if book.parts(pod_class)), None)
    return Item(
        cpu=pod_class.requests.get("cpu", 0),
        family=book.family.name if book else "",
        parts=book.parts(pod_class) if book else (),
        whole=-(-pod_class.requests.get(resource, 0) // 1000),
        selector=msgspec.json.encode(wanted),
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
