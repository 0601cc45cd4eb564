"""Tells what is wrong with a new configuration, and what else its writer should know, where they look: as events."""

from __future__ import annotations

from unisono.api.core import ObjectReference
from unisono.engine.config.model import SchedulerConfig
from unisono.kube.events import EventRecorder
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.settings import ConfigSource


class ConfigNotices:
    """Events about the configuration, one for each change of what there is to tell."""

    def __init__(
        self, source: ConfigSource, events: EventRecorder, metrics: Metrics, otherwise: ObjectReference
    ) -> None:
        """Make one; ``otherwise`` is what events are about where the source is no object of the API server."""
        self._source, self._events, self._metrics, self._otherwise = source, events, metrics, otherwise
        self._told: tuple[str, tuple[str, ...], str] = ("", (), "")

    def tell(self, config: SchedulerConfig) -> None:
        """Tell what has changed since the last time; ``config`` is the one in force."""
        facts = (self._source.error, config.notes, self._source.name)
        if facts == self._told:
            return
        (before, notes, name), self._told = self._told, facts
        where = self._source.reference or self._otherwise
        if facts[0]:
            self._metrics.config_errors.inc()
            problem = f"{facts[0]} (the one before it stays in force)"
            self._events.event(where, "Warning", "ConfigurationRefused", problem)
            return
        if before or (name != facts[2] and self._source.reference is not None):
            self._events.event(where, "Normal", "ConfigurationAccepted", "The newest configuration is in force.")
        if config.notes and config.notes != notes:
            self._events.event(where, "Normal", "ConfigurationNote", "; ".join(config.notes))
