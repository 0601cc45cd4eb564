"""What a member's reflector feeds: changes one by one, also where it reads a whole list again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from unisono.api.base import Object
from unisono.kube.client import EventType

T = TypeVar("T", bound=Object)

MOST_OBJECTS: Final = 300_000
"""Of one kind in one member: twice the pods that Kubernetes is made for."""


class MemberSink(Generic[T]):
    """Knows what was there, so that a list tells what is gone; objects that cannot be read stay as they were.

    Args:
        take: gets each change.
        slim: what is to be kept of an object for its DELETED change.
        most: objects that are taken in; of more, the later ones are not, and the sink is full.

    Attributes:
        full: whether there are more objects than are taken in.

    """

    def __init__(
        self, take: Callable[[EventType, T], None], slim: Callable[[T], T] = lambda obj: obj, most: int = MOST_OBJECTS
    ) -> None:
        self._take, self._slim, self._most = take, slim, most
        self.full = False
        self._known: dict[str, T] = {}

    def replace(self, objects: Sequence[T], unread: Sequence[tuple[T, str]] = ()) -> None:
        """The complete set of objects."""
        listed = {obj.key for obj in objects} | {obj.key for obj, _ in unread}
        for key in [key for key in self._known if key not in listed]:
            self._take("DELETED", self._known.pop(key))
        self.full = False
        for obj in objects:
            self.apply("MODIFIED" if obj.key in self._known else "ADDED", obj)

    def refuse(self, obj: T, why: str) -> None:
        """An object that cannot be read."""

    def apply(self, event_type: EventType, obj: T) -> None:
        """One change."""
        if event_type == "DELETED":
            if self._known.pop(obj.key, None) is None and self.full:
                return
        elif obj.key not in self._known and len(self._known) >= self._most:
            self.full = True
            return
        else:
            self._known[obj.key] = self._slim(obj)
        self._take(event_type, obj)

    def clear(self) -> None:
        """The member has left: all that it had is gone."""
        self.replace([])

    def objects(self) -> list[T]:
        """What is known, as it was kept."""
        return list(self._known.values())
