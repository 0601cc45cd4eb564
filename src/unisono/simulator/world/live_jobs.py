"""Jobs in a world: those that have arrived and not ended, and those of a live cluster that it takes over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from unisono.api.core import Pod
from unisono.api.scheduling import PodGroup
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.outcome import JobOutcome
from unisono.simulator.world.progress import Unit, units_of
from unisono.simulator.world.room import Needs, needs_of


@dataclass(slots=True)
class LiveJob:
    """A job that has arrived and not ended.

    Attributes:
        number: in the workload.
        group: its PodGroup as the scheduler knows it.
        roles: role of each pod.
        pods: the pods, by number.
        needs: what each pod takes from its node.
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
    needs: list[Needs]
    pods: list[Pod] = field(default_factory=list)
    incarnations: list[int] = field(default_factory=list)
    templates: tuple[Pod, ...] = ()

    @classmethod
    def of(cls, number: int, job: Job, outcome: JobOutcome, group: PodGroup) -> LiveJob:
        """A job without pods."""
        units = units_of(job)
        unit_of = units * job.pods if len(units) == 1 else list(units)
        roles = [role for role in job.roles for _ in range(role.count)]
        needs = [needs for role in job.roles for needs in [needs_of(role)] * role.count]
        return cls(number, job, outcome, group, units, unit_of, roles, needs, incarnations=[0] * job.pods)

    @property
    def key(self) -> str:
        """Key of its PodGroup."""
        return self.group.key

    @property
    def has_places(self) -> bool:
        """Whether a pod of it has a place."""
        return any(unit.placed for unit in self.units)

    def wanted(self) -> Iterator[Needs]:
        """What its pods that wait take from their nodes."""
        for unit in self.units:
            if not unit.over:
                yield from (self.needs[at] for at in unit.pods if at not in unit.placed)


@dataclass(frozen=True, slots=True)
class Adopted:
    """A job of a live cluster as it is when the simulation begins; times in seconds from then.

    Attributes:
        job: what is known of it; the first jobs of the world are the adopted ones, in their order.
        group: its PodGroup.
        pods: its pods that have not ended, in the order of the job's roles; those with a node run.
        left: for each pod how long it has still to run, or will run.
        started: when it began (below 0), None while it waits.
        unmade: its pods are made when it is admitted.

    """

    job: Job
    group: PodGroup
    pods: tuple[Pod, ...]
    left: tuple[float, ...]
    started: float | None = None
    unmade: bool = False
