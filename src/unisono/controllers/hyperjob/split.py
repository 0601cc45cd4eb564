"""Which jobs a hyper job is made of, and how their sizes follow from its split policies (pure).

Within one cluster there is one place to run at: ``auto``, which asks for as few places as can take the whole, makes one
job of everything, and as many as the hub of a fleet says where there is one. ``static`` shares the accelerators over
``replicas`` jobs as evenly as pods allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from unisono.api.annotations import SPLIT
from unisono.api.groups.batch import AUTO, HyperJob, JobSpec, ReplicatedJob, SplitPolicy, TaskSpec
from unisono.api.resources import pod_requests
from unisono.errors import UnisonoError

# Resources other than CPU and memory are counted in thousandths.
_UNITS = 1000
MOST_PARTS = 1000
"""Jobs into which a hub may split one replicated job."""


class SplitError(UnisonoError):
    """A split policy and its template do not go together; the message says what to change."""


@dataclass(frozen=True, slots=True)
class WantedJob:
    """A job that there should be.

    Attributes:
        name: ``<hyper job>-<replicated job>-<number>``.
        replicated: what it is a replica of.
        spec: the template, with this job's share of the accelerators.

    """

    name: str
    replicated: ReplicatedJob
    spec: JobSpec


def wanted_jobs(hyper_job: HyperJob) -> list[WantedJob]:
    """Each job that there should be.

    Raises:
        SplitError: a split policy cannot be followed.

    """
    parts = split_of(hyper_job)
    return [
        WantedJob(f"{hyper_job.metadata.name}-{replicated.name}-{number}", replicated, spec)
        for replicated in hyper_job.spec.replicated_jobs or ()
        for number, spec in enumerate(_specs(replicated, parts.get(replicated.name, 1)))
    ]


def split_of(hyper_job: HyperJob) -> dict[str, int]:
    """Into how many jobs the hub has split each replicated job; empty where no hub has, or that cannot be read."""
    try:
        found = msgspec.json.decode((hyper_job.metadata.annotations or {}).get(SPLIT) or "{}", type=dict[str, int])
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return {name: number for name, number in found.items() if 1 <= number <= MOST_PARTS}


def accelerated_pods(replicated: ReplicatedJob) -> int | None:
    """Pods of a replicated job that ``auto`` may share over several jobs; None where it may not.

    Raises:
        SplitError: the split policy cannot be followed.

    """
    policy = replicated.split_policy
    if policy is None or policy.mode != AUTO or not policy.accelerators:
        return None
    return _share(replicated, policy)[1]


def _specs(replicated: ReplicatedJob, parts: int) -> list[JobSpec]:
    policy, template = replicated.split_policy, replicated.template_spec
    count = 1 if replicated.replicas is None else replicated.replicas
    if policy is None:
        return [template] * count
    if policy.mode == AUTO:
        count = parts if policy.accelerators else 1
    if not policy.accelerators or not count:
        return [template] * count
    index, pods = _share(replicated, policy)
    least, surplus = divmod(pods, count)
    if not least:
        raise SplitError(
            f"replicated job {replicated.name}: {policy.accelerators} {policy.accelerator_type} are {pods} pods, "
            f"too few for {count} replicas; lower replicas or ask for more accelerators."
        )
    return [_resized(template, index, least + (number < surplus)) for number in range(count)]


def _share(replicated: ReplicatedJob, policy: SplitPolicy) -> tuple[int, int]:
    """Place of the task that uses the accelerators, and the number of its pods in all jobs together."""
    name, kind = replicated.name, policy.accelerator_type
    if not kind:
        raise SplitError(f"replicated job {name}: splitPolicy.acceleratorType is missing: name the resource.")
    each = [pod_requests(task.template.spec).get(kind, 0) // _UNITS for task in replicated.template_spec.tasks or ()]
    users = [index for index, amount in enumerate(each) if amount]
    if len(users) != 1:
        raise SplitError(
            f"replicated job {name}: splitPolicy needs exactly one task whose pods request {kind}, and here are "
            f"{len(users)}."
        )
    pods, rest = divmod(policy.accelerators or 0, each[users[0]])
    if rest:
        raise SplitError(
            f"replicated job {name}: {policy.accelerators} {kind} cannot be shared over pods of {each[users[0]]}; "
            "make splitPolicy.accelerators a multiple of that."
        )
    return users[0], pods


def _resized(template: JobSpec, index: int, pods: int) -> JobSpec:
    """The template with so many pods in one task; what was a gang of all pods stays one."""
    tasks = list(template.tasks or ())
    old = tasks[index]
    before = 1 if old.replicas is None else old.replicas
    tasks[index] = msgspec.structs.replace(old, replicas=pods, min_available=_gang(old.min_available, before, pods))
    total = sum(map(_pods, template.tasks or ()))
    gang = _gang(template.min_available, total, total - before + pods)
    return msgspec.structs.replace(template, tasks=tasks, min_available=gang)


def _gang(given: int | None, before: int, after: int) -> int | None:
    if given is None:
        return None
    return after if given == before else min(given, after)


def _pods(task: TaskSpec) -> int:
    return 1 if task.replicas is None else task.replicas
