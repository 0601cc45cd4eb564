"""Jobs in a world: those that have arrived and not ended, and those of a live cluster that it takes over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from unisono.api.core import Node, Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import GPU_PRODUCT
from unisono.api.resources import resource_list
from unisono.simulator.clusters import Cluster, gpus_of
from unisono.simulator.workload.job import WHOLE_GPU, Job, Role
from unisono.simulator.world.outcome import JobOutcome, Stretch
from unisono.simulator.world.settings import Settings

# How fast the parts of a job make progress, how far they have come, and what they lose when interrupted.


@dataclass(slots=True)
class Unit:
    """Pods that make progress together.

    Attributes:
        number: which part of its job.
        pods: numbers of its pods in the job.
        minimum: pods without which it makes none.
        left: seconds of progress until it ends, as of ``since``.
        done: seconds of progress made, as of ``since``.
        rate: progress per second.
        since: when progress was counted last, or begins.
        placed: node number by pod number, for the pods that have places.
        stretch: the open one, None while it does not run.
        version: grows with each change; an end that was foreseen before is void.
        over: it has ended.
        attempts: how often it has begun.
        attained: seconds for which it has held its places before the open stretch.
    """

    number: int
    pods: tuple[int, ...]
    minimum: int
    left: float
    done: float = 0.0
    rate: float = 0.0
    since: float = 0.0
    placed: dict[int, int] = field(default_factory=dict)
    stretch: Stretch | None = None
    version: int = 0
    over: bool = False
    attempts: int = 0
    attained: float = 0.0

    def settle(self, now: float) -> None:
        """Count the progress made until now."""
        if now > self.since:
            made = (now - self.since) * self.rate
            self.done += made
            self.left = max(0.0, self.left - made)
            self.since = now

    def end(self) -> float:
        """When it ends at this rate, infinite where it does not."""
        return self.since + self.left / self.rate if self.rate > 0 else inf

    def saved_at(self, now: float, checkpoint: float) -> float:
        """When it last saved its progress: all of it at any time where ``checkpoint`` is 0, or when it began."""
        made = self.done + max(now - self.since, 0.0) * self.rate
        beyond = made % checkpoint if checkpoint > 0 else 0.0
        return now - beyond / self.rate if self.rate > 0 else self.since

    def fall_back(self, checkpoint: float | None) -> float:
        """Lose the progress since the last checkpoint; answers how many seconds of it."""
        if checkpoint is None:
            kept = 0.0
        elif checkpoint > 0:
            kept = self.done // checkpoint * checkpoint
        else:
            kept = self.done
        lost = self.done - kept
        self.left += lost
        self.done = kept
        return lost


def units_of(job: Job) -> list[Unit]:
    """The parts of a job: one where its pods run together, else one for each pod."""
    pods = job.pods
    if job.elastic or job.minimum == pods:
        return [Unit(0, tuple(range(pods)), job.minimum, job.work)]
    return [Unit(number, (number,), 1, job.work) for number in range(pods)]


class SpeedModel:
    """Progress per second of pods at given places; 1.0 for all pods of a job without any slow-down."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        names = [node.metadata.name for node in cluster.nodes]
        self._paths = [cluster.paths.get(name, ()) for name in names]
        self._slowdown = dict(settings.topology_slowdown) if any(self._paths) else {}
        models = [(node.metadata.labels or {}).get(GPU_PRODUCT, "") for node in cluster.nodes]
        self._speeds = [settings.model_speed.get(model, 1.0) for model in models] if settings.model_speed else []

    def rate(self, nodes: Sequence[int], whole: int) -> float:
        """Progress of pods on ``nodes``, of a part of a job that has ``whole`` pods."""
        rate = len(nodes) / whole
        if self._speeds:
            rate *= min(self._speeds[node] for node in nodes)
        if self._slowdown and len(nodes) > 1:
            rate /= self._slowdown.get(self.tier(nodes), 1.0)
        return rate

    def tier(self, nodes: Sequence[int]) -> int:
        """Tier of the lowest domain that has all of the nodes; 0 for one node, one above the top where none has."""
        if len(set(nodes)) == 1:
            return 0
        paths = [self._paths[node] for node in nodes]
        height = max(len(path) for path in paths)
        for tier in range(1, height + 1):
            if len({path[tier - 1] if len(path) >= tier else None for path in paths}) == 1:
                return tier
        return height + 1


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
        fits = self._known.get(needs)
        if fits is None:
            fits = self._known[needs] = bool(((self._free >= needs).all(axis=1) & self._up).any())
        return fits
