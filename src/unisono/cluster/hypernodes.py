"""HyperNodes as objects, and the tree that they form over the nodes that exist.

Events change single records. The tree is rebuilt when a HyperNode changed, a node came or went, or, where members are
chosen by labels, a node's labels changed; which nodes a pattern or a selector matches is kept from time to time, and
only nodes that are new or changed are looked at again. A HyperNode that contradicts itself takes out the tree that it
belongs to and no other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from unisono.api.base import LabelSelector
from unisono.api.groups.topology import HyperNode, MemberSpec
from unisono.api.patterns import Pattern, PatternError, compile_pattern
from unisono.api.selecting import selects
from unisono.cluster.hypertree import Domain, HyperNodeTree
from unisono.cluster.nodes import NodeTable


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
        domains[name] = Domain(record.tier, parents.get(name, ""), frozenset(nodes))
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
        wanted = each.labels.match_labels if each.labels is not None else None
        if not wanted:
            for name in names:
                each.look_at(table, name)
            continue
        key, value = next(iter(wanted.items()))
        if key not in by_label:
            found: dict[str, list[str]] = {}
            for name in names:
                found.setdefault(table.facts[table.index[name]].labels.get(key, ""), []).append(name)
            by_label[key] = found
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
