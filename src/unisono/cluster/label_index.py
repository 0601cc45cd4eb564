"""Which of many label selectors hold for some labels, without asking each of them.

Every pod meets every selector, so the work for one pod must not grow with the number of selectors times their length.
A selector is taken apart into what single labels must be. Sets of ids are kept by label; those that hold are found by
sums and differences of such sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import msgspec

from unisono.api.base import LabelSelector
from unisono.api.keys import GROUP_NAME

Labels = Mapping[str, str]
Pair = tuple[str, str]
K = TypeVar("K", bound=Hashable)

WIDE = 64
"""Values of one requirement up to which each of them is indexed; selectors with more are asked themselves."""


class Rules(msgspec.Struct, frozen=True):
    """What labels must be for some selectors to hold together.

    Attributes:
        allowed: values that a label must have one of, by key.
        present: keys of labels that must be there, with any value.
        refused: values that a label must not have, by key.
        absent: keys of labels that must not be there.
    """

    allowed: dict[str, frozenset[str]]
    present: frozenset[str]
    refused: dict[str, frozenset[str]]
    absent: frozenset[str]

    def hold(self, labels: Labels) -> bool:
        """Whether they hold for ``labels``."""
        return (
            self.present <= labels.keys()
            and self.absent.isdisjoint(labels)
            and all(labels.get(key) in values for key, values in self.allowed.items())
            and all(labels.get(key) not in values for key, values in self.refused.items())
        )

    @property
    def keys(self) -> set[str]:
        """Keys of all labels that they ask for."""
        return {*self.allowed, *self.present, *self.refused, *self.absent}

    @property
    def wide(self) -> bool:
        """Whether a requirement has too many values to index each."""
        return any(len(values) > WIDE for each in (self.allowed, self.refused) for values in each.values())

    @property
    def needed(self) -> list[Iterable[Pair] | str]:
        """A pod must have one of the labels, or the label key, of each entry.

        Those with fewest values come first; of these the gang, which fewest pods share.
        """
        allowed = sorted(self.allowed.items(), key=lambda item: (len(item[1]), item[0] != GROUP_NAME, item[0]))
        pairs: list[Iterable[Pair] | str] = [
            key if len(values) > WIDE else tuple((key, value) for value in sorted(values)) for key, values in allowed
        ]
        return [*pairs, *sorted(self.present)]


def rules_of(selectors: Iterable[LabelSelector | None]) -> Rules | None:
    """What labels must be for all ``selectors`` to hold; None when no labels can be so."""
    allowed, refused = dict[str, set[str]](), dict[str, set[str]]()
    present, absent = set[str](), set[str]()
    for selector in selectors:
        if selector is None:
            return None
        for key, value in (selector.match_labels or {}).items():
            allowed[key] = {value} & allowed.get(key, {value})
        for one in selector.match_expressions or ():
            values = set(one.values or ())
            match one.operator:
                case "In":
                    allowed[one.key] = values & allowed.get(one.key, values)
                case "NotIn":
                    refused.setdefault(one.key, set()).update(values)
                case "Exists":
                    present.add(one.key)
                case "DoesNotExist":
                    absent.add(one.key)
                case _:
                    return None
    for key in allowed:
        allowed[key] -= refused.pop(key, set())
    if not all(allowed.values()) or not absent.isdisjoint(present | allowed.keys()):
        return None
    return Rules(
        {key: frozenset(values) for key, values in allowed.items()},
        frozenset(present - allowed.keys()),
        {key: frozenset(values) for key, values in refused.items() if key not in absent and values},
        frozenset(absent),
    )


class _Places:
    """Ids by label, and by label key."""

    def __init__(self) -> None:
        self.by_pair: dict[Pair, set[int]] = {}
        self.by_key: dict[str, set[int]] = {}

    def put(self, where: Iterable[Pair] | str, number: int) -> None:
        if isinstance(where, str):
            self.by_key.setdefault(where, set()).add(number)
        else:
            for pair in where:
                self.by_pair.setdefault(pair, set()).add(number)

    def drop(self, where: Iterable[Pair] | str, number: int) -> None:
        if isinstance(where, str):
            _discard(self.by_key, where, number)
        else:
            for pair in where:
                _discard(self.by_pair, pair, number)

    def hits(self, labels: Labels) -> list[set[int]]:
        """The sets that ``labels`` lead to."""
        matches = []
        if self.by_pair:
            matches += [held for pair in labels.items() if (held := self.by_pair.get(pair))]
        if self.by_key:
            matches += [held for key in labels if (held := self.by_key.get(key))]
        return matches


def _discard(index: dict[K, set[int]], key: K, number: int) -> None:
    held = index[key]
    held.discard(number)
    if not held:
        del index[key]


class LabelIndex:
    """Rules by id, and which of them hold for some labels."""

    def __init__(self) -> None:
        self._rules: dict[int, Rules] = {}
        self._anything: set[int] = set()
        self._one, self._several, self._against = _Places(), _Places(), _Places()
        self._needs: dict[int, int] = {}
        self._asked: set[int] = set()

    def add(self, number: int, rules: Rules) -> None:
        """Take in the rules of ``number``, which is new."""
        self._rules[number] = rules
        needed = rules.needed
        if not needed:
            self._anything.add(number)
        for where in needed:
            (self._one if len(needed) == 1 else self._several).put(where, number)
        if len(needed) > 1:
            self._needs[number] = len(needed)
        for where in _against(rules):
            self._against.put(where, number)
        if rules.wide:
            self._asked.add(number)

    def remove(self, number: int) -> None:
        """Forget an id; nothing happens where it is not known."""
        rules = self._rules.pop(number, None)
        if rules is None:
            return
        needed = rules.needed
        self._anything.discard(number)
        for where in needed:
            (self._one if len(needed) == 1 else self._several).drop(where, number)
        self._needs.pop(number, None)
        for where in _against(rules):
            self._against.drop(where, number)
        self._asked.discard(number)

    def holding(self, labels: Labels, among: Iterable[set[int]]) -> set[int]:
        """Ids of one of the sets ``among`` whose rules hold for ``labels``."""
        ids = set[int]()
        hits = [self._anything, *self._one.hits(labels)]
        several = self._several.hits(labels)
        if len(several) > 1:
            counts = Counter[int]()
            for held in several:
                counts.update(held)
            hits.append({number for number, count in counts.items() if count == self._needs[number]})
        for seen in among:
            for held in hits:
                ids |= held & seen
        if ids:
            for held in self._against.hits(labels):
                ids -= held
            if self._asked:
                ids -= {number for number in ids & self._asked if not self._rules[number].hold(labels)}
        return ids


def _against(rules: Rules) -> list[Iterable[Pair] | str]:
    """Labels, and label keys, with which the rules do not hold."""
    pairs: list[Iterable[Pair] | str] = [
        tuple((key, value) for value in values) for key, values in rules.refused.items() if len(values) <= WIDE
    ]
    return [*pairs, *rules.absent]
