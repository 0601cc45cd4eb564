"""Requests in numbers: so many at a time, timed from the first to the last answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from unisono.errors import from_status
from unisono.kube.http import HttpClient

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
AT_ONCE = 64


def pod(name: str, group: str = "") -> bytes:
    """A pod of about 1 KB, as a controller would create it."""
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    environment = [{"name": f"SETTING_{index}", "value": f"value-{index}"} for index in range(8)]
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "main", "image": "busybox", "command": ["sleep", "60"], "env": environment}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "bench"}, "annotations": annotations},
            "spec": {"schedulerName": "volcano", "containers": [{**container, "resources": resources}]},
        }
    ).encode()


async def checked(client: HttpClient, method: str, path: str, **options: Any) -> bytes:
    """The body of a successful answer."""
    status, _, body = await client.request(method, path, **options)
    if status >= 400:
        raise from_status(json.loads(body))
    return body


async def per_second(work: Iterable[Callable[[], Awaitable[object]]], at_once: int = AT_ONCE) -> float:
    """Calls per second with ``at_once`` of them on their way."""
    waiting = iter(work)
    done = 0

    async def worker() -> None:
        nonlocal done
        for call in waiting:
            await call()
            done += 1

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())
    return done / (time.perf_counter() - start)


def percentile(values: list[float], share: float) -> float:
    """The value that ``share`` of ``values`` do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
