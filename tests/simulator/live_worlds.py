"""A workload on a live control plane on virtual time, told as a simulation of it is told."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.answers.plane import unadvised

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.annotations import RUN_SECONDS
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Namespace, Pod, PodSpec, PodTemplateSpec, ResourceRequirements
from unisono.api.groups.batch import Job as LiveJob
from unisono.api.groups.batch import JobSpec, LifecyclePolicy, TaskSpec
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.keys import JOB_NAME, PREEMPTABLE
from unisono.api.kinds import (
    BUDGETS,
    HYPER_NODES,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PRICE_LISTS,
    PRIORITY_CLASSES,
    QUEUES,
    RESERVATIONS,
)
from unisono.api.times import parse_time
from unisono.engine.config_file.reader import load_config
from unisono.errors import AlreadyExists
from unisono.simulator.clusters import Cluster
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.objects import ObjectMaker, namespace_of, priority_class, priority_object
from unisono.simulator.world.outcome import Run
from unisono.standalone.shadow import Shadow, VirtualLoop, opened

Placing = tuple[float, str]
"""When a pod began, in seconds, and on which node."""
Placings = dict[str, list[Placing]]
"""Of the pods of each job."""
_EPOCH = 1_700_000_000.0
_MAKER = ObjectMaker(shared=False, run_times="exact", epoch=_EPOCH)


def simulated(run: Run) -> Placings:
    """Where the pods of a simulation began, and when."""
    found: Placings = {}
    for outcome in run.outcomes:
        placings = found[outcome.job.name] = []
        before: dict[int, set[int]] = {}
        for stretch in outcome.stretches:
            here = dict(zip(stretch.pods, stretch.nodes, strict=True))
            kept = before.get(stretch.unit, set())
            placings += [(stretch.start, run.node_names[node]) for pod, node in here.items() if pod not in kept]
            before[stretch.unit] = set(here) if stretch.cause == "resized" else set()
        placings.sort()
    return found


def live(cluster: Cluster, jobs: Sequence[Job], config: str, until: float, folder: Path) -> Placings:
    """The same of a control plane with its scheduler, its controllers and simulated nodes."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_live(cluster, jobs, config, until, folder))


async def _live(cluster: Cluster, jobs: Sequence[Job], config: str, until: float, folder: Path) -> Placings:
    async with opened(folder, now=_EPOCH, decide=unadvised) as shadow:
        shadow.start("controllers")
        await _prepare(shadow, cluster, jobs)
        shadow.start("scheduler", load_config(config))
        await asyncio.sleep(2)
        begun, found, seen = shadow.clock.time(), {job.name: [] for job in jobs}, set[str]()
        coming = sorted(jobs, key=lambda job: job.submit)
        while (now := shadow.clock.time() - begun) < until:
            while coming and coming[0].submit <= now:
                job = coming.pop(0)
                await shadow.backend.client(user=job.user or "system:admin").create(JOBS, live_job(job))
            for pod in (await shadow.backend.client().list(PODS)).items:
                if pod.status.start_time and pod.spec.node_name and pod.metadata.uid not in seen:
                    seen.add(pod.metadata.uid or "")
                    at = parse_time(pod.status.start_time) - begun
                    found[_job_of(pod)].append((at, pod.spec.node_name))
            await asyncio.sleep(1)
        return {name: sorted(placings) for name, placings in found.items()}


def _job_of(pod: Pod) -> str:
    return (pod.metadata.labels or {})[JOB_NAME]


async def _prepare(shadow: Shadow, cluster: Cluster, jobs: Sequence[Job]) -> None:
    client = shadow.backend.client()
    for name in sorted({namespace_of(job) for job in jobs}):
        await _create(client, NAMESPACES, Namespace(metadata=ObjectMeta(name=name)))
    for value in sorted({job.priority for job in jobs} - {0}):
        await _create(client, PRIORITY_CLASSES, priority_object(value))
    for queue in cluster.queues:
        await _create(client, QUEUES, queue)
    for hyper_node in cluster.hyper_nodes:
        await _create(client, HYPER_NODES, hyper_node)
    for reservation in cluster.reservations:
        await _create(client, RESERVATIONS, reservation)
    for budget in cluster.budgets:
        await _create(client, BUDGETS, budget)
    for prices in cluster.price_lists:
        await _create(client, PRICE_LISTS, prices)
    specs = [
        {
            "name": node.metadata.name,
            "capacity": dict(node.status.allocatable or {}),
            "labels": {key: text for key, text in (node.metadata.labels or {}).items() if "hostname" not in key},
            "taints": [
                {"key": each.key, "value": each.value, "effect": each.effect} for each in node.spec.taints or ()
            ],
        }
        for node in cluster.nodes
    ]
    nodes = SimulatedNodes(shadow.backend.client(), parse_specs(specs), shadow.clock)
    shadow.run("nodes", nodes.run())
    await nodes.ready.wait()
    for node in cluster.nodes:
        if notes := node.metadata.annotations:
            await client.patch(NODES, node.metadata.name, {"metadata": {"annotations": notes}})


async def _create(client: Any, kind: Any, obj: Any) -> None:
    try:
        await client.create(kind, obj)
    except AlreadyExists:
        await client.patch(kind, obj.metadata.name, {"spec": {"weight": 1}} if kind is QUEUES else {})


def live_job(job: Job) -> LiveJob:
    """The job as a user would submit it."""
    tasks = [
        TaskSpec(
            name=role.name, replicas=role.count, template=PodTemplateSpec(metadata=_meta(job), spec=_spec(role, job))
        )
        for role in job.roles
    ]
    topology = None
    if job.topology_tier is not None:
        mode = "hard" if job.topology_hard else "soft"
        topology = NetworkTopologySpec(mode=mode, highest_tier_allowed=job.topology_tier)
    whole = job.minimum == job.pods and job.pods > 1
    spec = JobSpec(
        min_available=job.minimum,
        queue=job.queue,
        tasks=tasks,
        priority_class_name=priority_class(job.priority) if job.priority else None,
        network_topology=topology,
        policies=[LifecyclePolicy(event="PodEvicted", action="RestartJob")] if whole else None,
        max_retry=100,
    )
    meta = ObjectMeta(name=job.name, namespace=namespace_of(job), annotations=dict(job.annotations) or None)
    return LiveJob(metadata=meta, spec=spec)


def _meta(job: Job) -> ObjectMeta:
    notes = dict(job.annotations)
    if job.run_seconds is not None:
        notes[RUN_SECONDS] = f"{job.run_seconds:g}"
    if not job.preemptable:
        notes[PREEMPTABLE] = "false"
    return ObjectMeta(annotations=notes)


def _spec(role: Role, job: Job) -> PodSpec:
    made = _MAKER.pod(job, role, "any", 0.0).spec
    requests = made.containers[0].resources.requests
    limits = {key: value for key, value in (requests or {}).items() if "/" in key}
    resources = ResourceRequirements(requests=requests or None, limits=limits or None)
    return PodSpec(
        containers=[Container(name="main", image="any", resources=resources)],
        affinity=made.affinity,
        node_selector=made.node_selector,
        restart_policy="Never",
    )


def equal(one: Placings, other: Placings, until: float, *, seconds: float) -> bool:
    """Whether pods of each job began on the same nodes at the same times, but for what happened at the very end."""
    one, other = (
        {name: [each for each in all_ if each[0] < until] for name, all_ in told.items()} for told in (one, other)
    )
    return one.keys() == other.keys() and all(
        len(mine) == len(other[name])
        and sorted(node for _, node in mine) == sorted(node for _, node in other[name])
        and all(math.isclose(a, b, abs_tol=seconds) for (a, _), (b, _) in zip(mine, other[name], strict=True))
        for name, mine in one.items()
    )
