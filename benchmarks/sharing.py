"""What borrowing, giving back and taking turns are worth: a tree of queues, and users of one queue, before and after.

``python -m benchmarks.sharing --nodes 200`` runs the engine on a virtual clock. *Reclaim*: one team has borrowed all of
its organisation's capability when another comes for what it deserves. *Turns*: one user has submitted jobs for hours
when another comes with few.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from typing import Any

from unisono import engine
from unisono.api.annotations import USER
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Node, NodeCondition, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from unisono.api.keys import GROUP_NAME, NVIDIA_GPU
from unisono.api.kinds import NODES, POD_GROUPS, PODS, QUEUES
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import load_config
from unisono.engine.decisions import PodGroupUpdate

START = 1_700_000_000.0
_CARDS = 8
_CYCLE_SECONDS = 120.0
RECLAIM = """
actions: "enqueue, allocate{more}, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: nodeorder
"""
TURNS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
{more}  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
FAIR = """  - name: fair-share
    arguments: {fair-share.by: user, fair-share.halfLife: 2h}
"""


@dataclass(slots=True)
class _Job:
    """A job of one pod or several; ``seconds`` 0 runs for good."""

    name: str
    queue: str
    user: str
    pods: int
    seconds: float
    came: float
    started: float | None = None
    ended: float | None = None
    placed: set[str] = field(default_factory=set)


class World:
    """Nodes of 8 GPUs, queues and jobs; what is evicted is made again."""

    def __init__(self, nodes: int, config: str, *queues: Queue) -> None:
        self.state, self.now, self.config = ClusterState(), START, load_config(config, "benchmark")
        self.jobs: dict[str, _Job] = {}
        self.pods: dict[str, Pod] = {}
        self.evictions = self._again = 0
        amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", NVIDIA_GPU: str(_CARDS)}
        for at in range(nodes):
            status = NodeStatus(
                allocatable=dict(amounts),
                capacity=dict(amounts),
                conditions=[NodeCondition(type="Ready", status="True")],
            )
            self.state.apply("ADDED", NODES, Node(metadata=ObjectMeta(name=f"n{at:04}"), status=status))
        for each in (queue("root"), *queues):
            self.state.apply("ADDED", QUEUES, each)

    def submit(self, name: str, queue: str, user: str, pods: int, seconds: float = 0.0) -> None:
        """A gang of so many pods with a card each."""
        self.jobs[name] = _Job(name, queue, user, pods, seconds, self.now)
        meta = ObjectMeta(
            name=name,
            namespace="ns",
            uid=name,
            annotations={USER: user} if user else None,
            creation_timestamp=rfc3339(self.now),
        )
        spec = PodGroupSpec(min_member=pods, queue=queue, min_resources={NVIDIA_GPU: str(pods)})
        group = PodGroup(metadata=meta, spec=spec, status=PodGroupStatus(phase="Pending"))
        self.state.apply("ADDED", POD_GROUPS, group)
        for at in range(pods):
            self._pod(f"{name}-{at}", name)

    def _pod(self, name: str, job: str) -> None:
        requests: dict[str, Any] = {"cpu": "1", "memory": "8Gi", NVIDIA_GPU: "1"}
        pod = Pod(
            metadata=ObjectMeta(
                name=name, namespace="ns", uid=name, annotations={GROUP_NAME: job}, creation_timestamp=rfc3339(self.now)
            ),
            spec=PodSpec(
                scheduler_name="volcano",
                containers=[Container(name="main", resources=ResourceRequirements(requests=requests))],
            ),
            status=PodStatus(phase="Pending"),
        )
        self.pods[pod.key] = pod
        self.state.apply("ADDED", PODS, pod)

    def cycle(self) -> None:
        """Decide, carry the decisions out, let a minute pass, and end the jobs whose time is over."""
        decisions = engine.run(self.state.snapshot(), self.config, self.now, advice=False)
        assert not decisions.violations, decisions.violations
        for bind in decisions.binds:
            self._placed(self.pods[f"{bind.namespace}/{bind.pod}"], bind.node)
        for gone in decisions.evictions:
            self._evicted(self.pods.pop(f"{gone.namespace}/{gone.pod}"))
        for update in decisions.pod_groups:
            self._update(update)
        self.now += _CYCLE_SECONDS
        for job in self.jobs.values():
            if job.ended is None and job.seconds and job.started is not None and self.now - job.started >= job.seconds:
                self._end(job)

    def _placed(self, pod: Pod, node: str) -> None:
        job = self.jobs[(pod.metadata.annotations or {})[GROUP_NAME]]
        job.placed.add(pod.key)
        job.started = self.now if job.started is None else job.started
        pod.spec.node_name, pod.status = node, PodStatus(phase="Running", start_time=rfc3339(self.now))
        self.state.apply("MODIFIED", PODS, pod)

    def _evicted(self, pod: Pod) -> None:
        self.evictions += 1
        self._again += 1
        job = (pod.metadata.annotations or {})[GROUP_NAME]
        self.jobs[job].placed.discard(pod.key)
        self.state.apply("DELETED", PODS, pod)
        self._pod(f"{job}-again-{self._again}", job)

    def _update(self, update: PodGroupUpdate) -> None:
        job = self.jobs[update.name]
        meta = ObjectMeta(
            name=job.name,
            namespace="ns",
            uid=job.name,
            annotations={USER: job.user} if job.user else None,
            creation_timestamp=rfc3339(job.came),
        )
        spec = PodGroupSpec(min_member=job.pods, queue=job.queue, min_resources={NVIDIA_GPU: str(job.pods)})
        group = PodGroup(metadata=meta, spec=spec, status=PodGroupStatus(phase=update.phase))
        self.state.apply("MODIFIED", POD_GROUPS, group)

    def _end(self, job: _Job) -> None:
        job.ended = self.now
        for key in [key for key, pod in self.pods.items() if (pod.metadata.annotations or {})[GROUP_NAME] == job.name]:
            self.state.apply("DELETED", PODS, self.pods.pop(key))
        meta = ObjectMeta(name=job.name, namespace="ns")
        self.state.apply("DELETED", POD_GROUPS, PodGroup(metadata=meta))

    def held(self, **by: str) -> int:
        """GPUs of the jobs with these attributes that have a node."""
        chosen = (job for job in self.jobs.values() if all(getattr(job, key) == by[key] for key in by))
        return sum(len(job.placed) for job in chosen if job.ended is None)


def queue(name: str, parent: str = "", deserved: int = 0, capability: int = 0) -> Queue:
    """A queue of the tree that deserves, and may have at most, so many GPUs; 0 says nothing."""

    def cards(number: int) -> Any:
        return {NVIDIA_GPU: str(number), "cpu": str(number), "memory": f"{number * 8}Gi"} if number else None

    spec = QueueSpec(
        weight=1,
        reclaimable=True,
        parent=parent or ("root" if name != "root" else None),
        deserved=cards(deserved),
        capability=cards(capability),
    )
    return Queue(metadata=ObjectMeta(name=name), spec=spec, status=QueueStatus(state="Open"))


def reclaim(nodes: int, more: str) -> dict[str, Any]:
    """One team has all of its organisation's capability; the other comes for what it deserves."""
    whole = nodes * _CARDS
    org = whole * 3 // 4
    queues = queue("org", "", org, org), queue("team-a", "org", org // 2), queue("team-b", "org", org // 2)
    world = World(nodes, RECLAIM.format(more=more), *queues)
    for number in range(org // 4):
        world.submit(f"a-{number}", "team-a", "", 4)
    for _ in range(5):
        world.cycle()
    before = world.held(queue="team-a")
    size = max(4, org // 60)
    for number in range(org // 2 // size):
        world.submit(f"b-{number}", "team-b", "", size)
    needed: int | None = None
    most = least = before
    for number in range(40):
        world.cycle()
        a, b = world.held(queue="team-a"), world.held(queue="team-b")
        most, least = max(most, a + b), min(least, a)
        if needed is None and b >= org // 2:
            needed = number + 1
    return {
        "reclaim": bool(more),
        "capability": org,
        "borrowedBefore": before,
        "teamA": world.held(queue="team-a"),
        "teamB": world.held(queue="team-b"),
        "cyclesUntilDeserved": needed,
        "evictions": world.evictions,
        "mostOfTheOrganisation": most,
        "leastOfTeamA": least,
    }


def turns(nodes: int, more: str) -> dict[str, Any]:
    """A user whose jobs fill the cluster three times over, and one who comes two hours later with few."""
    whole = nodes * _CARDS
    world = World(nodes, TURNS.format(more=more), queue("research"))
    for number in range(whole // 8 * 6):
        world.submit(f"heavy-{number}", "research", "heavy", 8, 3600.0)
    for _ in range(60):
        world.cycle()
    for number in range(whole // 32):
        world.submit(f"light-{number}", "research", "light", 8, 3600.0)
    used = {"heavy": 0, "light": 0}
    for _ in range(120):
        world.cycle()
        for user in used:
            used[user] += world.held(user=user)
    waits = [
        (job.started if job.started is not None else world.now) - job.came
        for job in world.jobs.values()
        if job.user == "light"
    ]
    return {
        "fairShare": bool(more),
        "lightWaitsMinutesMean": round(sum(waits) / len(waits) / 60, 1),
        "lightWaitsMinutesMost": round(max(waits) / 60, 1),
        "lightShareOfGpuTime": round(used["light"] / sum(used.values()), 3),
        "gpusInUse": round(sum(used.values()) / 120 / whole, 3),
        "evictions": world.evictions,
    }


def main() -> None:
    """Print one line of JSON per way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    given = parser.parse_args()
    for more in ("", ", reclaim"):
        print(json.dumps(reclaim(given.nodes, more)), flush=True)
    for more in ("", FAIR):
        print(json.dumps(turns(given.nodes, more)), flush=True)


if __name__ == "__main__":
    main()
