"""Volcano's kinds: Jobs, what makes Jobs, and PodGroups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from unisono.api import kind_families
from unisono.api.annotations import MOST_REPLICAS
from unisono.api.defaulting.kubeflow import apply_scale, default_job, fewest_replicas
from unisono.api.groups.batch import HyperJob, Job, JobSpec, TaskSpec
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import JOB_NAME, TASK_SPEC
from unisono.api.kinds import JOBS, POD_GROUPS
from unisono.jobkinds.kind import ElasticPart, JobKind, Json, NoSuchField, PodSet, all_at_once, by_field, given
from unisono.jobkinds.paths import first

_DECODER = msgspec.json.Decoder(Job)
_MOST_DIGITS = 9
_TASKS = "tasks[*].template"
_FLOW = "spec.flows[*].patch.jobSpec"
_PART = "spec.replicatedJobs[*].templateSpec"


def task_sets(spec: JobSpec) -> Iterator[PodSet]:
    """The tasks of a Job's spec."""
    for task in spec.tasks or ():
        yield PodSet(task.name or "", given(task.replicas), task.template.spec, task.min_available)


def _hyper_size(obj: HyperJob) -> int:
    """A part without pods counts as one, for it is looked at like the others."""
    parts = (
        (part, sum(each.count for each in task_sets(part.template_spec))) for part in obj.spec.replicated_jobs or ()
    )
    return sum(given(part.replicas) * max(1, pods) for part, pods in parts)


def _group_size(obj: PodGroup) -> int:
    """A PodGroup makes no pods, but asks for the room of all that it needs."""
    spec = obj.spec
    by_task = sum(max(0, each) for each in (spec.min_task_member or {}).values())
    by_part = sum((part.sub_group_size or 1) * (part.min_sub_groups or 0) for part in spec.sub_group_policy or ())
    return max(spec.min_member or 0, by_task, by_part)


def with_defaults(job: Job) -> JobSpec:
    """The spec with the defaults of ``api``; the job's own when nothing is missing, else a copy.

    An API server that knows of the kind only its schema fills in none.
    """
    if _is_complete(job.spec):
        return job.spec
    copy = _DECODER.decode(msgspec.json.encode(Job(spec=job.spec)))
    default_job(copy)
    apply_scale(copy.spec)
    return copy.spec


def _is_complete(spec: JobSpec) -> bool:
    """Whether defaulting would change nothing; False for what would need a closer look."""
    if not (spec.queue and spec.scheduler_name and spec.max_retry):
        return False
    if not spec.min_available and spec.tasks:
        return False
    if spec.plugins or spec.network_topology is not None:
        return False
    if spec.replicas is not None and spec.tasks and spec.replicas != spec.tasks[-1].replicas:
        return False
    return all(_is_complete_task(task) for task in spec.tasks or ())


def _is_complete_task(task: TaskSpec) -> bool:
    pod = task.template.spec
    return bool(
        task.name
        and task.max_retry
        and task.min_available is not None
        and (pod.dns_policy or not pod.host_network)
        and (task.partition_policy is None or task.partition_policy.network_topology is None)
    )


def _job_elastic(job: Job) -> Iterator[ElasticPart]:
    """The last task, where its gang needs fewer pods than it has, or it may have more."""
    spec = with_defaults(job)
    if not spec.tasks or spec.tasks[-1].partition_policy is not None:
        return
    task = spec.tasks[-1]
    replicas, least = task.replicas or 0, max(1, fewest_replicas(spec))
    text = (job.metadata.annotations or {}).get(MOST_REPLICAS) or ""
    most = int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else replicas
    yield ElasticPart("", (TASK_SPEC, task.name), replicas, least, most, task.template.spec)


def _job_grown(job: Job, wanted: Mapping[str, int]) -> Json:
    """``scale``'s own field, and the most replicas so far, so that a job that gave way comes back."""
    part = next(_job_elastic(job))
    return {"spec": {"replicas": wanted[""]}, "metadata": {"annotations": {MOST_REPLICAS: str(part.most)}}}


def scale_patch(job: Job, task: str, replicas: int) -> list[Json]:
    """A JSON patch after which ``task`` has ``replicas`` pods.

    Where the task, or the job, starts with all of its pods or not at all, that stays so. The patch holds for this
    version of the job only: a server refuses it (`Conflict`) when the job was changed meanwhile.

    Raises:
        NoSuchField: the job has no such task, or the number is negative.
    """
    tasks = job.spec.tasks or []
    names = [each.name for each in tasks]
    if task not in names:
        raise NoSuchField(f"the job {job.metadata.name} has no task {task!r}: its tasks are {', '.join(names)}.")
    index = names.index(task)
    old = tasks[index].replicas or 0
    least = tasks[index].min_available
    at = f"/spec/tasks/{index}"
    patch: list[Json] = [
        {"op": "add", "path": "/metadata/resourceVersion", "value": job.metadata.resource_version},
        {"op": "add", "path": f"{at}/replicas", "value": replicas},
    ]
    if least is not None:
        needed = replicas if least == old else min(least, replicas)
        patch.append({"op": "add", "path": f"{at}/minAvailable", "value": needed})
    total = sum(each.replicas or 0 for each in tasks)
    gang = job.spec.min_available
    if gang is not None:
        changed = total - old + replicas
        needed = changed if gang == total else min(gang, changed)
        patch.append({"op": "add", "path": "/spec/minAvailable", "value": needed})
    return patch


def _fewer_in_job(manifest: Json, to: int) -> None:
    spec = manifest["spec"]
    spec["minAvailable"] = to
    for task in spec.get("tasks") or ():
        if task.get("minAvailable") is not None:
            task["minAvailable"] = min(task["minAvailable"], to)


def _fewer_in_group(manifest: Json, to: int) -> None:
    spec = manifest["spec"]
    spec["minMember"] = to
    if roles := {name: min(number, to) for name, number in (spec.get("minTaskMember") or {}).items()}:
        spec["minTaskMember"] = roles
    else:
        spec.pop("minTaskMember", None)


def _fewer_in_workload_group(manifest: Json, to: int) -> None:
    manifest["spec"]["schedulingPolicy"] = {"gang": {"minCount": to}}


def _job_state(job: Any, _: bool) -> tuple[str, str]:
    if isinstance(job, Job):  # asked for several times whenever one of very many jobs changes
        state = job.status.state
        return state.phase or "Pending", state.message or state.reason or ""
    at = "status.state"
    phase, explanation = first(job, f"{at}.phase"), first(job, f"{at}.message") or first(job, f"{at}.reason")
    return phase or "Pending", explanation or ""


_flow_state = by_field(
    "status.state.phase",
    {"Completed": ("Succeed",), "Failed": ("Failed",), "Running": ("Running",), "Terminating": ("Terminating",)},
)


def _bounds(spec: str) -> dict[str, Any]:
    """Where the spec of a Job, which stands at a path, names its priority class and how close its pods must be."""
    task = f"{spec}.tasks[*]"
    return {
        "priorities": (f"{spec}.priorityClassName",),
        "topologies": (f"{spec}.networkTopology", f"{task}.networkTopology", f"{task}.partitionPolicy.networkTopology"),
    }


def _of_spec(obj: Any) -> Iterator[PodSet]:
    return task_sets(obj.spec)


VOLCANO: tuple[JobKind, ...] = (
    JobKind(
        JOBS,
        templates=(f"spec.{_TASKS}",),
        queues=("spec.queue",),
        **_bounds("spec"),
        pods=_of_spec,
        fewer=_fewer_in_job,
        replicas="spec.tasks[*].replicas",
        resized=scale_patch,
        elastic=_job_elastic,
        grown=_job_grown,
        control="commands",
        tells=_job_state,
        ends=True,
        pods_label=JOB_NAME,
        fixed_names=True,
        group_name="{name}-{uid}",
        fleet="whole",
    ),
    JobKind(
        kind_families.JOB_TEMPLATES,
        templates=(f"spec.{_TASKS}",),
        queues=("spec.queue",),
        **_bounds("spec"),
        pods=_of_spec,
        fewer=_fewer_in_job,
        runs=False,
    ),
    JobKind(
        kind_families.JOB_FLOWS,
        templates=(f"{_FLOW}.{_TASKS}",),
        queues=(f"{_FLOW}.queue",),
        **_bounds(_FLOW),
        fewer=all_at_once,
        control="parts",
        tells=_flow_state,
        ends=True,
        makes=(JOBS,),
        own_pods=False,
        refers=True,
    ),
    JobKind(
        kind_families.CRON_JOBS,
        templates=(f"spec.jobTemplate.spec.{_TASKS}",),
        inner=("spec.jobTemplate",),
        queues=("spec.jobTemplate.spec.queue",),
        **_bounds("spec.jobTemplate.spec"),
        pods=lambda obj: task_sets(obj.spec.job_template.spec),
        fewer=lambda manifest, to: _fewer_in_job(manifest["spec"]["jobTemplate"], to),
        makes=(JOBS,),
        own_pods=False,
    ),
    JobKind(
        kind_families.HYPER_JOBS,
        templates=(f"{_PART}.{_TASKS}",),
        queues=(f"{_PART}.queue",),
        **_bounds(_PART),
        size=_hyper_size,
        fewer=all_at_once,
        control="parts",
        ends=True,
        makes=(JOBS,),
        parts="spec.replicatedJobs[*]",
        own_pods=False,
        fleet="parts",
    ),
    JobKind(
        POD_GROUPS,
        queues=("spec.queue",),
        priorities=("spec.priorityClassName",),
        topologies=("spec.networkTopology", "spec.subGroupPolicy[*].networkTopology"),
        minimum="spec.minResources",
        role_minimums="spec.minTaskMember",
        size=_group_size,
        fewer=_fewer_in_group,
        runs=False,
    ),
    # Kubernetes' own groups, for which there is one of ours each.
    JobKind(kind_families.WORKLOAD_POD_GROUPS, fewer=_fewer_in_workload_group, runs=False),
    JobKind(kind_families.COMPOSITE_POD_GROUPS, fewer=all_at_once, runs=False),
)
