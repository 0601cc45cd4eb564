"""The tree of HyperNodes at one moment, as index arrays over nodes, and the objects that form it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from unisono.api.base import LabelSelector
from unisono.api.groups.topology import HyperNode, MemberSpec
from unisono.api.keys import HOSTNAME
from unisono.api.patterns import Pattern, PatternError, compile_pattern
from unisono.api.selecting import selects
from unisono.cluster.nodes import Codes, NodeTable
from unisono.cluster.resources import total, totals_from

ROOT = "<cluster-top-hypernode>"
"""Name of the virtual root above every tree; it holds all nodes."""
NOWHERE = -1
CLUSTER_TIER: Final = 1000
"""Tiers of clusters, regions and whatever else joins networks: above all tiers of one network."""

_DIGITS: Final = 9
"""Digits of the number of a tier that are looked at."""

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Domain:
    """One HyperNode as it was resolved.

    Attributes:
        tier: as in its spec.
        parent: name of the HyperNode above, ``""`` for none.
        nodes: names of all nodes below, at any depth.
        chosen: what chooses nodes of its own by their labels.
    """

    tier: int
    parent: str
    nodes: frozenset[str]
    chosen: tuple[LabelSelector, ...] = ()


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
        self._choosing = [(at, each) for at, domain in enumerate(ordered) for each in domain.chosen]
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

    def tier_called(self, name: str) -> int | None:
        """The tier that ``tier-N`` or the name of a tier means; None where no HyperNode is of it."""
        number = name.removeprefix("tier-")
        by_number = number != name and number.isascii() and number.isdigit() and len(number) <= _DIGITS
        tier = int(number) if by_number else self.tier_names.get(name)
        return tier if tier in self.at_tier and tier != self.top_tier else None

    def names_of_tiers(self) -> list[str]:
        """What `tier_called` understands, in order: ``tier-1``, its name, ``tier-2``, ..."""
        named: dict[int, list[str]] = {tier: [f"tier-{tier}"] for tier in self.levels if tier != self.top_tier}
        for name, tier in sorted(self.tier_names.items()):
            named[tier].append(name)
        return [each for tier in named for each in named[tier]]

    def places(self, name: str) -> Codes:
        """``[N]`` the HyperNode (its position) of the tier of a name that holds each node, -1 where there is none.

        Of several HyperNodes of one tier that hold a node the first in name order counts. Do not change it.
        """
        tier = self.tier_called(name)
        holders = self._places.get(tier)
        if holders is None:
            size = len(self.leaf)
            owner = np.full(size, NOWHERE) if tier is None else self.at_tier[tier]
            holders = self._places[tier] = owner.astype(np.int32)
            holders.flags.writeable = False
        return holders

    @cached_property
    def _places(self) -> dict[int | None, Codes]:
        return {}

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

    def over(self, moved: Index, fresh: Mapping[int, Mapping[str, str]]) -> HyperNodeTree:
        """The same HyperNodes with more nodes, which belong to those that choose them by their labels.

        Args:
            moved: ``[N]`` the new column of each node, ascending.
            fresh: the labels of the others, by column. Selectors by name or pattern are not applied: these nodes have
                no real names yet.
        """
        joining: dict[int, list[int]] = {}
        holders: dict[frozenset[tuple[str, str]], list[int]] = {}
        for column, labels in fresh.items():
            shared = {key: value for key, value in labels.items() if key != HOSTNAME}
            alike = frozenset(shared.items())
            if alike not in holders:
                chosen = [at for at, selector in self._choosing if selects(selector, shared)]
                holders[alike] = list({at: None for one in chosen for at in (one, *self.ancestors(one))})
            for at in holders[alike]:
                joining.setdefault(at, []).append(column)
        tree, size = copy(self), len(moved) + len(fresh)
        for name in ("at_tier", "lines", "disjoint", "_flat", "_holders", "_places"):
            vars(tree).pop(name, None)
        own = [moved[columns] for columns in self.columns[:-1]]
        tree.columns = [np.union1d(each, joining[at]) if at in joining else each for at, each in enumerate(own)]
        tree.columns.append(np.arange(size, dtype=np.intp))
        tree.leaf = tree._leaves(size)
        return tree

    # ---- relations

    def ancestors(self, at: int) -> Iterable[int]:
        """``at`` itself and everything above, upwards."""
        while at != NOWHERE:
            yield at
            at = self.parents[at]

    def below(self, at: int) -> list[int]:
        """``at`` itself and everything below, breadth first."""
        subtree = [at]
        for each in subtree:
            subtree.extend(self.children[each])
        return subtree

    def is_above(self, upper: int, lower: int) -> bool:
        """Whether ``lower`` is ``upper`` or below it."""
        return any(at == upper for at in self.ancestors(lower))

    def common(self, one: int, other: int) -> int:
        """Lowest HyperNode above both (or one of them); -1 is neutral."""
        if one == other or NOWHERE in (one, other):
            return max(one, other)
        key = (one, other)
        lowest = self._common.get(key)
        if lowest is None:
            line = set(self.ancestors(one))
            lowest = self._common[key] = next(at for at in self.ancestors(other) if at in line)
        return lowest

    def common_of(self, columns: Iterable[int]) -> int:
        """Lowest HyperNode above all of these nodes; -1 for no nodes."""
        lowest = NOWHERE
        for leaf in {int(self.leaf[column]) for column in columns}:
            lowest = self.common(lowest, leaf)
        return lowest

    def highest(self, at: int, limit: int) -> int:
        """Highest ancestor of ``at`` whose tier is at most ``limit``; -1 when its own tier is above."""
        ancestor = NOWHERE
        for each in self.ancestors(at):
            if self.tiers[each] > limit:
                break
            ancestor = each
        return ancestor

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


# HyperNodes as objects, and the tree that they form over the nodes that exist.
#
# Events change single records. The tree is rebuilt when a HyperNode changed, a node came or went, or, where members are
# chosen by labels, a node's labels changed; which nodes a pattern or a selector matches is kept from time to time, and
# only nodes that are new or changed are looked at again. A HyperNode that contradicts itself takes out the tree that it
# belongs to and no other.


@dataclass(slots=True)
class _Chosen:
    """Nodes chosen by a pattern or by labels, and those among the known ones that match."""

    pattern: Pattern | None = None
    labels: LabelSelector | None = None
    nodes: set[str] = field(default_factory=set)

    def look_at(self, table: NodeTable, name: str) -> None:
        column = table.index[name]
        if self.pattern is not None:
            hit = self.pattern.found_in(name)
        else:
            hit = selects(self.labels, table.facts[column].labels)
        (self.nodes.add if hit else self.nodes.discard)(name)


@dataclass(slots=True)
class _Record:
    """One HyperNode: its members by kind, and what is wrong with it alone."""

    tier: int
    tier_name: str
    members: list[MemberSpec]
    exact: frozenset[str] = frozenset()
    children: tuple[str, ...] = ()
    chosen: tuple[_Chosen, ...] = ()
    problem: str = ""

    def read_members(self) -> None:
        exact, children, chosen = set[str](), list[str](), list[_Chosen]()
        for member in self.members:
            selector = member.selector
            if selector is None:
                continue
            if selector.exact_match is not None:
                name = selector.exact_match.name or ""
                (children.append if member.type == "HyperNode" else exact.add)(name)
            elif member.type == "HyperNode":
                self.problem = "a member of type HyperNode is not named by exactMatch"
            elif selector.regex_match is not None:
                self._read_pattern(selector.regex_match.pattern or "", chosen)
            elif selector.label_match is not None and not _is_empty(selector.label_match):
                chosen.append(_Chosen(labels=selector.label_match))
        self.exact, self.children, self.chosen = frozenset(exact), tuple(dict.fromkeys(children)), tuple(chosen)

    def _read_pattern(self, text: str, chosen: list[_Chosen]) -> None:
        try:
            chosen.append(_Chosen(pattern=compile_pattern(text)))
        except PatternError as error:
            self.problem = f"its pattern {text} is invalid: {error}"


def _is_empty(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


class HyperNodeBook:
    """All HyperNodes of the cluster."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._tree: HyperNodeTree | None = None
        self._layout = -1
        self._generation = -1
        self._looked_at: set[str] = set()

    def put(self, obj: HyperNode) -> bool:
        """Add or change one; False when nothing that matters differs."""
        spec = obj.spec
        record = _Record(spec.tier or 0, spec.tier_name or "", list(spec.members or ()))
        old = self._records.get(obj.metadata.name)
        if old is not None and (old.tier, old.tier_name, old.members) == (
            record.tier,
            record.tier_name,
            record.members,
        ):
            return False
        record.read_members()
        self._records[obj.metadata.name] = record
        self._tree = None
        self._looked_at.clear()
        return True

    def remove(self, name: str) -> bool:
        """Forget one; False when it was unknown."""
        if self._records.pop(name, None) is None:
            return False
        self._tree = None
        return True

    def names(self) -> list[str]:
        """Names of all that are known."""
        return list(self._records)

    def tree(self, table: NodeTable) -> HyperNodeTree:
        """The tree over the nodes of a settled table; the same object while nothing changed."""
        moved = self._tree is None or self._layout != table.layout
        if self._look_again(table) or moved or self._tree is None:
            self._tree = self._build(table)
        self._layout, self._generation = table.layout, table.generation
        return self._tree

    def _look_again(self, table: NodeTable) -> bool:
        """Bring patterns and selectors up to date; True when a choice by labels may have changed."""
        chosen = [each for record in self._records.values() for each in record.chosen]
        if not chosen:
            return False
        names = set(table.names)
        fresh = names - self._looked_at
        for each in chosen:
            each.nodes &= names
        _look_at(chosen, table, fresh)
        self._looked_at = names
        if self._generation == table.generation:
            return bool(fresh)
        changed = [table.names[at] for at in (table.changed > self._generation).nonzero()[0].tolist()]
        by_label = [each for each in chosen if each.labels is not None]
        _look_at(by_label, table, set(changed))
        return bool(fresh) or (bool(by_label) and bool(changed))

    # ---- building

    def _build(self, table: NodeTable) -> HyperNodeTree:
        problems, parents = self._check()
        sound = {name: record for name, record in self._records.items() if name not in problems}
        domains: dict[str, Domain] = {}
        for name in sorted(sound):
            self._resolve(name, sound, parents, domains)
        tiers: dict[str, int] = {}
        for name in sorted(sound):
            if sound[name].tier_name:
                tiers[sound[name].tier_name] = sound[name].tier
        highest = max((record.tier for record in self._records.values()), default=0)
        return HyperNodeTree(domains, table.index, tiers, problems, highest)

    def _resolve(
        self, name: str, sound: dict[str, _Record], parents: dict[str, str], domains: dict[str, Domain]
    ) -> frozenset[str]:
        done = domains.get(name)
        if done is not None:
            return done.nodes
        record = sound[name]
        nodes = set(record.exact).union(*(each.nodes for each in record.chosen))
        for child in record.children:
            if child in sound:  # one that does not exist yet counts once it does
                nodes |= self._resolve(child, sound, parents, domains)
        chosen = tuple(each.labels for each in record.chosen if each.labels is not None)
        domains[name] = Domain(record.tier, parents.get(name, ""), frozenset(nodes), chosen)
        return domains[name].nodes

    def _check(self) -> tuple[dict[str, str], dict[str, str]]:
        """Problems of HyperNodes by name, spread over their trees, and the parents of the others."""
        parents: dict[str, str] = {}
        problems = {name: record.problem for name, record in self._records.items() if record.problem}
        for name in sorted(self._records):
            for child in self._records[name].children:
                if child in parents:
                    problems[child] = (
                        f"HyperNode {child} already has a parent {parents[child]}, and cannot set another parent {name}"
                    )
                else:
                    parents[child] = name
        for name in sorted(self._records):
            if _in_circle(name, parents):
                problems[name] = f"HyperNode {name} is below itself"
        if problems:
            self._spread(problems)
        return problems, parents

    def _spread(self, problems: dict[str, str]) -> None:
        """Everything that is joined with a HyperNode in trouble is left out as well."""
        joined: dict[str, set[str]] = defaultdict(set)
        for name, record in self._records.items():
            for child in record.children:
                joined[name].add(child)
                joined[child].add(name)
        for origin in sorted(problems):
            queue = [origin]
            for name in queue:
                for other in sorted(joined[name]):
                    if other in self._records and other not in problems:
                        problems[other] = problems[origin]
                        queue.append(other)


def _look_at(chosen: list[_Chosen], table: NodeTable, names: set[str]) -> None:
    """Find out which of some nodes each one chooses; for a label's value only nodes that have it are looked at."""
    by_label: dict[str, dict[str, list[str]]] = {}
    for each in chosen if names else ():
        required = each.labels.match_labels if each.labels is not None else None
        if not required:
            for name in names:
                each.look_at(table, name)
            continue
        key, value = next(iter(required.items()))
        if key not in by_label:
            names_by_value: dict[str, list[str]] = {}
            for name in names:
                names_by_value.setdefault(table.facts[table.index[name]].labels.get(key, ""), []).append(name)
            by_label[key] = names_by_value
        each.nodes = {name for name in each.nodes if name not in names}
        for name in by_label[key].get(value, ()):
            each.look_at(table, name)


def _in_circle(name: str, parents: dict[str, str]) -> bool:
    seen = {name}
    at = parents.get(name, "")
    while at:
        if at == name:
            return True
        if at in seen:
            return False
        seen.add(at)
        at = parents.get(at, "")
    return False
