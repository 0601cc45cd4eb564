"""``python -m benchmarks.colocation [--seconds 30] [--write]``: a service alone, beside offline work, isolated.

A control plane of its own runs all as pods of this machine. The service answers requests that come at a steady rate,
whether or not it is done with those before; latency counts from when a request was due. Offline work is processes that
use all the CPU that they get, as many as there are processors and one more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import report
from unisono.api.core import Pod
from unisono.api.keys import BATCH_CPU, BATCH_MEMORY, OVERSUBSCRIPTION, QOS_LEVEL
from unisono.api.kinds import NODES, PODS
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load
from unisono.sdk.clients.endpoint import PrivatePlane

_PATIENCE = 120.0
_NAMESPACE = "default"
_WORK = """
import hashlib
block = b"x" * 65536
def work(rounds):
    for _ in range(rounds): hashlib.sha256(block).digest()
"""
_SERVICE = (
    _WORK
    + """
import json, os, socket, sys, time
seconds, rate, rounds, target = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
near, far = socket.socketpair()
if os.fork() == 0:
    near.close()
    while far.recv(1):
        work(rounds)
        far.send(b".")
    os._exit(0)
far.close()
# Those who wait for the pod see it running before the first request.
start, found = time.monotonic() + 1.0, []
while (due := start + len(found) / rate) < start + seconds:
    time.sleep(max(0.0, due - time.monotonic()))
    near.send(b".")
    near.recv(1)
    found.append(time.monotonic() - due)
with open(target + ".part", "w") as file: json.dump(found, file)
os.rename(target + ".part", target)
"""
)
_OFFLINE = (
    _WORK
    + """
import os, sys, time
target, done, end = sys.argv[2], 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    work(20)
    done += 20
with open(target + ".part", "w") as file: file.write(str(done))
os.rename(target + ".part", target)
"""
)


@dataclass(frozen=True, slots=True)
class Phase:
    """What was measured: latencies in milliseconds, offline work in blocks of 64 KiB per second, evictions."""

    name: str
    median: float
    p99: float
    offline: float
    online_evicted: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.colocation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each phase")
    parser.add_argument("--rate", type=float, default=60.0, help="requests per second")
    parser.add_argument("--rounds", type=int, default=60, help="blocks of 64 KiB that a request hashes")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--write", action="store_true", help="put the results into docs/performance.md")
    options = parser.parse_args()
    found = asyncio.run(_measure(options.seconds, options.rate, options.rounds))
    if options.write:
        page = report.put(report.PAGE.read_text(), "results of co-location", "\n".join(lines(found)))
        report.PAGE.write_text(page)
    print(json.dumps([asdict(each) for each in found]) if options.output == "json" else "\n".join(lines(found)))
    return 0


def lines(found: list[Phase]) -> list[str]:
    """The table in Markdown."""
    rows = ["| the service | median | 99 % within | offline blocks/s | online pods evicted |", "|---|---|---|---|---|"]
    for each in found:
        rows.append(
            f"| {each.name} | {each.median:.1f} ms | {each.p99:.1f} ms | {each.offline:,.0f} | {each.online_evicted} |"
        )
    return rows


async def _measure(seconds: float, rate: float, rounds: int) -> list[Phase]:
    plane = await PrivatePlane.start((), local_node=True)
    client = HttpClient(load(plane.data.kubeconfig))
    try:
        with tempfile.TemporaryDirectory(prefix="unisono-colocation-") as folder:
            world = _World(client, Path(folder), seconds, rate, rounds)
            return [
                await world.phase("alone", 0),
                await world.phase("beside offline work", _offline_pods()),
                await world.phase("beside offline work, with isolation", _offline_pods(), isolated=True),
            ]
    finally:
        await client.close()
        await plane.stop()


def _offline_pods() -> int:
    return (os.cpu_count() or 1) + 1


class _World:
    """Runs phases on one control plane."""

    def __init__(self, client: HttpClient, folder: Path, seconds: float, rate: float, rounds: int) -> None:
        self._client, self._folder, self._seconds, self._rate, self._rounds = client, folder, seconds, rate, rounds
        self._phases = 0

    async def phase(self, name: str, offline: int, *, isolated: bool = False) -> Phase:
        """Run the service, and so many offline pods beside it."""
        self._phases += 1
        number = self._phases
        if isolated:
            await self._lend(offline)
        targets = [self._folder / f"offline-{number}-{index}" for index in range(offline)]
        for target in targets:
            # Longer than the service, so that it is never alone.
            words = [_OFFLINE, str(self._seconds + 3.0), str(target)]
            await self._run(target.name, words, _resources(isolated), {QOS_LEVEL: "BE"} if isolated else {})
        for target in targets:
            await self._until(lambda name=target.name: self._is(name, "Running"), f"{target.name} does not run")
        target = self._folder / f"service-{number}"
        words = [_SERVICE, str(self._seconds), str(self._rate), str(self._rounds), str(target)]
        requests = {"requests": {"cpu": "500m", "memory": "64Mi"}}
        await self._run(target.name, words, requests, {QOS_LEVEL: "LC"} if isolated else {})
        await self._until(lambda: self._is(target.name, "Succeeded", "Failed"), "the service does not end")
        pods = (await self._client.list(PODS, _NAMESPACE)).items
        evicted = sum(each.status.reason == "Evicted" for each in pods if each.metadata.name.startswith("service"))
        found = sorted(json.loads(target.read_text()))
        for each in targets:
            await self._until(lambda name=each.name: self._is(name, "Succeeded", "Failed"), "offline work does not end")
        done = sum(int(each.read_text()) for each in targets if each.exists())
        return Phase(
            name,
            median=found[len(found) // 2] * 1000,
            p99=found[int(len(found) * 0.99)] * 1000,
            offline=done / (self._seconds + 3.0),
            online_evicted=evicted,
        )

    async def _lend(self, offline: int) -> None:
        name = await self._node()
        await self._client.patch(NODES, name, {"metadata": {"labels": {OVERSUBSCRIPTION: "true"}}})

        async def enough() -> bool:
            found = (await self._client.get(NODES, name)).status.allocatable or {}
            return int(str(found.get(BATCH_CPU, 0))) >= offline * 100

        await self._until(enough, "the node lends too little: other programs use this machine")

    async def _node(self) -> str:
        return (await self._client.list(NODES)).items[0].metadata.name

    async def _is(self, name: str, *phases: str) -> bool:
        return (await self._client.get(PODS, name, _NAMESPACE)).status.phase in phases

    async def _run(self, name: str, words: list[str], resources: dict[str, Any], annotations: dict[str, str]) -> None:
        container = {"name": "main", "image": "none", "command": [sys.executable, "-c", *words], "resources": resources}
        value = {
            "metadata": {"name": name, "namespace": _NAMESPACE, "annotations": annotations},
            "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
        }
        await self._client.create(PODS, msgspec.convert(value, Pod))

    async def _until(self, check: Callable[[], Awaitable[bool]], problem: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE + self._seconds):
                while not await check():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise SystemExit(f"{problem}.") from None


def _resources(isolated: bool) -> dict[str, Any]:
    return {"requests": {BATCH_CPU: "100", BATCH_MEMORY: str(64 << 20)} if isolated else {"cpu": "100m"}}


if __name__ == "__main__":
    sys.exit(main())
