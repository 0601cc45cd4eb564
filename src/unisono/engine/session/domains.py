"""Pods per topology domain, followed through a session.

A *source* counts pods of one kind on each node: those that a selector selects, or that hold a term. A *tally* adds a
source up over the domains of a node label. Both are made when first asked for and then follow every placement, so a
placement costs one addition per source and tally that it concerns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt

from unisono.cluster.nodes import Codes, NodeTable
from unisono.cluster.podclass import PodClass
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.terms import Held
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


Name = tuple[Which, int | Held]


class Tally:
    """Sums of a source per domain of a node label.

    Attributes:
        codes: ``[N]`` domain of each node, -1 where the label is absent.
        sums: ``[D + 1]`` pods per domain; the last entry stays 0 and is that of nodes without the label.
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
        """``[N]`` the sum of each node's domain; 0 where the label is absent."""
        return np.asarray(self.sums[self.codes])


class Source:
    """Pods of one kind per node: ``counts`` ``[N]``; ``version`` moves with every change."""

    __slots__ = ("_tallies", "counts", "table", "version")

    def __init__(self, table: NodeTable, counts: Counts) -> None:
        self.table = table
        self.counts = counts
        self.version = 0
        self._tallies: dict[tuple[str, int], Tally] = {}

    def tally(self, key: str, mask: BoolArray | None = None) -> Tally:
        """Sums over the domains of label ``key``; ``mask`` must live as long as the session."""
        name = (key, 0 if mask is None else id(mask))
        found = self._tallies.get(name)
        if found is None:
            codes = self.table.label_column(key)
            domains = self.table.label_domains(key)
            found = self._tallies[name] = Tally(codes, domains, self.counts, mask)
        return found

    def move(self, column: int, number: int) -> None:
        """Follow a placement."""
        self.version += 1
        self.counts[column] += number
        for tally in self._tallies.values():
            tally.move(column, number)


_Followed = tuple[list[Source], list[dict[int, int]]]


class Domains:
    """All sources of one session.

    `selected`, `living` and `holding` see the cluster as it will be: with pods that were promised a place, and without
    those that this session evicts. What starts now finds the former absent and the latter present: `pledged`,
    `evicted` and `evicted_holding` count them.

    Attributes:
        unsettled: this session has promised a place, or evicted a pod, that some source looks at.

    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.affinity_index = snapshot.affinity_index
        self._sources: dict[Name, Source] = {}
        self._moved: dict[Name, dict[int, int]] = {}
        self._followed: dict[int, _Followed] = {}
        self.unsettled = False

    def selected(self, selector: int) -> Source:
        """Pods that a selector selects, terminating ones included."""
        return self._source((Which.SELECTED, selector), self.affinity_index.selected.get(selector, {}))

    def living(self, selector: int) -> Source:
        """Pods that a selector selects and that are not terminating."""
        source = self._sources.get((Which.LIVING, selector))
        if source is not None:
            return source
        leaving = self.affinity_index.leaving.get(selector, {})
        base = self.affinity_index.selected.get(selector, {})
        counts = {node: number - leaving.get(node, 0) for node, number in base.items()} if leaving else base
        return self._source((Which.LIVING, selector), counts)

    def holding(self, held: Held) -> Source:
        """Pods that hold a term."""
        return self._source((Which.HOLDING, held), self.affinity_index.holders.get(held, {}))

    def pledged(self, selector: int) -> Source:
        """Pods that a selector selects and that were only promised a place."""
        return self._source((Which.PLEDGED, selector), {})

    def evicted(self, selector: int) -> Source:
        """Pods that a selector selects, that this session evicts and that are still there."""
        return self._source((Which.EVICTED, selector), {})

    def evicted_holding(self, held: Held) -> Source:
        """Pods that hold a term, that this session evicts and that are still there."""
        return self._source((Which.EVICTED_HOLDING, held), {})

    def _source(self, name: Name, base: Mapping[str, int]) -> Source:
        found = self._sources.get(name)
        if found is None:
            table = self.snapshot.nodes
            counts = np.zeros(len(table), dtype=np.int64)
            for node, number in base.items():
                column = table.index.get(node)
                if column is not None:
                    counts[column] = number
            for column, number in self._moved.pop(name, {}).items():
                counts[column] += number
            found = self._sources[name] = Source(table, counts)
            self._followed.clear()
        return found

    def move(self, pod_class: PodClass, columns: Sequence[int], sign: int) -> None:
        """Follow pods of a class that were placed (``sign`` 1) or taken away (-1), one on each entry of ``columns``."""
        followed = self._followed.get(pod_class.id)
        if followed is None:
            followed = self._followed[pod_class.id] = self._followed_by(pod_class)
        sources, waiting = followed
        for source in sources:
            for column in columns:
                source.move(column, sign)
        for counts in waiting:
            for column in columns:
                counts[column] = counts.get(column, 0) + sign

    def _followed_by(self, pod_class: PodClass) -> _Followed:
        """The sources that count pods of a class, and the counts that wait for sources not asked for yet."""
        names: list[Name] = [(which, s) for s in pod_class.matched for which in (Which.SELECTED, Which.LIVING)]
        names += [(Which.HOLDING, held) for held in pod_class.terms.held]
        sources = [self._sources[name] for name in names if name in self._sources]
        return sources, [self._moved.setdefault(name, {}) for name in names if name not in self._sources]

    def pledge(self, pod_class: PodClass, columns: Sequence[int], sign: int) -> None:
        """Those of `move` were only promised their places, or are promised them no longer."""
        self._note([(Which.PLEDGED, selector) for selector in pod_class.matched], columns, sign)

    def evict(self, pod_class: PodClass, columns: Sequence[int], sign: int) -> None:
        """Those of `move` are still there until they have terminated, or stay after all."""
        names: list[Name] = [(Which.EVICTED, selector) for selector in pod_class.matched]
        names += [(Which.EVICTED_HOLDING, held) for held in pod_class.terms.held]
        self._note(names, columns, sign)

    def _note(self, names: list[Name], columns: Sequence[int], sign: int) -> None:
        self.unsettled = self.unsettled or bool(names)
        self._follow(names, columns, sign)

    def _follow(self, names: Sequence[Name], columns: Sequence[int], sign: int) -> None:
        for name in names:
            source = self._sources.get(name)
            for column in columns:
                if source is not None:
                    source.move(column, sign)
                else:
                    waiting = self._moved.setdefault(name, {})
                    waiting[column] = waiting.get(column, 0) + sign
