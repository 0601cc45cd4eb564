"""What pods want of other pods: affinity and spread terms with their selectors interned, and whom these select."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from unisono.api.base import LabelSelector, LabelSelectorRequirement
from unisono.api.core import PodAffinityTerm, PodSpec, TopologySpreadConstraint, WeightedPodAffinityTerm
from unisono.api.keys import GROUP_NAME, NAMESPACE_NAME
from unisono.api.selecting import selects, with_keys
from unisono.cluster.label_index import WIDE, LabelIndex, Labels, Pair, rules_of

# Pod selectors of affinity and spread terms, interned, and which of them select a pod.
#
# Rules that look at pods by label cannot tell two pods apart that the same selectors select. So a pod class needs to
# know the selectors that select it, and neither labels nor namespace.

NamespaceLabels = Callable[[str], Labels]
Match = frozenset[int]
Anchor = Iterable[Pair] | str | None

_NOBODY: Match = frozenset()
_EMPTY: Labels = {}


class Selector:
    """Pods by namespace and labels.

    Attributes:
        id: small integer, unique within one cluster state.
        namespaces: names that are selected whatever their labels.
        namespace_selector: selects further namespaces by their labels.
        labels: what the pod's labels must meet; None selects no pod.
        parts: selectors that must all select the pod; empty for a simple one.
        rules: what the labels of a selected pod are; None selects no pod.
    """

    __slots__ = ("id", "labels", "namespace_selector", "namespaces", "parts", "rules")

    def __init__(
        self,
        number: int,
        namespaces: frozenset[str],
        namespace_selector: LabelSelector | None,
        labels: LabelSelector | None,
        parts: tuple[Selector, ...] = (),
    ) -> None:
        self.id = number
        self.namespaces = namespaces
        self.namespace_selector = namespace_selector
        self.labels = labels
        self.parts = parts
        self.rules = rules_of([part.labels for part in parts] or [labels])

    def sees(self, namespace: str, labels_of: NamespaceLabels) -> bool:
        """Whether it selects pods of a namespace at all; ``labels_of`` answers the labels of a namespace."""
        if self.parts:
            return all(part.sees(namespace, labels_of) for part in self.parts)
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and selects(self.namespace_selector, labels_of(namespace))

    @property
    def anchor(self) -> Anchor:
        """What a selected pod must have: one of these labels, this label key, or (None) nothing in particular."""
        return () if self.rules is None else next(iter(self.rules.needed), None)

    @property
    def by_namespace_labels(self) -> bool:
        """Whether it depends on the labels of namespaces."""
        return self.namespace_selector is not None or any(part.by_namespace_labels for part in self.parts)


KEPT = 256
"""Selectors that no pod class looks through and that are kept all the same, for the next pod that asks for them."""

KEPT_NAMESPACES = 10_000
"""Namespaces for which it is kept which selectors see them."""

_EMPTY_SET: set[int] = set()
_Key = tuple[bytes, frozenset[str]] | tuple[int, ...]


class SelectorBook:
    """Interned selectors; one that no pod class looks through any more is freed after a while.

    Attributes:
        all: by id; ids are never used twice.
        namespace_labels: labels of namespaces by name.
        by_gang: some selector has asked for `GROUP_NAME` as if it were a label of pods.
    """

    def __init__(self) -> None:
        self.by_gang = False
        self.all: dict[int, Selector] = {}
        self.namespace_labels: dict[str, Labels] = {}
        self._next = 0
        self._known: dict[_Key, Selector] = {}
        self._keys: dict[int, _Key] = {}
        self._uses: dict[int, int] = {}
        self._idle: dict[int, None] = {}
        self._labels = LabelIndex()
        self._by_name: dict[str, set[int]] = {}
        self._asked: dict[int, Selector] = {}
        self._seen: dict[str, _Seen] = {}
        self._answers: dict[Match, Match] = {}
        self._fresh: list[Selector] = []

    def __len__(self) -> int:
        return len(self.all)

    def labels_of(self, namespace: str) -> Labels:
        """Labels of a namespace; every namespace carries its own name, known or not."""
        return {NAMESPACE_NAME: namespace, **self.namespace_labels.get(namespace, _EMPTY)}

    def intern(
        self, labels: LabelSelector | None, namespaces: Iterable[str], namespace_selector: LabelSelector | None = None
    ) -> Selector:
        """The selector of these parts."""
        names = frozenset(namespaces)
        key = (msgspec.msgpack.encode((labels, namespace_selector)), names)
        selector = self._known.get(key)
        if selector is None:
            selector = self._add(key, Selector(self._next, names, namespace_selector, labels))
        return selector

    def intern_all(self, parts: Sequence[Selector]) -> Selector:
        """The selector of pods that all ``parts`` select."""
        distinct = {part.id: part for part in parts}
        if len(distinct) == 1:
            return parts[0]
        key = tuple(sorted(distinct))
        selector = self._known.get(key)
        if selector is None:
            both = tuple(distinct[number] for number in key)
            selector = self._add(key, Selector(self._next, frozenset(), None, None, both))
        return selector

    def _add(self, key: _Key, selector: Selector) -> Selector:
        self._next += 1
        self._known[key] = self.all[selector.id] = selector
        self._keys[selector.id] = key
        self._idle[selector.id] = None
        self._fresh.append(selector)
        if selector.rules is not None:
            self.by_gang = self.by_gang or GROUP_NAME in selector.rules.keys
            self._labels.add(selector.id, selector.rules)
            if _is_asked(selector):
                self._asked[selector.id] = selector
            for name in selector.namespaces if not _is_asked(selector) else ():
                self._by_name.setdefault(name, set()).add(selector.id)
        return selector

    # ---- use

    def take(self, numbers: Iterable[int]) -> None:
        """One more pod class looks through these selectors."""
        for number in numbers:
            self._uses[number] = self._uses.get(number, 0) + 1
            self._idle.pop(number, None)

    def give_back(self, numbers: Iterable[int]) -> None:
        """The opposite of `take`."""
        for number in numbers:
            self._uses[number] -= 1
            if not self._uses[number]:
                del self._uses[number]
                self._idle[number] = None

    def sweep(self) -> frozenset[int]:
        """Free those that no class has looked through for longest, once they are many; answer their ids."""
        if len(self._idle) <= 2 * KEPT:  # each sweep looks at all pod classes: it has to be worth that
            return frozenset()
        freed = frozenset(list(self._idle)[:-KEPT])
        for number in freed:
            del self._idle[number]
            self._free(self.all.pop(number))
        self._fresh = [selector for selector in self._fresh if selector.id not in freed]
        for seen in self._seen.values():
            seen.ids -= freed
        self._answers.clear()
        return freed

    def _free(self, selector: Selector) -> None:
        del self._known[self._keys.pop(selector.id)]
        self._labels.remove(selector.id)
        if self._asked.pop(selector.id, None) is not None or selector.rules is None:
            return
        for name in selector.namespaces:
            self._by_name[name].discard(selector.id)
            if not self._by_name[name]:
                del self._by_name[name]

    def label_keys(self) -> set[str]:
        """Label keys by which selectors find pods."""
        anchors = [selector.anchor for selector in self.all.values()]
        keys = {one for one in anchors if isinstance(one, str)}
        return keys | {key for one in anchors if one and not isinstance(one, str) for key, _ in one}

    def take_fresh(self) -> list[Selector]:
        """Selectors that are new since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    # ---- namespaces

    def label_namespace(self, name: str, labels: Labels | None) -> bool:
        """Note the labels of a namespace, None once it is gone; answer whether other pods may be selected now."""
        old = self.namespace_labels.get(name)
        if labels is None:
            self.namespace_labels.pop(name, None)
        else:
            self.namespace_labels[name] = labels
        if (old or {}) == (labels or {}):
            return False
        self._seen.pop(name, None)
        return any(selector.by_namespace_labels for selector in self._asked.values())

    def sees(self, namespace: str) -> tuple[set[int], set[int]]:
        """Ids of the selectors that may select pods of a namespace: by its name, and by its labels."""
        if not self._asked:
            return self._by_name.get(namespace, _EMPTY_SET), _EMPTY_SET
        seen = self._seen.get(namespace)
        if seen is None:
            if len(self._seen) >= KEPT_NAMESPACES:
                self._seen.clear()
            seen = self._seen[namespace] = _Seen()
        for number, selector in reversed(self._asked.items()):
            if number < seen.before:
                break
            if selector.sees(namespace, self.labels_of):
                seen.ids.add(number)
        seen.before = self._next
        return self._by_name.get(namespace, _EMPTY_SET), seen.ids

    # ---- pods

    def matching(self, namespace: str, labels: Labels) -> Match:
        """Ids of the selectors that select a pod; equal answers are mostly one object."""
        by_name, by_labels = self.sees(namespace)
        if not by_name and not by_labels:
            return _NOBODY
        ids = self._labels.holding(labels, (by_name, by_labels))
        if not ids:
            return _NOBODY
        if len(self._answers) >= KEPT:
            self._answers.clear()
        answer = frozenset(ids)
        return self._answers.setdefault(answer, answer)


class _Seen:
    """Ids of selectors with an id below ``before`` that see a namespace by its labels."""

    __slots__ = ("before", "ids")

    def __init__(self) -> None:
        self.before = 0
        self.ids: set[int] = set()


def _is_asked(selector: Selector) -> bool:
    """Whether it is asked which namespaces it sees: it does not say so by some names."""
    return selector.by_namespace_labels or bool(selector.parts) or len(selector.namespaces) > WIDE


class Term(NamedTuple):
    """Pods of a selector (its id), per domain of a topology key.

    Pods that a second selector selects, ``but``, do not count; -1: all do. A thousand gangs that keep apart from each
    other look through one selector so, and each through one of its own; with a selector of all others for each gang,
    every pod would be selected by a thousand.
    """

    selector: int
    key: str
    but: int = -1


class Held(NamedTuple):
    """A term as others feel it when its owner has a place: required anti-affinity (weight 0), or a preference.

    The weight of a preferred anti-affinity is negative. A required term that leaves out pods is held twice: as one
    about all of its selector, and as one about those left out, who feel the first less the second. ``whole`` is the
    selector of the first then, and -1 of other terms.
    """

    term: Term
    weight: int
    whole: int = -1


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
        return (*(held for term in self.away for held in _felt(term)), *self.preferred)

    @property
    def selectors(self) -> frozenset[int]:
        """Ids of all selectors that the terms look through."""
        terms = (*self.near, *self.away, *(held.term for held in self.preferred))
        ids = {*(term.selector for term in terms), *(spread.selector for spread in self.spread)}
        ids.update(term.but for term in self.away if term.but >= 0)
        return frozenset(ids | {self.near_all} if self.near else ids)


NO_TERMS = PodTerms()


def _felt(term: Term) -> Iterator[Held]:
    if term.but < 0:
        yield Held(term, 0)
        return
    for selector in (term.selector, term.but):
        yield Held(Term(selector, term.key), 0, term.selector)


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

    def weighted(given: Sequence[WeightedPodAffinityTerm] | None, sign: int) -> Iterator[Held]:
        for entry in given or ():
            if entry.weight and entry.pod_affinity_term is not None:
                selector, key, but = term(entry.pod_affinity_term)
                yield Held(Term(selector, key), sign * entry.weight)
                if but >= 0:
                    yield Held(Term(but, key), -sign * entry.weight)

    near_terms = tuple(Term(_whole(given, namespace, labels, book).id, given.topology_key) for given in required)
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


def _whole(given: PodAffinityTerm, namespace: str, labels: Labels, book: SelectorBook) -> Selector:
    selector = with_keys(given.label_selector, labels, given.match_label_keys, given.mismatch_label_keys)
    return book.intern(selector, _namespaces(given, namespace), given.namespace_selector)


def _namespaces(given: PodAffinityTerm, namespace: str) -> Sequence[str]:
    alone = not given.namespaces and given.namespace_selector is None
    return [namespace] if alone else given.namespaces or []


def _term(given: PodAffinityTerm, namespace: str, labels: Labels, book: SelectorBook) -> Term:
    selector = with_keys(given.label_selector, labels, given.match_label_keys, given.mismatch_label_keys)
    parts = _divided(selector, labels) if selector is not None else None
    if parts is None:
        return Term(_whole(given, namespace, labels, book).id, given.topology_key)
    names, by_labels = _namespaces(given, namespace), given.namespace_selector
    whole, own = (book.intern(part, names, by_labels).id for part in parts)
    return Term(whole, given.topology_key, own)


def _divided(selector: LabelSelector, labels: Labels) -> tuple[LabelSelector, LabelSelector] | None:
    """A selector that leaves out the pod's own value of a label, without that, and of what it leaves out; else None."""
    asked, every = selector.match_labels, selector.match_expressions or []
    for one in every:
        if one.operator == "NotIn" and one.key in labels and one.values == [labels[one.key]]:
            rest = [each for each in every if each is not one]
            if not rest and not asked:
                return None  # it would be about all pods
            own = LabelSelectorRequirement(key=one.key, operator="In", values=one.values)
            whole = LabelSelector(match_labels=asked, match_expressions=rest or None)
            return whole, LabelSelector(match_labels=asked, match_expressions=[*rest, own])
    return None


def _spread(given: TopologySpreadConstraint, namespace: str, labels: Labels, book: SelectorBook) -> Spread:
    selector = with_keys(given.label_selector, labels, given.match_label_keys, None)
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
