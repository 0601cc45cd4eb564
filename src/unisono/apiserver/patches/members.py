"""Whether a list has a value, without a walk through the list for each question."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any


def frozen(value: Any) -> Hashable:
    """A key that is equal for equal JSON values."""
    if isinstance(value, dict):
        return dict, frozenset((name, frozen(each)) for name, each in value.items())
    if isinstance(value, list):
        return list, tuple(map(frozen, value))
    key: Hashable = value
    return key


class Members:
    """The values of a list, for ``in``."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._keys = {frozen(each) for each in values}

    def __contains__(self, value: Any) -> bool:
        return frozen(value) in self._keys
