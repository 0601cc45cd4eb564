"""Counts requests and their times as Prometheus metrics: those that a process sends, or those that it answers."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram


class RequestMeter:
    """One counter by method (or verb), resource and code, and one histogram by verb.

    Args:
        registry: where the metrics are registered; other components of the process may share it.
        names: of the counter (``_total`` is added) and of the histogram of seconds.
        texts: what the two say, for ``# HELP``.
        method: the counter's name for what the histogram calls the verb.
        buckets: upper bounds of the histogram, in seconds.

    """

    def __init__(
        self,
        registry: CollectorRegistry,
        names: tuple[str, str],
        texts: tuple[str, str],
        method: str,
        buckets: tuple[float, ...],
    ) -> None:
        self._requests = Counter(names[0], texts[0], [method, "resource", "code"], registry=registry)
        self._seconds = Histogram(names[1], texts[1], ["verb"], buckets=buckets, registry=registry)

    def count(self, verb: str, resource: str, code: str, seconds: float | None) -> None:
        """Count one request; ``seconds`` is None for streams, whose length says nothing."""
        self._requests.labels(verb, resource, code).inc()
        if seconds is not None:
            self._seconds.labels(verb).observe(seconds)
