"""A training job as its controller reads it: defaults, what its pods have come to, and its conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import msgspec

from unisono.api.conditions import is_true
from unisono.api.core import Container, PodTemplateSpec
from unisono.api.defaulting.kubeflow import TRAINING, main_container, replica_specs, run_policy
from unisono.api.groups.kubeflow import AnyTrainingJob, RunPolicy, SchedulingPolicy, TrainingCondition, TrainingStatus
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.controllers.owners import whole_number
from unisono.controllers.pod_facts import PodView
from unisono.jobkinds.registry import queue_of

# Labels by which tools find the pods of a training job.

OPERATOR_NAME: Final = "training.kubeflow.org/operator-name"
REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
JOB_ROLE: Final = "training.kubeflow.org/job-role"

RESTARTS: Final = "unisono.io/restarts"
"""Annotation of a job: how often failed pods were replaced since the job was last resumed."""

RESTARTED_PODS: Final = "unisono.io/restarted-pods"
"""Annotation of a job: UIDs of the failed pods that were counted last."""

POD_RESTARTS: Final = "unisono.io/pod-restarts"
"""Annotation of a job: how often in a row pods were replaced, such as ``worker-0=2,worker-3=1``."""


# A training job as its controller reads it: defaults filled in, the run policy in one place.

DEFAULT_SCHEDULER = "volcano"

CREATED, RUNNING, RESTARTING = "Created", "Running", "Restarting"
SUSPENDED, SUCCEEDED, FAILED = "Suspended", "Succeeded", "Failed"

PODS_LACK = "PodsLack"
"""A condition beside the operator's: the job's pods refer to something that their template does not have."""

NEVER, ON_FAILURE, ALWAYS, EXIT_CODE = "Never", "OnFailure", "Always", "ExitCode"


@dataclass(frozen=True, slots=True)
class Role:
    """The pods of one replica type."""

    name: str
    replicas: int
    restart_policy: str
    template: PodTemplateSpec

    @property
    def lower(self) -> str:
        """The name as labels and pod names have it."""
        return self.name.lower()


class TrainingView:
    """One job; cheap to make, never changes the job."""

    def __init__(self, job: AnyTrainingJob) -> None:
        self.job, self.facts = job, TRAINING[type(job)]
        self.status: TrainingStatus = job.status
        self.kind = type(job).__name__
        meta = job.metadata
        self.name, self.namespace, self.uid = meta.name, meta.namespace or "", meta.uid or ""
        self._shared: dict[str, str] = {}

    def once(self, name: str, make: Callable[[], str]) -> str:
        """A text that all pods share, such as a list of hosts: made for the first one, and kept for one look."""
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]

    @cached_property
    def run(self) -> RunPolicy:
        """The run policy in force."""
        return run_policy(self.job.spec)

    @cached_property
    def roles(self) -> list[Role]:
        """Roles in the order in which they are looked at."""
        return [
            Role(name, spec.replicas or 0, spec.restart_policy or NEVER, spec.template)
            for name, spec in replica_specs(self.job).items()
        ]

    def role(self, name: str) -> Role | None:
        """The role of that name."""
        return next((role for role in self.roles if role.name == name), None)

    @property
    def total(self) -> int:
        """Pods of all roles."""
        return sum(role.replicas for role in self.roles)

    @property
    def scheduling(self) -> SchedulingPolicy:
        """The scheduling policy; an empty one when there is none."""
        return self.run.scheduling_policy or SchedulingPolicy()

    @property
    def queue(self) -> str:
        """Where the gang waits."""
        return queue_of(self.job) or DEFAULT_QUEUE

    @property
    def restarts(self) -> int:
        """How often failed pods were replaced."""
        return whole_number((self.job.metadata.annotations or {}).get(RESTARTS)) or 0

    @property
    def pod_restarts(self) -> dict[str, int]:
        """How often in a row pods were replaced, by their name without the job's."""
        text = (self.job.metadata.annotations or {}).get(POD_RESTARTS, "")
        pairs = (entry.partition("=") for entry in text.split(","))
        return {place: number for place, _, count in pairs if (number := whole_number(count)) is not None}

    def container(self, role: Role) -> Container | None:
        """The container of a role that does the work."""
        return main_container(role.template.spec, self.facts.container)

    def port(self, role: Role | None) -> int:
        """The port at which pods of the role are reached."""
        container = self.container(role) if role is not None else None
        for port in (container.ports or ()) if container is not None else ():
            if port.name == self.facts.port_name:
                return port.container_port
        return self.facts.port

    def holds(self, type: str) -> bool:
        """Whether the condition is true."""
        return is_true(self.status.conditions, type)

    @property
    def finished(self) -> bool:
        """Whether the job is over for good."""
        return self.holds(SUCCEEDED) or self.holds(FAILED)


# What the pods of a training job have come to, by role.

_RETRYABLE_FROM = 128


@dataclass(frozen=True, slots=True)
class RolePod(PodView):
    """A pod of the job and its place in it."""

    role: str
    index: int


@dataclass(slots=True)
class RoleTally:
    """Counts of one role.

    Attributes:
        replicas: pods wanted.
        active: pods that run.
        succeeded: pods that succeeded.
        failed: pods that failed, and running ones that are being taken away.
        crashed: pods that failed by themselves.
        pods: the pods within the wanted number, by index.

    """

    replicas: int
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    crashed: int = 0
    pods: dict[int, RolePod] = field(default_factory=dict)

    @property
    def expected(self) -> int:
        """Pods that are still to succeed."""
        return self.replicas - self.succeeded

    def count(self, pod: RolePod) -> None:
        """Take one pod into account; those beyond the wanted number are on their way out."""
        if not 0 <= pod.index < self.replicas:
            return
        self.pods[pod.index] = pod
        if pod.phase == "Running":
            self.active += not pod.deleting
            self.failed += pod.deleting
        elif pod.phase == "Succeeded":
            self.succeeded += 1
        elif pod.crashed:
            self.failed += 1
            self.crashed += 1


def is_retryable(exit_code: int) -> bool:
    """Whether the policy ExitCode tries again after this code."""
    return exit_code >= _RETRYABLE_FROM


# The list of conditions of a training job. Its order is an interface: tools show the last entry as the job's state.

# Setting the one takes the other away.
_EXCLUSIVE = {RUNNING: RESTARTING, RESTARTING: RUNNING}


def with_condition(
    conditions: Iterable[TrainingCondition], wanted: TrainingCondition, now: str
) -> list[TrainingCondition]:
    """The list with one condition set.

    A job that failed stays as it is. A condition that says the same already keeps its message and its place; any other
    moves to the end. The end of a job turns its Running condition to false.

    Args:
        conditions: the list as it was; it is not changed.
        wanted: type, status, reason and message to set.
        now: time in RFC 3339.

    """
    old = list(conditions)
    if is_true(old, FAILED):
        return old
    same = next((each for each in old if each.type == wanted.type), None)
    if same is not None and (same.status, same.reason) == (wanted.status, wanted.reason):
        return old
    kept = same is not None and same.status == wanted.status
    since = same.last_transition_time if same is not None and kept else now
    entry = msgspec.structs.replace(wanted, last_update_time=now, last_transition_time=since)
    return [
        _ended(each, now) if wanted.type in (FAILED, SUCCEEDED) and each.type == RUNNING else each
        for each in old
        if each.type not in (wanted.type, _EXCLUSIVE.get(wanted.type))
    ] + [entry]


def _ended(running: TrainingCondition, now: str) -> TrainingCondition:
    if running.status == "False":
        return running
    return msgspec.structs.replace(running, status="False", last_update_time=now, last_transition_time=now)
