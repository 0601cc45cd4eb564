"""Jobs in a world: those that have arrived and not ended, and those of a live cluster that it takes over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from unisono.api.core import Node, Pod
from unisono.api.resources import resource_list
from unisono.api.scheduling import PodGroup
from unisono.simulator.clusters.model import gpus_of
from unisono.simulator.workload.job import WHOLE_GPU, Job, Role
from unisono.simulator.world.outcome import JobOutcome
from unisono.simulator.world.progress import Unit, units_of

Needs = tuple[int, int, int]
"""CPU in thousandths of cores, memory in bytes, and thousandths of GPUs of one pod."""


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
        saved: when it was last said to have saved its work, seconds since the beginning.
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
    saved: float = 0.0

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


def needs_of(role: Role) -> Needs:
    """What a pod of the role takes from its node."""
    return role.cpu_milli, role.memory_mib << 20, role.gpu_demand


class Room:
    """Free CPU, memory and GPUs by node.

    It knows nothing of other resources, labels, shares of one GPU or plug-ins, so it only ever says too often that
    there is room.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        amounts = [resource_list(node.status.allocatable) for node in nodes]
        gpus = [gpus_of(node) * WHOLE_GPU for node in nodes]
        columns = [(each.get("cpu", 0), each.get("memory", 0), gpu) for each, gpu in zip(amounts, gpus, strict=True)]
        self._free = np.array(columns, dtype=np.int64).reshape(len(columns), 3)
        self._up = np.ones(len(columns), dtype=np.bool_)
        self._known: dict[Needs, bool] = {}

    def take(self, node: int, needs: Needs) -> None:
        """A pod was placed on the node with this number."""
        self._free[node] -= needs
        self._known.clear()

    def give(self, node: int, needs: Needs) -> None:
        """A pod has left the node."""
        self._free[node] += needs
        self._known.clear()

    def note(self, node: int, *, up: bool) -> None:
        """The node is there, or not."""
        self._up[node] = up
        self._known.clear()

    def holds_any(self, wanted: Iterable[Needs]) -> bool:
        """Whether a node has room for one of these pods."""
        return any(self._holds(needs) for needs in wanted)

    def _holds(self, needs: Needs) -> bool:
        known = self._known.get(needs)
        if known is None:
            known = self._known[needs] = bool(((self._free >= needs).all(axis=1) & self._up).any())
        return known
