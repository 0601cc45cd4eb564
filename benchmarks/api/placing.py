"""The start of a whole control plane with many nodes, and reads while its scheduler places many pods."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from benchmarks.api.load import PODS, checked, per_second, percentile, pod
from benchmarks.api.serving import whole_plane
from benchmarks.measure import Row
from unisono.kube.http import HttpClient

_GANG = 20
_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


async def rows(folder: Path, nodes: int, pods: int) -> AsyncIterator[Row]:
    """Seconds until ``unisono up`` is ready, every node registered; then the 99th percentile of a GET.

    The GET is asked every 10 ms from the first submission until every pod has its node.
    """
    folder.mkdir()
    file = folder / "nodes.yaml"
    file.write_text(f"- {{name: node, count: {nodes}, capacity: {{cpu: '96', memory: 768Gi, pods: '110'}}}}\n")
    async with whole_plane(folder, file) as server:
        note = "scheduler, controllers and every node at work"
        yield Row(f"start with {nodes:,} simulated nodes", server.start_seconds, "s", 5, "less", note)
        client = server.client
        await checked(client, "POST", "/api/v1/namespaces/default/configmaps", body=b'{"metadata":{"name":"read"}}')
        reader = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.api.reading", str(folder / "kubeconfig"), stdout=asyncio.subprocess.PIPE
        )
        start = time.perf_counter()
        await _submit(client, pods)
        submitted = time.perf_counter() - start
        while await _unplaced(client):
            await asyncio.sleep(0.5)
        seconds = time.perf_counter() - start
        reader.terminate()
        latencies = json.loads((await reader.communicate())[0])
    note = (
        f"median {percentile(latencies, 0.5) * 1000:.1f} ms, worst {max(latencies) * 1000:.0f} ms "
        f"of {len(latencies):,}; submitted in {submitted:.1f} s, all placed after {seconds:.1f} s"
    )
    name = f"99 % of reads while {pods:,} pods are placed on {nodes:,} nodes"
    yield Row(name, percentile(latencies, 0.99) * 1000, "ms", 20, "less", note)


async def _submit(client: HttpClient, pods: int) -> None:
    for index in range(pods // _GANG):
        body = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": f"gang-{index:04}"},
            "spec": {"minMember": _GANG, "minResources": {"cpu": str(_GANG), "memory": f"{_GANG}Gi"}},
        }
        await checked(client, "POST", _GROUPS, body=json.dumps(body).encode())
    bodies = (pod(f"pod-{index:06}", f"gang-{index // _GANG:04}") for index in range(pods // _GANG * _GANG))
    await per_second((partial(checked, client, "POST", PODS, body=body) for body in bodies), at_once=16)


async def _unplaced(client: HttpClient) -> bool:
    answer = await checked(client, "GET", PODS, params={"fieldSelector": "spec.nodeName=", "limit": "1"})
    return bool(json.loads(answer)["items"])
