"""The job controller: feeds ``decide`` from the caches and has its plans carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Histogram

from unisono.api.base import Object
from unisono.api.commands import target_of
from unisono.api.core import Pod
from unisono.api.groups.batch import Command, Job
from unisono.api.kind import Kind
from unisono.api.kinds import COMMANDS, JOBS, PERSISTENT_VOLUME_CLAIMS, POD_GROUPS, PODS
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.api.times import parse_time
from unisono.controllers import owners
from unisono.controllers.execution import Executor, GangController, Offload, Wording, all_when_classes_come, expectation
from unisono.controllers.job import view as phases
from unisono.controllers.job.decide import beginning, decide
from unisono.controllers.job.observed import Observed
from unisono.controllers.job.plugins import PluginError, load
from unisono.controllers.job.pods import PodBuilder, job_volumes
from unisono.controllers.job.status import CountPacing, GivingWay, starts
from unisono.controllers.job.sync import PodSlot, VolcanoPlan
from unisono.controllers.job.view import JobView
from unisono.controllers.metrics import PhaseCounts
from unisono.controllers.objects import delete_owned, delete_seen, for_each, to_json
from unisono.controllers.owners import index
from unisono.controllers.recorder import Recorder
from unisono.errors import NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context

# What becomes of Jobs, and how long their pods take to be made, under the names that Volcano's dashboards know.

# Volcano's bounds in milliseconds: 30 from 50 ms to a minute, each larger by the same factor.
_LOWEST, _HIGHEST, _COUNT = 50.0, 60_000.0, 30
_BOUNDS = [_LOWEST * (_HIGHEST / _LOWEST) ** (step / (_COUNT - 1)) for step in range(_COUNT)]


class JobMetrics:
    """Metrics of the job controller, in the registry given or in none."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._pod_creation = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "Age of the job when one of its pods was created.",
            buckets=_BOUNDS,
            registry=registry,
        )
        names = {
            "Completed": ("job_completed_phase_count", "How often a Job has completed."),
            "Failed": ("job_failed_phase_count", "How often a Job has failed."),
        }
        self._phases = PhaseCounts(names, ("job_name", "queue_name"), registry)

    def moved(self, old: Job | None, new: Job) -> None:
        """A job's status changed; when one that is new to this process ended is not known."""
        if old is not None:
            self._phases.moved(old.status.state.phase, new.status.state.phase, *_labels(new))

    def gone(self, job: Job) -> None:
        """A job was deleted."""
        self._phases.forget(*_labels(job))

    def created(self, job: Object, pod: Object) -> None:
        """A pod of the job was created; by the server's clock, which counts whole seconds."""
        asked, made = job.metadata.creation_timestamp, pod.metadata.creation_timestamp
        if asked and made:
            self._pod_creation.observe(max(0.0, parse_time(made) - parse_time(asked)) * 1000)


def _labels(job: Job) -> tuple[str, str]:
    return job.key, job.spec.queue or DEFAULT_QUEUE


# Carrying out the plans of Volcano Jobs: marks on pods, commands, what plug-ins made, and pods built one by one.


class JobExecutor(Executor[Job, VolcanoPlan]):
    """Carries out plans of Volcano Jobs, with Volcano's events."""

    wording = Wording(
        ensure="Execute plugin when job add failed, err: ",
        permanent="Failed to create PVC, err: ",
        group=("PodGroupError", "Failed to create PodGroup, err: "),
        create=("FailedCreate", "Error creating pods: "),
        delete=("FailedDelete", "Error deleting pods: "),
        successes=False,
    )

    def __init__(self, *args: Any, metrics: JobMetrics, **options: Any) -> None:
        super().__init__(*args, **options)
        self._metrics = metrics

    def made(self, job: Job, kind: Kind[Any], obj: Object) -> None:
        """Note how old the job is."""
        self._metrics.created(job, obj)

    async def prepare(self, job: Job, plan: VolcanoPlan) -> Job:
        """Mark pods, name claims in the spec, and remove what plug-ins made while the status still knows of it."""
        view = JobView(job)
        await self._mark(view, plan)
        if plan.remove_resources:
            await self._remove_resources(view)
        if not plan.volumes:
            return job
        meta = job.metadata
        # A list is written as a whole: only over the one that was read.
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "spec": {"volumes": [to_json(volume) for volume in plan.volumes]},
        }
        return await self._client.patch(JOBS, meta.name, patch, namespace=meta.namespace)

    async def before_objects(self, job: Job, plan: VolcanoPlan) -> None:
        """Drop commands once the status holds what they led to."""
        for command in plan.commands:
            await delete_seen(self._client, COMMANDS, command)

    async def make_pods(self, job: Job, plan: VolcanoPlan) -> None:
        """Build and create the pods."""
        if not plan.create_pods:
            return
        view = JobView(job, plan.got)
        builder = PodBuilder(view, load(view))

        def build(slot: PodSlot) -> Pod | None:
            task = view.task(slot.task)
            return None if task is None else builder.build(task, slot.index)

        await self.create_all(job, PODS, plan.create_pods, build)

    async def _mark(self, view: JobView, plan: VolcanoPlan) -> None:
        async def mark(name: str) -> None:
            patch = {"metadata": {"annotations": plan.marks[name]}}
            try:
                await self._client.patch(PODS, name, patch, namespace=view.namespace)
            except NotFound:
                return

        errors = await for_each(mark, list(plan.marks))
        if errors:
            raise errors[0]

    async def _remove_resources(self, view: JobView) -> None:
        self._applied.pop(view.uid, None)
        try:
            # What they made has the same name whatever the number of pods, and the lists of hosts are not needed.
            plugins = load(JobView(_without_pods(view.job)))
        except PluginError:
            return
        for plugin in plugins:
            for resource in plugin.resources():
                if not resource.permanent:
                    await delete_owned(self._client, resource.kind, resource.obj)


def _without_pods(job: Job) -> Job:
    tasks = [msgspec.structs.replace(task, replicas=0) for task in job.spec.tasks or ()]
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks))


POD_INDEX = "controlling-job"
COMMAND_INDEX = "target-job"
# Counts of pods in the status may be so many seconds old.
COUNT_SECONDS = 2.0
# Pods of a gang start within so many seconds of each other, when all goes well.
_SETTLE_SECONDS = 0.5


class JobController(GangController[Job, VolcanoPlan]):
    """Runs ``batch.volcano.sh`` Jobs."""

    name = "job-controller"

    def __init__(
        self,
        recorder: Recorder,
        offload: Offload = asyncio.to_thread,
        *,
        count_seconds: float = COUNT_SECONDS,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Make the controller.

        Args:
            recorder: records events.
            offload: runs what computes for long, such as the making of keys, away from the event loop.
            count_seconds: longest time for which counts of pods in the status may be out of date.
            registry: gets the metrics.
        """
        super().__init__(recorder, offload)
        self._metrics = JobMetrics(registry)
        self._pacing = CountPacing(count_seconds, _SETTLE_SECONDS)

    def setup(self, context: Context) -> None:
        """Watch jobs and everything that belongs to one."""
        self._jobs = context.watch(JOBS)
        self._jobs.on_change(self._job_changed)
        self._pods = context.watch(PODS, owners.job_keys, when=matters)
        self._pods.on_change(self._pod_changed)
        index(self._pods, POD_INDEX, owners.job_families)
        self._groups = context.watch(POD_GROUPS, owners.job_keys)
        self._commands = context.watch(COMMANDS, command_targets)
        index(self._commands, COMMAND_INDEX, command_targets)
        self._priorities = all_when_classes_come(context, self._jobs)
        self._executor = JobExecutor(
            self._client, self._clock, JOBS, self._expectations, self._notify, self._offload, metrics=self._metrics
        )
        self._giving_way = GivingWay(self._client.pace, context.queue.add)

    async def reconcile(self, key: str) -> float | None:
        """Decide about one job and carry the plan out."""
        job = self._written.newest(key, self._jobs.get(key))
        if job is None:
            await self._drop_commands(key)
            return None
        # What goes without saying of a new job is not waited for: its pod group comes before its first status.
        begun = beginning(job, self._clock.time())
        plan = decide(await self._observe(key, begun), self._clock.time())
        if begun is not job:
            plan.status = plan.status or begun.status
            self._pacing.met(job.metadata.uid or "", self._clock.monotonic())
        self._pace(key, begun, plan)
        if begun is not job and plan.status is not None and starts(begun.status, plan.status):
            plan.status = begun.status  # programs wait for Pending, and then for Running: both are there to be seen
        return await self._carry_out(key, job, plan)

    def wrote(self, job: Job) -> None:
        """Note when counts of pods were written."""
        self._pacing.written(job.metadata.uid or "", self._clock.monotonic())

    def _pace(self, key: str, job: Job, plan: VolcanoPlan) -> None:
        """Take a status out of the plan that can wait; everything else of the plan goes on."""
        uid = job.metadata.uid or ""
        if plan.status is None:
            self._pacing.settled(uid)
            self._giving_way.over(key)
            return
        now = self._clock.monotonic()
        wait = self._pacing.wait(uid, job.status, plan.status, now, self._client.pace.stretch)
        wait = max(wait, self._giving_way.wait(key, job.status, plan.status, now))
        if wait > 0:
            plan.status = None
            plan.requeue_after = wait if plan.requeue_after is None else min(wait, plan.requeue_after)
        else:
            self._giving_way.over(key)

    async def _observe(self, key: str, job: Job) -> Observed:
        view = JobView(job)
        commands = self._commands.by_index(COMMAND_INDEX, key)
        return Observed(
            job=job,
            pods=self._pods.by_index(POD_INDEX, owners.family(job)),
            pod_group=self._groups.get(f"{view.namespace}/{view.pod_group_name}"),
            commands=sorted(commands, key=lambda c: (c.metadata.creation_timestamp or "", c.metadata.name)),
            expected=frozenset(key.partition("/")[2] for key in self._expected(job)),
            missing_claims=await self._missing_claims(view),
            priority=self._priority,
        )

    async def _missing_claims(self, view: JobView) -> list[str]:
        """Claims that a job that has not started yet waits for."""
        if view.phase not in ("", phases.PENDING):
            return []
        missing = []
        for volume in job_volumes(view):
            if volume.spec is None:
                try:
                    await self._client.get(PERSISTENT_VOLUME_CLAIMS, volume.claim, view.namespace)
                except NotFound:
                    missing.append(volume.claim)
        return missing

    async def _drop_commands(self, key: str) -> None:
        for command in self._commands.by_index(COMMAND_INDEX, key):
            try:
                await self._client.delete(
                    COMMANDS, command.metadata.name, command.metadata.namespace, uid=command.metadata.uid
                )
            except NotFound:
                continue

    def _pod_changed(self, event_type: EventType, new: Pod, _old: Pod | None) -> None:
        for uid in owners.job_uids(new):
            self._expectations.settle(uid, expectation(PODS, new))

    def _job_changed(self, event_type: EventType, new: Job, old: Job | None) -> None:
        if event_type != "DELETED":
            self._metrics.moved(old, new)
        else:
            self._metrics.gone(new)
            self._pacing.forget(new.metadata.uid or "")
            self._giving_way.over(new.key)
            self._forget(new)


def matters(event_type: EventType, new: Pod, old: Pod | None) -> bool:
    """Whether a change of a pod can change what is decided about its job; that it got its node cannot."""
    return event_type != "MODIFIED" or old is None or _facts(new) != _facts(old)


def _facts(pod: Pod) -> tuple[object, ...]:
    """Everything of a pod but its version, its spec and its conditions, which no decision looks at."""
    meta = msgspec.structs.replace(pod.metadata, resource_version=None, generation=None, managed_fields=None)
    return meta, msgspec.structs.replace(pod.status, conditions=None)


def command_targets(command: Command) -> Iterable[str]:
    """Index function: key of the job that a command is for."""
    target = target_of(command)
    return [target[1]] if target is not None and target[0] is JOBS else []
