"""Watches: how long a change needs to one watcher and to many."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from benchmarks.api.load import checked, percentile
from benchmarks.api.serving import Server
from benchmarks.measure import Row
from unisono.kube.http import HttpClient, split_lines

_MAPS = "/api/v1/namespaces/default/configmaps"
_FORMS = (
    ("", "application/json"),
    (" of metadata", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    (" of tables", "application/json;as=Table;v=v1;g=meta.k8s.io"),
)


async def rows(server: Server, *, watchers: int, changes: int) -> AsyncIterator[Row]:
    """Latency with one watcher, then latency and throughput with ``watchers`` of them."""
    alone, _ = await _measure(server.client, 1, changes, "one")
    yield Row(
        "a change reaches one watcher",
        percentile(alone, 0.5) * 1000,
        "ms",
        None,
        "less",
        f"median, from sending the request; 99 % within {percentile(alone, 0.99) * 1000:.1f} ms",
    )
    for what, accept in _FORMS:
        many, seconds = await _measure(server.client, watchers, changes, f"many{len(what)}", accept)
        yield Row(
            f"a change reaches all of {watchers} watchers{what}",
            percentile(many, 0.5) * 1000,
            "ms",
            None,
            "less",
            f"median of the last watcher; 99 % within {percentile(many, 0.99) * 1000:.1f} ms; "
            f"{watchers * changes / seconds:,.0f} events/s",
        )


async def _measure(
    client: HttpClient, watchers: int, changes: int, prefix: str, accept: str = "application/json"
) -> tuple[list[float], float]:
    """Seconds from sending a change until the last watcher has it, for each change; and seconds of all."""
    listed = json.loads(await checked(client, "GET", _MAPS))
    version = listed["metadata"]["resourceVersion"]
    names = [f"{prefix}-{index:04}" for index in range(changes)]
    arrived = dict.fromkeys(names, 0)
    complete = {name: asyncio.Event() for name in names}

    async def watch() -> None:
        params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "300"}
        async for line in split_lines(client.stream(_MAPS, params, accept=accept)):
            name = _name(json.loads(line)["object"])
            if name not in arrived:
                continue
            arrived[name] += 1
            if arrived[name] == watchers:
                complete[name].set()
            if name == names[-1]:
                return

    tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
    await _opened(client, watchers)
    latencies = []
    start = time.perf_counter()
    for name in names:
        sent = time.perf_counter()
        body = json.dumps({"metadata": {"name": name}, "data": {"key": "value"}}).encode()
        await checked(client, "POST", _MAPS, body=body)
        await complete[name].wait()
        latencies.append(time.perf_counter() - sent)
    seconds = time.perf_counter() - start
    await asyncio.gather(*tasks)
    return latencies, seconds


async def _opened(client: HttpClient, watchers: int) -> None:
    """Wait until the server counts that many watches."""
    for _ in range(600):
        text = (await checked(client, "GET", "/metrics")).decode()
        counted = [line for line in text.splitlines() if line.startswith("apiserver_longrunning_requests")]
        if sum(float(line.rpartition(" ")[2]) for line in counted) >= watchers:
            return
        await asyncio.sleep(0.05)
    raise RuntimeError(f"the server did not open {watchers} watches")


def _name(shown: dict[str, Any]) -> str:
    """The name of an object as it is, or in the one row of a table."""
    return str((shown["rows"][0]["object"] if "rows" in shown else shown)["metadata"]["name"])
