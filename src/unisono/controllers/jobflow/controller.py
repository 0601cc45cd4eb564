"""The job flow controller: feeds ``decide`` from the caches, asks pods where probes want it, carries plans out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from prometheus_client import CollectorRegistry

from unisono.api.core import Pod
from unisono.api.groups.batch import Job
from unisono.api.groups.flow import JobFlow, JobTemplate, JobTemplateStatus
from unisono.api.kind_families import JOB_FLOWS, JOB_TEMPLATES
from unisono.api.kinds import JOBS, PODS
from unisono.controllers import owners
from unisono.controllers.job.controller import POD_INDEX
from unisono.controllers.job_making import Departed
from unisono.controllers.jobflow.decide import (
    FlowPlan,
    ObservedFlow,
    decide,
    ended_states,
    flows_of,
    template_keys,
    wanted_probes,
)
from unisono.controllers.metrics import PhaseCounts, Probe, Prober
from unisono.controllers.objects import BeingDeleted, ForeignObject, LastWritten, create_once, delete_seen, write_status
from unisono.controllers.owners import index
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import ApiError, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

# The job template controller: each template's status lists the jobs that were made from it.

JOB_INDEX = "made-from-template"


class JobTemplateController(Controller):
    """Keeps ``status.jobDependsOnList`` of ``flow.volcano.sh`` JobTemplates."""

    name = "jobtemplate-controller"
    workers = 1

    def __init__(self) -> None:
        self._written: LastWritten[JobTemplate] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch templates and the jobs made from them."""
        self._templates = context.watch(JOB_TEMPLATES, optional=True)
        self._jobs = context.watch(JOBS, template_keys)
        index(self._jobs, JOB_INDEX, template_keys)

    async def reconcile(self, key: str) -> float | None:
        """Write the names of the jobs, if they have changed."""
        template = self._written.newest(key, self._templates.get(key))
        if template is None:
            return None
        names = sorted(job.metadata.name for job in self._jobs.by_index(JOB_INDEX, key))
        try:
            status = JobTemplateStatus(job_depends_on_list=names or None)
            self._written.keep(await write_status(self._client, JOB_TEMPLATES, template, status))
        except NotFound:
            return None
        return None


OWNER_INDEX = "controller-uid"
TEMPLATE_INDEX = "uses-template"
# Seconds until a name that is about to become free is tried again.
_DELETION_RETRY = 1.0
# Seconds until a name that another object has is tried again.
_FOREIGN_RETRY = 60.0
# Pods that are asked at once for one flow.
_PARALLEL = 16

_COUNTED = {
    "Succeed": ("jobflow_succeed_phase_count", "How many job flows of a namespace have succeeded."),
    "Failed": ("jobflow_failed_phase_count", "How many job flows of a namespace have failed."),
}


class JobFlowController(Controller):
    """Runs ``flow.volcano.sh`` JobFlows."""

    name = "jobflow-controller"

    def __init__(self, recorder: Recorder, prober: Prober, registry: CollectorRegistry | None = None) -> None:
        self._announcer, self._prober = Announcer(recorder), prober
        self._phases = PhaseCounts(_COUNTED, ("jobflow_namespace",), registry)
        self._written: LastWritten[JobFlow] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch flows, their templates and the jobs that they made."""
        self._flows = context.watch(JOB_FLOWS, optional=True)
        self._flows.on_change(self._changed)
        index(self._flows, TEMPLATE_INDEX, _templates_of)
        self._templates = context.watch(JOB_TEMPLATES, self._users_of, optional=True)
        self._jobs = context.watch(JOBS, lambda job: owners.keys_of(JOB_FLOWS, job))
        index(self._jobs, OWNER_INDEX, owners.controller_keys)
        self._departed = Departed(JOB_FLOWS, self._flows.get)
        self._jobs.on_change(self._departed.seen)
        self._pods = context.informer(PODS)
        index(self._pods, POD_INDEX, owners.job_families)

    async def reconcile(self, key: str) -> float | None:
        """Decide about one flow and carry the plan out."""
        flow = self._written.newest(key, self._flows.get(key))
        if flow is None:
            return None
        departed = self._departed.of(flow, ended_states(flow.status))
        seen = self._observe(flow, departed)
        seen = replace(seen, answered=await self._ask(wanted_probes(seen)))
        plan = decide(seen, self._clock.time())
        try:
            self._written.keep(await write_status(self._client, JOB_FLOWS, flow, plan.status))
        except NotFound:
            return None
        self._departed.written(flow, departed)
        self._announcer.tell(flow, plan.notices)
        await self._create(flow, plan)
        for job in plan.delete:
            await delete_seen(self._client, JOBS, job)
        return plan.requeue_after

    def _observe(self, flow: JobFlow, departed: dict[str, Job]) -> ObservedFlow:
        namespace = flow.metadata.namespace
        jobs = self._jobs.by_index(OWNER_INDEX, owners.family(flow))
        templates_by_name = {
            each.name: self._templates.get(f"{namespace}/{each.name}") for each in flow.spec.flows or ()
        }
        return ObservedFlow(
            flow=flow,
            jobs=departed | {job.metadata.name: job for job in jobs},
            templates={name: template for name, template in templates_by_name.items() if template is not None},
            pods_of=self._pods_of,
        )

    def _pods_of(self, job: Job) -> Iterable[Pod]:
        return self._pods.by_index(POD_INDEX, owners.family(job))

    async def _ask(self, probes: list[Probe]) -> frozenset[Probe]:
        gate = asyncio.Semaphore(_PARALLEL)

        async def ask(probe: Probe) -> bool:
            async with gate:
                return await self._prober.holds(probe)

        answers = await asyncio.gather(*(ask(probe) for probe in probes))
        return frozenset(probe for probe, holds in zip(probes, answers, strict=True) if holds)

    async def _create(self, flow: JobFlow, plan: FlowPlan) -> None:
        """Make the jobs; one that is refused does not keep the others from being made."""
        failures: list[ApiError] = []
        for job in plan.create:
            name = job.metadata.name
            try:
                if await create_once(self._client, JOBS, job) is not None:
                    self._announcer.tell(flow, [Notice("Normal", "Created", f"create a job named {name}!")])
            except BeingDeleted:
                plan.requeue_after = _DELETION_RETRY
            except ForeignObject as error:
                self._announcer.tell(flow, [Notice("Warning", "ForeignJob", str(error), once=f"foreign/{name}")])
                plan.requeue_after = plan.requeue_after or _FOREIGN_RETRY
            except ApiError as error:
                message = f"Error creating job {name}: {error}"
                self._announcer.tell(flow, [Notice("Warning", "FailedCreate", message, once=message)])
                failures.append(error)
        if failures:
            raise failures[0]

    def _users_of(self, template: JobTemplate) -> Iterable[str]:
        """Keys of the flows that use a template."""
        return [flow.key for flow in self._flows.by_index(TEMPLATE_INDEX, template.key)]

    def _changed(self, event_type: EventType, new: JobFlow, old: JobFlow | None) -> None:
        if old is not None:
            self._phases.moved(old.status.state.phase, new.status.state.phase, new.metadata.namespace or "default")
        if event_type == "DELETED":
            self._announcer.forget(new)
            self._departed.forget(new)


def _templates_of(flow: JobFlow) -> Iterable[str]:
    """Index function: keys of the templates that a flow uses."""
    return [f"{flow.metadata.namespace}/{each.name}" for each in flows_of(flow)]
