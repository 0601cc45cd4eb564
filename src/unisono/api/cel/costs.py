"""What a call of a CEL function costs, by the sizes of its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unisono.api.cel.values import (
    size_of,
    weight,
)

Cost = Callable[..., float]


def by_size(*values: Any) -> float:
    """A tenth of all characters and entries, as cel-go counts traversed strings."""
    return 1 + sum(map(size_of, values)) / 10


def by_entries(*values: Any) -> float:
    """One for each value of a list or map, however deep."""
    return 1 + sum(weight(value) for value in values)


def comparing(left: Any, right: Any) -> float:
    """The smaller one decides how long a comparison takes."""
    if isinstance(left, str | bytes):
        return min(size_of(left), size_of(right)) / 10
    if isinstance(left, list | dict):
        return min(weight(left), weight(right)) if size_of(left) == size_of(right) else 0
    return 0


def searching(text: Any, part: Any = "", *_: Any) -> float:
    """Every position of the text against the part."""
    return 1 + size_of(text) / 10 * max(1.0, size_of(part) / 10)


def matching(text: Any, pattern: Any, *_: Any) -> float:
    """Every position of the text against the pattern."""
    return 1 + max(1.0, size_of(text) / 10) * max(1.0, size_of(pattern) / 4)


def within(wanted: Any, owner: Any) -> float:
    """The value against each entry of a list."""
    return 1 + (len(owner) * (1 + size_of(wanted) / 10) if isinstance(owner, list) else 0)


def crossed(left: Any, right: Any, *_: Any) -> float:
    """Each entry of one list against each of the other."""
    return 1 + size_of(left) * size_of(right)


def replacing(text: Any, old: Any = "", new: Any = "", *_: Any) -> float:
    """The text, and what is put in at each occurrence."""
    occurrences = size_of(text) / max(1, size_of(old))
    return 1 + (size_of(text) + occurrences * size_of(new)) / 10


def joining(values: Any, separator: Any = "") -> float:
    """The entries, and a separator for each."""
    return 1 + sum(1 + (size_of(each) + size_of(separator)) / 10 for each in values)
