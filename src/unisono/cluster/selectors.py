"""Pod selectors of affinity and spread terms, interned, and which of them select a pod.

Rules that look at pods by label cannot tell two pods apart that the same selectors select. So a pod class needs to know
the selectors that select it, and neither labels nor namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from unisono.api.keys import NAMESPACE_NAME
from unisono.api.meta import LabelSelector
from unisono.api.selecting import selects

Labels = Mapping[str, str]
NamespaceLabels = Callable[[str], Labels]
Pair = tuple[str, str]
Match = frozenset[int]

_NOBODY: Match = frozenset()
_EMPTY: Labels = {}
_NONE: Mapping[int, Any] = {}


class Selector:
    """Pods by namespace and labels.

    Attributes:
        id: small integer, unique within one cluster state.
        namespaces: names that are selected whatever their labels.
        namespace_selector: selects further namespaces by their labels.
        labels: what the pod's labels must meet; None selects no pod.
        parts: selectors that must all select the pod; empty for a simple one.

    """

    __slots__ = ("id", "labels", "namespace_selector", "namespaces", "parts")

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

    def selects(self, namespace: str, labels: Labels, labels_of: NamespaceLabels) -> bool:
        """Whether it selects a pod; ``labels_of`` answers the labels of a namespace."""
        if self.parts:
            return all(part.selects(namespace, labels, labels_of) for part in self.parts)
        if not selects(self.labels, labels):
            return False
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and selects(self.namespace_selector, labels_of(namespace))

    def anchors(self) -> tuple[Pair, ...] | str | None:
        """What a selected pod must have: one of these labels, this label key, or (None) nothing in particular."""
        if self.parts:
            return self.parts[0].anchors()
        if self.labels is None:
            return ()
        for key, value in (self.labels.match_labels or _EMPTY).items():
            return ((key, value),)
        requirements = self.labels.match_expressions or ()
        for requirement in requirements:
            if requirement.operator == "In":
                return tuple((requirement.key, value) for value in requirement.values or ())
        return next((requirement.key for requirement in requirements if requirement.operator == "Exists"), None)

    @property
    def by_namespace_labels(self) -> bool:
        """Whether it depends on the labels of namespaces."""
        return self.namespace_selector is not None or any(part.by_namespace_labels for part in self.parts)


KEPT = 256
"""Selectors that no pod class looks through and that are kept all the same, for the next pod that asks for them."""

_Key = tuple[bytes, frozenset[str]] | tuple[int, ...]


class SelectorBook:
    """Interned selectors; one that no pod class looks through any more is freed after a while.

    Attributes:
        all: by id; ids are never used twice.
        namespace_labels: labels of namespaces by name.

    """

    def __init__(self) -> None:
        self.all: dict[int, Selector] = {}
        self.namespace_labels: dict[str, Labels] = {}
        self._next = 0
        self._known: dict[_Key, Selector] = {}
        self._keys: dict[int, _Key] = {}
        self._uses: dict[int, int] = {}
        self._idle: dict[int, None] = {}
        self._by_pair: dict[Pair, dict[int, Selector]] = {}
        self._by_label: dict[str, dict[int, Selector]] = {}
        self._general: dict[int, Selector] = {}
        self._fresh: list[Selector] = []

    def __len__(self) -> int:
        return len(self.all)

    def labels_of(self, namespace: str) -> Labels:
        """Labels of a namespace; every namespace carries its own name, known or not."""
        return {NAMESPACE_NAME: namespace, **self.namespace_labels.get(namespace, _EMPTY)}

    def intern(
        self,
        labels: LabelSelector | None,
        namespaces: Iterable[str],
        namespace_selector: LabelSelector | None = None,
    ) -> Selector:
        """The selector of these parts."""
        names = frozenset(namespaces)
        key = (msgspec.msgpack.encode((labels, namespace_selector)), names)
        found = self._known.get(key)
        if found is None:
            found = self._add(key, Selector(self._next, names, namespace_selector, labels))
        return found

    def intern_all(self, parts: Sequence[Selector]) -> Selector:
        """The selector of pods that all ``parts`` select."""
        distinct = {part.id: part for part in parts}
        if len(distinct) == 1:
            return parts[0]
        key = tuple(sorted(distinct))
        found = self._known.get(key)
        if found is None:
            both = tuple(distinct[number] for number in key)
            found = self._add(key, Selector(self._next, frozenset(), None, None, both))
        return found

    def _add(self, key: _Key, selector: Selector) -> Selector:
        places = self._places(selector)
        self._next += 1
        self._known[key] = self.all[selector.id] = selector
        self._keys[selector.id] = key
        self._idle[selector.id] = None
        self._fresh.append(selector)
        for place in places:
            place[selector.id] = selector
        return selector

    def _places(self, selector: Selector) -> list[dict[int, Selector]]:
        """Where it is found again by what the labels of a pod are."""
        anchors = selector.anchors()
        if anchors is None:
            return [self._general]
        if isinstance(anchors, str):
            return [self._by_label.setdefault(anchors, {})]
        return [self._by_pair.setdefault(pair, {}) for pair in dict.fromkeys(anchors)]

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
        return freed

    def _free(self, selector: Selector) -> None:
        del self._known[self._keys.pop(selector.id)]
        for place in self._places(selector):
            del place[selector.id]
        anchors = selector.anchors()
        if isinstance(anchors, str):
            if not self._by_label[anchors]:
                del self._by_label[anchors]
        else:
            for pair in dict.fromkeys(anchors or ()):
                if not self._by_pair[pair]:
                    del self._by_pair[pair]

    def label_keys(self) -> set[str]:
        """Label keys by which selectors find pods."""
        return {*self._by_label, *(key for key, _ in self._by_pair)}

    def take_fresh(self) -> list[Selector]:
        """Selectors that are new since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def matching(self, namespace: str, labels: Labels) -> Match:
        """Ids of the selectors that select a pod."""
        if not self.all:
            return _NOBODY
        candidates = list(self._general.values())
        if self._by_pair or self._by_label:
            for pair in labels.items():
                candidates += self._by_pair.get(pair, _NONE).values()
                candidates += self._by_label.get(pair[0], _NONE).values()
        return self.among(candidates, namespace, labels)

    def among(self, candidates: Iterable[Selector], namespace: str, labels: Labels) -> Match:
        """Ids of those of ``candidates`` that select a pod."""
        found = [s.id for s in candidates if s.selects(namespace, labels, self.labels_of)]
        return frozenset(found) if found else _NOBODY
