"""What a decision about a job wants done besides what all kinds of jobs have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from unisono.api.groups.batch import Command, JobStatus, VolumeSpec
from unisono.controllers.plan import BasePlan


@dataclass(frozen=True, slots=True)
class PodSlot:
    """A pod to make."""

    task: str
    index: int
    name: str


@dataclass(slots=True)
class Plan(BasePlan):
    """Steps in order: mark pods, name claims, write the status, drop commands, then objects, the pod group, the pods.

    A status that changes the phase is written alone: what follows from the new phase is decided from what is then
    stored, so a crash at any point leaves nothing half done that the next decision would not finish.

    Attributes:
        status: new status, None when it is the stored one.
        marks: pods to annotate before they are killed, name to annotations.
        volumes: the job's volumes with the names of its claims, where the spec does not have them yet.
        commands: commands that have been taken into account.
        remove_resources: what plug-ins made must go; done before the status forgets it.
        create_pods: pods to make, in order; each is built when its turn has come.

    """

    status: JobStatus | None = None
    marks: dict[str, dict[str, str]] = field(default_factory=dict)
    volumes: list[VolumeSpec] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    remove_resources: bool = False
    create_pods: list[PodSlot] = field(default_factory=list)
