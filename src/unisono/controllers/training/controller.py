"""What the controllers of all training frameworks have in common: caches in, plans out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from unisono.api.base import Object
from unisono.api.core import Pod, Service
from unisono.api.groups.autoscaling import HorizontalPodAutoscaler
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kind import Kind
from unisono.api.kinds import POD_GROUPS, PODS, SERVICES
from unisono.controllers import owners
from unisono.controllers.execution import Executor, GangController, Wording, all_when_classes_come, expectation
from unisono.controllers.owners import index
from unisono.controllers.training.plan import TrainingPlan
from unisono.kube.client import EventType
from unisono.kube.controller import Context

# Carrying out the plans of training jobs: annotations of the job, Services of pods, and the job's own end.

T = TypeVar("T", bound=Object)


class TrainingExecutor(Executor[T, TrainingPlan]):
    """Carries out plans for training jobs of one kind, with the events of training operators."""

    wording = Wording(
        ensure="Error creating: ",
        permanent="Error creating: ",
        group=("FailedCreatePodGroup", "Error creating: "),
        create=("FailedCreate{kind}", "Error creating: "),
        delete=("FailedDeletePod", "Error deleting: "),
        successes=True,
    )

    async def prepare(self, job: T, plan: TrainingPlan) -> T:
        """Write the job's annotations."""
        if not plan.annotations:
            return job
        meta = job.metadata
        patch: dict[str, Any] = {"metadata": {"uid": meta.uid, "annotations": plan.annotations}}
        return await self._client.patch(self._kind, meta.name, patch, namespace=meta.namespace)

    async def before_pods(self, job: T, plan: TrainingPlan) -> None:
        """Bring Services to the wanted ones: pods find each other by them from their first moment."""
        for service in plan.delete_services:
            await self.delete_one(job, SERVICES, service)
        await self.create_all(job, SERVICES, plan.create_services, lambda service: service)

    async def make_pods(self, job: T, plan: TrainingPlan) -> None:
        """Create the pods."""
        await self.create_all(job, PODS, plan.create_pods, lambda build: build())

    async def finish(self, job: T, plan: TrainingPlan) -> None:
        """Delete the job when its time is over."""
        if plan.delete_job:
            meta = job.metadata
            await self._client.delete(self._kind, meta.name, meta.namespace, uid=meta.uid, propagation="Background")


Priorities = Callable[[str | None], int]

OWNER_INDEX = "controller-uid"


@dataclass(slots=True)
class Seen(Generic[T]):
    """A job and what belongs to it, as the caches show them.

    Attributes:
        job: the job.
        pods: pods that it controls, by name.
        services: Services that it controls, where the kind makes one per pod.
        group: the pod group of the name that its own one would have.
        autoscaler: the HorizontalPodAutoscaler of the job's name, for kinds that may have one.
        expected: ``pods/<name>`` and ``services/<name>`` that were created and that the cache does not show yet.
        priority: value of a priority class; 0 when it is unknown.
    """

    job: T
    pods: list[Pod] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    group: PodGroup | None = None
    autoscaler: HorizontalPodAutoscaler | None = None
    expected: frozenset[str] = frozenset()
    priority: Priorities = lambda _name: 0


class TrainingController(GangController[T, TrainingPlan]):
    """Base of the controllers; a subclass names its kind and writes ``decide``."""

    kind: Kind[T]
    workers = 2
    # Whether pods have Services of their own.
    with_services = False

    def decide(self, seen: Seen[T], now: float) -> TrainingPlan:
        """The next step for the job; ``now`` in seconds since 1970. Must be pure."""
        raise TypeError(f"{type(self).__name__} must define decide")

    def group_name(self, job: T) -> str:
        """Name of the job's pod group."""
        return job.metadata.name

    def setup(self, context: Context) -> None:
        """Watch the kind, where it is served, and everything that belongs to its objects."""
        self._jobs = context.watch(self.kind, optional=True)
        self._jobs.on_change(self._job_changed)
        self._pods = context.watch(PODS, self._owner_keys)
        self._pods.on_change(self._seen(PODS))
        index(self._pods, OWNER_INDEX, owners.controller_keys)
        if self.with_services:
            self._services = context.watch(SERVICES, self._owner_keys)
            self._services.on_change(self._seen(SERVICES))
            index(self._services, OWNER_INDEX, owners.controller_keys)
        self._groups = context.watch(POD_GROUPS, self._owner_keys)
        self._priorities = all_when_classes_come(context, self._jobs)
        self._executor = TrainingExecutor(
            self._client, self._clock, self.kind, self._expectations, self._notify, self._offload
        )

    async def reconcile(self, key: str) -> float | None:
        """Decide about one job and carry the plan out."""
        job = self._written.newest(key, self._jobs.get(key))
        if job is None or job.metadata.deletion_timestamp:
            return None
        return await self._carry_out(key, job, self.decide(self._observe(job), self._clock.time()))

    def _observe(self, job: T) -> Seen[T]:
        meta = job.metadata
        return Seen(
            job=job,
            pods=self._pods.by_index(OWNER_INDEX, owners.family(job)),
            services=self._services.by_index(OWNER_INDEX, owners.family(job)) if self.with_services else [],
            group=self._groups.get(f"{meta.namespace}/{self.group_name(job)}"),
            expected=self._expected(job),
            priority=self._priority,
        )

    def _owner_keys(self, obj: Object) -> Iterable[str]:
        return owners.keys_of(self.kind, obj)

    def _seen(self, kind: Kind[Any]) -> Callable[[EventType, Object, Object | None], None]:
        def settle(event_type: EventType, new: Object, _old: Object | None) -> None:
            for uid in owners.controller_uids(new):
                self._expectations.settle(uid, expectation(kind, new))

        return settle

    def _job_changed(self, event_type: EventType, new: T, _old: T | None) -> None:
        if event_type == "DELETED":
            self._forget(new)
