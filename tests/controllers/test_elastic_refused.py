"""An elastic job whose changes the server refuses takes no room from others, and makes none in their place."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
from controller_world import Recorder

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.annotations import ELASTIC, MOST_REPLICAS
from unisono.api.base import OwnerReference
from unisono.api.core import Node, Pod
from unisono.api.groups.batch import Job
from unisono.api.keys import TASK_SPEC
from unisono.api.kinds import JOBS, NODES, PODS
from unisono.controllers.elastic.controller import ElasticController
from unisono.errors import Invalid
from unisono.kube.controller import Manager


def node(cpus: int) -> Node:
    status = {
        "allocatable": {"cpu": str(cpus), "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return msgspec.convert({"metadata": {"name": "n"}, "status": status}, Node)


async def submit(client: MemoryClient, name: str) -> None:
    """A job of one pod that runs, of which there may be three."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "nodeName": "n"}
    task = {"name": "w", "replicas": 1, "minAvailable": 1, "template": {"spec": spec}}
    notes = {ELASTIC: "true", MOST_REPLICAS: "3"}
    meta = {"name": name, "namespace": "default", "uid": name, "annotations": notes}
    await client.create(JOBS, msgspec.convert({"metadata": meta, "spec": {"minAvailable": 1, "tasks": [task]}}, Job))
    made = await client.get(JOBS, name, "default")
    owner = OwnerReference(
        api_version=JOBS.api_version, kind="Job", name=name, uid=made.metadata.uid or "", controller=True
    )
    pod = msgspec.convert(
        {
            "metadata": {"name": f"{name}-w-0", "namespace": "default", "labels": {TASK_SPEC: "w"}},
            "spec": spec,
            "status": {"phase": "Running"},
        },
        Pod,
    )
    pod.metadata.owner_references = [owner]
    client.put(PODS, pod)


async def test_the_room_of_a_job_whose_growth_is_refused_goes_to_others_and_it_is_tried_again_later() -> None:
    client, recorder = MemoryClient(seed=0), Recorder()
    refused = []

    def check(operation: str, resource: str, _: str | None, name: str) -> None:
        if operation == "patch" and name == "bad":
            refused.append(client.clock.time())
            raise Invalid("metadata.annotations: Too long: may not be more than 262144 bytes")

    client.interceptor = check
    client.put(NODES, node(3))
    for name in ("bad", "good"):
        await submit(client, name)
    manager = Manager(client, clock=client.clock)
    running = asyncio.create_task(manager.run([ElasticController(recorder)]))
    for _ in range(40):
        await settle(60)
        await client.clock.advance(10)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert recorder.of("ElasticGrown")[0].startswith("replicas: 1 -> 2")
    assert len(refused) == 2
    assert refused[1] - refused[0] >= 300
