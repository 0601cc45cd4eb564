"""What the scheduler asks of those who carry out its decisions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from unisono.cluster.recent import Setback
from unisono.engine.decisions import Bind


class Placing(Protocol):
    """Carries out binds; `Binder` is one."""

    def submit(self, binds: Iterable[Bind]) -> list[Bind]:
        """Assume and send the binds of a cycle; returns those that were sent."""
        ...

    def limit(self, concurrency: int) -> None:
        """Bound the binds under way at a time."""
        ...

    def hold(self, job: str, least: float = 0.0) -> None:
        """Let the job wait, ``least`` seconds or more."""
        ...

    def setbacks(self) -> dict[str, Setback]:
        """Jobs whose binds failed lately."""
        ...

    def next_release(self) -> float | None:
        """Monotonic time at which the next waiting job may go on."""
        ...

    def busy(self, job: str) -> bool:
        """Whether binds of the job are under way."""
        ...

    async def close(self) -> None:
        """Stop."""
        ...


class Evicting(Protocol):
    """Carries out evictions; `Evictor` is one."""

    def submit(self, victims: Iterable[tuple[str, str, str]], action: str, why: str) -> int:
        """Evict pods (namespace, name, uid) in the background; returns how many evictions were sent."""
        ...

    async def close(self) -> None:
        """Stop."""
        ...
