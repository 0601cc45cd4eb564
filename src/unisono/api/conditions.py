"""Conditions of any kind by their type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Typed(Protocol):
    """What conditions of all kinds have."""

    @property
    def type(self) -> str:
        """Such as ``Ready``."""
        ...

    @property
    def status(self) -> str | None:
        """``True``, ``False`` or ``Unknown``."""
        ...


C = TypeVar("C", bound=Typed)


def find_condition(conditions: Iterable[C] | None, type: str) -> C | None:
    """The condition of a type; None without one."""
    return next((each for each in conditions or () if each.type == type), None)


def is_true(conditions: Iterable[Typed] | None, type: str) -> bool:
    """Whether the condition of a type is there, with status ``True``."""
    return any(each.type == type and each.status == "True" for each in conditions or ())
