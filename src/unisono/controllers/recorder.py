"""Events that controllers record: what they need of a recorder, and how lasting trouble is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from unisono.api.base import Object
from unisono.kube.informer import Informer


class Recorder(Protocol):
    """Records events without waiting and without failing; ``kube.events.EventRecorder`` is one."""

    def event(self, obj: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record that ``reason`` happened to ``obj``."""
        ...


# Events that controllers record: those that describe a lasting trouble are recorded once and not at every look.

# Keys that are remembered per object.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Notice:
    """An event to record.

    Attributes:
        type: Normal or Warning.
        reason: for programs, one word.
        message: for people.
        once: recorded a single time per object and key, by this process; empty for always.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    once: str = ""


class Announcer:
    """Records notices and remembers which ones it has recorded."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._told: dict[str, dict[str, None]] = {}

    def tell(self, obj: Object, notices: Iterable[Notice]) -> None:
        """Record the notices on ``obj``, those given once only the first time."""
        for notice in notices:
            if notice.once and not self._is_new(obj.metadata.uid or "", notice.once):
                continue
            self._recorder.event(obj, notice.type, notice.reason, notice.message)

    def forget(self, obj: Object) -> None:
        """The object is gone."""
        self._told.pop(obj.metadata.uid or "", None)

    def forget_deleted(self, informer: Informer[Any]) -> None:
        """Forget the objects of an informer as they go."""
        informer.on_change(lambda event_type, obj, _: self.forget(obj) if event_type == "DELETED" else None)

    def _is_new(self, uid: str, key: str) -> bool:
        told_of_object = self._told.setdefault(uid, {})
        if key in told_of_object:
            return False
        told_of_object[key] = None
        if len(told_of_object) > _REMEMBERED:
            del told_of_object[next(iter(told_of_object))]
        return True
