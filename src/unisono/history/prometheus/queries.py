"""Questions in PromQL about the scheduler's metrics (pure).

Several replicas and restarts are one series: of each moment the largest value counts, standbys tell none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from unisono.history.records import HOUR

POINTS = 1000
"""Samples that an amount over a time is made of; of short times one every 15 seconds."""
_LEAST_STEP = 15
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_AMOUNTS = ("milli_cpu", "memory_bytes", "scalar_resources")
NOTHING = "vector(0) < 0"
"""Has no series."""


class Queries:
    """Queries about one cluster.

    Args:
        labels: that all its series have in this Prometheus; none where it scrapes one cluster alone.

    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = [f"{name}={_quoted(value)}" for name, value in sorted(labels.items())]

    def _of(self, metric: str, *matchers: str) -> str:
        return f"{metric}{{{','.join([*self._labels, *matchers])}}}"

    def selector(self, metric: str) -> str:
        """All series of a metric."""
        return self._of(metric)

    def amounts(self, what: str, queue: str = "") -> list[str]:
        """CPU, memory and all other resources that queues hold, deserve or may hold, by queue (and resource).

        Args:
            what: ``allocated``, ``deserved``, ``capacity`` or ``request``.
            queue: only of this one.

        """
        matchers = [f"queue_name={_quoted(queue)}"] if queue else []
        by = ("queue_name", "queue_name", "queue_name, resource")
        return [
            f"max by ({labels}) ({self._of(f'volcano_queue_{what}_{each}', *matchers)})"
            for each, labels in zip(_AMOUNTS, by, strict=True)
        ]

    def used(self, queue: str = "") -> list[str]:
        """What pods of each queue itself hold; what a parent holds is its children's, and it asks for nothing."""
        pairs = zip(self.amounts("allocated", queue), self.amounts("request", queue), strict=True)
        return [f"(({held} <= {asked}) or ({asked} < {held}))" for held, asked in pairs]

    def capacity(self) -> str:
        """What all nodes have, by resource, as kube-state-metrics names it."""
        of_node = f"max by (node, resource) ({self._of('kube_node_status_allocatable')})"
        return f"sum by (resource) ({of_node})"

    def waits(self, seconds: int, start: float, queue: str, namespaces: Collection[str] | None) -> str:
        """Milliseconds that each job waited which got its places in the time, by queue.

        Args:
            seconds: length of the time, which ends when the query is asked.
            start: of the time, seconds since 1970.
            queue: only of this one; empty for all.
            namespaces: only of these; None for all.

        """
        if namespaces is not None and not (namespaces := _names(namespaces)):
            return NOTHING
        matchers = [f"queue={_quoted(queue)}"] if queue else []
        if namespaces is not None:
            matchers.append(f'job_namespace=~"{"|".join(namespaces)}"')
        job = "job_namespace, job_name, queue"

        def last(what: str) -> str:
            series = self._of(f"volcano_e2e_job_scheduling_{what}", *matchers)
            return f"max by ({job}) (last_over_time({series}[{seconds}s]))"

        return f"{last('duration')} and ({last('last_time')} >= {start:.3f})"

    def ended(self, phase: str, seconds: int, queue: str, namespaces: Collection[str] | None) -> str:
        """Jobs that ended so in the time, by queue.

        Args:
            phase: ``completed`` or ``failed``.
            seconds: length of the time, which ends when the query is asked.
            queue: only of this one; empty for all.
            namespaces: only of these; None for all.

        """
        if namespaces is not None and not (namespaces := _names(namespaces)):
            return NOTHING
        matchers = [f"queue_name={_quoted(queue)}"] if queue else []
        if namespaces is not None:
            matchers.append(f'job_name=~"({"|".join(namespaces)})/.*"')
        series = self._of(f"volcano_job_{phase}_phase_count", *matchers)
        by = "max by (job_name, queue_name)"
        most = f"{by} (max_over_time({series}[{seconds}s]))"
        # A series begins with the first end of its job.
        before = f"({by} ({series} offset {seconds}s) or 0 * {most})"
        return f"sum by (queue_name) (clamp_min({most} - {before}, 0))"

    def evictions(self, seconds: int) -> str:
        """Evictions in the time."""
        return f"sum(increase({self._of('volcano_eviction_transactions_total')}[{seconds}s]))"


def over_time(query: str, seconds: int) -> str:
    """What a query says, summed over the time that ends when it is asked: amount times hours. Gaps count as nothing."""
    step = max(_LEAST_STEP, -(-seconds // POINTS))
    return f"sum_over_time(({query})[{seconds}s:{step}s]) * {step * 1000 / HOUR!r}"


def _names(namespaces: Collection[str]) -> list[str]:
    """What can be a namespace, and so needs no escaping."""
    return sorted(each for each in namespaces if _NAMESPACE.fullmatch(each))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'
