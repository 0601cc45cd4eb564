"""The fast model of a cluster's future: counts of what fits by node, limits of queues, and the order of jobs.

It answers in a fraction of a second what the engine simulates in minutes: of each kind of job that waits it knows how
many of its pods fit on each node, and looks only at what has changed when a job ends. Jobs start in the engine's order
as soon as their gangs fit. With `preempt` jobs of higher priority evict whole jobs of their queue.
It knows no other evictions, no reservations, no gates, no cards that are shared, and nothing that pods want of each
other; where these decide, the engine's own futures say something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unisono.api.keys import NVIDIA_GPU
from unisono.api.resources import resource_list
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS, Matrix, Vector, fitted
from unisono.cluster.state import ClusterState
from unisono.engine.answers import BoolArray
from unisono.engine.candidates.static_answers import StaticResults
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.registry import lookup_with
from unisono.simulator.clusters import Cluster
from unisono.simulator.forecast.live import LiveJobFacts
from unisono.simulator.forecast.shares import Bounds
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.live_jobs import SpeedModel
from unisono.simulator.world.outcome import Stretch
from unisono.simulator.world.settings import Settings

Index = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int32]
_MIB = 1 << 20
MANY = 1 << 30
_BLOCK = 256
"""Nodes that are looked at together at first."""

_ACTIONS_LEFT_OUT = frozenset(("reclaim", "gangpreempt", "gangreclaim", "shuffle"))
_PLUGINS_LEFT_OUT = frozenset(
    (
        "extender",
        "fair-share",
        "numa-aware",
        "reservation",
        "resourcequota",
        "tdm",
        "usage",
        "user-limits",
        "deviceshare",
    )
)


def left_out(config: SchedulerConfig, state: ClusterState) -> list[str]:
    """What decides by a configuration and the model knows nothing of; what takes part only where it is needed: there.

    Of the latter the calendar alone, whose windows may be all that a job waits for.
    """
    plugins = [each.name for each in config.plugins if not each.arguments.get(f"{each.name}.AutoEnable")]
    named = {*_ACTIONS_LEFT_OUT.intersection(config.actions), *_PLUGINS_LEFT_OUT.intersection(plugins)}
    catalogue = state.catalogue
    by_time: dict[str, Sized] = {
        "reservations": catalogue.bookings,
        "temporary quotas": catalogue.temporary_quotas,
        "budgets": catalogue.budgets,
    }
    return sorted({*named, *(name for name, objects in by_time.items() if objects)})


class Part(NamedTuple):
    """Equal pods of a gang: their class, how many it needs to start, and how many it may have."""

    shape: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs that fare alike.

    ``domains`` are columns of those that one of them must stay in, the lowest first; ``whole`` is what each holds
    besides its pods, such as licences.
    """

    queue: int
    parts: tuple[Part, ...]
    domains: tuple[Index, ...] | None
    need: Vector
    whole: Vector


Entry = tuple[float, float, str, int]
"""Place of a job in the order: level, time of creation, name, and its number."""
Places = list[tuple[Index, int, Vector]]
"""Columns, class and number of pods on each."""


@dataclass(slots=True)
class Held:
    """What a running job holds; ``serial`` tells its runs apart."""

    queue: int
    amounts: Vector
    places: Places
    stretch: Stretch | None = None
    serial: int = 0


class FastModel:
    """What stays the same in all futures of a cluster.

    Args:
        state: with everything in it, pods included that are still to be made.
        cluster: its nodes.
        jobs: that have not ended, as `live_jobs` gives them with the state.
        config: of the scheduler.
        now: seconds since 1970.
        settings: how the world goes.
        coming: jobs of which some may come again.

    Attributes:
        never: keys of jobs that could not start on the empty cluster either, and why.
    """

    def __init__(
        self,
        state: ClusterState,
        cluster: Cluster,
        jobs: Sequence[LiveJobFacts],
        config: SchedulerConfig,
        now: float,
        settings: Settings,
        coming: Iterable[Job] = (),
    ) -> None:
        coming = list(coming)
        snapshot = state.snapshot()
        self._cycle = Cycle(snapshot, config, now, 0, lookup_with({}))
        self._static = StaticResults.of(self._cycle.session, config)
        self.now, self.table, self._tree = now, snapshot.nodes, snapshot.hyper_nodes
        self._tasks = snapshot.tasks
        self._tiers: dict[int, tuple[Index, ...]] = {}
        self.registry, self.cluster = snapshot.registry, cluster
        self.bounds = Bounds(self._cycle.session, config, {each.queue for each in coming})
        self.usable = self.table.ready & ~self.table.unschedulable
        self.free = self.table.allocatable - self.table.used + self.table.releasing
        self._shapes: dict[tuple[bytes, bytes], int] = {}
        self._by_class: dict[int, int] = {}
        self.preempts = "preempt" in config.actions
        states = [self._cycle.session.job(each.group.key) for each in jobs]
        self.priorities = [0 if state is None else state.priority for state in states]
        self.created = [now if state is None else state.created for state in states]
        self._by_role: dict[tuple[object, ...], int] = {}
        self._needs: list[Vector] = []
        self._masks: list[BoolArray] = []
        self.kinds: list[Kind] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self.held: dict[int, Held] = {}
        self.kind_of: list[int] = []
        for at, each in enumerate(jobs):
            self.kind_of.append(self._adopt(at, each))
        self._coming: dict[int, int] = {}
        for job in coming:
            self._coming.setdefault(id(job.roles), self._kind_of(job))
        self._keep = coming  # their roles are known by identity
        self.entries = self._order(jobs)
        self.needs = np.array(self._needs, dtype=np.int64).reshape(len(self._needs), len(self.registry))
        self._divisors = np.maximum(self.needs, 1)
        self._unasked = [np.flatnonzero(self.needs[:, row] == 0) for row in range(len(self.registry))]
        self.masks = np.array(self._masks, dtype=np.bool_).reshape(len(self._masks), len(self.table))
        self.fitting = self._fitting_everywhere(self.free)
        width = max((len(kind.parts) for kind in self.kinds), default=1)
        self.part_shapes = np.zeros((len(self.kinds), width), dtype=np.intp)
        self.part_least = np.zeros((len(self.kinds), width), dtype=np.int64)
        for number, kind in enumerate(self.kinds):
            for at, part in enumerate(kind.parts):
                self.part_shapes[number, at], self.part_least[number, at] = part.shape, part.least
        self.kind_queue = np.array([kind.queue for kind in self.kinds], dtype=np.intp)
        self.kind_need = np.array([kind.need for kind in self.kinds], dtype=np.int64)
        self.kind_need = self.kind_need.reshape(len(self.kinds), len(self.registry))
        gpu = self.registry.find(NVIDIA_GPU)
        self.gpu_row, self.speed = PODS if gpu is None else gpu, SpeedModel(self.cluster, settings)
        numbers = {node.metadata.name: at for at, node in enumerate(self.cluster.nodes)}
        self.node_numbers = [numbers[name] for name in self.table.names]
        self.startup = settings.startup
        lost = self._lost(self._fitting_everywhere(self.table.allocatable))
        self.lost = np.array([bool(why) for why in lost], dtype=np.bool_)
        waits = ((at, each) for at, each in enumerate(jobs) if each.elapsed is None)
        self.never = {each.group.key: lost[self.kind_of[at]] for at, each in waits if lost[self.kind_of[at]]}

    # ---- kinds of jobs

    def _adopt(self, at: int, job: LiveJobFacts) -> int:
        """The kind of what waits of a job; what it holds is noted."""
        tasks = [self._tasks[pod.key] for pod in job.pods]
        queue = self.bounds.number.get(job.job.queue, -1)
        placed = [task for task in tasks if task.node and task.node in self.table.index]
        counts: Counter[tuple[int, int]] = Counter(
            (self._shape_of_class(task.pod_class), self.table.index[task.node]) for task in placed
        )
        places = [(np.array([column]), shape, np.array([n])) for (shape, column), n in counts.items()]
        whole = self._sum(())
        record = self._cycle.session.snapshot.jobs.get(job.group.key)
        if record is not None and record.license_vector is not None:
            whole += fitted(record.license_vector, len(whole))
        held = self._sum((shape, n) for (shape, _), n in counts.items()) + (whole if placed else 0)
        self.held[at] = Held(queue, held, places)
        if job.elapsed is not None:
            every = [self._shape_of_class(task.pod_class) for task in tasks] if self.preempts else []
            return self._kind(queue, every, job.job.minimum, job.job, whole) if every else -1
        shapes = [self._shape_of_class(task.pod_class) for task in tasks if not task.node]
        least = max(job.job.minimum - len(placed), 1)
        return self._kind(queue, shapes, least, job.job, None if placed else whole)

    def _kind_of(self, job: Job) -> int:
        shapes = [self._shape_of_role(role) for role in job.roles for _ in range(role.count)]
        return self._kind(self.bounds.number.get(job.queue, -1), shapes, job.minimum, job)

    def _kind(self, queue: int, shapes: list[int], least: int, job: Job, whole: Vector | None = None) -> int:
        gang, all_of_them = Counter(shapes[:least]), Counter(shapes)
        parts = tuple(Part(shape, gang[shape], number) for shape, number in all_of_them.items())
        tier = job.topology_tier if job.topology_hard else None
        whole = self._sum(()) if whole is None else whole
        key = (queue, parts, tier, whole.tobytes())
        position = self._numbers.get(key)
        if position is None:
            position = self._numbers[key] = len(self.kinds)
            need = self._sum(gang.items()) + whole
            self.kinds.append(Kind(queue, parts, None if tier is None else self._domains(tier), need, whole))
        return position

    def _domains(self, highest: int) -> tuple[Index, ...]:
        if highest not in self._tiers:
            order = sorted((int(tier), at) for at, tier in enumerate(self._tree.tiers) if tier <= highest)
            self._tiers[highest] = tuple(self._tree.columns[at] for _, at in order)
        return self._tiers[highest]

    def _sum(self, counts: Iterable[tuple[int, int]]) -> Vector:
        total: Vector = np.zeros(len(self.registry), dtype=np.int64)
        for shape, number in counts:
            total += self._needs[shape] * np.int64(number)
        return total

    def _shape_of_class(self, pod_class: PodClass) -> int:
        number = pod_class.id
        shape = self._by_class.get(number)
        if shape is None:
            allowed = self._static.result(pod_class, self._cycle.session, self._cycle.hooks).allowed & self.usable
            shape = self._by_class[number] = self._shape(fitted(pod_class.vector, len(self.registry)), allowed)
        return shape

    def _shape_of_role(self, role: Role) -> int:
        more = tuple(sorted((role.resources or {}).items()))
        labels = tuple(sorted((role.node_labels or {}).items()))
        key = (role.cpu_milli, role.memory_mib, role.gpu_demand, more, labels)
        shape = self._by_role.get(key)
        if shape is None:
            shape = self._by_role[key] = self._shape(*self._of_role(role))
        return shape

    def _of_role(self, role: Role) -> tuple[Vector, BoolArray]:
        amounts = {"cpu": role.cpu_milli, "memory": role.memory_mib * _MIB, NVIDIA_GPU: role.gpu_demand}
        amounts |= resource_list(role.resources or {})
        vector: Vector = np.zeros(len(self.registry), dtype=np.int64)
        vector[PODS] = 1
        labels = (role.node_labels or {}).items()
        allowed = np.array([all(one.labels.get(key) == value for key, value in labels) for one in self.table.facts])
        allowed &= self.usable
        for name, amount in amounts.items():
            row = self.registry.find(name)
            if row is not None:
                vector[row] = amount
            elif amount:
                allowed[:] = False
        return vector, allowed

    def _shape(self, vector: Vector, allowed: BoolArray) -> int:
        key = vector.tobytes(), allowed.tobytes()
        position = self._shapes.get(key)
        if position is None:
            position = self._shapes[key] = len(self._needs)
            self._needs.append(vector)
            self._masks.append(allowed)
        return position

    # ---- what is known of them

    def _order(self, jobs: Sequence[LiveJobFacts]) -> dict[int, Entry]:
        """Place in the order of all jobs that wait, by number; `entry_of` finds one for a job that comes later."""
        session, orders = self._cycle.session, self._cycle.orders
        keys, priorities = {}, {}
        for at, each in enumerate(jobs):
            state = session.job(each.group.key) if each.elapsed is None else None
            if state is not None:
                keys[at] = orders.job_key(state)
                priorities[at] = state.priority
        levels = {key: level for level, key in enumerate(sorted({key[:-2] for key in keys.values()}))}
        self._levels: dict[int, int] = {}
        for at, key in keys.items():
            level, priority = levels[key[:-2]], priorities[at]
            self._levels[priority] = max(self._levels.get(priority, 0), level)
        return {at: (float(levels[key[:-2]]), key[-2], key[-1], at) for at, key in keys.items()}

    def entry_of(self, number: int, job: Job, priority: int, at: float) -> Entry:
        """Place in the order of a job that comes: behind those of its priority that wait."""
        level = self._levels.get(priority)
        if level is None:
            above = [level for other, level in self._levels.items() if other > priority]
            return max(above, default=-1) + 0.5, at, job.name, number
        return float(level), at, job.name, number

    def kind_number(self, job: Job) -> int:
        """The kind of a job that comes."""
        return self._coming[id(job.roles)]

    def _fitting_everywhere(self, free: Matrix) -> Counts:
        """``[S, N]`` by parts, as what is needed on the way is larger than the answer."""
        every = np.arange(len(self.table))
        parts = [self.fitting_on(free[:, some], some) for some in np.array_split(every, len(every) // _BLOCK + 1)]
        return np.concatenate(parts, axis=1)

    def fitting_on(self, free: Matrix, columns: Index) -> Counts:
        """``[S, C]`` how many pods of each class fit on nodes with so much free."""
        counts = np.full((len(self.needs), len(columns)), MANY, dtype=np.int32)
        for row, amounts in enumerate(free):
            fits = np.maximum(amounts, 0)[None, :] // self._divisors[:, row, None]
            fits[self._unasked[row]] = MANY
            np.minimum(counts, fits, out=counts, casting="unsafe")
        counts *= self.masks[:, columns]
        return counts

    def _lost(self, empty: Counts) -> list[str]:
        """Why jobs of each kind could not start on the empty cluster; empty where they could."""
        whole = empty.sum(axis=1)
        reasons = []
        for kind in self.kinds:
            why = ""
            if kind.queue < 0:
                why = "its queue does not exist"
            elif any(whole[part.shape] < part.least for part in kind.parts):
                why = (
                    "no node is large enough" if _lacks(kind, whole) else "the nodes that it may use are too few for it"
                )
            elif kind.domains is not None and not any(holds(kind, empty, columns) for columns in kind.domains):
                why = "no domain of the network that it may use is large enough"
            else:
                limits = self.bounds.limits[self.bounds.member[:, kind.queue]]
                if ((kind.need > limits) & (kind.need > 0)).any():
                    why = "it asks for more than its queue may hold"
            reasons.append(why)
        return reasons


def _lacks(kind: Kind, whole: Vector) -> bool:
    return any(not whole[part.shape] and part.least for part in kind.parts)


def holds(kind: Kind, fitting: Counts, columns: Index) -> bool:
    """Whether so many pods of each class of the gang fit on these nodes, each class taken alone."""
    return all(fitting[part.shape, columns].sum() >= part.least for part in kind.parts)
