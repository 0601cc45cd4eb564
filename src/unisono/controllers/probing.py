"""Probes of pods, as controllers need them; the control plane provides what asks the pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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
