"""A webhook whose certificates could not be told to the API server says them again soon."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from prometheus_client import CollectorRegistry

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.errors import Unavailable
from unisono.webhook.server import WebhookServer


class Refused:
    """Certificates of which the API server wants to hear nothing the first times."""

    def __init__(self, clock: VirtualClock, times: int) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.told: list[float] = []
        self._clock, self._times = clock, times

    async def refresh(self) -> Any:
        return object()

    async def publish(self, bundle: Any, configuration: str) -> None:
        self.told.append(self._clock.monotonic())
        if len(self.told) <= self._times:
            raise Unavailable("the server is busy")


async def test_trust_that_was_refused_is_asked_for_again_soon_and_then_seldom() -> None:
    clock = VirtualClock()
    client: Any = MemoryClient(clock)
    server = WebhookServer(
        client,
        CollectorRegistry(),
        host="127.0.0.1",
        port=0,
        namespace="system",
        configuration="unisono",
        clock=clock,
    )
    certificates = Refused(clock, times=2)
    server.certificates = certificates  # type: ignore[assignment]
    running = asyncio.create_task(server.run())
    try:
        await server.ready.wait()
        await clock.advance(100.0)
        assert certificates.told == [0.0, 1.0, 2.0, 32.0, 62.0, 92.0]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
