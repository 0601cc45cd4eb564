"""What the triggers of ScaledObjects say now, and how often one of them has failed in a row."""

from __future__ import annotations

from unisono.api.keda import ScaledObject, ScaleTrigger
from unisono.api.triggers import CPU, CRON, MEMORY, PROMETHEUS, Reading, mistakes, of_cron, of_metric
from unisono.controllers.metrics import MetricError, MetricReader


def metric_name(at: int, trigger: ScaleTrigger) -> str:
    """The name of a trigger's metric, as KEDA makes it."""
    return f"s{at}-{trigger.type}"


def by_resource(trigger: ScaleTrigger) -> bool:
    """Its metric is the use of a resource, which the autoscaler knows by itself."""
    return trigger.type in (CPU, MEMORY)


class Triggers:
    """Asks triggers; all controllers of autoscaling share one."""

    def __init__(self, reader: MetricReader) -> None:
        self._reader = reader
        self._failures: dict[tuple[str, int], int] = {}

    async def read(self, scaled: ScaledObject, at: int, now: float) -> Reading:
        """What one trigger says; where it has failed too often in a row, what the fallback makes of it.

        Raises:
            MetricError: it says nothing.

        """
        trigger, key = scaled.spec.triggers[at], (scaled.key, at)
        try:
            found = await self._read(trigger, now)
        except MetricError:
            self._failures[key] = self._failures.get(key, 0) + 1
            if self.falls_back(scaled):
                return self._instead(scaled, trigger)
            raise
        self._failures.pop(key, None)
        return found

    def falls_back(self, scaled: ScaledObject) -> bool:
        """Whether a trigger has failed more often in a row than its ScaledObject accepts."""
        fallback = scaled.spec.fallback
        if fallback is None or not fallback.failure_threshold:
            return False
        return any(
            self._failures.get((scaled.key, at), 0) > fallback.failure_threshold
            for at in range(len(scaled.spec.triggers))
        )

    def forget(self, key: str) -> None:
        """The ScaledObject is gone."""
        self._failures = {at: count for at, count in self._failures.items() if at[0] != key}

    async def _read(self, trigger: ScaleTrigger, now: float) -> Reading:
        wrong = next(mistakes(trigger, "trigger"), None)
        if wrong is not None:
            raise MetricError(wrong.message())
        if trigger.type == CRON:
            return of_cron(trigger.metadata, now)
        if trigger.type == PROMETHEUS:
            return of_metric(trigger, await self._prometheus(trigger))
        raise MetricError(f"a trigger of type {trigger.type} has no metric of its own")

    async def _prometheus(self, trigger: ScaleTrigger) -> float:
        address, query = trigger.metadata["serverAddress"], trigger.metadata["query"]
        value = await self._reader.prometheus(address, query)
        if value is None:
            if trigger.metadata.get("ignoreNullValues", "true") != "true":
                raise MetricError(f"{address} has no series for {query}")
            return 0.0
        return value

    @staticmethod
    def _instead(scaled: ScaledObject, trigger: ScaleTrigger) -> Reading:
        """As much of the metric as makes the fallback's replicas."""
        reading = of_metric(trigger, 0.0)
        replicas = scaled.spec.fallback.replicas if scaled.spec.fallback else 0
        return Reading(replicas * reading.target, reading.target, replicas > 0)
