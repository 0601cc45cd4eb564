"""A cluster that looks lived in, on simulated nodes: what ``scripts/dashboard_screenshots.py`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unisono.api.yaml import dump_all

RACKS = 4
NODES = [
    *(
        {
            "name": f"h100-rack{rack}",
            "count": 6,
            "capacity": {"cpu": 112, "memory": "2Ti", "nvidia.com/gpu": 8},
            "labels": {"rack": str(rack), "accelerator": "h100"},
        }
        for rack in range(1, RACKS + 1)
    ),
    {
        "name": "cpu",
        "count": 8,
        "capacity": {"cpu": 64, "memory": "256Gi"},
        "labels": {"rack": "cpu"},
    },
]
GPU = "nvidia.com/gpu"
# Whose jobs they are; the others are of who looks at them.
USERS = {
    "llama-pretraining": "ada",
    "tokenizer-sweep": "ada",
    "mixture-of-experts": "ada",
    "detector-eval": "grace",
    "clip-finetune": "grace",
    "segmentation-ablation": "grace",
    "recommender-serving": "linus",
    "bert-ddp": "linus",
    "features-nightly": "barbara",
    "reindex-corpus": "barbara",
}


def objects() -> Iterator[dict[str, Any]]:
    """Everything that is applied, in this order."""
    for rack in range(1, RACKS + 1):
        labels = {"matchLabels": {"rack": str(rack)}}
        yield _hyper_node(f"rack{rack}", 1, [{"type": "Node", "selector": {"labelMatch": labels}}])
    for name, racks in (("spine-a", (1, 2)), ("spine-b", (3, 4))):
        members = [{"type": "HyperNode", "selector": {"exactMatch": {"name": f"rack{rack}"}}} for rack in racks]
        yield _hyper_node(name, 2, members)
    yield _queue("research", weight=3, capability={GPU: 128}, deserved={GPU: 96})
    yield _queue("llm", parent="research", weight=2, deserved={GPU: 64}, capability={GPU: 96})
    yield _queue("vision", parent="research", weight=1, deserved={GPU: 32}, capability={GPU: 32})
    yield _queue("production", weight=4, guarantee={"resource": {GPU: 32}}, deserved={GPU: 64})
    yield _queue("batch", weight=1, deserved={"cpu": 256})
    for name, amounts, period, mode in (
        ("vision-month", {GPU: 4000}, "Month", "Hard"),
        ("batch-day", {"cpu": 8}, "Day", "Soft"),
    ):
        yield {
            "apiVersion": "quota.unisono.io/v1alpha1",
            "kind": "Budget",
            "metadata": {"name": name},
            "spec": {"queues": [name.split("-")[0]], "amounts": amounts, "period": period, "mode": mode},
        }
    for name, value in (("training", 1000), ("urgent", 10000)):
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
    yield _job("llama-pretraining", "llm", 8, gpu=8, cpu=96, priority="training", seconds=9000)
    yield _job("tokenizer-sweep", "llm", 6, gpu=2, cpu=12, seconds=2400)
    yield _job("clip-finetune", "vision", 3, gpu=8, cpu=64, seconds=5400)
    yield _job("detector-eval", "vision", 2, gpu=4, cpu=24, seconds=1500)
    yield _job("recommender-serving", "production", 10, gpu=3, cpu=16, priority="urgent")
    yield _job("features-nightly", "batch", 24, cpu=16, seconds=3600)
    yield _job("export-embeddings", "batch", 4, cpu=4, seconds=3)
    yield _job("broken-loader", "batch", 2, cpu=2, seconds=2, code=1)


def late_objects() -> Iterator[dict[str, Any]]:
    """What comes when those run, and waits."""
    yield _job("mixture-of-experts", "llm", 12, gpu=8, cpu=96, priority="training", tier=2)
    yield _job("reward-model", "llm", 5, gpu=8, cpu=96, seconds=1800)
    yield _job("segmentation-ablation", "vision", 1, gpu=8, cpu=32)
    yield _job("diffusion-v3", "vision", 2, gpu=8, cpu=32, seconds=3600)
    yield _job("nine-gpus-per-node", "production", 2, gpu=9, cpu=16)
    yield _job("reindex-corpus", "batch", 40, cpu=32)
    yield _pytorch("bert-ddp", "production", 3, gpu=8)


MEMBERS = {
    "gpu-north": [{"name": "a100", "count": 6, "capacity": {"cpu": 96, "memory": "1Ti", GPU: 8}}],
    "gpu-south": [{"name": "l40s", "count": 4, "capacity": {"cpu": 64, "memory": "512Gi", GPU: 4}}],
}
"""Clusters of a fleet, each with its nodes."""


def hub_objects() -> Iterator[dict[str, Any]]:
    """Jobs of the hub: two find a member with room, one none."""
    yield _job("llama-pretraining", "default", 4, gpu=8, cpu=48)
    yield _job("detector-eval", "default", 3, gpu=4, cpu=24)
    yield _job("mixture-of-experts", "default", 12, gpu=8, cpu=48)


def text(found: Iterator[dict[str, Any]]) -> str:
    """As YAML."""
    return dump_all(list(found))


def _hyper_node(name: str, tier: int, members: list[dict[str, Any]]) -> dict[str, Any]:
    spec = {"tier": tier, "members": members}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def _queue(name: str, **spec: Any) -> dict[str, Any]:
    spec.setdefault("parent", "root")
    spec["reclaimable"] = False
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _job(
    name: str,
    queue: str,
    pods: int,
    *,
    gpu: int = 0,
    cpu: int = 1,
    priority: str = "",
    tier: int = 0,
    seconds: int = 0,
    code: int = 0,
) -> dict[str, Any]:
    notes = {"unisono.io/run-seconds": str(seconds)} if seconds else {}
    if code:
        notes["unisono.io/exit-code"] = str(code)
    spec: dict[str, Any] = {
        "queue": queue,
        "minAvailable": pods,
        "tasks": [
            {
                "name": "worker",
                "replicas": pods,
                "template": {"metadata": {"annotations": notes}, "spec": _pod(gpu, cpu)},
            }
        ],
    }
    if priority:
        spec["priorityClassName"] = priority
    if tier:
        spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
    meta = {"name": name, "annotations": _user(name)}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def _user(name: str) -> dict[str, str]:
    return {"unisono.io/user": USERS[name]} if name in USERS else {}


def _pytorch(name: str, queue: str, workers: int, *, gpu: int) -> dict[str, Any]:
    def replicas(number: int) -> dict[str, Any]:
        pod = _pod(gpu, 32)
        pod["containers"][0]["name"] = "pytorch"
        return {"replicas": number, "template": {"spec": pod}}

    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "annotations": {"scheduling.volcano.sh/queue-name": queue, **_user(name)}},
        "spec": {"pytorchReplicaSpecs": {"Master": replicas(1), "Worker": replicas(workers)}},
    }


def _pod(gpu: int, cpu: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"cpu": cpu, "memory": f"{4 * cpu}Gi"}
    if gpu:
        asked[GPU] = gpu
    limits = {"limits": {GPU: gpu}} if gpu else {}
    container = {"name": "main", "image": "train", "resources": {"requests": asked, **limits}}
    return {"restartPolicy": "Never", "containers": [container]}
