"""What elastic jobs are worth: GPUs in use and waiting gangs on a simulated cluster, with and without growth.

``python -m benchmarks.elastic --nodes 200`` lets a whole control plane live for some hours of virtual time: jobs that
can use from a few nodes to many run all the time, and rigid gangs come and go. In the three ways that are compared the
jobs stay at their minimum, stay at a size that would be theirs if they shared the cluster, or are elastic.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.answers.case import Case
from benchmarks.answers.plane import NOW, Plane, plane, unadvised
from unisono.api.annotations import ELASTIC, ELASTIC_COOL_DOWN, MOST_REPLICAS, RUN_SECONDS
from unisono.api.keys import NVIDIA_GPU
from unisono.api.kind_families import PYTORCH_JOBS, RAY_CLUSTERS
from unisono.api.kinds import EVENTS, JOBS, PODS
from unisono.api.times import parse_time
from unisono.standalone.shadow import VirtualLoop

WAYS = ("minimum", "share", "elastic")
_STEP = 30
_CARDS = 8


def _template(**notes: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "8", NVIDIA_GPU: str(_CARDS)}, "limits": {NVIDIA_GPU: str(_CARDS)}}
    container = {"name": "pytorch", "image": "train:1", "resources": resources}
    spec = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"annotations": notes}, "spec": spec}


def volcano_job(name: str, replicas: int, least: int, seconds: float = 0.0, **notes: str) -> dict[str, Any]:
    """A Volcano Job of whole nodes; without ``seconds`` it runs until it is deleted."""
    template = _template(**({RUN_SECONDS: str(seconds)} if seconds else {}))
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "namespace": "default", "annotations": notes},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": least,
            "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
        },
    }


def long_job(at: int, replicas: int, least: int, most: int, **notes: str) -> dict[str, Any]:
    """Job number ``at`` of those that run all the time: of one of three kinds."""
    name = f"long-{at}"
    if at % 3 == 0:
        return volcano_job(name, replicas, least, **notes, **{MOST_REPLICAS: str(most)})
    meta = {"name": name, "namespace": "default", "annotations": notes}
    if at % 3 == 1:
        worker = {"replicas": replicas, "restartPolicy": "OnFailure", "template": _template()}
        policy = {"minReplicas": least, "maxReplicas": most}
        spec: dict[str, Any] = {"elasticPolicy": policy, "pytorchReplicaSpecs": {"Worker": worker}}
        return {"apiVersion": PYTORCH_JOBS.api_version, "kind": PYTORCH_JOBS.kind, "metadata": meta, "spec": spec}
    head = _template()
    head["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    head["spec"].pop("restartPolicy")
    worker = _template()
    worker["spec"].pop("restartPolicy")
    limits = {"replicas": replicas, "minReplicas": least, "maxReplicas": most}
    group = {"groupName": "w", "rayStartParams": {}, "template": worker, **limits}
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": head}, "workerGroupSpecs": [group]}
    return {"apiVersion": RAY_CLUSTERS.api_version, "kind": RAY_CLUSTERS.kind, "metadata": meta, "spec": spec}


class Run:
    """One life of the cluster in one way."""

    def __init__(self, way: str, nodes: int, jobs: int, gangs: int, hours: float, seed: int, cool_down: str) -> None:
        self.way, self.nodes, self.jobs, self.hours = way, nodes, jobs, hours
        draw = random.Random(seed)
        latest, largest = hours * 3600 * 0.75, max(1, nodes // 3)

        def gang(at: int) -> tuple[float, str, int, float]:
            size = draw.randint(max(1, nodes // 20), largest)
            return draw.uniform(300, latest), f"gang-{at}", size, 60.0 * draw.randint(8, 20)

        self.gangs = sorted(gang(at) for at in range(gangs))
        self.least = max(1, nodes // (jobs * 5))
        self.most = max(2, nodes // 2)
        self.size = {"minimum": self.least, "share": max(self.least, nodes // jobs), "elastic": self.least}[way]
        self.notes = {ELASTIC: "true", ELASTIC_COOL_DOWN: cool_down} if way == "elastic" else {}
        self.used: list[int] = []
        self.fewest: dict[str, int] = {}

    async def live(self, it: Plane) -> dict[str, Any]:
        """Let the hours pass, and answer with the figures."""
        for at in range(self.jobs):
            await it.create(long_job(at, self.size, self.least, self.most, **self.notes))
        waiting = list(self.gangs)
        for step in range(int(self.hours * 3600 / _STEP)):
            while waiting and waiting[0][0] <= step * _STEP:
                _, name, size, seconds = waiting.pop(0)
                await it.create(volcano_job(name, size, size, seconds))
            await asyncio.sleep(_STEP)
            await self._look(it, step)
        return await self._figures(it)

    async def _look(self, it: Plane, step: int) -> None:
        count: dict[str, int] = {}
        for pod in (await it.client.list(PODS)).items:
            gpu = any(NVIDIA_GPU in (each.resources.requests or {}) for each in pod.spec.containers or ())
            if gpu and pod.status.phase == "Running" and not pod.metadata.deletion_timestamp:
                owner = (pod.metadata.owner_references or [])[0].name
                count[owner] = count.get(owner, 0) + 1
        self.used.append(sum(count.values()) * _CARDS)
        if step > 4:
            for name, running in count.items():
                if name.startswith("long"):
                    self.fewest[name] = min(running, self.fewest.get(name, running))

    async def _figures(self, it: Plane) -> dict[str, Any]:
        waits, started = [], 0
        now = NOW + self.hours * 3600
        for job in (await it.client.list(JOBS)).items:
            if not job.metadata.name.startswith("gang"):
                continue
            created = parse_time(job.metadata.creation_timestamp or "")
            times = [each.last_transition_time for each in job.status.conditions or () if each.status == "Running"]
            started += bool(times)
            waits.append((parse_time(times[0]) if times and times[0] else now) - created)
        events = [each.reason for each in (await it.client.list(EVENTS)).items]
        total = self.nodes * _CARDS
        return {
            "way": self.way,
            "gpus": total,
            "gpu_hours": round(sum(self.used) * _STEP / 3600, 1),
            "in_use_percent": round(100 * sum(self.used) / (total * len(self.used)), 1),
            "gangs": len(self.gangs),
            "gangs_started": started,
            "mean_wait_seconds": round(sum(waits) / len(waits), 1) if waits else 0.0,
            "longest_wait_seconds": round(max(waits, default=0.0), 1),
            "grown": events.count("ElasticGrown"),
            "shrunk": events.count("ElasticShrunk"),
            "least": self.least,
            "fewest_running": min(self.fewest.values(), default=0),
        }


def run(
    way: str, nodes: int = 200, jobs: int = 9, gangs: int = 12, hours: float = 3.0, seed: int = 1, cool_down: str = "5m"
) -> dict[str, Any]:
    """One life; see the module."""

    async def live() -> dict[str, Any]:
        capacity = {"cpu": 96, "memory": "1Ti", "pods": 110, NVIDIA_GPU: _CARDS}
        spec = {"name": "n", "count": nodes, "capacity": capacity}
        case = Case("elastic", "", "job/none", [], [], [], [spec], "", [], [], [], 0, 0.0)
        with tempfile.TemporaryDirectory() as folder:
            async with plane(case, Path(folder), unadvised) as it:
                return await Run(way, nodes, jobs, gangs, hours, seed, cool_down).live(it)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(live())


def main() -> None:
    """Print one line of JSON per way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=9, help="that run all the time")
    parser.add_argument("--gangs", type=int, default=12, help="that come and go")
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=WAYS)
    given = parser.parse_args()
    for way in WAYS if given.only is None else (given.only,):
        print(json.dumps(run(way, given.nodes, given.jobs, given.gangs, given.hours, given.seed)), flush=True)


if __name__ == "__main__":
    main()
