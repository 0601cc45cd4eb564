"""Jobs in a world: those that have arrived and not ended, and those of a live cluster that it takes over."""

from __future__ import annotations

from dataclasses import dataclass, field

from unisono.api.core import Pod
from unisono.api.scheduling import PodGroup
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.outcome import JobOutcome
from unisono.simulator.world.progress import Unit


@dataclass(slots=True)
class LiveJob:
    """A job that has arrived and not ended.

    Attributes:
        number: in the workload.
        group: its PodGroup as the scheduler knows it.
        roles: role of each pod.
        pods: the pods, by number.
        incarnations: how often each pod has been made.
        templates: real pods, of which those that are made again are copies; empty for pods of a workload.

    """

    number: int
    job: Job
    outcome: JobOutcome
    group: PodGroup
    units: list[Unit]
    unit_of: list[Unit]
    roles: list[Role]
    pods: list[Pod] = field(default_factory=list)
    incarnations: list[int] = field(default_factory=list)
    templates: tuple[Pod, ...] = ()

    @property
    def key(self) -> str:
        """Key of its PodGroup."""
        return self.group.key


@dataclass(frozen=True, slots=True)
class Adopted:
    """A job of a live cluster as it is when the simulation begins; times in seconds from then.

    Attributes:
        job: what is known of it; the first jobs of the world are the adopted ones, in their order.
        group: its PodGroup.
        pods: its pods that have not ended, in the order of the job's roles; those with a node run.
        left: for each pod how long it has still to run, or will run.
        started: when it began (below 0), None while it waits.

    """

    job: Job
    group: PodGroup
    pods: tuple[Pod, ...]
    left: tuple[float, ...]
    started: float | None = None
