"""What controllers need of an event recorder."""

from __future__ import annotations

from typing import Literal, Protocol

from unisono.api.base import Object


class Recorder(Protocol):
    """Records events without waiting and without failing; ``kube.events.EventRecorder`` is one."""

    def event(self, obj: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record that ``reason`` happened to ``obj``."""
        ...
