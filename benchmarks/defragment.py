"""What moving pods together is worth: gangs of whole nodes on a simulated cluster that small jobs have scattered.

``python -m benchmarks.defragment --nodes 200`` fills nodes of 8 GPUs with jobs of 1, 2 and 4 GPUs, takes some of them
away at random, lets gangs of whole nodes come, and runs cycles with and without the action ``defragment``.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import Any

from unisono import engine
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import Container, Node, NodeCondition, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueStatus
from unisono.api.keys import GROUP_NAME, NVIDIA_GPU
from unisono.api.kinds import NODES, POD_GROUPS, PODS, QUEUES
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import load_config
from unisono.scheduler.defragmentation import idle_amounts

START = 1_700_000_000.0
_CARDS = 8
_CONFIG = """
actions: "enqueue, allocate, backfill{more}"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
  - name: binpack
configurations:
- name: defragment
  arguments:
    maxMoves: {moves}
    interval: 1m
    maxLostTime: 24h
"""


class Cluster:
    """Nodes, small jobs and gangs; an evicted pod is made again, as its controller does."""

    def __init__(self, nodes: int, share: float, gangs: int, size: int, seed: int) -> None:
        self.state, self.now, self.made = ClusterState(), START, 0
        self.pods: dict[str, Pod] = {}
        draw = random.Random(seed)
        amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", NVIDIA_GPU: str(_CARDS)}
        ready = [NodeCondition(type="Ready", status="True")]
        for at in range(nodes):
            status = NodeStatus(allocatable=dict(amounts), capacity=dict(amounts), conditions=ready)
            self.state.apply("ADDED", NODES, Node(metadata=ObjectMeta(name=f"n{at:04}"), status=status))
        queue = Queue(metadata=ObjectMeta(name="default"), status=QueueStatus(state="Open"))
        self.state.apply("ADDED", QUEUES, queue)
        for at in range(nodes):
            free = _CARDS
            while free:
                cards = draw.choice([each for each in (1, 1, 2, 2, 4) if each <= free])
                free -= cards
                if draw.random() < share:
                    self._job(f"small-{at}-{free}", 1, cards, f"n{at:04}")
        self.gangs = {f"gang-{at}": size for at in range(gangs)}
        for name, pods in self.gangs.items():
            self._job(name, pods, _CARDS)
        self.now += 7200.0

    def _job(self, name: str, pods: int, cards: int, node: str = "") -> None:
        meta = ObjectMeta(name=name, namespace="ns", uid=name, creation_timestamp=rfc3339(self.now))
        phase = PodGroupStatus(phase="Running" if node else "Inqueue")
        self.state.apply("ADDED", POD_GROUPS, PodGroup(metadata=meta, spec=PodGroupSpec(min_member=pods), status=phase))
        for at in range(pods):
            self._pod(f"{name}-{at}", name, cards, node)

    def _pod(self, name: str, job: str, cards: int, node: str = "") -> None:
        requests: dict[str, Any] = {"cpu": str(cards), "memory": f"{cards * 8}Gi", NVIDIA_GPU: str(cards)}
        owner = OwnerReference(api_version="batch/v1", kind="Job", name=job, uid=job, controller=True)
        made = Pod(
            metadata=ObjectMeta(
                name=name,
                namespace="ns",
                uid=name,
                annotations={GROUP_NAME: job},
                creation_timestamp=rfc3339(self.now),
                owner_references=[owner],
            ),
            spec=PodSpec(
                node_name=node or None,
                scheduler_name="volcano",
                containers=[Container(name="main", resources=ResourceRequirements(requests=requests))],
            ),
            status=PodStatus(phase="Running" if node else "Pending"),
        )
        self.pods[made.key] = made
        self.state.apply("ADDED", PODS, made)

    def cycle(self, config: Any) -> tuple[int, float]:
        """Pods moved, and seconds of the cycle."""
        snapshot, began = self.state.snapshot(), time.perf_counter()
        decisions = engine.run(snapshot, config, self.now)
        took = time.perf_counter() - began
        for bind in decisions.binds:
            pod = self.pods[f"{bind.namespace}/{bind.pod}"]
            pod.spec.node_name, pod.status = bind.node, PodStatus(phase="Running", start_time=rfc3339(self.now))
            self.state.apply("MODIFIED", PODS, pod)
        for one in decisions.pipelined:
            pod = self.pods[f"{one.namespace}/{one.pod}"]
            pod.status = PodStatus(phase="Pending", nominated_node_name=one.node)
            self.state.apply("MODIFIED", PODS, pod)
        for gone in decisions.evictions:
            pod = self.pods.pop(f"{gone.namespace}/{gone.pod}")
            self.state.apply("DELETED", PODS, pod)
            self.made += 1
            requests = (pod.spec.containers or [])[0].resources.requests or {}
            job = (pod.metadata.annotations or {})[GROUP_NAME]
            self._pod(f"{job}-again-{self.made}", job, int(requests[NVIDIA_GPU]))
        self.now += 61.0
        return len(decisions.evictions), took

    def figures(self) -> dict[str, Any]:
        """Idle GPUs, how they are scattered, and gangs that run."""
        idle, scattered = idle_amounts(self.state.snapshot())
        on: dict[str, int] = {}
        for pod in self.pods.values():
            job = (pod.metadata.annotations or {})[GROUP_NAME]
            on[job] = on.get(job, 0) + bool(pod.spec.node_name)
        return {
            "idleGpus": idle // 1000,
            "onPartlyUsedNodes": scattered // 1000,
            "share": round(scattered / idle, 3) if idle else 0.0,
            "gangsRunning": sum(on[name] == size for name, size in self.gangs.items()),
            "smallJobsWaiting": sum(1 for job, placed in on.items() if job not in self.gangs and not placed),
        }


def main() -> None:
    """Print one line of JSON per way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--share", type=float, default=0.6, help="of the small jobs that are still there")
    parser.add_argument("--gangs", type=int, default=10)
    parser.add_argument("--size", type=int, default=4, help="nodes that each gang needs")
    parser.add_argument("--moves", type=int, default=16)
    parser.add_argument("--cycles", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for more in ("", ", defragment"):
        cluster = Cluster(given.nodes, given.share, given.gangs, given.size, given.seed)
        config = load_config(_CONFIG.format(more=more, moves=given.moves), "benchmark")
        before, moved, slowest = cluster.figures(), 0, 0.0
        for _ in range(given.cycles):
            moves, took = cluster.cycle(config)
            moved, slowest = moved + moves, max(slowest, took)
        told = {"defragment": bool(more), "before": before, "after": cluster.figures(), "moves": moved}
        print(json.dumps({**told, "slowestCycleSeconds": round(slowest, 3)}))


if __name__ == "__main__":
    main()
