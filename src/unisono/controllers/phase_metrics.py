"""How many objects have come to a phase, counted under the names of Volcano's controllers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector


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
        for wanted, (name, text) in self._names.items():
            metric = Metric(f"volcano_{name}", text, "unknown")
            for (phase, values), count in counts.items():
                if phase == wanted:
                    metric.add_sample(metric.name, dict(zip(self._labels, values, strict=True)), count)
            yield metric
