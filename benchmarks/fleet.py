"""``python -m benchmarks.fleet``: what a hub over many members costs, in memory and without any I/O.

Members tell their nodes and running pods by the way of a running hub (`unisono.fleet.hub_state`); then new gangs come.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

from benchmarks.clusters import START
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import POD_GROUPS, QUEUES
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import default_config
from unisono.fleet.hub import for_hub
from unisono.fleet.hub_state import HubState
from unisono.fleet.jobs.copies import Placement
from unisono.gc_pauses import collector_paused
from unisono.scheduler.feed import Feed


def nodes(number: int) -> Iterator[Node]:
    """Nodes of one member, all with eight GPUs."""
    amounts = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8"}
    for index in range(number):
        yield Node(
            metadata=ObjectMeta(name=f"n{index:05}", labels={"kubernetes.io/hostname": f"n{index:05}"}),
            status=NodeStatus(allocatable=dict(amounts), capacity=dict(amounts)),
        )


def running(number: int, on: int) -> Iterator[Pod]:
    """Pods that run in one member, spread over its nodes."""
    for index in range(number):
        yield Pod(
            metadata=ObjectMeta(name=f"p{index:06}", namespace="work", uid=f"u{index}"),
            spec=PodSpec(node_name=f"n{index % on:05}", containers=[_container("1", None)]),
            status=PodStatus(phase="Running"),
        )


def gang(name: str, size: int) -> tuple[PodGroup, list[Pod]]:
    """A gang that needs one GPU a pod, in one cluster."""
    bound = NetworkTopologySpec(mode="hard", highest_tier_name="cluster")
    spec = PodGroupSpec(min_member=size, queue="default", network_topology=bound)
    spec.min_resources = {"cpu": str(size), "nvidia.com/gpu": str(size)}
    meta = ObjectMeta(name=name, namespace="default", uid=name, creation_timestamp="2026-01-01T00:00:00Z")
    group = PodGroup(metadata=meta, spec=spec, status=PodGroupStatus(phase="Inqueue"))
    pods = [
        Pod(
            metadata=ObjectMeta(name=f"{name}-{at}", namespace="default", annotations={GROUP_NAME: name}),
            spec=PodSpec(scheduler_name="volcano", containers=[_container("1", "1")]),
        )
        for at in range(size)
    ]
    return group, pods


def _container(cpu: str, gpus: str | None) -> Container:
    requests = {"cpu": cpu, **({"nvidia.com/gpu": gpus} if gpus else {})}
    return Container(name="c", image="i", resources=ResourceRequirements(requests={**requests}))


def warm_up(config: SchedulerConfig) -> None:
    """One cycle over next to nothing: a hub that has decided before has all of the engine's code in memory."""
    state = ClusterState()
    hub = HubState(Feed(state, lambda: None))
    hub.add("m", {})
    hub.open("m", is_open=True)
    for node in nodes(2):
        hub.node("m", "ADDED", node)
    group, pods = gang("g", 2)
    state.apply("ADDED", POD_GROUPS, group)
    hub.stand("g", Placement(), pods)
    run(state.snapshot(), config, START, 1)


def peak() -> float:
    """Largest resident memory so far, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def main() -> None:
    """Build, decide, print."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet", description=__doc__)
    for name, default, text in (
        ("members", 20, "members of the fleet"),
        ("nodes", 5_000, "nodes of each member"),
        ("pods", 50_000, "running pods of each member"),
        ("gangs", 1_000, "new gangs"),
        ("size", 8, "pods of each gang"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text}  [default: {default}]")
    given = parser.parse_args()
    state = ClusterState()
    hub = HubState(Feed(state, lambda: None))
    hub.hub = "hub"
    started = time.process_time()
    with collector_paused():
        for member in range(given.members):
            name = f"m{member:02}"
            hub.add(name, {})
            hub.open(name, is_open=True)
            for node in nodes(given.nodes):
                hub.node(name, "ADDED", node)
            for pod in running(given.pods, given.nodes):
                hub.pod(name, "ADDED", pod)
        queue = Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(weight=1), status=QueueStatus(state="Open"))
        state.apply("ADDED", QUEUES, queue)
        state.snapshot()
    print(f"rebuild: {time.process_time() - started:.1f} s of CPU, {len(state.nodes)} nodes, {len(state.tasks)} pods")
    print(f"memory: {peak():.2f} GiB")
    for number in range(given.gangs):
        group, pods = gang(f"g{number:04}", given.size)
        state.apply("ADDED", POD_GROUPS, group)
        hub.stand(f"g{number:04}", Placement(), pods)
    config = for_hub(default_config())
    warm_up(config)
    for title in ("first cycle", "second cycle"):
        started = time.process_time()
        with collector_paused():
            decisions = run(state.snapshot(), config, START, 1)
        seconds = time.process_time() - started
        clusters = {bind.node.partition(":")[0] for bind in decisions.binds}
        print(f"{title}: {seconds * 1000:.0f} ms of CPU, {len(decisions.binds)} places in {len(clusters)} clusters")
    print(f"memory at the end: {peak():.2f} GiB")


if __name__ == "__main__":
    main()
