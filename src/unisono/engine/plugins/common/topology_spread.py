"""What pods want of others over topology domains: affinity, anti-affinity and spread constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from unisono.api.keys import HOSTNAME
from unisono.cluster.nodes import Codes, NodeTable
from unisono.cluster.podclass import PodClass
from unisono.cluster.selectors import Held, Spread, Term
from unisono.cluster.taints import repels
from unisono.engine.answers import BoolArray, FloatArray, Reason, Veto
from unisono.engine.contract.accelerated import Index
from unisono.engine.plugins.common.node_selectors import match_pod, per_node
from unisono.engine.session.domains import Counts, Domains, Source, Tally
from unisono.engine.session.session import Session

# Inter-pod affinity and anti-affinity over topology domains (semantics of kube-scheduler 1.36).
#
# Three things refuse a node: the pod's own required affinity finds no pod in the node's domains, its own anti-affinity
# finds one, or a pod that stands there has an anti-affinity to it. Preferences count in both directions too.

NOT_NEAR = Reason("node(s) didn't match pod affinity rules", unresolvable=True)
TOO_NEAR = Reason("node(s) didn't match pod anti-affinity rules")
UNWANTED = Reason("node(s) didn't satisfy existing pods anti-affinity rules")

MOST_PREFERENCES: Final = 64
"""Preferences of others that a pod's points heed. A pod may state any number of them about pods of any namespace."""


def required_by_others(pod_class: PodClass, domains: Domains) -> list[tuple[Held, tuple[Held, ...]]]:
    """Required anti-affinity of others to pods of the class, and behind each what of it does not mean the class."""
    held_by = domains.affinity_index.held_by
    every = sorted(held for s in held_by.keys() & pod_class.matched for held in held_by[s] if not held.weight)
    left_out: dict[tuple[int, str], tuple[Held, ...]] = {}
    for held in every:
        if held.whole not in (-1, held.term.selector):
            key = held.whole, held.term.key
            left_out[key] = (*left_out.get(key, ()), held)
    felt = [held for held in every if held.whole in (-1, held.term.selector)]
    return [(held, left_out.get((held.whole, held.term.key), ())) for held in felt]


def preferred_by_others(pod_class: PodClass, domains: Domains) -> list[Held]:
    """Preferences of others about pods of the class, the oldest selectors first; at most `MOST_PREFERENCES`."""
    held_by, preferences = domains.affinity_index.held_by, list[Held]()
    for selector in sorted(held_by.keys() & pod_class.matched):
        preferences += sorted(held for held in held_by[selector] if held.weight)
        if len(preferences) >= MOST_PREFERENCES:
            break
    return preferences[:MOST_PREFERENCES]


_Rest = tuple[Tally, Sequence[Tally]]
"""Pods of a kind by domain, and those of them that do not count."""


class InterPodFilter:
    """Required terms of one class, and of others towards it.

    Attributes:
        sources: what the answer depends on.
        self_affecting: a pod of the class, once placed, matters to the next one.
    """

    def __init__(self, pod_class: PodClass, domains: Domains, table: NodeTable) -> None:
        terms = pod_class.terms
        self.sources: list[Source] = []
        self._table = table
        self._domains = domains
        self._near = self._sums_of(domains.selected, [(terms.near_all, term.key) for term in terms.near])
        self._away = [self._rest(domains.selected, *_about(term)) for term in terms.away]
        self._keys: list[Codes] = [domains.snapshot.domains_of(term.key) for term in terms.near]
        self._own_first = terms.near_all in pod_class.matched
        against = required_by_others(pod_class, domains)
        self._against = [self._rest(domains.holding, held.term.key, held, *but) for held, but in against]
        self._pledged = self._sums_of(domains.pledged, [(terms.near_all, term.key) for term in terms.near])
        staying = domains.affinity_index.leaving.get(terms.near_all) and self._sums_of(
            domains.living, [(terms.near_all, term.key) for term in terms.near]
        )
        self._staying: list[Tally] = staying or []
        self._evicted = [self._rest(domains.evicted, *_about(term)) for term in terms.away]
        self._evicted += [self._rest(domains.evicted_holding, held.term.key, held, *but) for held, but in against]
        looked_at = {*(term.selector for term in terms.away if term.but not in pod_class.matched), terms.near_all}
        felt = {held for held, but in against if not but}
        own = any(held in felt for held in terms.held)
        self.self_affecting = own or not looked_at.isdisjoint(pod_class.matched)

    def _rest(self, sources: Callable[[Any], Source], key: str, whole: Any, *but: Any) -> _Rest:
        first, *others = self._sums_of(sources, [(name, key) for name in (whole, *but)])
        return first, others

    def _sums_of(self, sources: Callable[[Any], Source], wanted: Sequence[tuple[Any, str]]) -> list[Tally]:
        pairs = [(sources(name), key) for name, key in wanted]
        self.sources += [source for source, _ in pairs]
        return [source.tally(key) for source, key in pairs]

    @classmethod
    def of(cls, pod_class: PodClass, domains: Domains, table: NodeTable) -> InterPodFilter | None:
        """None where no pod requires anything."""
        pod_filter = cls(pod_class, domains, table)
        return pod_filter if pod_filter.sources else None

    def vetoes(self) -> list[Veto]:
        """Over all nodes; a node is refused for the first reason only."""
        size = len(self._table)
        refusals: list[Veto] = []
        if self._near:
            refusals.append(Veto(self._far(size, [tally.sums for tally in self._near]), NOT_NEAR))
        if self._away:
            refusals.append(Veto(_without(refusals, _any_positive(self._away, size)), TOO_NEAR))
        if self._against:
            refusals.append(Veto(_without(refusals, _any_positive(self._against, size)), UNWANTED))
        for_good = tuple(refusals)
        if self._staying:
            company = [tally.sums for tally in self._staying]
            refusals.append(Veto(_without(for_good, self._far(size, company)), NOT_NEAR, later=True))
        if self._domains.unsettled:
            pairs = zip(self._near, self._pledged, strict=True)
            company = [near.sums - pledged.sums for near, pledged in pairs]
            refusals.append(Veto(_without(for_good, self._far(size, company)), NOT_NEAR, now=True))
            refusals.append(Veto(_without(for_good, _any_positive(self._evicted, size)), TOO_NEAR, now=True))
        return refusals

    def _far(self, size: int, company: Sequence[Counts]) -> BoolArray:
        """Nodes without a label, or without company; the first pod of a group that wants its own kind needs none.

        The company at once is that which does not wait for a promised place, and later that which does not terminate.
        """
        far = np.zeros(size, dtype=np.bool_)
        for codes in self._keys:
            far |= codes < 0
        alone = not any(sums.any() for sums in company)
        if not (alone and self._own_first):
            for tally, sums in zip(self._near, company, strict=True):
                far |= sums[tally.codes] <= 0
        return far


def _about(term: Term) -> tuple[Any, ...]:
    """A term's key and its selectors: of all pods, and of those of them that do not count."""
    return (term.key, term.selector) if term.but < 0 else (term.key, term.selector, term.but)


def _any_positive(parts: Sequence[_Rest], size: int) -> BoolArray:
    """``[N]`` nodes of which a domain has any of the pods; the caller's own."""
    occupied = np.zeros(size, dtype=np.bool_)
    for whole, but in parts:
        sums = whole.sums
        for tally in but:
            sums = sums - tally.sums
        occupied |= (sums > 0)[whole.codes]
    return occupied


def _without(earlier: Iterable[Veto], nodes: BoolArray) -> BoolArray:
    """``nodes`` but for those that are refused already; changes them in place."""
    for veto in earlier:
        nodes &= ~veto.nodes
    return nodes


class InterPodScore:
    """Preferred terms of one class, and of others towards it."""

    def __init__(self, pod_class: PodClass, domains: Domains) -> None:
        own = [
            (held.weight, domains.selected(held.term.selector).tally(held.term.key))
            for held in pod_class.terms.preferred
        ]
        others = [
            (held.weight, domains.holding(held).tally(held.term.key))
            for held in preferred_by_others(pod_class, domains)
        ]
        self._parts = [*own, *others]

    @classmethod
    def of(cls, pod_class: PodClass, domains: Domains) -> InterPodScore | None:
        """None where no pod prefers anything."""
        score = cls(pod_class, domains)
        return score if score._parts else None

    def points(self, candidates: BoolArray) -> FloatArray:
        """``[N]`` 0 to 100 between the least and the most liked candidate."""
        raw = np.zeros(len(candidates), dtype=np.int64)
        for weight, tally in self._parts:
            raw += weight * tally.on_nodes()
        return min_max(raw, candidates)


def min_max(raw: np.ndarray[tuple[int, ...], np.dtype[np.int64]], candidates: BoolArray) -> FloatArray:
    """``trunc(100 (raw - min) / (max - min))`` over the candidates; 0 everywhere when they are all equal."""
    chosen = raw[candidates]
    if not len(chosen) or chosen.min() == chosen.max():
        return np.zeros(len(raw), dtype=np.float64)
    least, most = float(chosen.min()), float(chosen.max())
    return np.asarray(np.trunc(100.0 * ((raw - least) / (most - least))), dtype=np.float64)


# Topology spread constraints over domains (semantics of kube-scheduler 1.36).
#
# Hard constraints refuse nodes whose domain would be too far ahead of the emptiest one; soft ones prefer emptier
# domains. Pods that are terminating do not count.


UNEVEN = Reason("node(s) didn't match pod topology spread constraints")
UNLABELLED = Reason("node(s) didn't match pod topology spread constraints (missing required label)", unresolvable=True)


def _with_all_keys(spreads: Sequence[Spread], session: Session) -> BoolArray:
    snapshot = session.snapshot
    mask = np.ones(len(snapshot.nodes), dtype=np.bool_)
    for spread in spreads:
        mask &= snapshot.domains_of(spread.key) >= 0
    return mask


def _eligible(spread: Spread, pod_class: PodClass, session: Session, keyed: BoolArray) -> BoolArray:
    """Nodes whose pods and domains count: with all keys, and as the constraint's policies say."""
    mask = keyed
    if spread.honor_affinity:
        mask = mask & match_pod(pod_class, session.nodes)
    if spread.honor_taints:
        mask = mask & (per_node(session.nodes, lambda taints: repels(taints, pod_class.tolerations)) == 0)
    return mask


@dataclass(slots=True)
class _Hard:
    """One DoNotSchedule constraint.

    Attributes:
        tally, pledged: pods per domain, and those of them that were only promised a place.
        present, number: the domains that count, and how many these are.
        lacking: nodes without the label.
        own: 1 where the pod itself counts.
    """

    spread: Spread
    tally: Tally
    pledged: Tally
    present: Index
    number: int
    lacking: BoolArray
    own: int

    def skew(self, *, now: bool = False) -> Counts:
        """``[N]`` how far each node's domain would be ahead of the emptiest; ``now`` before promised pods are there."""
        sums = self.tally.sums if self.spread.counts else np.zeros_like(self.tally.sums)
        number = self.number
        there = sums - self.pledged.sums if now and self.spread.counts else sums
        least = int(there[self.present].min()) if number >= self.spread.min_domains and number else 0
        return np.asarray(sums[self.tally.codes] + (self.own - least))


class SpreadFilter:
    """Hard constraints of one class.

    Attributes:
        sources: what the answer depends on.
        self_affecting: a pod of the class, once placed, counts for the next one.
    """

    def __init__(self, pod_class: PodClass, session: Session, spreads: Sequence[Spread]) -> None:
        self.sources: list[Source] = []
        self._parts: list[_Hard] = []
        self._domains = session.domains
        self._snapshot = session.snapshot
        keyed = _with_all_keys(spreads, session)
        for spread in spreads:
            source, pledged = session.domains.living(spread.selector), session.domains.pledged(spread.selector)
            self.sources += [source, pledged]
            mask = _eligible(spread, pod_class, session, keyed)
            tally = source.tally(spread.key, mask)
            counts = np.zeros(len(tally.sums) - 1, dtype=np.bool_)
            counts[tally.codes[mask]] = True
            present = np.flatnonzero(counts)
            own = int(spread.selector in pod_class.matched)
            lacking = tally.codes < 0
            promised = pledged.tally(spread.key, mask)
            self._parts.append(_Hard(spread, tally, promised, present, len(present), lacking, own))
        self.self_affecting = any(part.own and part.spread.counts for part in self._parts)

    @classmethod
    def of(cls, pod_class: PodClass, session: Session) -> SpreadFilter | None:
        """None without hard constraints."""
        spreads = [spread for spread in pod_class.terms.spread if spread.hard]
        return cls(pod_class, session, spreads) if spreads else None

    def domains(self) -> list[tuple[Spread, dict[str, int]]]:
        """For each constraint how many of the pods that count each domain has, by its name."""
        by_constraint = []
        for part in self._parts:
            names, numbers = self._snapshot.domain_names(part.spread.key), part.tally.sums
            counts = {names[at]: int(numbers[at]) if part.spread.counts else 0 for at in part.present.tolist()}
            by_constraint.append((part.spread, counts))
        return by_constraint

    def vetoes(self) -> list[Veto]:
        """Over all nodes; a node is refused by the first constraint that it breaks."""
        size = len(self._parts[0].tally.codes)
        unlabelled, uneven = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
        for part in self._parts:
            unlabelled |= part.lacking & ~uneven
            uneven |= (part.skew() > part.spread.max_skew) & ~part.lacking & ~unlabelled
        vetoes = [Veto(unlabelled, UNLABELLED), Veto(uneven, UNEVEN)]
        if self._domains.unsettled:
            early = np.zeros(size, dtype=np.bool_)
            for part in self._parts:
                early |= part.skew(now=True) > part.spread.max_skew
            vetoes.append(Veto(early & ~unlabelled & ~uneven, UNEVEN, now=True))
        return vetoes


@dataclass(slots=True)
class _Soft:
    """One ScheduleAnyway constraint."""

    spread: Spread
    codes: Codes
    source: Source
    tally: Tally

    def numbers(self) -> Counts:
        """``[N]`` matching pods in each node's domain."""
        if not self.spread.counts:
            return np.zeros(len(self.codes), dtype=np.int64)
        return self.source.counts if self.spread.key == HOSTNAME else self.tally.on_nodes()

    def weight(self, counted: BoolArray) -> float:
        """``ln(domains + 2)`` over the candidates that count: a key with many domains has few pods in each."""
        hosts = self.spread.key == HOSTNAME
        domains = int(counted.sum()) if hosts else len(np.unique(self.codes[counted]))
        return float(np.log(domains + 2))


class SpreadScore:
    """Soft constraints of one class."""

    def __init__(self, pod_class: PodClass, session: Session, spreads: Sequence[Spread]) -> None:
        self._keyed = _with_all_keys(spreads, session)
        self._parts: list[_Soft] = []
        for spread in spreads:
            source = session.domains.living(spread.selector)
            mask = _eligible(spread, pod_class, session, self._keyed)
            tally = source.tally(spread.key, mask)
            self._parts.append(_Soft(spread, tally.codes, source, tally))

    @classmethod
    def of(cls, pod_class: PodClass, session: Session) -> SpreadScore | None:
        """None without soft constraints; there are no default ones."""
        spreads = [spread for spread in pod_class.terms.spread if not spread.hard]
        return cls(pod_class, session, spreads) if spreads else None

    def points(self, candidates: BoolArray) -> FloatArray:
        """``[N]`` 0 to 100, the emptier the more; 0 for nodes that lack a key."""
        counted = candidates & self._keyed
        points = np.zeros(len(candidates), dtype=np.float64)
        if not counted.any():
            return points
        total = np.zeros(len(candidates), dtype=np.float64)
        for part in self._parts:
            total += part.numbers() * part.weight(counted) + (part.spread.max_skew - 1)
        raw = np.floor(total[counted] + 0.5)
        most, least = raw.max(), raw.min()
        points[counted] = np.floor_divide(100.0 * (most + least - raw), most) if most > 0 else 100.0
        return points
