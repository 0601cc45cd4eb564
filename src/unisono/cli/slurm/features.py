"""Features of nodes, as ``--constraint``, ``--prefer`` and kinds of cards name them, as labels of nodes (pure).

A node has a feature by a label: one with this value (``topology.kubernetes.io/zone: a``), one of this name that is true
(``example.com/nvlink: "true"``), or a model of GPUs of which it names words (``a100`` of ``NVIDIA-A100-SXM4-80GB``).
``KEY=VALUE`` is that label alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unisono.api.keys import GPU_PRODUCT, HOSTNAME
from unisono.api.names import label_value, qualified_name
from unisono.api.one_of import MOST as MOST_KINDS

Labels = Mapping[str, str]

_TOKEN = re.compile(r"\s*(?:([&,|()\[\]])|\*(\d{1,5})|([^&,|()\[\]*\s]+))")
_TRUE = ("", "true", "yes")
_MOST_TERMS = 64
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that must have some features.

    Attributes:
        count: how many of the job's nodes; 0 for all.
        choices: each a list of features, all of which a node must have; one of them is enough.

    """

    count: int
    choices: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """What ``--constraint`` asks for.

    Attributes:
        parts: of the job's nodes: one, or several that have counts; nodes beyond their counts may have any features.
        same: all nodes have the same choice.

    """

    parts: tuple[Part, ...]
    same: bool = False

    @property
    def features(self) -> list[str]:
        """All that it names."""
        return list(dict.fromkeys(name for part in self.parts for choice in part.choices for name in choice))

    @property
    def counted(self) -> int:
        """Nodes of its parts together; 0 where they are all nodes."""
        return sum(part.count for part in self.parts)


@dataclass(frozen=True, slots=True)
class Places:
    """Nodes by their labels.

    Attributes:
        terms: of a node affinity, one of which is enough; empty for any node.
        count: how many of the job's nodes are such; 0 for all.

    """

    terms: tuple[tuple[dict[str, Any], ...], ...] = ()
    count: int = 0


def read_constraint(text: str) -> Constraint:
    """A constraint; ``&`` and ``|`` bind from left to right, as under Slurm.

    Raises:
        ValueError: it cannot be read.

    """
    words: list[str] = []
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(
                f"features are expected, such as a100&nvlink, a100|h100 or [rack1*2&rack2*4], at {text[at:]}"
            )
        words.append(match[1] or (f"*{match[2]}" if match[2] else match[3]))
        at = match.end()
    reader = _Reader(words)
    parts = reader.joined(())
    if reader.words:
        raise ValueError(f"{reader.words[0]} closes nothing")
    if len(parts) > 1 and not all(part.count for part in parts):
        raise ValueError("each of several features in brackets needs a count, such as [a*2&b*1]")
    return Constraint(tuple(parts), reader.same)


class _Reader:
    def __init__(self, words: list[str]) -> None:
        self.words, self.same = words, False

    def joined(self, ends: Sequence[str]) -> list[Part]:
        parts = self._one()
        while self.words and self.words[0] not in (*ends, ")", "]"):
            sign = self.words.pop(0)
            if sign not in "&,|":
                raise ValueError(f"& or | is missing before {sign}")
            parts = _both(parts, self._one()) if sign != "|" else _either(parts, self._one())
        return parts

    def _one(self) -> list[Part]:
        word = self.words.pop(0) if self.words else ""
        if word in ("(", "["):
            end = {"(": ")", "[": "]"}[word]
            parts = self.joined((end,))
            if not self.words or self.words.pop(0) != end:
                raise ValueError(f"{word} is not closed by {end}")
            self.same = self.same or (word == "[" and any(len(part.choices) > 1 for part in parts if not part.count))
        elif not word or word in "&,|)]" or word.startswith("*"):
            raise ValueError("a feature is missing")
        else:
            parts = [Part(0, ((word,),))]
        if self.words and self.words[0].startswith("*"):
            count = int(self.words.pop(0)[1:])
            if not count or len(parts) > 1 or parts[0].count:
                raise ValueError("a count from 1 on stands behind one feature, or behind some in parentheses")
            parts = [Part(count, parts[0].choices)]
        return parts


def _product(one: Part, other: Part) -> tuple[tuple[str, ...], ...]:
    choices = [tuple(dict.fromkeys((*left, *right))) for left in one.choices for right in other.choices]
    if len(choices) > _MOST_TERMS:
        raise ValueError(f"more than {_MOST_TERMS} choices")
    return tuple(dict.fromkeys(choices))


def _both(one: list[Part], other: list[Part]) -> list[Part]:
    counted, plain = [all(part.count for part in parts) for parts in (one, other)], [*one, *other]
    if all(counted):
        return plain
    if (len(one) > 1 and not counted[0]) or (len(other) > 1 and not counted[1]):
        raise ValueError("each of several features in brackets needs a count, such as [a*2&b*1]")
    # What has no count holds for all nodes, so for each part of them.
    return [Part(left.count or right.count, _product(left, right)) for left in one for right in other]


def _either(one: list[Part], other: list[Part]) -> list[Part]:
    if any(part.count for part in (*one, *other)) or len(one) > 1 or len(other) > 1:
        raise ValueError("counts are joined by &, such as [a*2&b*1]")
    return [Part(0, tuple(dict.fromkeys((*one[0].choices, *other[0].choices))))]


def labels_of(feature: str, nodes: Iterable[Labels]) -> dict[str, tuple[str, ...]]:
    """Labels that mean the feature: values by key, of those that some node has; of ``KEY=VALUE`` just that.

    Raises:
        ValueError: ``KEY=VALUE`` is no label.

    """
    key, assigned, value = feature.partition("=")
    if assigned:
        if wrong := [*qualified_name(key), *label_value(value)]:
            raise ValueError(f"{feature} is no label: {wrong[0]}")
        return {key: (value,)}
    values_by_key: dict[str, set[str]] = {}
    models: set[str] = set()
    plain = feature.lower()
    for labels in nodes:
        for key, value in labels.items():
            if key == HOSTNAME:
                continue
            name = key.rpartition("/")[2].lower()
            if (value.lower() == plain and value.lower() not in _TRUE) or (name == plain and value.lower() in _TRUE):
                values_by_key.setdefault(key, set()).add(value)
            if key == GPU_PRODUCT and f"-{'-'.join(_words(plain))}-" in f"-{'-'.join(_words(value))}-":
                models.add(value)
    if not values_by_key and models:
        values_by_key[GPU_PRODUCT] = models
    return {key: tuple(sorted(values)) for key, values in sorted(values_by_key.items())}


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def known_features(nodes: Iterable[Labels]) -> str:
    """Features that some node has, for messages."""
    names: set[str] = set()
    for labels in nodes:
        for key, value in labels.items():
            if key == HOSTNAME or value.isdecimal() or value.lower() == "false":
                continue
            names.add(key.rpartition("/")[2] if value.lower() in _TRUE else value)
    shown = sorted(names)[:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more if shown else "none"


def places_of(part: Part, nodes: Sequence[Labels]) -> Places:
    """The nodes of a part, by labels; every feature must be that of some node.

    Raises:
        ValueError: the choices are too many.

    """
    terms = []
    for choice in part.choices:
        keyed = [labels_of(feature, nodes).items() for feature in choice]
        for labels in itertools.product(*keyed):
            terms.append(tuple({"key": key, "operator": "In", "values": list(values)} for key, values in labels))
            if len(terms) > _MOST_TERMS:
                raise ValueError(f"more than {_MOST_TERMS} choices of labels")
    return Places(tuple(terms), part.count)


def one_of(part: Part, nodes: Sequence[Labels]) -> str:
    """Kinds of nodes of which all get the same, as `unisono.api.one_of` has them.

    Raises:
        ValueError: they are too many.

    """
    kinds: dict[str, None] = {}
    for term in places_of(part, nodes).terms:
        for values in itertools.product(*(each["values"] for each in term)):
            kinds["+".join(f"{each['key']}={value}" for each, value in zip(term, values, strict=True))] = None
            if len(kinds) > MOST_KINDS:
                raise ValueError(f"more than {MOST_KINDS} kinds of nodes to choose from")
    return ", ".join(kinds)


@dataclass(frozen=True, slots=True)
class Placing:
    """Where the nodes of a job may be.

    Attributes:
        places: of all nodes, or of some by number; empty for anywhere.
        preferred: nodes that are better.
        one_of: kinds of nodes of which all get one, as the annotation has them; empty for none.

    """

    places: tuple[Places, ...] = ()
    preferred: Places = Places()
    one_of: str = ""


def placing_of(
    constraint: Constraint | None,
    prefer: Constraint | None,
    cards: Sequence[str],
    nodes: Sequence[Labels],
    *,
    local: bool,
) -> tuple[Placing, list[str]]:
    """Where nodes may be, and notes on what is left out.

    Args:
        constraint: of ``--constraint``; None for none.
        prefer: of ``--prefer``; None for none.
        cards: kinds of cards that are named, ``a100`` of ``gpu:a100:4``.
        nodes: labels of all nodes that are known.
        local: one machine stands for all nodes: what it does not know is left out and told.

    Raises:
        ValueError: no node has a feature, or the choices are too many.

    """
    parts, notes = list(constraint.parts if constraint else ()), []
    if constraint and (text := _missing(constraint, nodes)):
        if not local:
            raise ValueError(text)
        notes.append(f"--constraint is left out, as this machine stands for all nodes: {text}")
        parts = []
    kinds = list(dict.fromkeys(cards))
    if len(kinds) == 1 and labels_of(kinds[0], nodes):
        card = [Part(0, ((kinds[0],),))]
        parts = _both(parts, card) if parts else card
    elif kinds:
        why = "no label of a node names it" if len(kinds) == 1 else "nodes have cards of one kind"
        notes.append(f"the kind of cards {', '.join(kinds)} is left out: {why}")
    preferred = Places()
    if prefer and (text := _missing(prefer, nodes)):
        notes.append(f"--prefer is left out: {text}")
    elif prefer:
        preferred = places_of(prefer.parts[0], nodes)
        if prefer.counted:
            notes.append("counts of --prefer are left out")
    if parts and constraint and constraint.same:
        return Placing((), preferred, one_of(parts[0], nodes)), notes
    return Placing(tuple(places_of(part, nodes) for part in parts), preferred), notes


def _missing(constraint: Constraint, nodes: Sequence[Labels]) -> str:
    """What to say of features that no node has; empty where all are there."""
    if not (missing := [name for name in constraint.features if not labels_of(name, nodes)]):
        return ""
    if not nodes:
        return f"features are labels of nodes, and none can be read here: write {missing[0]} as KEY=VALUE"
    return f"no node has the feature {', '.join(missing)}: there are {known_features(nodes)}"
