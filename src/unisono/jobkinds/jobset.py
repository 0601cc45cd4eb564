"""JobSets, and what becomes one: TrainJobs with their runtimes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unisono.api.groups.job_set import JobSet, JobSetSpec, ReplicatedJob
from unisono.api.groups.trainer import TrainJob
from unisono.api.keys import JOBSET_CONTROLLER, JOBSET_NAME, JOBSET_REPLICATED_JOB_NAME, TRAINJOB_CONTROLLER
from unisono.api.kind_families import BATCH_JOBS, CLUSTER_TRAINING_RUNTIMES, JOB_SETS, TRAIN_JOBS, TRAINING_RUNTIMES
from unisono.jobkinds.kind import NOTE, JobKind, PodSet, all_at_once, given, noted
from unisono.jobkinds.workloads import at_once

_JOB = "spec.replicatedJobs[*].template"


def set_pods(spec: JobSetSpec) -> int:
    """Pods of a JobSet; a Job without pods counts as one, for it is looked at like the others."""
    return sum(given(each.replicas) * max(1, at_once(each.template.spec)) for each in spec.replicated_jobs or ())


def pods_of(job: ReplicatedJob) -> int:
    """Pods of a replicated job that run at a time."""
    return given(job.replicas) * at_once(job.template.spec)


def waits(spec: JobSetSpec) -> Mapping[str, frozenset[str]]:
    """By the name of each replicated job that is made later: the jobs that must be complete before."""
    jobs, prerequisites = spec.replicated_jobs or (), dict[str, frozenset[str]]()
    in_order = spec.startup_policy is not None and spec.startup_policy.startup_policy_order == "InOrder"
    for index, job in enumerate(jobs):
        needed = job.depends_on or ()
        if needed or (in_order and index):
            done = {each.name for each in needed if each.status == "Complete"}
            before = [each.name for each in needed] + ([jobs[index - 1].name] if in_order and index else [])
            prerequisites[job.name] = frozenset(done.union(*(prerequisites.get(name, frozenset()) for name in before)))
    return prerequisites


def together(spec: JobSetSpec) -> Iterator[Sequence[ReplicatedJob]]:
    """Sets of replicated jobs of which each may run at a time: a job that needs another's end runs without it."""
    jobs, gone = spec.replicated_jobs or (), waits(spec)
    for over in dict.fromkeys((frozenset[str](), *gone.values())):
        yield [job for job in jobs if job.name not in over and gone.get(job.name, frozenset()) <= over]


def pod_sets(obj: JobSet) -> Iterator[PodSet]:
    """The replicated jobs; those that wait for others are made later."""
    later = waits(obj.spec)
    for job in obj.spec.replicated_jobs or ():
        waiting = job.name in later
        pods = pods_of(job)
        yield PodSet(job.name, pods, job.template.spec.template.spec, 0 if waiting else pods, waiting)


def _train_size(obj: TrainJob) -> int:
    return (obj.spec.trainer.num_nodes or 0) if obj.spec.trainer is not None else 0


def _at(path: str) -> dict[str, Any]:
    """``path`` leads to the template of a JobSet."""
    job = f"{path}.{_JOB}"
    return {"templates": (f"{job}.spec.template",), "inner": (path, job)}


_PATCH = _at("spec.runtimePatches[*].trainingRuntimeSpec.template")
_RUNTIME = _at("spec.template")
JOBSET: tuple[JobKind, ...] = (
    JobKind(
        TRAIN_JOBS,
        **_PATCH,
        queues=(NOTE, *noted(*_PATCH["inner"], *_PATCH["templates"])),
        size=_train_size,
        fewer=all_at_once,
        control="flag",
        flag="spec.suspend",
        managers=frozenset((TRAINJOB_CONTROLLER,)),
        makes=(JOB_SETS,),
        own_pods=False,
        ends=True,
        refers=True,
    ),
    JobKind(
        JOB_SETS,
        templates=(f"{_JOB}.spec.template",),
        inner=(_JOB,),
        queues=(NOTE, *noted(_JOB, f"{_JOB}.spec.template")),
        pods=pod_sets,
        size=lambda obj: set_pods(obj.spec),
        fewer=all_at_once,
        control="flag",
        flag="spec.suspend",
        managers=frozenset((JOBSET_CONTROLLER,)),
        makes=(BATCH_JOBS,),
        parts="spec.replicatedJobs[*]",
        pods_label=JOBSET_NAME,
        part_label=JOBSET_REPLICATED_JOB_NAME,
        fleet="whole",
        ends=True,
    ),
    *(
        JobKind(kind, **_RUNTIME, queues=noted(*_RUNTIME["inner"], *_RUNTIME["templates"]), runs=False)
        for kind in (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)
    ),
)
