"""A training job as its controller reads it: defaults filled in, the run policy in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from unisono.api.conditions import is_true
from unisono.api.core import Container, PodTemplateSpec
from unisono.api.defaulting.kubeflow import TRAINING, main_container, replica_specs, run_policy
from unisono.api.groups.kubeflow import AnyTrainingJob, RunPolicy, SchedulingPolicy, TrainingStatus
from unisono.api.membership import DEFAULT_QUEUE
from unisono.controllers.texts import whole_number
from unisono.controllers.training.kubeflow.labels import POD_RESTARTS, RESTARTS
from unisono.jobkinds.registry import queue_of

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
