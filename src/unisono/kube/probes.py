"""Asking pods whether they answer: TCP connections and HTTP requests, as a kubelet's probes do."""

from __future__ import annotations

import asyncio
from typing import Protocol

import aiohttp


class Question(Protocol):
    """What is asked of one pod: address, port, and for HTTP a path and a header."""

    @property
    def host(self) -> str:
        """Address of the pod."""
        ...

    @property
    def port(self) -> int:
        """TCP port."""
        ...

    @property
    def path(self) -> str:
        """Path of the GET; empty for a bare connection."""
        ...

    @property
    def header(self) -> tuple[str, str] | None:
        """Name and value of a header of the GET."""
        ...


class NetworkProber:
    """Asks over the network; what does not answer in time does not hold."""

    def __init__(self, timeout_seconds: float = 2.0) -> None:
        self._timeout = timeout_seconds

    async def holds(self, probe: Question) -> bool:
        """Whether the port accepts a connection, or the GET is answered with a status from 200 to 399."""
        try:
            async with asyncio.timeout(self._timeout):
                return await (_get(probe) if probe.path else _connect(probe))
        except (OSError, TimeoutError, aiohttp.ClientError, ValueError):
            return False


async def _connect(probe: Question) -> bool:
    _, writer = await asyncio.open_connection(probe.host, probe.port)
    writer.close()
    return True


async def _get(probe: Question) -> bool:
    host = f"[{probe.host}]" if ":" in probe.host else probe.host
    headers = dict([probe.header]) if probe.header else None
    # No proxies and no redirects: the pod itself is asked, and a redirect is an answer.
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.get(f"http://{host}:{probe.port}{probe.path}", headers=headers, allow_redirects=False) as answer,
    ):
        return 200 <= answer.status < 400
