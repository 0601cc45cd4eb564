"""Metrics and probes, as controllers need them, and how many objects have come to a phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from unisono.errors import UnisonoError

# Metrics from outside, as controllers need them; the control plane provides what asks for them.


class MetricError(UnisonoError):
    """A metric has no value."""


class MetricReader(Protocol):
    """Asks servers of metrics, within a bounded time."""

    async def prometheus(self, address: str, query: str) -> float | None:
        """The value of an instant query; None where no series matches.

        Raises:
            MetricError: the server does not answer, refuses the query, or answers more than one number.
        """
        ...

    async def redis_length(self, host: str, port: int, database: int, name: str) -> float:
        """How many entries a list of a Redis server has; 0 where there is no such list.

        Raises:
            MetricError: the server does not answer, or refuses the question.
        """
        ...


class NoMetrics:
    """Used where there is no way out."""

    async def prometheus(self, address: str, query: str) -> float | None:
        """Always fails."""
        raise MetricError(f"this control plane does not ask {address} for metrics")

    async def redis_length(self, host: str, port: int, database: int, name: str) -> float:
        """Always fails."""
        raise MetricError(f"this control plane does not ask {host} for metrics")


# Probes of pods, as controllers need them; the control plane provides what asks the pods.


@dataclass(frozen=True, slots=True, order=True)
class Probe:
    """One question to one pod.

    Attributes:
        host: address of the pod.
        port: TCP port.
        path: path of an HTTP GET; empty for a bare connection.
        header: name and value of a header of the GET; empty for none.
    """

    host: str
    port: int
    path: str = ""
    header: tuple[str, str] | None = None


class Prober(Protocol):
    """Asks one pod; a bounded time, and no exceptions for a pod that does not answer."""

    async def holds(self, probe: Probe) -> bool:
        """Whether the port accepts a connection, or the GET is answered with a status from 200 to 399."""
        ...


class NoProber:
    """Used where pods cannot be asked: no probe ever holds."""

    async def holds(self, probe: Probe) -> bool:
        """Always False."""
        return False


# How many objects have come to a phase, counted under the names of Volcano's controllers.


class PhaseCounts(Collector):
    """Counters that do not end in ``_total``, as the client library would have them; Volcano's dashboards ask so.

    Args:
        names: metric and what it counts, by phase; in Prometheus they begin with ``volcano_``.
        labels: names of the labels.
        registry: shows them; None to keep none.
    """

    def __init__(
        self, names: Mapping[str, tuple[str, str]], labels: Iterable[str], registry: CollectorRegistry | None
    ) -> None:
        self._names, self._labels = names, tuple(labels)
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        if registry is not None:
            registry.register(self)

    def moved(self, old: str | None, new: str | None, *values: str) -> None:
        """An object went from one phase to another; ``values`` are those of its labels."""
        if new is not None and new != old and new in self._names:
            self._counts[new, values] += 1

    def forget(self, *values: str) -> None:
        """Show nothing more of what has these labels."""
        for phase in self._names:
            self._counts.pop((phase, values), None)

    def collect(self) -> Iterable[Metric]:
        """All of them as they are now."""
        counts = dict(self._counts)
        for metric_phase, (name, text) in self._names.items():
            metric = Metric(f"volcano_{name}", text, "unknown")
            for (phase, values), count in counts.items():
                if phase == metric_phase:
                    metric.add_sample(metric.name, dict(zip(self._labels, values, strict=True)), count)
            yield metric
