"""Jobs that come and go, each with labels, requests and names that no other has; namespaces and queues go as well."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Namespace, PodSpec, PodTemplateSpec, ResourceRequirements
from unisono.api.groups.batch import Job, JobSpec, LifecyclePolicy, TaskSpec
from unisono.api.groups.batch_v1 import BatchJob, BatchJobSpec
from unisono.api.groups.scheduling import Queue, QueueSpec
from unisono.api.kind_families import BATCH_JOBS
from unisono.api.kinds import JOBS, NAMESPACES, QUEUES
from unisono.errors import ApiError, NotFound
from unisono.kube.client import Client, EventType
from unisono.kube.clock import Clock
from unisono.kube.informer import Informer

GENERATION = 200
"""Jobs that share a namespace and a queue; both are deleted after the last one."""
_RUN_SECONDS = (5, 10, 20, 40)
_TTL_SECONDS = 30
# Jobs that fit nowhere are deleted by their user after so long.
_PATIENCE_SECONDS = 60.0


def fate(number: int) -> str:
    """How the job of that number ends."""
    return {7: "fails", 17: "never fits", 27: "deleted while it runs"}.get(number % 50, "completes")


def is_batch(number: int) -> bool:
    """Whether it is a Job of ``batch/v1``."""
    return number % 5 == 3


def namespace_of(number: int) -> str:
    """The namespace of a job, and the name of its queue."""
    return f"churn-{number // GENERATION}"


def job(number: int, pods: int, seconds_scale: float = 1.0) -> Job | BatchJob:
    """The job of that number."""
    meta = ObjectMeta(name=f"job-{number}", namespace=namespace_of(number))
    end = fate(number)
    annotations = {"unisono.io/run-seconds": str(_RUN_SECONDS[number % 4] * seconds_scale)}
    if end == "fails":
        annotations["unisono.io/exit-code"] = "1"
    template = PodTemplateSpec(
        metadata=ObjectMeta(annotations=annotations, labels={"run": f"r{number}", f"key-{number}": "yes"}),
        spec=_pod(number, fits=end != "never fits"),
    )
    if is_batch(number):
        spec = BatchJobSpec(template=template, parallelism=pods, completions=pods, backoff_limit=0)
        spec.ttl_seconds_after_finished = _TTL_SECONDS
        return BatchJob(metadata=meta, spec=spec)
    return Job(
        metadata=meta,
        spec=JobSpec(
            min_available=pods,
            queue=namespace_of(number),
            ttl_seconds_after_finished=_TTL_SECONDS,
            policies=[LifecyclePolicy(event="PodFailed", action="AbortJob" if number % 100 == 7 else "TerminateJob")],
            plugins={"env": [], "svc": []} if number % 10 == 0 else None,
            tasks=[TaskSpec(name=f"task-{number % 97}", replicas=pods, template=template)],
        ),
    )


def _pod(number: int, *, fits: bool) -> PodSpec:
    requests = {"cpu": f"{100 + number % 1009}m" if fits else "1000", "memory": f"{64 + number % 4001}Mi"}
    image = f"registry.example/run:{number}"
    container = Container(name="main", image=image, resources=ResourceRequirements(requests=requests))
    spec = PodSpec(
        restart_policy="Never", containers=[container], termination_grace_period_seconds=0, scheduler_name="volcano"
    )
    return spec if number % 3 else _apart(spec, number)


def _apart(spec: PodSpec, number: int) -> PodSpec:
    """With a preference that nothing else has: pods of the same run on different nodes."""
    term = {"labelSelector": {"matchLabels": {"run": f"r{number}"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 10, "podAffinityTerm": term}
    ]}}  # fmt: skip
    return msgspec.convert({**msgspec.to_builtins(spec), "affinity": affinity}, PodSpec)


@dataclass(slots=True)
class Counts:
    """What has happened so far."""

    jobs: int = 0
    pods: int = 0
    fates: Counter[str] = field(default_factory=Counter)


class Load:
    """Creates jobs at a steady rate, never more than ``window`` pods at once, and removes what they leave.

    Args:
        client: of the API.
        clock: times.
        pods: to go through the cluster in all.
        size: pods of a job.
        per_second: pods that begin in a second; the window may make it fewer.
        window: pods that exist at once.
        seconds_scale: factor for the time that pods run.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        pods: int,
        size: int,
        per_second: float,
        window: int,
        seconds_scale: float,
    ) -> None:
        self._client, self._clock = client, clock
        self._total, self._size, self._scale = -(-pods // size), size, seconds_scale
        self._pause, self._window = size / per_second, max(1, window // size)
        self._open: set[int] = set()
        self._left: Counter[int] = Counter()
        self._room = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.counts = Counts()
        self.errors: Counter[str] = Counter()
        self._informers: list[Informer[Any]] = [
            Informer(client, JOBS, clock=clock),
            Informer(client, BATCH_JOBS, clock=clock),
        ]

    async def run(self) -> None:
        """Until all pods have gone through."""
        for informer in self._informers:
            informer.on_change(self._changed)
        watching = [asyncio.create_task(informer.run()) for informer in self._informers]
        try:
            for informer in self._informers:
                await informer.synced.wait()
            due = self._clock.monotonic()
            for number in range(self._total):
                while len(self._open) >= self._window:
                    self._room.clear()
                    await self._room.wait()
                await self._begin(number)
                due += self._pause
                await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            while self._open:
                self._room.clear()
                await self._room.wait()
        finally:
            for task in (*watching, *self._tasks):
                task.cancel()
            await asyncio.gather(*watching, *self._tasks, return_exceptions=True)

    async def _begin(self, number: int) -> None:
        name = namespace_of(number)
        if number % GENERATION == 0:
            await self._client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=name)))
            await self._client.create(QUEUES, Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=1)))
        made = job(number, self._size, self._scale)
        self._open.add(number)
        self._left[number // GENERATION] += 1
        kind: Any = BATCH_JOBS if is_batch(number) else JOBS
        await self._client.create(kind, made)
        if (end := fate(number)) in ("never fits", "deleted while it runs"):
            self._start(self._delete(kind, number, _PATIENCE_SECONDS if end == "never fits" else 4 * self._scale))

    def _changed(self, event: EventType, found: Any, _: Any) -> None:
        if event != "DELETED" or not found.metadata.name.startswith("job-"):
            return
        number = int(found.metadata.name.removeprefix("job-"))
        self._open.discard(number)
        self.counts.jobs += 1
        self.counts.pods += self._size
        self.counts.fates[fate(number)] += 1
        generation = number // GENERATION
        self._left[generation] -= 1
        if (not self._left[generation] and (number + 1) % GENERATION == 0) or self._closed(generation):
            del self._left[generation]
            self._start(self._remove(f"churn-{generation}"))
        self._room.set()

    def _closed(self, generation: int) -> bool:
        """All jobs of it were made and have ended."""
        later = any(other > generation for other in self._left)
        return not self._left[generation] and later

    async def _delete(self, kind: Any, number: int, after: float) -> None:
        await self._clock.sleep(after)
        with suppress(NotFound):
            await self._client.delete(kind, f"job-{number}", namespace_of(number))

    async def _remove(self, name: str) -> None:
        await self._clock.sleep(_TTL_SECONDS)
        for kind in (NAMESPACES, QUEUES):
            try:
                await self._client.delete(kind, name)
            except ApiError as error:
                self.errors[f"{kind.plural}: {error.message}"] += 1

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
