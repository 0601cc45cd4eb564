"""The tree of HyperNodes at one moment, as index arrays over node columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from unisono.cluster.resources import total, totals_from

ROOT = "<cluster-top-hypernode>"
"""Name of the virtual root above every tree; it holds all nodes."""
NOWHERE = -1
CLUSTER_TIER: Final = 1000
"""Tiers of clusters, regions and whatever else joins networks: above all tiers of one network."""

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Domain:
    """One HyperNode as it was resolved.

    Attributes:
        tier: as in its spec.
        parent: name of the HyperNode above, ``""`` for none.
        nodes: names of all nodes below, at any depth.

    """

    tier: int
    parent: str
    nodes: frozenset[str]


class HyperNodeTree:
    """HyperNodes by position, in name order, the virtual root last.

    Attributes:
        names: ``[H]``; ``index`` the reverse.
        tiers: ``[H]`` tier of each.
        parents: ``[H]`` position of the one above, -1 for the root.
        columns: for each the sorted node columns below it.
        leaf: ``[N]`` lowest HyperNode that holds the node, the root where none does.
        tier_names: tier by tier name.
        problems: why HyperNodes are left out, by name.

    """

    def __init__(
        self,
        domains: Mapping[str, Domain],
        node_index: Mapping[str, int],
        tier_names: Mapping[str, int],
        problems: Mapping[str, str],
        highest: int = 0,
    ) -> None:
        """``highest`` is the highest tier of all, those that are left out included: the root stands above it."""
        self.names = [*sorted(domains), ROOT]
        self.index = {name: at for at, name in enumerate(self.names)}
        self.root = len(self.names) - 1
        ordered = [domains[name] for name in self.names[:-1]]
        top = max((domain.tier for domain in ordered), default=0)
        top = max(top, highest) + 1
        self.tiers = np.array([*(domain.tier for domain in ordered), top], dtype=np.int64)
        self.parents = [self.index.get(domain.parent, self.root) for domain in ordered] + [NOWHERE]
        self.columns: list[Index] = [_positions(domain.nodes, node_index) for domain in ordered]
        self.columns.append(np.arange(len(node_index), dtype=np.intp))
        self.tier_names = dict(tier_names)
        self.problems = dict(problems)
        self.leaf = self._leaves(len(node_index))
        self._common: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def top_tier(self) -> int:
        """Tier of the virtual root."""
        return int(self.tiers[self.root])

    @cached_property
    def children(self) -> list[list[int]]:
        """``[H]`` positions below each, in name order."""
        below: list[list[int]] = [[] for _ in self.names]
        for at, parent in enumerate(self.parents):
            if parent != NOWHERE:
                below[parent].append(at)
        return below

    @cached_property
    def levels(self) -> list[int]:
        """Distinct tiers, ascending, that of the root included."""
        return sorted({int(tier) for tier in self.tiers})

    @cached_property
    def at_tier(self) -> dict[int, Index]:
        """By tier: ``[N]`` the HyperNode of that tier that holds the node, -1 where there is none."""
        held: dict[int, Index] = {}
        for tier in self.levels:
            owner = held[tier] = np.full(len(self.leaf), NOWHERE, dtype=np.intp)
            for at in np.flatnonzero(self.tiers == tier).tolist()[::-1]:
                owner[self.columns[at]] = at
        return held

    @cached_property
    def lines(self) -> tuple[Index, Index]:
        """Nodes that the same HyperNodes hold, tier by tier: ``[N]`` the group of each node, and ``[G, T]`` its owners.

        Owners are in the order of ``levels``, -1 where no HyperNode of the tier holds the group.
        """
        codes: Index = np.zeros(len(self.leaf), dtype=np.intp)
        first: Index = codes[:1]
        for tier in self.levels:  # one tier after the other: sorting numbers takes a fraction of sorting rows
            split = codes * (len(self) + 1) + self.at_tier[tier] + 1
            _, first, inverse = np.unique(split, return_index=True, return_inverse=True)
            codes = inverse.reshape(-1).astype(np.intp)
        return codes, np.stack([self.at_tier[tier][first] for tier in self.levels], axis=1)

    @cached_property
    def disjoint(self) -> bool:
        """Whether no two HyperNodes of one tier hold the same node."""
        return len(self._flat[0]) == sum(np.count_nonzero(owner != NOWHERE) for owner in self.at_tier.values())

    def _leaves(self, nodes: int) -> Index:
        leaf = np.full(nodes, self.root, dtype=np.intp)
        order = sorted(range(self.root), key=lambda at: (-int(self.tiers[at]), -at))
        for at in order:
            leaf[self.columns[at]] = at
        return leaf

    def over(self, moved: Index, size: int) -> HyperNodeTree:
        """The same HyperNodes where there are ``size`` nodes, of which none of the new ones belongs to a HyperNode.

        Args:
            moved: ``[N]`` the new column of each node, ascending.
            size: number of nodes, at least N.

        """
        fresh = copy(self)
        for name in ("at_tier", "lines", "disjoint", "_flat", "_holders"):
            vars(fresh).pop(name, None)
        fresh.columns = [moved[columns] for columns in self.columns[:-1]]
        fresh.columns.append(np.arange(size, dtype=np.intp))
        fresh.leaf = fresh._leaves(size)
        return fresh

    # ---- relations

    def ancestors(self, at: int) -> Iterable[int]:
        """``at`` itself and everything above, upwards."""
        while at != NOWHERE:
            yield at
            at = self.parents[at]

    def below(self, at: int) -> list[int]:
        """``at`` itself and everything below, breadth first."""
        found = [at]
        for each in found:
            found.extend(self.children[each])
        return found

    def is_above(self, upper: int, lower: int) -> bool:
        """Whether ``lower`` is ``upper`` or below it."""
        return any(at == upper for at in self.ancestors(lower))

    def common(self, one: int, other: int) -> int:
        """Lowest HyperNode above both (or one of them); -1 is neutral."""
        if one == other or NOWHERE in (one, other):
            return max(one, other)
        key = (one, other)
        found = self._common.get(key)
        if found is None:
            line = set(self.ancestors(one))
            found = self._common[key] = next(at for at in self.ancestors(other) if at in line)
        return found

    def common_of(self, columns: Iterable[int]) -> int:
        """Lowest HyperNode above all of these nodes; -1 for no nodes."""
        found = NOWHERE
        for leaf in {int(self.leaf[column]) for column in columns}:
            found = self.common(found, leaf)
        return found

    def highest(self, at: int, limit: int) -> int:
        """Highest ancestor of ``at`` whose tier is at most ``limit``; -1 when its own tier is above."""
        found = NOWHERE
        for each in self.ancestors(at):
            if self.tiers[each] > limit:
                break
            found = each
        return found

    # ---- sums

    @cached_property
    def _flat(self) -> tuple[Index, Index, npt.NDArray[np.bool_]]:
        """Columns of all HyperNodes after one another, where each begins, and which have any."""
        sizes = np.array([len(columns) for columns in self.columns], dtype=np.intp)
        filled = sizes > 0
        starts = np.concatenate(([0], np.cumsum(sizes)))[:-1]
        return np.concatenate(self.columns), starts[filled].astype(np.intp), filled

    @cached_property
    def _holders(self) -> tuple[Index, Index]:
        """HyperNodes after one another, by node column, and where each column begins (one entry more at the end)."""
        flat = self._flat[0]
        owners = np.repeat(np.arange(len(self), dtype=np.intp), [len(columns) for columns in self.columns])
        order = np.argsort(flat, kind="stable")
        return owners[order], np.searchsorted(flat[order], np.arange(len(self.leaf) + 1)).astype(np.intp)

    def holders(self, column: int) -> Index:
        """All HyperNodes that hold a node, the root included."""
        owners, starts = self._holders
        return owners[starts[column] : starts[column + 1]]

    def add_to_sums(self, sums: npt.NDArray[np.int64], nodes: Index, changes: npt.NDArray[np.int64]) -> None:
        """Bring ``sums`` (``[..., H]``) up to date after values of the columns ``nodes`` (``[M]``) have changed.

        ``changes`` (``[..., M]``) says by how much.
        """
        owners, starts = self._holders
        if self._alike(nodes):
            at = int(nodes[0])
            sums[..., owners[starts[at] : starts[at + 1]]] += changes.sum(axis=-1, keepdims=True)
            return
        first = starts[nodes]
        lengths = starts[nodes + 1] - first
        ends = np.cumsum(lengths)
        places = np.repeat(first - ends + lengths, lengths) + np.arange(lengths.sum())
        where = (..., owners[places])
        np.add.at(sums, where, np.repeat(changes, lengths, axis=-1))  # type: ignore[arg-type]  # any index will do

    def _alike(self, nodes: Index) -> bool:
        """Whether there are such nodes, and the same HyperNodes hold all of them."""
        return self.disjoint and len(set(self.lines[0][nodes].tolist())) == 1

    def one_a_line(self, columns: Iterable[int]) -> Iterable[int]:
        """Of the columns one for all that the same HyperNodes hold, in their order; all where HyperNodes overlap."""
        first: dict[int, int] = {}
        every = list(columns)
        if not self.disjoint:
            return every
        for column, code in zip(every, self.lines[0][every].tolist(), strict=True):
            first.setdefault(code, column)
        return first.values()

    def sums(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Sum of ``values`` (``[..., N]``) over the nodes of each HyperNode: ``[..., H]``."""
        flat, starts, filled = self._flat
        result = np.zeros((*values.shape[:-1], len(self)), dtype=np.int64)
        if len(starts):
            result[..., filled] = totals_from(values.take(flat, axis=-1), starts)
        return result

    def sums_at(self, values: npt.NDArray[np.int64], where: Sequence[int]) -> npt.NDArray[np.int64]:
        """As `sums`, for some HyperNodes only: ``[..., len(where)]``."""
        if len(where) > len(self) // 4:
            return self.sums(values)[..., list(where)]
        parts = [total(values[..., self.columns[at]], -1) for at in where]
        return np.stack(parts, axis=-1) if parts else np.zeros((*values.shape[:-1], 0), dtype=np.int64)


def _positions(names: Iterable[str], node_index: Mapping[str, int]) -> Index:
    return np.array(sorted(node_index[name] for name in names if name in node_index), dtype=np.intp)
