"""The fast model of a cluster's future: counts of what fits by node, limits of queues, and the order of jobs.

It answers in a fraction of a second what the engine simulates in minutes: of each kind of job that waits it knows how
many of its pods fit on each node, and looks only at what has changed when a job ends. Jobs start in the engine's order
as soon as their gangs fit. It knows no evictions, no reservations, no gates, no cards that are shared, and nothing that
pods want of each other; where these decide, the engine's own futures say something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unisono.api.keys import NVIDIA_GPU
from unisono.api.resources import resource_list
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import CPU, PODS, Matrix, Vector, fitted
from unisono.cluster.state import ClusterState
from unisono.engine.answers import BoolArray
from unisono.engine.candidates.static_answers import StaticResults
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.registry import lookup_with
from unisono.simulator.clusters import Cluster
from unisono.simulator.forecast.live import LiveJobFacts
from unisono.simulator.forecast.shares import Bounds, Shares
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.live_jobs import Adopted, SpeedModel
from unisono.simulator.world.outcome import COMPLETED, RUNNING, JobOutcome, Run, Stretch
from unisono.simulator.world.settings import Settings

Index = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int32]
_MIB = 1 << 20
_MANY = 1 << 30
_BLOCK = 256
"""Nodes that are looked at together at first."""
_STEPS = 2000
"""What ends within one such part of a long future ends together."""
_FEW = 200
"""So few jobs are told apart to the second."""


class _Part(NamedTuple):
    """Equal pods of a gang: their class, how many it needs to start, and how many it may have."""

    shape: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class _Kind:
    """Jobs that fare alike: ``domains`` are columns of those that one of them must stay in, the lowest first."""

    queue: int
    parts: tuple[_Part, ...]
    domains: tuple[Index, ...] | None
    need: Vector


Entry = tuple[float, float, str, int]
"""Place of a job in the order: level, time of creation, name, and its number."""
Places = list[tuple[Index, int, Vector]]
"""Columns, class and number of pods on each."""


@dataclass(slots=True)
class _Held:
    """What a running job holds."""

    queue: int
    amounts: Vector
    places: Places
    stretch: Stretch | None = None


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
        self._by_role: dict[tuple[object, ...], int] = {}
        self._needs: list[Vector] = []
        self._masks: list[BoolArray] = []
        self.kinds: list[_Kind] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self.held: dict[int, _Held] = {}
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
        self.gpu_row = PODS if gpu is None else gpu
        self.speed = SpeedModel(self.cluster, settings)
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
        self.held[at] = _Held(queue, self._sum((shape, n) for (shape, _), n in counts.items()), places)
        if job.elapsed is not None:
            return -1
        shapes = [self._shape_of_class(task.pod_class) for task in tasks if not task.node]
        least = max(job.job.minimum - len(placed), 1)
        return self._kind(queue, shapes, least, job.job)

    def _kind_of(self, job: Job) -> int:
        shapes = [self._shape_of_role(role) for role in job.roles for _ in range(role.count)]
        return self._kind(self.bounds.number.get(job.queue, -1), shapes, job.minimum, job)

    def _kind(self, queue: int, shapes: list[int], least: int, job: Job) -> int:
        gang, all_of_them = Counter(shapes[:least]), Counter(shapes)
        parts = tuple(_Part(shape, gang[shape], number) for shape, number in all_of_them.items())
        tier = job.topology_tier if job.topology_hard else None
        key = (queue, parts, tier)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.kinds)
            need = self._sum(gang.items())
            self.kinds.append(_Kind(queue, parts, None if tier is None else self._domains(tier), need))
        return found

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
        found = self._by_class.get(number)
        if found is None:
            allowed = self._static.result(pod_class, self._cycle.session, self._cycle.hooks).allowed & self.usable
            found = self._by_class[number] = self._shape(fitted(pod_class.vector, len(self.registry)), allowed)
        return found

    def _shape_of_role(self, role: Role) -> int:
        more = tuple(sorted((role.resources or {}).items()))
        labels = tuple(sorted((role.node_labels or {}).items()))
        key = (role.cpu_milli, role.memory_mib, role.gpu_demand, more, labels)
        found = self._by_role.get(key)
        if found is None:
            found = self._by_role[key] = self._shape(*self._of_role(role))
        return found

    def _of_role(self, role: Role) -> tuple[Vector, BoolArray]:
        wanted = {"cpu": role.cpu_milli, "memory": role.memory_mib * _MIB, NVIDIA_GPU: role.gpu_demand}
        wanted |= resource_list(role.resources or {})
        vector: Vector = np.zeros(len(self.registry), dtype=np.int64)
        vector[PODS] = 1
        labels = (role.node_labels or {}).items()
        allowed = np.array([all(one.labels.get(key) == value for key, value in labels) for one in self.table.facts])
        allowed &= self.usable
        for name, amount in wanted.items():
            row = self.registry.find(name)
            if row is not None:
                vector[row] = amount
            elif amount:
                allowed[:] = False
        return vector, allowed

    def _shape(self, vector: Vector, allowed: BoolArray) -> int:
        key = vector.tobytes(), allowed.tobytes()
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = len(self._needs)
            self._needs.append(vector)
            self._masks.append(allowed)
        return found

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

    def entry_of(self, number: int, job: Job, at: float) -> Entry:
        """Place in the order of a job that comes: behind those of its priority that wait."""
        level = self._levels.get(job.priority)
        if level is None:
            above = [level for priority, level in self._levels.items() if priority > job.priority]
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
        found = np.full((len(self.needs), len(columns)), _MANY, dtype=np.int32)
        for row, amounts in enumerate(free):
            fits = np.maximum(amounts, 0)[None, :] // self._divisors[:, row, None]
            fits[self._unasked[row]] = _MANY
            np.minimum(found, fits, out=found, casting="unsafe")
        found *= self.masks[:, columns]
        return found

    def _lost(self, empty: Counts) -> list[str]:
        """Why jobs of each kind could not start on the empty cluster; empty where they could."""
        whole = empty.sum(axis=1)
        found = []
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
            found.append(why)
        return found


def _lacks(kind: _Kind, whole: Vector) -> bool:
    return any(not whole[part.shape] and part.least for part in kind.parts)


def holds(kind: _Kind, fitting: Counts, columns: Index) -> bool:
    """Whether so many pods of each class of the gang fit on these nodes, each class taken alone."""
    return all(fitting[part.shape, columns].sum() >= part.least for part in kind.parts)


class Future:
    """One future of a cluster, until it ends.

    Args:
        model: of the cluster.
        adopted: jobs of the model with run times, in its order.
        coming: jobs that come, in the order of their times.
        until: seconds after which it ends.
        whole: go on when all jobs that wait have started.

    """

    def __init__(
        self, model: FastModel, adopted: Sequence[Adopted], coming: Sequence[Job], until: float, *, whole: bool
    ) -> None:
        self._model, self._until, self._adopted = model, until, adopted
        self._coming, self._next = coming, 0
        self._free, self._fitting = model.free.copy(), model.fitting.copy()
        self._total = self._fitting.sum(axis=1)
        self._outcomes = [JobOutcome(each.job) for each in adopted] + [JobOutcome(job) for job in coming]
        self._waiting: list[list[Entry]] = [[] for _ in model.kinds]
        self._count = np.zeros(len(model.kinds), dtype=np.int64)
        self._blocked = model.lost.copy()
        self._held: dict[int, _Held] = {}
        self._ends: list[tuple[float, int]] = []
        self._binds = 0
        asked = np.zeros_like(model.bounds.held)
        for at, each in enumerate(adopted):
            if each.started is not None:
                self._outcomes[at].started = each.started
                self._run(at, model.held[at], 0.0, each.left[0])
            elif (entry := model.entries.get(at)) is not None:
                kind = model.kind_of[at]
                self._waiting[kind].append(entry)
                self._count[kind] += 1
                if not model.lost[kind]:
                    asked[model.kinds[kind].queue] += model.kinds[kind].need
        for line in self._waiting:
            heapify(line)
        self._left = -1 if whole else int(self._count[~model.lost].sum())
        self._shares = Shares(model.bounds, asked, len(self._outcomes))
        self._step = until / _STEPS if len(self._outcomes) > _FEW and until < inf else 0.0

    def run(self) -> Run:
        """Live until the end."""
        now, model = 0.0, self._model
        while True:
            self._shares.look(last=not self._ends)
            self._start_all(now)
            arrival = self._coming[self._next].submit if self._next < len(self._coming) else inf
            first = min(arrival, self._ends[0][0] if self._ends else inf)
            if self._left == 0 or first > self._until or first == inf:
                break
            now = self._pass(min(first + self._step, self._until))
        end = self._until if self._left and self._until < inf else now
        for at, held in self._held.items():
            self._close(at, held, end, "end", RUNNING)
        names = tuple(node.metadata.name for node in model.cluster.nodes)
        gpus, cpu = (int(model.table.allocatable[row, model.usable].sum()) for row in (model.gpu_row, CPU))
        capacity = [(0.0, gpus if model.gpu_row != PODS else 0, cpu)]
        return Run(model.cluster, names, self._outcomes, end=end, binds=self._binds, capacity=capacity)

    def _pass(self, until: float) -> float:
        """Let everything happen that ends or comes by then; when the last of it does."""
        now, touched = 0.0, []
        while self._ends and self._ends[0][0] <= until:
            now, at = heappop(self._ends)
            held = self._held.pop(at)
            self._close(at, held, now, "completed", COMPLETED)
            if held.queue >= 0:
                self._shares.end(held.queue, held.amounts)
            for columns, shape, numbers in held.places:
                self._change(columns, shape, -numbers)
                touched.append(columns)
        if touched:
            self._count_again(np.unique(np.concatenate(touched)))
            self._blocked = self._model.lost.copy()
        while self._next < len(self._coming) and self._coming[self._next].submit <= until:
            job, number = self._coming[self._next], len(self._adopted) + self._next
            self._next += 1
            now = max(now, job.submit)
            kind = self._model.kind_number(job)
            heappush(self._waiting[kind], self._model.entry_of(number, job, self._model.now + job.submit))
            self._count[kind] += 1
            if not self._model.lost[kind]:
                self._shares.come(self._model.kinds[kind].queue, self._model.kinds[kind].need)
        return now

    # ---- starts

    def _start_all(self, now: float) -> None:
        for beyond in (False, True) if self._model.bounds.exceeds else (False,):
            while (kind := self._first(self._startable(beyond=beyond))) is not None:
                places = self._place(kind, beyond=beyond)
                if places is None:
                    self._blocked[kind] = True
                else:
                    self._start(kind, places, now)

    def _startable(self, *, beyond: bool) -> Index:
        """Kinds of which a job may fit."""
        model = self._model
        some: Index = np.flatnonzero((self._count > 0) & ~self._blocked)
        if not len(some):
            return some
        some = some[(self._total[model.part_shapes[some]] >= model.part_least[some]).all(axis=1)]
        if not len(some):
            return some
        room, need = self._shares.room(beyond=beyond)[model.kind_queue[some]], model.kind_need[some]
        return np.asarray(some[((need <= room) | (need == 0)).all(axis=1)])

    def _first(self, kinds: Index) -> int | None:
        """The kind whose first job is served next."""
        by_queue: dict[int, list[int]] = {}
        for kind in kinds.tolist():
            by_queue.setdefault(self._model.kinds[kind].queue, []).append(kind)
        for queue in sorted(by_queue, key=self._shares.key) if len(by_queue) > 1 else by_queue:
            first = min(by_queue[queue], key=self._head)
            if not self._model.bounds.strict[queue] or self._leads(queue, first):
                return first
        return None

    def _head(self, kind: int) -> Entry:
        return self._waiting[kind][0]

    def _leads(self, queue: int, kind: int) -> bool:
        """Whether the first job of a kind is the first of its queue, which keeps strict order."""
        kinds = np.flatnonzero((self._count > 0) & (self._model.kind_queue == queue) & ~self._model.lost)
        return min(kinds.tolist(), key=self._head) == kind

    def _place(self, number: int, *, beyond: bool) -> Places | None:
        """Places for a gang of this kind, which are taken; None: it does not fit."""
        kind = self._model.kinds[number]
        if kind.domains is None:
            return self._place_in(kind, None, beyond=beyond)
        for columns in kind.domains:
            if holds(kind, self._fitting, columns):
                places = self._place_in(kind, columns, beyond=beyond)
                if places is not None:
                    return places
        return None

    def _place_in(self, kind: _Kind, columns: Index | None, *, beyond: bool) -> Places | None:
        places: Places = []
        for part in kind.parts:
            taken = self._take(part.shape, part.least, columns) if part.least else None
            if taken is not None:
                places.append(taken)
            elif part.least:
                self._give_back(places)
                return None
        if any(part.most > part.least for part in kind.parts):
            room = self._shares.room(beyond=beyond)[kind.queue] - kind.need
            self._take_more(kind, columns, room, places)
        return places

    def _take_more(self, kind: _Kind, columns: Index | None, room: Vector, places: Places) -> None:
        """Pods beyond the gang, as far as they fit."""
        for part in kind.parts:
            need = self._model.needs[part.shape]
            asked = need > 0
            number = min(part.most - part.least, int((room[asked] // need[asked]).min(initial=_MANY)))
            there = self._fitting[part.shape] if columns is None else self._fitting[part.shape, columns]
            taken = self._take(part.shape, min(number, int(there.sum())), columns)
            if taken is not None:
                places.append(taken)
                room = room - need * taken[2].sum()

    def _take(self, shape: int, number: int, columns: Index | None) -> tuple[Index, int, Vector] | None:
        """So many pods on the fullest nodes that have room; None where there are too few."""
        there = self._fitting[shape]
        columns = np.flatnonzero(there) if columns is None else columns[there[columns] > 0]
        room = there[columns]
        if number <= 0 or room.sum() < number:
            return None
        order = np.lexsort((room, self._free[self._model.gpu_row, columns]))
        columns, room = columns[order], room[order]
        reached = np.cumsum(room)
        last = int(np.searchsorted(reached, number))
        columns, numbers = columns[: last + 1], room[: last + 1].copy()
        numbers[-1] -= reached[last] - number
        self._change(columns, shape, numbers)
        self._count_again(columns)
        return columns, shape, numbers

    def _give_back(self, places: Places) -> None:
        for columns, shape, numbers in places:
            self._change(columns, shape, -numbers)
            self._count_again(columns)

    def _change(self, columns: Index, shape: int, numbers: Vector) -> None:
        self._free[:, columns] -= self._model.needs[shape][:, None] * numbers

    def _count_again(self, columns: Index) -> None:
        fresh = self._model.fitting_on(self._free[:, columns], columns)
        self._total += (fresh - self._fitting[:, columns]).sum(axis=1)
        self._fitting[:, columns] = fresh

    def _start(self, kind: int, places: Places, now: float) -> None:
        model, what = self._model, self._model.kinds[kind]
        at = heappop(self._waiting[kind])[-1]
        self._count[kind] -= 1
        amounts = sum((model.needs[shape] * numbers.sum() for _, shape, numbers in places), np.zeros_like(what.need))
        self._shares.start(what.queue, what.need, amounts)
        self._outcomes[at].started = now
        self._binds += int(sum(numbers.sum() for _, _, numbers in places))
        if at < len(self._adopted):
            held, work = model.held[at], self._adopted[at].left[0]
            if held.places:
                places, amounts = [*held.places, *places], held.amounts + amounts
            self._left -= 1
        else:
            work = self._outcomes[at].job.work
        self._run(at, _Held(what.queue, amounts, places), now, work, model.startup)

    def _run(self, at: int, held: _Held, now: float, work: float, startup: float = 0.0) -> None:
        """A job runs from now on."""
        model, job = self._model, self._outcomes[at].job
        number = model.node_numbers
        nodes = tuple(
            number[column]
            for columns, _, numbers in held.places
            for column, times in zip(columns.tolist(), numbers.tolist(), strict=True)
            for _ in range(times)
        )
        rate = model.speed.rate(nodes, job.pods) if nodes else 1.0
        gpus = int(held.amounts[model.gpu_row]) if model.gpu_row != PODS else 0
        stretch = Stretch(now, now, 0, nodes, tuple(range(len(nodes))), gpus, int(held.amounts[CPU]))
        self._held[at] = _Held(held.queue, held.amounts, held.places, stretch)
        if work < inf and rate > 0:
            heappush(self._ends, (now + startup + work / rate, at))

    def _close(self, at: int, held: _Held, now: float, cause: str, state: str) -> None:
        outcome = self._outcomes[at]
        outcome.state = state
        outcome.ended = now if state == COMPLETED else None
        if held.stretch is not None:
            held.stretch.end, held.stretch.cause = now, cause
            outcome.stretches.append(held.stretch)
