"""500 nodes with 2,880 GPUs, eight queues, and jobs of all sizes, always the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

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
