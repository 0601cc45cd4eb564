"""Equality of JSON values, where Python's differs: ``True`` is not 1, though 1 is 1.0.

Lists may be tuples, as structs keep them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON."""
    if isinstance(one, str) or one is None:
        return bool(one == other)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        return all(key in other and same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return isinstance(other, list | tuple) and len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def frozen(value: Any) -> Hashable:
    """A key that is the same for equal values, and for no others."""
    if isinstance(value, dict):
        return dict, frozenset((name, frozen(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return list, tuple(map(frozen, value))
    key: Hashable = (bool, value) if isinstance(value, bool) else value
    return key


class Members:
    """The values of a list, for ``in``, without a walk through the list for each question."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._keys = {frozen(each) for each in values}

    def __contains__(self, value: Any) -> bool:
        return frozen(value) in self._keys


def clone(value: Any) -> Any:
    """A copy of decoded JSON, several times as fast as ``copy.deepcopy``."""
    if isinstance(value, dict):
        return {key: clone(each) for key, each in value.items()}
    if isinstance(value, list):
        return [clone(each) for each in value]
    return value
