"""Tells what is wrong with a new configuration, and what else its writer should know, where they look: as events."""

from __future__ import annotations

from unisono.api.core import ObjectReference
from unisono.kube.events import EventRecorder
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.settings import ConfigSource

_AGAIN_SECONDS = 600.0
"""Events go after an hour; one that is refused is told again before."""


class ConfigNotices:
    """Events about the configuration, one for each change of what there is to tell."""

    def __init__(
        self, source: ConfigSource, events: EventRecorder, metrics: Metrics, otherwise: ObjectReference
    ) -> None:
        """Make one; ``otherwise`` is what events are about where the source is no object of the API server."""
        self._source, self._events, self._metrics, self._otherwise = source, events, metrics, otherwise
        self._told: tuple[str, tuple[str, ...], str] = ("", (), "")
        self._again = 0.0

    def tell(self, notes: tuple[str, ...], now: float) -> None:
        """Tell what has changed since the last time, and again from time to time that the newest one is refused.

        Args:
            notes: on what is in force.
            now: seconds of a clock that only goes on.

        """
        facts = (self._source.error, notes, self._source.name)
        self._metrics.config_refused.set(1.0 if facts[0] else 0.0)
        if facts == self._told and not (facts[0] and now >= self._again):
            return
        (before, earlier, name), first, self._told = self._told, facts != self._told, facts
        where = self._source.reference or self._otherwise
        if facts[0]:
            self._again = now + _AGAIN_SECONDS
            self._metrics.config_errors.inc(first)
            problem = f"{facts[0]} (the one before it stays in force)"
            self._events.event(where, "Warning", "ConfigurationRefused", problem)
            return
        if before or (name != facts[2] and self._source.reference is not None):
            self._events.event(where, "Normal", "ConfigurationAccepted", "The newest configuration is in force.")
        if notes and notes != earlier:
            self._events.event(where, "Normal", "ConfigurationNote", "; ".join(notes))
