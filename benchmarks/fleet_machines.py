"""What it costs a fleet to go by room, by time or by price: one member has room, another has machines that may come.

``python -m benchmarks.fleet_machines --traces FOLDER`` lets a hub and two members, whole control planes, live on
virtual time, and submits the first jobs of a recorded list ("Shockwave", NSDI 2023; folder ``shockwave-2023``) to the
hub when they came; a card of the list stands for a machine of eight. One member has nodes that are paid by use. The
other one has none, and a group of machines that are paid from their order until they are given back. Compared are the
policies of "Members that grow" in docs/fleet.md.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import csv
import gzip
import json
import tempfile
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from statistics import fmean
from typing import Any

from prometheus_client import CollectorRegistry

from benchmarks.answers.plane import unadvised
from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.annotations import PRICES, RUN_SECONDS
from unisono.api.conditions import ENDED
from unisono.api.decode import decode
from unisono.api.groups.autoscaling import MACHINE_DEPLOYMENTS
from unisono.api.groups.propagation import CHOICES, LEAST_COST, ROOM_ONLY, SOONEST
from unisono.api.keys import NVIDIA_GPU
from unisono.api.kind import Kind
from unisono.api.kind_families import ATTACHED_CLUSTERS, PROPAGATION_POLICIES
from unisono.api.kinds import JOBS, NAMESPACES, PODS, QUEUES, SECRETS
from unisono.api.times import parse_time
from unisono.errors import AlreadyExists
from unisono.fleet.hub import Hub
from unisono.kube.kubeconfig import ClusterConfig
from unisono.standalone.shadow import Shadow, VirtualLoop, opened

TRACE = Path("shockwave-2023") / "120_0.2_5_100_40_25_0,0.5,0.5_0.6,0.3,0.09,0.01_multigpu_dynamic.trace.gz"
NOW = 1_700_000_000.0
GPU_HOUR, MACHINE_HOUR = 4.1, 9.8
"""Of a card where nodes are there, and of a machine of eight cards that comes."""
NODES, MACHINES, CARDS, BOOT_SECONDS = 8, 64, 8, 90
_STEP = 15.0
_FLEET = "kurator-fleet-system"


def recorded(traces: Path, most: int, shorter: float) -> list[tuple[float, int, float]]:
    """Arrival, cards and run time of each job, in order of arrival; times are divided by ``shorter``."""
    with gzip.open(traces / TRACE, "rt") as lines:
        found = [
            (float(row[11]) / shorter, int(row[6]), float(row[10]) / shorter)
            for row in csv.reader(lines, delimiter="\t")
        ]
    return sorted(found)[:most]


def _job(number: int, cards: int, seconds: float) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", NVIDIA_GPU: str(CARDS)}, "limits": {NVIDIA_GPU: str(CARDS)}}
    template = {
        "metadata": {"annotations": {RUN_SECONDS: f"{seconds:.0f}"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "train:1", "resources": resources}],
        },
    }
    task = {"name": "worker", "replicas": cards, "template": template}
    return {
        "metadata": {"name": f"job-{number}", "namespace": "default"},
        "spec": {"schedulerName": "volcano", "queue": "default", "minAvailable": cards, "tasks": [task]},
    }


def _kubeconfig(name: str) -> str:
    value = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"https://{name}:6443"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    return base64.b64encode(json.dumps(value).encode()).decode()


class _Lasting:
    """A member's client that outlives a connection of the hub."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def close(self) -> None:
        return None


class _Life:
    """A hub and its members."""

    def __init__(self, hub: Shadow, members: dict[str, Shadow]) -> None:
        self.hub, self.members = hub, members

    async def begin(self, choice: str) -> None:
        capacity = {"cpu": 96, "memory": "1Ti", NVIDIA_GPU: CARDS}
        there = {"name": "node", "count": NODES, "capacity": capacity}
        group = {
            "name": "spot",
            "max": MACHINES,
            "price": MACHINE_HOUR,
            "bootSeconds": BOOT_SECONDS,
            "capacity": capacity,
        }
        for name, spec in (("dear", there), ("cheap", group)):
            shadow = self.members[name]
            shadow.start("controllers")
            shadow.start("scheduler")
            nodes = SimulatedNodes(shadow.backend.client(), parse_specs([spec]), shadow.clock)
            shadow.run("nodes", nodes.run())
        await asyncio.sleep(5)
        for name in ("root", "default"):
            with suppress(AlreadyExists):
                await self._put(QUEUES, {"metadata": {"name": name}, "spec": {"weight": 1}})
            # A hub's own controllers would do this; those of its jobs run in members.
            patch = {"status": {"state": "Open"}}
            await self.hub.backend.client().patch(QUEUES, name, patch, subresource="status")
        await self._put(NAMESPACES, {"metadata": {"name": _FLEET}})
        for name in self.members:
            await self._put(
                SECRETS, {"metadata": {"name": name, "namespace": _FLEET}, "data": {"value": _kubeconfig(name)}}
            )
            notes = {PRICES: f"{NVIDIA_GPU}={GPU_HOUR}"} if name == "dear" else {}
            meta = {"name": name, "namespace": _FLEET, "annotations": notes}
            await self._put(ATTACHED_CLUSTERS, {"metadata": meta, "spec": {"kubeconfigSecretRef": name}})
        selector = {"apiVersion": JOBS.api_version, "kind": JOBS.kind}
        spec = {"resourceSelectors": [selector], "placement": {"choice": choice}}
        await self._put(PROPAGATION_POLICIES, {"metadata": {"name": "all", "namespace": "default"}, "spec": spec})
        made = Hub(
            self.hub.backend.client(),
            clock=self.hub.clock,
            registry=CollectorRegistry(),
            connect=self._connect,
            decide=unadvised,
            seed=1,
        )
        self.hub.run("hub", made.run())
        await asyncio.sleep(15)

    def _connect(self, config: ClusterConfig) -> tuple[Any, Any]:
        name = config.server.removeprefix("https://").partition(":")[0]

        async def probe() -> str:
            return "v1.36.0"

        return _Lasting(self.members[name].backend.client()), probe

    async def _put(self, kind: Kind[Any], value: dict[str, Any]) -> None:
        await self.hub.backend.client().create(kind, decode(kind, value).obj)

    async def live(self, jobs: list[tuple[float, int, float]]) -> dict[str, Any]:
        """Submit the jobs as they came, and look every few seconds what has to be paid."""
        clock, waiting = self.hub.clock, list(enumerate(jobs))
        start, cards, machines, times = clock.time(), 0.0, 0.0, dict[str, float]()
        client, dear = self.hub.backend.client(), self.members["dear"].backend.client()
        cheap = self.members["cheap"].backend.client()
        while True:
            while waiting and waiting[0][1][0] <= clock.time() - start:
                number, (_, size, seconds) = waiting.pop(0)
                await self._put(JOBS, _job(number, size, seconds))
            await asyncio.sleep(_STEP)
            cards += _STEP * CARDS * sum(bool(pod.status.phase == "Running") for pod in (await dear.list(PODS)).items)
            asked = sum(each.spec.replicas or 0 for each in (await cheap.list(MACHINE_DEPLOYMENTS)).items)
            machines += _STEP * asked
            found = (await client.list(JOBS)).items
            ended = [job for job in found if job.status.state.phase in ENDED]
            for job in ended:  # by the hub's clock, which a member's need not agree with
                created = parse_time(job.metadata.creation_timestamp or "")
                times.setdefault(job.metadata.name, clock.time() - created)
            if not waiting and not asked and len(ended) == len(jobs):
                break
        cost = cards / 3600 * GPU_HOUR + machines / 3600 * MACHINE_HOUR
        return {
            "jobs": len(ended),
            "cardHoursWhereThereIsRoom": round(cards / 3600, 1),
            "machineHours": round(machines / 3600, 1),
            "cost": round(cost, 1),
            "meanSeconds": round(fmean(times.values())),
            "makespan": round(clock.time() - start),
        }


def run(traces: Path, choice: str, jobs: int, shorter: float = 1.0) -> dict[str, Any]:
    """One life under one policy."""

    async def live() -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        async with AsyncExitStack() as stack:
            shadows, busy = {}, []
            for name in ("hub", "dear", "cheap"):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                shadows[name] = await stack.enter_async_context(opened(folder, now=NOW, decide=unadvised))
                busy.append(loop.busy)
            loop.busy = lambda: any(each() for each in busy)
            life = _Life(shadows.pop("hub"), shadows)
            await life.begin(choice)
            return {"choice": choice, **await life.live(recorded(traces, jobs, shorter))}

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(live())


def main() -> None:
    """Print one line of JSON per policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces")
    parser.add_argument("--jobs", type=int, default=120)
    parser.add_argument("--shorter", type=float, default=1.0, help="divides run times and times of arrival")
    parser.add_argument("--only", choices=CHOICES)
    given = parser.parse_args()
    for choice in (ROOM_ONLY, SOONEST, LEAST_COST) if given.only is None else (given.only,):
        print(json.dumps(run(given.traces, choice, given.jobs, given.shorter)), flush=True)


if __name__ == "__main__":
    main()
