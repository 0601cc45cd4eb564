"""``python -m benchmarks.dashboard.plane DIR JOBS PODS NODES``: an API server with that many of them, until SIGTERM.

It writes ``DIR/kubeconfig`` when it serves. Four of ten jobs wait, each with a verdict; the pods of the others run.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.e2e.load import SUBMITTERS
from unisono.api import core
from unisono.api.annotations import VERDICT
from unisono.api.base import Object, ObjectMeta, OwnerReference
from unisono.api.groups.batch import Job, JobSpec, TaskSpec
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec
from unisono.api.groups.topology import HyperNode, HyperNodeSpec, MemberSelector, MemberSpec, RegexMatch
from unisono.api.keys import GROUP_NAME, NVIDIA_GPU
from unisono.api.kind import Kind
from unisono.api.kinds import HYPER_NODES, JOBS, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES
from unisono.api.verdict import Verdict, encode
from unisono.apiserver.backend import Backend
from unisono.apiserver.local import LocalClient
from unisono.apiserver.server import ApiServer
from unisono.errors import AlreadyExists
from unisono.standalone.logs import configure_logs
from unisono.standalone.loop import set_pace

QUEUE_COUNT, NAMESPACE_COUNT, RACK = 20, 20, 20


def namespace_of(job: int) -> str:
    """Where a job is."""
    return f"team-{job % NAMESPACE_COUNT}"


def waits(job: int) -> bool:
    """Whether it waits."""
    return job % 10 < 4


async def fill(client: LocalClient, jobs: int, pods: int, nodes: int) -> None:
    """Make everything; not over the wire, which would take longer than all that is measured."""
    for number in range(NAMESPACE_COUNT):
        await _made(client, NAMESPACES, core.Namespace(metadata=ObjectMeta(name=f"team-{number}")))
    for number in range(QUEUE_COUNT):
        queue = Queue(metadata=ObjectMeta(name=f"queue-{number}"), spec=QueueSpec(weight=1, parent="root"))
        await _made(client, QUEUES, queue)
    for number in range(-(-nodes // RACK)):
        match = MemberSelector(regex_match=RegexMatch(pattern=f"^rack{number}-"))
        spec = HyperNodeSpec(tier=1, members=[MemberSpec(type="Node", selector=match)])
        await _made(client, HYPER_NODES, HyperNode(metadata=ObjectMeta(name=f"rack{number}"), spec=spec))
    await _spread(nodes, lambda number: _node(client, number))
    each = pods // jobs
    await _spread(jobs, lambda number: _job(client, number, each, nodes))


async def _made(client: LocalClient, kind: Kind[Any], obj: Object) -> Any:
    """Create an object; one that an earlier run has made stays, so that a run that was ended goes on."""
    try:
        return await client.create(kind, obj)
    except AlreadyExists:
        return await client.get(kind, obj.metadata.name, obj.metadata.namespace)


async def _spread(count: int, work: Callable[[int], Awaitable[None]]) -> None:
    left = iter(range(count))

    async def worker() -> None:
        for number in left:
            await work(number)

    await asyncio.gather(*(worker() for _ in range(2 * SUBMITTERS)))


def node_name(number: int) -> str:
    """``rack3-17``."""
    return f"rack{number // RACK}-{number % RACK}"


async def _node(client: LocalClient, number: int) -> None:
    amounts = {"cpu": "960", "memory": "2Ti", "pods": "250", NVIDIA_GPU: "80"}
    name = node_name(number)
    await _made(client, NODES, core.Node(metadata=ObjectMeta(name=name)))
    ready = core.NodeStatus(
        capacity=dict(amounts),
        allocatable=dict(amounts),
        conditions=[core.NodeCondition(type="Ready", status="True", reason="Bench", message="")],
    )
    await client.patch(NODES, name, {"status": ready}, subresource="status")
    await client.patch(NODES, name, {"spec": {"taints": None}})


def _pod_spec(node: str | None) -> core.PodSpec:
    asked: dict[str, str | int | float] = {"cpu": "4", "memory": "16Gi", NVIDIA_GPU: "1"}
    container = core.Container(
        name="main", image="train", resources=core.ResourceRequirements(requests=asked, limits=asked)
    )
    return core.PodSpec(containers=[container], node_name=node, scheduler_name="volcano")


async def _job(client: LocalClient, number: int, pods: int, nodes: int) -> None:
    namespace, name, queue = namespace_of(number), f"train-{number}", f"queue-{number % QUEUE_COUNT}"
    task = TaskSpec(name="worker", replicas=pods, template=core.PodTemplateSpec(spec=_pod_spec(None)))
    spec = JobSpec(queue=queue, min_available=pods, tasks=[task], scheduler_name="volcano")
    job = await _made(client, JOBS, Job(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))
    owner = OwnerReference(
        api_version=JOBS.api_version, kind="Job", name=name, uid=job.metadata.uid or "", controller=True
    )
    text = f"nvidia.com/gpu {pods} is asked for, and nvidia.com/gpu 3 of 8000 is free; 3 of {pods} pods find room"
    verdict = Verdict(cause="NodesFull", message=text, queue=queue, tasks_needed=pods, position=number)
    told = {VERDICT: encode(verdict)} if waits(number) else {}
    meta = ObjectMeta(name=name, namespace=namespace, owner_references=[owner], annotations=told)
    least: dict[str, str | int | float] = {"cpu": str(4 * pods), NVIDIA_GPU: str(pods)}
    group = PodGroup(
        metadata=meta,
        spec=PodGroupSpec(min_member=pods, queue=queue, min_resources=least),
        status=PodGroupStatus(phase="Inqueue" if waits(number) else "Running"),
    )
    await _made(client, POD_GROUPS, group)
    for index in range(pods):
        pod = f"{name}-worker-{index}"
        meta = ObjectMeta(name=pod, namespace=namespace, owner_references=[owner], annotations={GROUP_NAME: name})
        node = None if waits(number) else node_name((number * pods + index) % nodes)
        made = await _made(client, PODS, core.Pod(metadata=meta, spec=_pod_spec(node)))
        if node and made.status.phase != "Running":
            await client.patch(PODS, pod, {"status": {"phase": "Running"}}, namespace=namespace, subresource="status")


async def serve(directory: Path, jobs: int, pods: int, nodes: int) -> None:
    """Serve until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    backend = await Backend.open(directory / "state.db")
    if not (directory / "filled").exists():
        await fill(LocalClient(backend.service), jobs, pods, nodes)
        (directory / "filled").touch()
    server = ApiServer(backend.service, data_dir=directory)
    try:
        await server.start()
        set_pace()
        await stopped.wait()
    finally:
        await server.stop()
        await backend.close()


if __name__ == "__main__":
    configure_logs(level="warning")
    asyncio.run(serve(Path(sys.argv[1]), *map(int, sys.argv[2:])))
