"""Metrics from outside, as controllers need them; the control plane provides what asks for them."""

from __future__ import annotations

from typing import Protocol

from unisono.errors import UnisonoError


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
