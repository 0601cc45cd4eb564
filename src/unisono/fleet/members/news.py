"""What members warn of about jobs of the hub: their Events, told on the hub's own objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from unisono.api.core import Event
from unisono.controllers.texts import whole_number
from unisono.kube.client import EventType

WARNINGS: Final = "type=Warning"
"""Events that are watched, as a field selector."""
MOST_TEXT: Final = 500
_MOST_WORDS: Final = 10

Take = Callable[[Event], None]


class NewsSink:
    """Hands each Event on that is newer than the connection; what was there before has been told, or is old news."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._seen = -1

    def replace(self, objects: Sequence[Event], unread: Sequence[tuple[Event, str]] = ()) -> None:
        """The first list is not told; of later ones what is new."""
        before, first = self._seen, self._seen < 0
        for obj in objects:
            if not first and _version(obj) > before:
                self._take(obj)
            self._seen = max(self._seen, _version(obj))
        self._seen = max(self._seen, 0)

    def refuse(self, obj: Event, why: str) -> None:
        """An Event that cannot be read says nothing."""

    def apply(self, event_type: EventType, obj: Event) -> None:
        """One change."""
        self._seen = max(self._seen, _version(obj))
        if event_type != "DELETED" and obj.type == "Warning":
            self._take(obj)


def beginnings(name: str) -> list[str]:
    """Names of jobs that an object of this name may belong to (``JOB-TASK-0``, ``JOB-UID``), the longest first."""
    words = name.split("-")
    return ["-".join(words[:count]) for count in range(len(words), 0, -1)][:_MOST_WORDS]


def told(cluster: str, event: Event) -> tuple[str, str]:
    """Reason and message on the hub's object."""
    about = event.involved_object
    subject = f"{(about.kind or 'object').lower()}/{about.name}"
    return (event.reason or "MemberWarning")[:64], f"{cluster}: {subject}: {(event.message or '')[:MOST_TEXT]}"


def _version(obj: Event) -> int:
    return whole_number(obj.metadata.resource_version) or 0
