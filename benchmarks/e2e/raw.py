"""What a server can do at most: pods created and bound by a plain client, which decides and watches nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from benchmarks.e2e import load
from unisono.api.base import ObjectMeta
from unisono.api.core import Node, Pod
from unisono.api.kinds import NODES, PODS
from unisono.errors import NotFound
from unisono.kube.http import HttpClient

NODE = "bench-raw"


async def limits(client: HttpClient, pods: int) -> dict[str, float]:
    """Creations and binds a second with 32 requests under way, and creations one after the other."""
    namespace = await load.new_namespace(client, "bench-raw-")
    await client.create(NODES, Node(metadata=ObjectMeta(name=NODE)))
    try:
        created = await _rate(range(pods), lambda number: _create(client, namespace, number))
        bound = await _rate(range(pods), lambda number: client.bind(namespace, f"raw-{number}", NODE))
        single = range(pods, pods + max(1, pods // 4))
        started = time.monotonic()
        for number in single:
            await _create(client, namespace, number)
        return {
            "creations_per_second": created,
            "binds_per_second": bound,
            "creations_per_second_one_by_one": len(single) / (time.monotonic() - started),
        }
    finally:
        with suppress(NotFound):
            await client.delete(NODES, NODE)
        await load.remove(client, namespace)


async def _create(client: HttpClient, namespace: str, number: int) -> None:
    meta = ObjectMeta(name=f"raw-{number}", namespace=namespace)
    await client.create(PODS, Pod(metadata=meta, spec=load.pod_spec(scheduler="example.com/none")))


async def _rate(numbers: range, work: Callable[[int], Awaitable[None]]) -> float:
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            await work(number)

    started = time.monotonic()
    await asyncio.gather(*(worker() for _ in range(2 * load.SUBMITTERS)))
    return len(numbers) / (time.monotonic() - started)
