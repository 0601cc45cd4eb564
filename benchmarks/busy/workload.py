"""500 nodes with 2,880 GPUs, eight queues, and jobs of all sizes, always the same ones."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from unisono.cli.explaining import explain
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.verdict import Asked
from unisono.errors import UnisonoError
from unisono.kube.discovery import request_json
from unisono.sdk.fixes.applying import apply_fix
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.mending.explanations import all_run
from unisono.sdk.reasons.explaining import Explanation
from unisono.standalone.shadow import opened

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
_SEED = 7
_TEAMS = ("team-nlp", "team-cv", "team-audio", "team-prod", "team-data", "default")
_QUEUES = {
    "big": ["llm"],
    "mid": ["llm", "vision", "production"],
    "small": ["vision", "speech", "production", "students", "llm"],
    "cpu": ["batch", "students"],
    "bad": ["production", "batch"],
}
_RACKS = 5


def nodes() -> list[Object]:
    """Specs of simulated nodes: five racks with GPUs, and nodes without."""
    racks = [("h100", 60, 112, "2Ti", 8)] * 2 + [("a100", 100, 96, "1Ti", 8)] * 2 + [("l40s", 80, 64, "512Gi", 4)]
    made: list[Object] = [
        {
            "name": f"{card}-r{rack}",
            "count": count,
            "capacity": {"cpu": cpu, "memory": memory, GPU: gpus},
            "labels": {"rack": str(rack), "accelerator": card},
        }
        for rack, (card, count, cpu, memory, gpus) in enumerate(racks, 1)
    ]
    plain = {"name": "cpu", "count": 100, "capacity": {"cpu": 64, "memory": "256Gi"}, "labels": {"rack": "cpu"}}
    return [*made, plain]


def surroundings() -> Iterator[Object]:
    """Namespaces, racks, queues and priorities."""
    for name in _TEAMS[:-1]:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for rack in range(1, _RACKS + 1):
        selector = {"labelMatch": {"matchLabels": {"rack": str(rack)}}}
        yield _hyper_node(f"rack{rack}", 1, [{"type": "Node", "selector": selector}])
    below = [{"type": "HyperNode", "selector": {"exactMatch": {"name": f"rack{at}"}}} for at in range(1, _RACKS + 1)]
    yield _hyper_node("spine", 2, below)
    yield _queue("research", weight=3, capability={GPU: 2000}, deserved={GPU: 1500})
    yield _queue("llm", "research", weight=2, deserved={GPU: 1000}, capability={GPU: 1200})
    yield _queue("vision", "research", weight=1, deserved={GPU: 400}, capability={GPU: 500})
    yield _queue("speech", "research", weight=1, deserved={GPU: 100})
    yield _queue("production", weight=4, guarantee={"resource": {GPU: 300}}, deserved={GPU: 900})
    yield _queue("batch", weight=1, deserved={"cpu": 2000})
    yield _queue("students", weight=1, capability={GPU: 64, "cpu": 512})
    for name, value in (("training", 1000), ("urgent", 10000)):
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }


def _hyper_node(name: str, tier: int, members: list[Object]) -> Object:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": members},
    }


def _queue(name: str, parent: str = "root", **spec: Any) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"parent": parent, "reclaimable": False, **spec},
    }


def jobs(number: int) -> Iterator[Object]:
    """Volcano Jobs in the order in which they are submitted."""
    random = Random(_SEED)
    for at in range(number):
        yield _job(random, at)


def _job(random: Random, number: int) -> Object:
    kind = random.choices([*_QUEUES], [3, 17, 50, 27, 3])[0]
    queue, namespace = random.choice(_QUEUES[kind]), random.choice(_TEAMS)
    pods, gpus, cpus, notes, selector = _shape(random, kind)
    if random.random() < 0.3 and gpus and not selector:
        selector = {"accelerator": random.choice(["h100", "a100", "l40s"])}
    if not gpus and not selector:
        selector = {"rack": "cpu"}
    requests: Object = {"cpu": cpus, "memory": f"{4 * cpus}Gi", **({GPU: gpus} if gpus else {})}
    resources = {"requests": requests, "limits": {GPU: gpus} if gpus else {}}
    pod = {
        "restartPolicy": "Never",
        **({"nodeSelector": selector} if selector else {}),
        "containers": [{"name": "main", "image": "train:1", "resources": resources}],
    }
    task = {"name": "worker", "replicas": pods, "template": {"metadata": {"annotations": notes}, "spec": pod}}
    spec: Object = {"queue": queue, "minAvailable": pods, "tasks": [task]}
    if priority := random.choices(["", "training", "urgent"], [80, 15, 5])[0]:
        spec["priorityClassName"] = priority
    if kind == "big" and random.random() < 0.4:
        spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"{kind}-{number}", "namespace": namespace},
        "spec": spec,
    }


def _shape(random: Random, kind: str) -> tuple[int, int, int, dict[str, str], dict[str, str]]:
    """Pods, GPUs and CPUs of each, annotations and node selector."""

    def runs(least: int, most: int) -> dict[str, str]:
        return {"unisono.io/run-seconds": str(random.randint(least, most))}

    if kind == "big":
        return random.choice([8, 16, 32]), 8, 64, runs(1500, 6000), {}
    if kind == "mid":
        return random.choice([2, 4]), 8, 48, runs(600, 4000), {}
    if kind == "small":
        return 1, random.choice([1, 1, 1, 2, 4]), 8, runs(100, 3000), {}
    if kind == "cpu":
        return random.choice([1, 4, 10]), 0, random.choice([4, 16, 32]), runs(60, 2000), {}
    gpus, cpus = random.choice([0, 9, 1]), random.choice([4, 200])
    selector = {"accelerator": "h200"} if random.random() < 0.5 else {}
    return (
        1,
        gpus,
        cpus,
        {"unisono.io/run-seconds": "20", "unisono.io/exit-code": random.choice(["1", "137"])},
        selector,
    )


# Why jobs of the busy cluster wait: some are drawn, asked, and what is offered as tried is carried out.


Objects = Sequence[Mapping[str, Any]]
_TAKING_EFFECT = 3.0
"""Before nodes join: controllers hand on what a request has changed."""
_LONGEST_SECONDS = 60
"""Of the time of the copy, until the job has to run."""


@dataclass(slots=True)
class Answer:
    """What was said of one job.

    Attributes:
        job: ``namespace/name``.
        seconds: CPU time of the answer.
        cause, message: of the verdict; empty where there is none.
        tried: fixes that are offered as tried.
        results: of each that was carried out, ``""`` where the job ran, else what happened.
    """

    job: str
    seconds: float
    cause: str
    message: str
    tried: list[Fix] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def text(self) -> str:
        """For people."""
        lines = [f"{self.job}  {self.seconds:.1f} s  {self.cause}: {self.message}"]
        for number, fix in enumerate(self.tried):
            told = (self.results[number] or "the job runs") if number < len(self.results) else "not carried out"
            lines.append(f"    {fix.text}: {told}")
        return "\n".join(lines if self.tried else [*lines, "    no tried fix"])


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster as it is read at one moment."""

    folder: Path
    objects: Objects
    config: SchedulerConfig
    now: float

    def drawn(self, number: int, seed: int) -> list[Mapping[str, Any]]:
        """Some of the jobs that wait."""
        jobs = [one for one in self.objects if one["kind"] == "Job" and "volcano" in one["apiVersion"]]
        waiting = [one for one in jobs if str(((one.get("status") or {}).get("state") or {}).get("phase")) == "Pending"]
        return Random(seed).sample(waiting, min(number, len(waiting)))

    async def ask(self, jobs: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """The answers, one after the other."""
        found = []
        async with opened(self.folder, now=self.now, objects=self.objects) as shadow:
            await asyncio.sleep(0)
            for job in jobs:
                meta, began = job["metadata"], time.process_time()
                title = f"jobs.batch.volcano.sh/{meta['name']}"
                told = await explain(shadow.client, [title], meta["namespace"], search=True, config=self.config)
                found.append(_answer(f"{meta['namespace']}/{meta['name']}", time.process_time() - began, told))
        return found

    async def carry_out(self, job: Mapping[str, Any], fix: Fix) -> str:
        """Send the requests of a fix, let its nodes join, and say whether the job runs then."""
        async with opened(self.folder, now=self.now, objects=self.objects) as shadow:
            shadow.start("controllers")
            shadow.start("scheduler", self.config, Asked(lambda _: False))
            await asyncio.sleep(1)
            try:
                if fix.operations:
                    await apply_fix(shadow.client, fix)
                await asyncio.sleep(_TAKING_EFFECT)
                joining = (request_json(shadow.client, "POST", "/api/v1/nodes", body=one) for one in self._nodes(fix))
                await asyncio.gather(*joining)
            except UnisonoError as error:
                return f"refused: {error}"
            for _ in range(_LONGEST_SECONDS):
                if await all_run(shadow.client, dict(job)):
                    break
                await asyncio.sleep(1)
            return "" if await all_run(shadow.client, dict(job)) else "the job does not run"

    def _nodes(self, fix: Fix) -> list[dict[str, Any]]:
        nodes = {one["metadata"]["name"]: one for one in self.objects if one["kind"] == "Node"}
        changes = [fix.change, *fix.change.get("changes", ())]
        made = []
        for change in (one for one in changes if one["kind"] == "AddNodes"):
            for number in range(change["count"]):
                node = copy.deepcopy(dict(nodes[change["like"]]))
                name = f"{change['like']}-more-{number}"
                node["metadata"] = {
                    "name": name,
                    "labels": {**node["metadata"].get("labels", {}), "kubernetes.io/hostname": name},
                }
                made.append(node)
        return made


def _answer(job: str, seconds: float, told: Explanation) -> Answer:
    verdict = told.verdicts[0] if told.verdicts else None
    tried = [fix for fix in told.fixes if fix.tried]
    return Answer(job, seconds, verdict.cause if verdict else "", verdict.message if verdict else "", tried)


def summary(answers: Sequence[Answer]) -> str:
    """How many have a tried fix, what the others are told, and how many fixes did start their job."""
    fixed = [one for one in answers if one.tried]
    nodes = [one for one in fixed if all(_adds_nodes(fix) for fix in one.tried)]
    held = [one for one in answers if not one.tried and (" hold" in one.message or "in use" in one.message)]
    results = [result for one in answers for result in one.results]
    seconds = sorted(one.seconds for one in answers)
    return "\n".join(
        (
            f"{len(answers)} jobs asked: {len(fixed)} with a tried fix ({len(nodes)} of them with nodes in each), "
            f"{len(held)} of the others are told who holds what they wait for",
            f"CPU s per answer: median {seconds[len(seconds) // 2]:.1f}, most {seconds[-1]:.1f}",
            f"{len(results)} tried fixes carried out: {results.count('')} started their job",
        )
    )


def _adds_nodes(fix: Fix) -> bool:
    return any(one["kind"] == "AddNodes" for one in (fix.change, *fix.change.get("changes", ())))
