"""Elastic jobs take no room that is held for others, nor do those whose changes the server refuses."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest
from controller_world import Recorder

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.annotations import DISPATCH, ELASTIC, MOST_REPLICAS, ORIGIN_UID
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import ConfigMap, Container, Node, Pod, PodSpec
from unisono.api.gang_parts import NAME, NAMESPACE, HeldRoom, encode_room, room_key
from unisono.api.groups.batch import Job
from unisono.api.keys import TASK_SPEC
from unisono.api.kinds import CONFIG_MAPS, JOBS, NODES, PODS
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


async def look(client: MemoryClient, recorder: Recorder, looks: int) -> None:
    manager = Manager(client, clock=client.clock)
    running = asyncio.create_task(manager.run([ElasticController(recorder)]))
    for _ in range(looks):
        await settle(60)
        await client.clock.advance(10)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


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
    await look(client, recorder, 40)
    assert recorder.of("ElasticGrown")[0].startswith("replicas: 1 -> 2")
    assert len(refused) == 2
    assert refused[1] - refused[0] >= 300


@pytest.mark.parametrize(
    ("seconds", "there", "grown"),
    [(3600.0, False, "replicas: 1 -> 2"), (3600.0, True, "replicas: 1 -> 2"), (-1.0, False, "replicas: 1 -> 3")],
    ids=["held", "the pod has come and has no node yet", "over"],
)
async def test_room_that_is_held_for_others_is_not_free(seconds: float, there: bool, grown: str) -> None:
    client, recorder = MemoryClient(seed=0), Recorder()
    client.put(NODES, node(3))
    await submit(client, "job")
    until = client.clock.time() + seconds
    room = HeldRoom("fleet", until, seconds, [{"cpu": "1"}], {"part-w-0": ("n", 0)})
    meta = ObjectMeta(name=NAME, namespace=NAMESPACE)
    client.put(CONFIG_MAPS, ConfigMap(metadata=meta, data={room_key("hub", 1): encode_room(room)}))
    if there:
        labels = {ORIGIN_UID: "hub", DISPATCH: "1"}
        came = ObjectMeta(name="part-w-0", namespace="fleet", labels=labels)
        client.put(PODS, Pod(metadata=came, spec=PodSpec(containers=[Container(name="c", image="i")])))
    await look(client, recorder, 4)
    assert recorder.of("ElasticGrown")[0].startswith(grown)
