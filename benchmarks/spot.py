"""What spot capacity costs and saves: gangs on machines that the cloud takes back, with and without its notice.

``python -m benchmarks.spot --nodes 200`` lets a whole control plane live for some hours of virtual time. Machines come
from a simulated cloud when gangs need them, spot ones first, for they are cheaper; one of them after the other is taken
back. A gang makes progress while all of its pods run, saves it regularly, and once more when it is told that a machine
goes; when it is interrupted it starts again from what was saved. Compared are machines on demand alone, spot machines
that vanish, and spot machines that go two minutes after a notice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.answers.case import Case
from benchmarks.answers.plane import NOW, Plane, plane, unadvised
from unisono.api.annotations import CHECKPOINT_BEFORE, INTERRUPTED_AT
from unisono.api.core import Pod
from unisono.api.keys import CAPACITY_TYPE, NVIDIA_GPU
from unisono.api.kinds import JOBS, NODES, PODS
from unisono.api.times import rfc3339
from unisono.standalone.shadow import VirtualLoop

WAYS = ("on-demand", "vanishing", "noticed")
PRICES = {"spot": 9.8, "on-demand": 32.8}
"""Of a machine and hour."""
_STEP = 15
_CARDS = 8
_NOTICE_SECONDS = 120.0


def _job(name: str, pods: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": "8", NVIDIA_GPU: str(_CARDS)}, "limits": {NVIDIA_GPU: str(_CARDS)}}
    container = {"name": "main", "image": "train:1", "resources": resources}
    spec = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]}
    restart = [{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": pods,
            "maxRetry": 1000,
            "policies": restart,
            "tasks": [{"name": "worker", "replicas": pods, "template": {"spec": spec}}],
        },
    }


@dataclass(slots=True)
class _Gang:
    """Seconds of work: done so far, saved, and done in vain; ``told`` is the notice for which it last saved."""

    done: float = 0.0
    saved: float = 0.0
    lost: float = 0.0
    pods: frozenset[str] = frozenset()
    finished: bool = False
    interrupted: int = 0
    down: float = 0.0
    told: str = ""


class Run:
    """One life in one way; ``save`` and ``work`` are seconds."""

    def __init__(self, way: str, nodes: int, size: int, hours: float, every: float, seed: int) -> None:
        self.way, self.size, self.hours, self.every = way, size, hours, every
        self.work, self.save = hours * 3600 * 0.6, 1800.0
        self.draw = random.Random(seed)
        self.gangs = {f"gang-{at}": _Gang() for at in range(nodes // size)}
        self.machine_seconds: Counter[str] = Counter()
        self.taken = 0

    async def live(self, it: Plane) -> dict[str, Any]:
        """Let the hours pass, and answer with the figures."""
        for name in self.gangs:
            await it.create(_job(name, self.size))
        following = self.every
        for step in range(int(self.hours * 3600 / _STEP)):
            await asyncio.sleep(_STEP)
            nodes = (await it.client.list(NODES)).items
            kinds = {node.metadata.name: (node.metadata.labels or {}).get(CAPACITY_TYPE, "") for node in nodes}
            for kind in kinds.values():
                self.machine_seconds[kind] += _STEP
            pods = (await it.client.list(PODS)).items
            for name in self._look(pods, set(kinds)):
                await it.delete(f"job/{name}", gone=False)
            if self.way != "on-demand" and step * _STEP >= following:
                following += self.every
                await self._take_back(it, pods, kinds, NOW + (step + 1) * _STEP)
            if all(gang.finished for gang in self.gangs.values()) and not nodes:
                break
        return self._figures()

    def _look(self, pods: list[Pod], nodes: set[str]) -> list[str]:
        """Follow the progress of all gangs; the names of those whose work is done now."""
        mine: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            mine[(pod.metadata.owner_references or [])[0].name].append(pod)
        ended = []
        for name, gang in self.gangs.items():
            if gang.finished:
                continue
            alive = [pod for pod in mine[name] if pod.status.phase == "Running" and pod.spec.node_name in nodes]
            alive = [pod for pod in alive if not pod.metadata.deletion_timestamp]
            running = frozenset(pod.metadata.uid or "" for pod in alive)
            if gang.pods - running:  # it lost members, or was restarted since the last look
                gang.lost += gang.done - gang.saved
                gang.done, gang.pods, gang.interrupted = gang.saved, frozenset(), gang.interrupted + 1
            if len(alive) < self.size:
                gang.down += _STEP if gang.interrupted else 0
                continue
            gang.pods = running
            gang.done += _STEP
            told = max((pod.metadata.annotations or {}).get(CHECKPOINT_BEFORE, "") for pod in alive)
            if gang.done - gang.saved >= self.save or told not in ("", gang.told):
                gang.saved, gang.told = gang.done, told
            if gang.done >= self.work:
                gang.finished = True
                ended.append(name)
        return ended

    async def _take_back(self, it: Plane, pods: list[Pod], kinds: dict[str, str], now: float) -> None:
        """The cloud takes one of the spot machines on which something runs."""
        used = {pod.spec.node_name for pod in pods if pod.status.phase == "Running" and pod.spec.node_name}
        spot = sorted(name for name, kind in kinds.items() if kind == "spot" and name in used)
        if spot:
            at = now + (_NOTICE_SECONDS if self.way == "noticed" else 0.0)
            patch = {"metadata": {"annotations": {INTERRUPTED_AT: rfc3339(at)}}}
            await it.patch(f"node/{self.draw.choice(spot)}", patch)
            self.taken += 1

    def _figures(self) -> dict[str, Any]:
        gangs = list(self.gangs.values())
        cards, stops = self.size * _CARDS, sum(gang.interrupted for gang in gangs)
        hours = {kind: round(seconds / 3600, 1) for kind, seconds in sorted(self.machine_seconds.items())}
        return {
            "way": self.way,
            "gangs": len(gangs),
            "finished": sum(gang.finished for gang in gangs),
            "machinesTakenBack": self.taken,
            "interruptions": stops,
            "gpuHoursLost": round(sum(gang.lost for gang in gangs) * cards / 3600, 1),
            "gpuHoursDone": round(
                sum(gang.saved if not gang.finished else gang.done for gang in gangs) * cards / 3600, 1
            ),
            "secondsUntilRunningAgain": round(sum(gang.down for gang in gangs) / stops, 1) if stops else 0.0,
            "machineHours": hours,
            "cost": round(sum(PRICES.get(kind, 0.0) * each for kind, each in hours.items()), 0),
        }


def run(
    way: str, nodes: int = 200, size: int = 10, hours: float = 3.0, every: float = 600.0, seed: int = 1
) -> dict[str, Any]:
    """One life; see the module. ``every`` so many seconds a machine is taken back."""

    async def live() -> dict[str, Any]:
        capacity = {"cpu": 96, "memory": "1Ti", NVIDIA_GPU: _CARDS}
        common = {"min": 0, "max": nodes, "bootSeconds": 90, "capacity": capacity}
        groups = [{"name": "demand", "price": PRICES["on-demand"], **common}]
        if way != "on-demand":
            groups.append({"name": "spot", "price": PRICES["spot"], "spot": True, **common})
        case = Case("spot", "", "job/none", [], [], [], groups, "", [], [], [], 0, 0.0)
        with tempfile.TemporaryDirectory() as folder:
            async with plane(case, Path(folder), unadvised) as it:
                return await Run(way, nodes, size, hours, every, seed).live(it)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(live())


def main() -> None:
    """Print one line of JSON per way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--size", type=int, default=10, help="machines of one gang")
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--every", type=float, default=600.0, help="seconds from one interruption to the next")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=WAYS)
    given = parser.parse_args()
    for way in WAYS if given.only is None else (given.only,):
        print(json.dumps(run(way, given.nodes, given.size, given.hours, given.every, given.seed)), flush=True)


if __name__ == "__main__":
    main()
