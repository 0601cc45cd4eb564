"""What a pod wants of other pods: affinity and spread terms with their selectors interned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unisono.api.core import PodAffinityTerm, PodSpec, TopologySpreadConstraint, WeightedPodAffinityTerm
from unisono.api.meta import LabelSelector, LabelSelectorRequirement
from unisono.cluster.label_index import Labels
from unisono.cluster.selectors import SelectorBook


class Term(NamedTuple):
    """Pods of a selector (its id), per domain of a node label."""

    selector: int
    key: str


class Held(NamedTuple):
    """A term as others feel it when its owner has a place: required anti-affinity (weight 0), or a preference.

    The weight of a preferred anti-affinity is negative.
    """

    term: Term
    weight: int


class Spread(NamedTuple):
    """A topology spread constraint.

    Attributes:
        selector: id; pods of the owner's namespace.
        key: topology key.
        counts: False where no existing pod counts although the pod itself may (an empty selector, as in Kubernetes).
        honor_affinity: only nodes that the pod's node selector and required node affinity match count.
        honor_taints: only nodes without taints that the pod does not tolerate count.

    """

    selector: int
    key: str
    max_skew: int
    min_domains: int
    hard: bool
    counts: bool
    honor_affinity: bool
    honor_taints: bool


class PodTerms(NamedTuple):
    """All terms of a pod.

    Attributes:
        near: required affinity; ``near_all`` is the selector of pods that all of these select, -1 without any.
        away: required anti-affinity.
        preferred: terms with their weights, negative ones for anti-affinity.

    """

    near: tuple[Term, ...] = ()
    near_all: int = -1
    away: tuple[Term, ...] = ()
    preferred: tuple[Held, ...] = ()
    spread: tuple[Spread, ...] = ()

    @property
    def held(self) -> tuple[Held, ...]:
        """What others feel of them."""
        return (*(Held(term, 0) for term in self.away), *self.preferred)

    @property
    def selectors(self) -> frozenset[int]:
        """Ids of all selectors that the terms look through."""
        terms = (*self.near, *self.away, *(held.term for held in self.preferred))
        found = {*(term.selector for term in terms), *(spread.selector for spread in self.spread)}
        return frozenset(found | {self.near_all} if self.near else found)


NO_TERMS = PodTerms()


def has_terms(spec: PodSpec) -> bool:
    """Whether a pod wants anything of other pods; cheap."""
    affinity = spec.affinity
    between_pods = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return bool(between_pods or spec.topology_spread_constraints)


def terms_of(spec: PodSpec, namespace: str, labels: Labels, book: SelectorBook) -> PodTerms:
    """The terms of a pod in ``namespace`` with ``labels``, which match by label keys and namespace refer to."""
    near, away = (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity) if spec.affinity else (None, None)
    required = _required(near.required_during_scheduling_ignored_during_execution if near else None)
    forbidden = _required(away.required_during_scheduling_ignored_during_execution if away else None)
    liked = near.preferred_during_scheduling_ignored_during_execution if near else None
    disliked = away.preferred_during_scheduling_ignored_during_execution if away else None

    def term(given: PodAffinityTerm) -> Term:
        return _term(given, namespace, labels, book)

    def weighted(given: Sequence[WeightedPodAffinityTerm] | None, sign: int) -> list[Held]:
        return [
            Held(term(entry.pod_affinity_term), sign * entry.weight)
            for entry in given or ()
            if entry.weight and entry.pod_affinity_term is not None
        ]

    near_terms = tuple(term(given) for given in required)
    parts = [book.all[one.selector] for one in near_terms]
    return PodTerms(
        near_terms,
        book.intern_all(parts).id if parts else -1,
        tuple(term(given) for given in forbidden),
        (*weighted(liked, 1), *weighted(disliked, -1)),
        tuple(_spread(given, namespace, labels, book) for given in spec.topology_spread_constraints or ()),
    )


def _required(terms: Sequence[PodAffinityTerm] | None) -> Sequence[PodAffinityTerm]:
    return terms or ()


def _term(given: PodAffinityTerm, namespace: str, labels: Labels, book: SelectorBook) -> Term:
    alone = not given.namespaces and given.namespace_selector is None
    namespaces = [namespace] if alone else given.namespaces or []
    selector = _with_keys(given.label_selector, labels, given.match_label_keys, given.mismatch_label_keys)
    return Term(book.intern(selector, namespaces, given.namespace_selector).id, given.topology_key)


def _spread(given: TopologySpreadConstraint, namespace: str, labels: Labels, book: SelectorBook) -> Spread:
    selector = _with_keys(given.label_selector, labels, given.match_label_keys, None)
    return Spread(
        book.intern(selector, (namespace,)).id,
        given.topology_key,
        given.max_skew or 1,
        given.min_domains or 1,
        given.when_unsatisfiable != "ScheduleAnyway",
        selector is None or bool(selector.match_labels or selector.match_expressions),
        given.node_affinity_policy != "Ignore",
        given.node_taints_policy == "Honor",
    )


def _with_keys(
    selector: LabelSelector | None, labels: Labels, same: Sequence[str] | None, other: Sequence[str] | None
) -> LabelSelector | None:
    """A selector with the pod's own values of some labels added, as an API server does; absent labels add none."""
    if selector is None or not (same or other):
        return selector
    added = [
        LabelSelectorRequirement(key=key, operator=operator, values=[labels[key]])
        for keys, operator in ((same, "In"), (other, "NotIn"))
        for key in keys or ()
        if key in labels
    ]
    present = selector.match_expressions or []
    fresh = [requirement for requirement in added if requirement not in present]
    return LabelSelector(match_labels=selector.match_labels, match_expressions=[*present, *fresh] or None)
