"""Objects that live as long as their owner, such as a session or a cluster's state, found by their class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class SharedObjects:
    """At most one object of each class, made when it is first asked for.

    What several plug-ins or actions use together, such as the book of who holds which device, lives here, so that it
    ends with its owner.
    """

    __slots__ = ("_by_class",)

    def __init__(self) -> None:
        self._by_class: dict[type[Any], Any] = {}

    def of(self, kind: type[T], make: Callable[[], T]) -> T:
        """The object of class ``kind``; ``make`` makes it if there is none yet."""
        found: T | None = self._by_class.get(kind)
        if found is None:
            found = self._by_class[kind] = make()
        return found

    def find(self, kind: type[T]) -> T | None:
        """The object of class ``kind``; None when nothing has asked for it yet."""
        found: T | None = self._by_class.get(kind)
        return found

    def put(self, part: object) -> None:
        """Have ``part`` in place of the object of its class."""
        self._by_class[type(part)] = part

    def clear(self) -> None:
        """Forget all objects."""
        self._by_class.clear()
