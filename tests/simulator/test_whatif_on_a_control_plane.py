"""What a change of a live control plane would do, against what it then does: five kinds of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from benchmarks.churn import virtual

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.annotations import RUN_SECONDS
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, PodSpec, PodTemplateSpec, PriorityClass, ResourceRequirements
from unisono.api.groups.batch import Job, JobSpec, TaskSpec
from unisono.api.groups.scheduling import Queue, QueueSpec
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import JOBS, PODS, PRIORITY_CLASSES, QUEUES
from unisono.api.times import parse_time
from unisono.api.yaml import load_all
from unisono.apiserver.backend import Backend
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.registry import COMPONENT, all_controllers
from unisono.engine import run
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config
from unisono.kube.client import Client
from unisono.kube.controller import Manager
from unisono.kube.events import EventRecorder
from unisono.scheduler.scheduler import Scheduler
from unisono.scheduler.settings import FixedConfig
from unisono.simulator.forecast.live import list_objects
from unisono.simulator.forecast.whatif import WhatIf, apply_changes, what_if

GROWN = [{"name": "new", "count": 2, "capacity": {"cpu": 16, "memory": "64Gi", "nvidia.com/gpu": 4}}]
QUEUE = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: left}\nspec: "
PRIORITY = (
    "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train-r}\nspec: {priorityClassName: high}\n"
)


class Config(FixedConfig):
    """A configuration that another one takes the place of."""

    now = load_config(DEFAULT_TEXT)

    def poll(self) -> SchedulerConfig:
        return self.now


@dataclass
class Plane:
    """A control plane on virtual time."""

    client: Client
    clock: Any
    config: Config
    nodes: Callable[[list[dict[str, Any]]], Awaitable[None]]

    async def merge(self, kind: Any, name: str, patch: dict[str, Any], namespace: str | None = None) -> None:
        await self.client.patch(kind, name, patch, namespace=namespace)


async def _grow(plane: Plane) -> None:
    await plane.nodes(GROWN)


async def _lighter(plane: Plane) -> None:
    await plane.merge(QUEUES, "left", {"spec": {"weight": 1}})


async def _urgent(plane: Plane) -> None:
    await plane.merge(JOBS, "train-r", {"spec": {"priorityClassName": "high"}}, "default")


async def _capped(plane: Plane) -> None:
    await plane.merge(QUEUES, "left", {"spec": {"capability": {"nvidia.com/gpu": "4"}}})


SHORTEST = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: service-order, arguments: {service-order.preempt: false}}, {name: priority}, {name: gang}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


async def _other_order(plane: Plane) -> None:
    plane.config.now = load_config(SHORTEST)


CHANGES: dict[str, tuple[str, Callable[[Plane], Awaitable[None]]]] = {
    "nodes": ("nodes:\n- {name: new, count: 2, cpu: 16, memory: 64Gi, gpus: 4}\n", _grow),
    "weight": (QUEUE + "{weight: 1}\n", _lighter),
    "priority": (PRIORITY, _urgent),
    "configuration": (SHORTEST, _other_order),
    "quota": (QUEUE + "{capability: {nvidia.com/gpu: 4}}\n", _capped),
}


def _job(number: int) -> Job:
    pods, gpus = 1 + number % 2, 2 + 2 * (number % 3 > 0)
    resources = ResourceRequirements(requests={"cpu": "1", "nvidia.com/gpu": gpus}, limits={"nvidia.com/gpu": gpus})
    pod = PodSpec(containers=[Container(name="main", image="train", resources=resources)], restart_policy="Never")
    meta = ObjectMeta(annotations={RUN_SECONDS: str(20 + 14 * (7 * number % 11))})
    task = TaskSpec(name="worker", replicas=pods, template=PodTemplateSpec(metadata=meta, spec=pod))
    spec = JobSpec(min_available=pods, queue="left" if number % 2 else "right", tasks=[task])
    # Jobs whose names differ in numbers only would be of one kind, and expected to run equally long.
    return Job(metadata=ObjectMeta(name=f"train-{'abcdefghijklmnopqr'[number]}", namespace="default"), spec=spec)


async def _starts(plane: Plane) -> dict[str, float]:
    """When the last pod of each PodGroup began, seconds since 1970."""
    found: dict[str, float] = {}
    for pod in (await plane.client.list(PODS)).items:
        name = f"default/{(pod.metadata.annotations or {}).get(GROUP_NAME)}"
        if pod.status.start_time:
            found[name] = max(found.get(name, 0.0), parse_time(pod.status.start_time))
    return found


async def _tried(plane: Plane, change: str) -> tuple[WhatIf, dict[str, float]]:
    """What is foreseen of a change, and when the jobs that waited really began, seconds from then."""
    text, apply = CHANGES[change]
    for name, weight in (("left", 4), ("right", 1)):
        await plane.client.create(QUEUES, Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=weight)))
    await plane.client.create(PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name="high"), value=1000))
    for number in range(18):
        await plane.client.create(JOBS, _job(number))
        await plane.clock.sleep(1)
    await plane.clock.sleep(5)
    documents = [(each.value, "change") for each in load_all(text)]
    objects, now = await list_objects(plane.client), plane.clock.time()
    changed = apply_changes(objects, documents)
    foreseen = what_if(objects, plane.config.poll(), now, changed, futures=1, until=3600.0)
    await apply(plane)
    expected = {each.key for each in foreseen.moved if each.after is not None and each.after.median is not None}
    for _ in range(30):
        await plane.clock.sleep(30)
        if expected <= set(await _starts(plane)):
            break
    await plane.clock.sleep(30)
    waited = {each.key for each in foreseen.moved}
    return foreseen, {key: begun - now for key, begun in (await _starts(plane)).items() if key in waited}


async def _live(folder: Path, change: str) -> tuple[WhatIf, dict[str, float]]:
    loop: Any = asyncio.get_running_loop()
    clock = virtual.LoopClock(loop, 1_700_000_000.0)
    backend = await Backend.open(folder / "state.db", clock=clock.time, timers=clock)
    loop.busy = lambda: backend.store.statistics()["pending"] > 0
    events = EventRecorder(backend.client(field_manager="test"), COMPONENT, clock=clock)
    config = Config()
    decide = partial(run, advice=False)  # on virtual time it takes nine tenths of a processor, and is not compared
    scheduler = Scheduler(backend.client(field_manager="scheduler"), config, clock, decide=decide, seed=3)
    manager = Manager(backend.client(field_manager=COMPONENT), clock=clock)
    tasks: list[asyncio.Future[Any]] = []

    async def nodes(listed: list[dict[str, Any]]) -> None:
        tasks.append(asyncio.ensure_future(SimulatedNodes(backend.client(), parse_specs(listed), clock).run()))

    await nodes([{"name": "gpu", "count": 3, "capacity": {"cpu": 16, "memory": "64Gi", "nvidia.com/gpu": 4}}])
    parts = [manager.run([*all_controllers(events), *builtin_controllers(events)]), scheduler.run()]
    tasks += [asyncio.ensure_future(part) for part in parts]
    try:
        await clock.sleep(5)
        found = await _tried(Plane(backend.client(field_manager="test"), clock, config, nodes), change)
        for task in tasks:
            if task.done():
                task.result()
        return found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await events.close(timeout=0.0)
        await backend.close()


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_foreseen_of_a_change_is_what_it_does(tmp_path: Path, change: str) -> None:
    with asyncio.Runner(loop_factory=virtual.VirtualLoop) as runner:
        foreseen, real = runner.run(_live(tmp_path, change))
    after = {each.key: each.after.median for each in foreseen.moved if each.after is not None}
    before = {each.key: each.before.median for each in foreseen.moved if each.before is not None}
    assert len(real) >= 8
    assert {key for key, at in after.items() if at is not None} == set(real)
    errors = {key: abs((after[key] or 0.0) - begun) for key, begun in real.items()}
    untouched = {key: abs((before[key] or 0.0) - begun) for key, begun in real.items()}
    # Times on the wire are whole seconds, and controllers take a moment.
    assert median(errors.values()) <= 2
    assert max(errors.values()) <= 10
    assert sum(errors.values()) < sum(untouched.values())
