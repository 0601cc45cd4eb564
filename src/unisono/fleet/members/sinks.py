"""What a member's reflector feeds: changes one by one, also where it reads a whole list again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from unisono.api.base import Object
from unisono.kube.client import EventType

T = TypeVar("T", bound=Object)


class MemberSink(Generic[T]):
    """Knows what was there, so that a list tells what is gone; objects that cannot be read stay as they were.

    Args:
        take: gets each change.
        slim: what is to be kept of an object for its DELETED change.

    """

    def __init__(self, take: Callable[[EventType, T], None], slim: Callable[[T], T] = lambda obj: obj) -> None:
        self._take, self._slim = take, slim
        self._known: dict[str, T] = {}

    def replace(self, objects: Sequence[T], unread: Sequence[tuple[T, str]] = ()) -> None:
        """The complete set of objects."""
        listed = {obj.key for obj in objects} | {obj.key for obj, _ in unread}
        for key in [key for key in self._known if key not in listed]:
            self._take("DELETED", self._known.pop(key))
        for obj in objects:
            self.apply("MODIFIED" if obj.key in self._known else "ADDED", obj)

    def refuse(self, obj: T, why: str) -> None:
        """An object that cannot be read."""

    def apply(self, event_type: EventType, obj: T) -> None:
        """One change."""
        if event_type == "DELETED":
            self._known.pop(obj.key, None)
        else:
            self._known[obj.key] = self._slim(obj)
        self._take(event_type, obj)

    def clear(self) -> None:
        """The member has left: all that it had is gone."""
        self.replace([])

    def objects(self) -> list[T]:
        """What is known, as it was kept."""
        return list(self._known.values())
