"""Pods per topology domain, followed through a session.

A *source* counts pods of one kind on each node: those that a selector selects, or that hold a term. A *tally* adds a
source up over the domains of a topology key. Both are made when first asked for and then follow every placement, so a
placement costs one addition per source and tally that it concerns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt

from unisono.cluster.nodes import Codes
from unisono.cluster.podclass import PodClass
from unisono.cluster.selectors import Held
from unisono.cluster.snapshot import Snapshot
from unisono.engine.answers import BoolArray

Counts = npt.NDArray[np.int64]


class Which(Enum):
    """Which pods a source counts."""

    SELECTED = "selected"
    """Those that a selector (by id) selects."""
    LIVING = "living"
    """The same without those that are terminating."""
    HOLDING = "holding"
    """Those that hold a term."""
    PLEDGED = "pledged"
    """Of those that a selector selects, those that were only promised a place in this session."""
    EVICTED = "evicted"
    """Those that this session evicts and that are still there: selected by a selector."""
    EVICTED_HOLDING = "evicted holding"
    """The same, holding a term."""


class Tally:
    """Sums of a source per domain of a topology key.

    Attributes:
        codes: ``[N]`` domain of each node, -1 where it is in none.
        sums: ``[D + 1]`` pods per domain; the last entry stays 0 and is that of nodes in no domain.
        mask: ``[N]`` nodes that count, None for all.
    """

    __slots__ = ("codes", "mask", "sums")

    def __init__(self, codes: Codes, domains: int, counts: Counts, mask: BoolArray | None) -> None:
        self.codes = codes
        self.mask = mask
        self.sums: Counts = np.zeros(domains + 1, dtype=np.int64)
        held = np.flatnonzero(counts)  # few nodes hold such pods
        if len(held):
            held = held[codes[held] >= 0]
            held = held if mask is None else held[mask[held]]
            np.add.at(self.sums, codes[held], counts[held])

    def move(self, column: int, number: int) -> None:
        """``number`` pods came to a node (or left it, below 0)."""
        code = self.codes[column]
        if code >= 0 and (self.mask is None or self.mask[column]):
            self.sums[code] += number

    def on_nodes(self) -> Counts:
        """``[N]`` the sum of each node's domain; 0 where it is in none."""
        return np.asarray(self.sums[self.codes])


class Source:
    """Pods of one kind per node: ``counts`` ``[N]``; ``version`` moves with every change."""

    __slots__ = ("_tallies", "counts", "snapshot", "version")

    def __init__(self, snapshot: Snapshot, counts: Counts) -> None:
        self.snapshot = snapshot
        self.counts = counts
        self.version = 0
        self._tallies: dict[tuple[str, int], Tally] = {}

    def tally(self, key: str, mask: BoolArray | None = None) -> Tally:
        """Sums over the domains of a topology key; ``mask`` must live as long as the session."""
        name = (key, 0 if mask is None else id(mask))
        label_tally = self._tallies.get(name)
        if label_tally is None:
            codes, domains = self.snapshot.domains_of(key), self.snapshot.domain_count(key)
            label_tally = self._tallies[name] = Tally(codes, domains, self.counts, mask)
        return label_tally

    def move(self, column: int, number: int) -> None:
        """Follow a placement."""
        self.version += 1
        self.counts[column] += number
        for tally in self._tallies.values():
            tally.move(column, number)


_Columns = dict[int, int]


class _Journal:
    """What a session did to pods of each class, by node: sources that are asked for later begin with it."""

    __slots__ = ("classes", "holders")

    def __init__(self) -> None:
        self.classes: dict[int, tuple[PodClass, _Columns]] = {}
        self.holders: dict[Held, list[_Columns]] = {}

    def note(self, pod_class: PodClass, columns: Sequence[int], sign: int) -> None:
        entry = self.classes.get(pod_class.id)
        if entry is None:
            entry = self.classes[pod_class.id] = (pod_class, {})
            for held in pod_class.terms.held:
                self.holders.setdefault(held, []).append(entry[1])
        counts = entry[1]
        for column in columns:
            counts[column] = counts.get(column, 0) + sign

    def of_selector(self, selector: int) -> Iterator[_Columns]:
        return (counts for pod_class, counts in self.classes.values() if selector in pod_class.matched)

    def of_holders(self, held: Held) -> Iterable[_Columns]:
        return self.holders.get(held, ())


class Domains:
    """All sources of one session.

    `selected`, `living` and `holding` see the cluster as it will be: with pods that were promised a place, and without
    those that this session evicts. What starts now finds the former absent and the latter present: `pledged`,
    `evicted` and `evicted_holding` count them.

    A placement costs one step for each source that was asked for and concerns the pod, not one for each selector.

    Attributes:
        unsettled: this session has promised a place, or evicted a pod, that some source looks at.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.affinity_index = snapshot.affinity_index
        self._by_selector: dict[Which, dict[int, Source]] = {which: {} for which in Which}
        self._by_term: dict[Which, dict[Held, Source]] = {which: {} for which in Which}
        self._placed, self._pledged, self._evicted = _Journal(), _Journal(), _Journal()
        self._followed: dict[int, list[Source]] = {}
        self.unsettled = False

    def selected(self, selector: int) -> Source:
        """Pods that a selector selects, terminating ones included."""
        source = self._by_selector[Which.SELECTED].get(selector)
        if source is not None:
            return source
        return self._selecting(Which.SELECTED, selector, self.affinity_index.selected.get(selector, {}), self._placed)

    def living(self, selector: int) -> Source:
        """Pods that a selector selects and that are not terminating."""
        source = self._by_selector[Which.LIVING].get(selector)
        if source is not None:
            return source
        leaving = self.affinity_index.leaving.get(selector, {})
        base = self.affinity_index.selected.get(selector, {})
        counts = {node: number - leaving.get(node, 0) for node, number in base.items()} if leaving else base
        return self._selecting(Which.LIVING, selector, counts, self._placed)

    def holding(self, held: Held) -> Source:
        """Pods that hold a term."""
        source = self._by_term[Which.HOLDING].get(held)
        if source is not None:
            return source
        return self._of_holders(Which.HOLDING, held, self.affinity_index.holders.get(held, {}), self._placed)

    def pledged(self, selector: int) -> Source:
        """Pods that a selector selects and that were only promised a place."""
        source = self._by_selector[Which.PLEDGED].get(selector)
        return source or self._selecting(Which.PLEDGED, selector, {}, self._pledged)

    def evicted(self, selector: int) -> Source:
        """Pods that a selector selects, that this session evicts and that are still there."""
        source = self._by_selector[Which.EVICTED].get(selector)
        return source or self._selecting(Which.EVICTED, selector, {}, self._evicted)

    def evicted_holding(self, held: Held) -> Source:
        """Pods that hold a term, that this session evicts and that are still there."""
        source = self._by_term[Which.EVICTED_HOLDING].get(held)
        return source or self._of_holders(Which.EVICTED_HOLDING, held, {}, self._evicted)

    def _selecting(self, which: Which, selector: int, base: Mapping[str, int], journal: _Journal) -> Source:
        source = self._by_selector[which][selector] = self._made(base, journal.of_selector(selector))
        return source

    def _of_holders(self, which: Which, held: Held, base: Mapping[str, int], journal: _Journal) -> Source:
        source = self._by_term[which][held] = self._made(base, journal.of_holders(held))
        return source

    def _made(self, base: Mapping[str, int], moved: Iterable[_Columns]) -> Source:
        table = self.snapshot.nodes
        counts = np.zeros(len(table), dtype=np.int64)
        for node, number in base.items():
            column = table.index.get(node)
            if column is not None:
                counts[column] = number
        for columns in moved:
            for column, number in columns.items():
                counts[column] += number
        self._followed.clear()
        return Source(self.snapshot, counts)

    def move(self, pod_class: PodClass, columns: Sequence[int], sign: int) -> None:
        """Follow pods of a class that were placed (``sign`` 1) or taken away (-1), one on each entry of ``columns``."""
        self._placed.note(pod_class, columns, sign)
        sources = self._followed.get(pod_class.id)
        if sources is None:
            selecting = (self._by_selector[Which.SELECTED], self._by_selector[Which.LIVING])
            sources = [known[s] for known in selecting for s in known.keys() & pod_class.matched]
            sources += self._holding(Which.HOLDING, pod_class)
            self._followed[pod_class.id] = sources
        _follow(sources, columns, sign)

    def pledge(self, pod_class: PodClass, columns: Sequence[int], sign: int) -> None:
        """Those of `move` were only promised their places, or are promised them no longer."""
        self.unsettled = self.unsettled or bool(pod_class.matched)
        self._pledged.note(pod_class, columns, sign)
        by_selector = self._by_selector[Which.PLEDGED]
        _follow([by_selector[s] for s in by_selector.keys() & pod_class.matched], columns, sign)

    def evict(self, pod_class: PodClass, columns: Sequence[int], sign: int) -> None:
        """Those of `move` are still there until they have terminated, or stay after all."""
        self.unsettled = self.unsettled or bool(pod_class.matched or pod_class.terms.held)
        self._evicted.note(pod_class, columns, sign)
        by_selector = self._by_selector[Which.EVICTED]
        sources = [by_selector[s] for s in by_selector.keys() & pod_class.matched]
        _follow(sources + self._holding(Which.EVICTED_HOLDING, pod_class), columns, sign)

    def _holding(self, which: Which, pod_class: PodClass) -> list[Source]:
        """Sources of the terms that a class holds; one that it holds twice counts twice, as the index counts it."""
        by_term = self._by_term[which]
        return [by_term[held] for held in pod_class.terms.held if held in by_term]


def _follow(sources: Iterable[Source], columns: Sequence[int], sign: int) -> None:
    for source in sources:
        for column in columns:
            source.move(column, sign)
