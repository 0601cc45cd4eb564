"""Moving running pods together, so that a gang that waits finds whole GPUs, whole nodes or a whole domain."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unisono.api.times import parse_duration
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.status import TaskStatus
from unisono.engine.actions import run_actions
from unisono.engine.answers import BoolArray, Purpose
from unisono.engine.config.arguments import argument_value
from unisono.engine.config.model import ACTION_ARGUMENTS, PluginConfig
from unisono.engine.cycle.context import Cycle
from unisono.engine.decisions import DefragmentationPlan, PodMove
from unisono.engine.eviction.evictable_amounts import sum_of
from unisono.engine.eviction.search import evictions_of
from unisono.engine.eviction.starving_jobs import starving_jobs
from unisono.engine.eviction.whole_gangs import GangRule, domains_to_try, wanted_tasks
from unisono.engine.placement.domain_search import search_of
from unisono.engine.placement.remaining_tasks import RemainingByGroup
from unisono.engine.placement.sub_group_solver import Solver
from unisono.engine.plugin_host.stopwatch import Stopwatch
from unisono.engine.plugins.common.node_selectors import open_nodes
from unisono.engine.plugins.eviction_guard import LostWork
from unisono.engine.plugins.protected_pods import PdbPlugin
from unisono.engine.session.job_state import JobState
from unisono.engine.session.victims import bundles_of
from unisono.engine.verdicts.edit import Edit
from unisono.engine.verdicts.trial import after

# defragment: moves pods that may move, so that a waiting gang finds room, if a rehearsal shows that it starts.

# Which running pods may be moved for a gang, and what each move costs.

RESTART_SECONDS = 60.0
"""What a restart costs at least, in seconds of the pod."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one plan may do.

    Attributes:
        moves: pods moved at most.
        run_seconds: a pod must have run for so long.
        lost_seconds: a pod that would lose more than that stays.
        domains: topology domains tried at most.
    """

    moves: int
    run_seconds: float
    lost_seconds: float
    domains: int


@dataclass(frozen=True, slots=True)
class Movable:
    """One pod that may be moved; ``cost`` is lost time by the share of the cluster that it holds."""

    task: Task
    column: int
    held: Vector
    lost_seconds: float
    cost: float


class MovablePods:
    """The pods that may be moved for one gang, by node column.

    A pod may be moved when a controller makes a new one for it, nothing protects it, it has run for long enough and
    would not lose too much, its job is no more important than the gang, and its own gang goes on without it: it is
    beyond that gang's minimum, or the only pod of its job.
    """

    def __init__(self, cycle: Cycle, actor: JobState, tasks: Sequence[Task], limits: Limits) -> None:
        self.cycle = cycle
        self.actor = actor
        self._priority = max((task.priority for task in tasks), default=0)
        self._lost = LostWork(cycle.session)
        self.on: dict[int, list[Movable]] = {}
        for task, column in self._spare(limits):
            held = fitted(task.pod_class.vector, cycle.session.rows)
            lost = self._lost.seconds(task)
            if lost <= limits.lost_seconds:
                cost = max(lost, RESTART_SECONDS) * self._lost.share(task.pod_class)
                self.on.setdefault(column, []).append(Movable(task, column, held, lost, cost))

    def _spare(self, limits: Limits) -> list[tuple[Task, int]]:
        cycle, now = self.cycle, self.cycle.session.now
        evictions = evictions_of(cycle)
        index = evictions.index
        may = index.alive & index.running & evictions.pool.unprotected(Purpose.DEFRAGMENT)
        candidates: list[tuple[Task, int, JobState]] = []
        for at in np.flatnonzero(may).tolist():
            task, job = index.tasks[at], index.jobs.states[int(index.job[at])]
            if (
                job is not self.actor
                and evictions.may_lose(job, None)
                and job.priority <= self.actor.priority
                and task.priority <= self._priority
                and task.remade
                and now - (task.since or task.created) >= limits.run_seconds
            ):
                candidates.append((task, int(index.column[at]), job))
        flat: list[tuple[Task, int]] = []
        for bundle in bundles_of(cycle.session, candidates):
            if bundle.safe or len(bundle.job.record.tasks) == 1:
                flat += bundle.tasks
        answers = cycle.hooks.victims(self.actor, None, [task for task, _ in flat], Purpose.DEFRAGMENT).tolist()
        return [pair for pair, yes in zip(flat, answers, strict=True) if yes]

    def within_budgets(self, tasks: Sequence[Task]) -> bool:
        """Whether all of them may go together by the PodDisruptionBudgets, whatever plug-ins are configured."""
        guard = PdbPlugin(PluginConfig("pdb"))
        guard.open(self.cycle.session)
        gone = [task for placement, _ in self.cycle.evicted for task in placement.tasks]
        kept = guard.retained([*gone, *tasks])
        return kept is None or not kept[len(gone) :].any()


# Which pods to move: node by node, where a place for one of the gang's pods costs least.

_Option = tuple[float, int, float, int]
"""Cost, number of moves, room left over, node column; the least is the best."""


class Choice:
    """Pods chosen for one gang in one domain.

    Resources of nodes are followed as sums; whether the gang and the moved pods find places by all filters is tried
    afterwards.

    Args:
        pods: those that may be moved.
        columns: nodes of the domain.
        most: moves at most.
    """

    def __init__(self, pods: MovablePods, columns: Sequence[int], most: int) -> None:
        self.nodes = pods.cycle.session.nodes
        self.columns = list(columns)
        self.most = most
        later = self.nodes.allocatable - self.nodes.used + self.nodes.releasing - self.nodes.pipelined
        self._free = {column: later[:, column].copy() for column in self.columns}
        self._left = {column: list(pods.on.get(column, ())) for column in self.columns}
        self._size = np.maximum(self.nodes.allocatable, 1)

    def make_room(self, tasks: Sequence[Task]) -> list[Movable] | None:
        """What has to be moved for all of the tasks, the largest first; None when there is no such choice."""
        classes: dict[int, tuple[PodClass, int]] = {}
        for task in tasks:
            previous = classes.get(task.pod_class.id, (task.pod_class, 0))
            classes[task.pod_class.id] = previous[0], previous[1] + 1
        total = np.maximum(self.nodes.allocatable.sum(axis=1), 1)
        largest = sorted(classes.values(), key=lambda each: -float((self._vector(each[0]) / total).max()))
        chosen: list[Movable] = []
        for pod_class, number in largest:
            movables = self._for_class(pod_class, number, self.most - len(chosen))
            if movables is None:
                return None
            chosen += movables
        return chosen

    def _vector(self, pod_class: PodClass) -> Vector:
        return fitted(pod_class.vector, len(self.nodes.allocatable))

    def _for_class(self, pod_class: PodClass, number: int, most: int) -> list[Movable] | None:
        asked, usable = self._vector(pod_class), open_nodes(pod_class, self.nodes)
        heap: list[tuple[_Option, tuple[Movable, ...]]] = []
        for column in self.columns:
            self._offer(heap, asked, column, usable)
        chosen: list[Movable] = []
        for _ in range(number):
            if not heap:
                return None
            (_, _, _, column), moved = heapq.heappop(heap)
            chosen += moved
            if len(chosen) > most:
                return None
            self._free[column] += sum((each.held for each in moved), np.zeros_like(asked)) - asked
            gone = {each.task.key for each in moved}
            self._left[column] = [each for each in self._left[column] if each.task.key not in gone]
            self._offer(heap, asked, column, usable)
        return chosen

    def _offer(
        self, heap: list[tuple[_Option, tuple[Movable, ...]]], asked: Vector, column: int, usable: BoolArray
    ) -> None:
        moved = self._cheapest(asked, column) if usable[column] else None
        if moved is not None:
            left = self._free[column] - asked + sum((each.held for each in moved), np.zeros_like(asked))
            over = float((left / self._size[:, column]).sum())
            # The column makes every option different, so that pods are never compared.
            heapq.heappush(heap, ((sum(each.cost for each in moved), len(moved), over, column), tuple(moved)))

    def _cheapest(self, asked: Vector, column: int) -> list[Movable] | None:
        """Pods of one node to move for one pod: the cheapest by what they free, without those that are not needed."""
        lacking = np.where(asked > 0, asked - self._free[column], 0)
        if not (lacking > 0).any():
            return []
        rows = np.flatnonzero(lacking > 0)
        taken: list[Movable] = []

        def worth(each: Movable) -> tuple[float, str]:
            helped = float((np.minimum(each.held[rows], lacking[rows]) / lacking[rows]).sum())
            return (each.cost / helped if helped > 0 else float("inf")), each.task.key

        held = np.zeros_like(lacking)
        for each in sorted(self._left[column], key=worth):
            if (held[rows] >= lacking[rows]).all():
                break
            if (each.held[rows] > 0).any():
                taken.append(each)
                held += each.held
        if not (held[rows] >= lacking[rows]).all():
            return None
        for each in sorted(taken, key=lambda one: (-one.cost, one.task.key)):
            if ((held - each.held)[rows] >= lacking[rows]).all():
                taken.remove(each)
                held -= each.held
        return taken


# Trying a plan on a copy of the cluster: the gang and every moved pod must find places in the next cycle.

_PASSIVE = frozenset(("enqueue", "allocate", "backfill"))


def rehearse(
    cycle: Cycle, job: JobState, moved: Sequence[Task], promised: Mapping[str, str]
) -> tuple[dict[str, str], int] | None:
    """The next cycle once the moved pods are made again, with everything else that waits, and without evictions.

    Args:
        cycle: the present one; what it has committed counts as done.
        job: the gang.
        moved: pods that leave.
        promised: node by pod of the gang.

    Returns:
        node of each moved pod and of each of the gang's pods, and how many nodes are free of our pods then; None when
        the gang does not start, or a moved pod finds no place.
    """
    edit = Edit(*after(cycle))
    for victim in moved:
        task = edit.task(victim.key)
        task.status, task.node, task.nominated_node, task.since = TaskStatus.PENDING, "", "", 0.0
        edit.put(task)
    for key, node in promised.items():
        task = edit.task(key)
        task.nominated_node = node
        edit.put(task)
    off, watch = cycle.hooks.failed, cycle.stopwatch
    config = replace(cycle.config, actions=tuple(name for name in cycle.config.actions if name in _PASSIVE))
    trial = Cycle(
        edit.snapshot(),
        config,
        cycle.session.now,
        cycle.session.seed,
        lambda name: None if name in off else cycle.lookup(name),
        Stopwatch(watch.monotonic, watch.limit),
    )
    index = trial.session.snapshot.nodes.index
    for pod_class, node, sign in edit.moves:
        if node in index:
            trial.session.domains.move(pod_class, [index[node]], sign)
    run_actions(trial)
    names = trial.session.snapshot.nodes.names
    placed = {
        task.key: names[column]
        for placement in trial.bound
        for task, column in zip(placement.tasks, placement.columns, strict=True)
    }
    state = trial.session.job(job.key)
    started = state is not None and trial.hooks.ready(state) and any(key in placed for key in promised)
    alike = trial.hooks.failed == off
    free = free_nodes(trial, placed)
    trial.end()
    if not (started and alike) or any(task.key not in placed for task in moved):
        return None
    return placed, free


def free_nodes(cycle: Cycle, placed: Mapping[str, str] | None = None) -> int:
    """Nodes on which no pod of ours is, nor will be: DaemonSets and the like of other schedulers do not count."""
    snapshot = cycle.session.snapshot
    taken = set((placed or {}).values())
    for name, tasks in snapshot.tasks_on.items():
        if any(task.owned for task in tasks.values()):
            taken.add(name)
    return sum(1 for name in snapshot.nodes.names if name not in taken)


# defragment: moves running pods together for a gang that waits although the cluster has enough room for it.
#
# A plan is carried out only when, on a copy of the cluster, the gang starts and every moved pod finds another place.

_NAME = "defragment"


@dataclass(slots=True)
class _LastPlan:
    """When pods were last moved, seconds since the epoch; None: never."""

    at: float | None = None


def run(cycle: Cycle) -> None:
    """Queue by queue, the first of the starving jobs first, until so many gangs have been helped."""
    given = cycle.config.arguments_of(_NAME)
    values = {argument.key: argument_value(argument, given) for argument in ACTION_ARGUMENTS[_NAME]}
    limits = Limits(
        values["maxMoves"],
        parse_duration(str(values["minRunTime"])),
        parse_duration(str(values["maxLostTime"])),
        values["maxDomains"],
    )
    now, last = cycle.session.now, cycle.session.snapshot.memo.of(_LastPlan, _LastPlan)
    if last.at is not None and 0 <= now - last.at < parse_duration(str(values["interval"])):
        return
    by_queue, helped = starving_jobs(cycle), 0
    queues = cycle.orders.queues(cycle.session.queues[name] for name in by_queue)
    while len(queues) and helped < values["maxGangs"]:
        jobs = cycle.orders.jobs(by_queue[queues.pop().name])
        while len(jobs) and helped < values["maxGangs"]:
            plan = serve(cycle, jobs.pop(), limits)
            if plan is not None:
                cycle.decisions.plans.append(plan)
                last.at = now
                helped += 1


def serve(cycle: Cycle, job: JobState, limits: Limits) -> DefragmentationPlan | None:
    """Find moves for one gang and commit them; None, and nothing changed, when there are none that let it start."""
    tasks, _ = wanted_tasks(cycle, job)
    if not tasks or any(task.never_preempts for task in tasks) or not _room_in_all(cycle, job, tasks):
        return None
    pods = MovablePods(cycle, job, tasks, limits)
    if not pods.on:
        return None
    cycle.session.subject = job
    rule = GangRule(Purpose.DEFRAGMENT, limits.domains, whole=False)
    for domain in domains_to_try(cycle, job, rule, tasks):
        columns = search_of(cycle).tree.columns[domain].tolist()
        chosen = Choice(pods, columns, limits.moves).make_room(_needed(cycle, job, tasks))
        if not chosen or not pods.within_budgets([each.task for each in chosen]):
            continue
        plan = _carry_out(cycle, job, tasks, domain, chosen)
        if plan is not None:
            return plan
    return None


def _needed(cycle: Cycle, job: JobState, tasks: list[Task]) -> list[Task]:
    """Those that the gang needs to start; all of them where roles or sub-groups have minimums of their own."""
    if job.roles_apply or job.record.sub_groups:
        return tasks
    return tasks[: max(cycle.hooks.missing(job), 1)]


def _room_in_all(cycle: Cycle, job: JobState, tasks: list[Task]) -> bool:
    """Whether the cluster has what the gang needs at all: moves free nothing, they only bring it together."""
    nodes = cycle.session.nodes
    later = nodes.allocatable - nodes.used + nodes.releasing - nodes.pipelined
    return bool((later.clip(min=0).sum(axis=1) >= sum_of(cycle.session, _needed(cycle, job, tasks))).all())


def _carry_out(
    cycle: Cycle, job: JobState, tasks: list[Task], domain: int, chosen: list[Movable]
) -> DefragmentationPlan | None:
    evictions, transaction = evictions_of(cycle), cycle.transaction
    before, mark = free_nodes(cycle), transaction.checkpoint()
    for each in chosen:
        if not evictions.allowed(each.task):
            evictions.rollback(mark)
            return None
        evictions.evict(each.task, each.column, Purpose.DEFRAGMENT.value)
    solver = Solver(cycle, job, RemainingByGroup.of(cycle, job, tasks), promise=True)
    places = solver.mark()
    worked = solver.solve_in(domain) and cycle.hooks.vote("pipelined", job) is None
    for group, place in places[1]:
        group.restore(place)
    names = cycle.session.snapshot.nodes.names
    promised = {
        task.key: names[column]
        for placement in transaction.log[mark:]
        if placement.status is TaskStatus.PIPELINED
        for task, column in zip(placement.tasks, placement.columns, strict=True)
    }
    tried = rehearse(cycle, job, [each.task for each in chosen], promised) if worked else None
    if tried is None:
        evictions.rollback(mark)
        return None
    cycle.commit(mark, job)
    placed, free = tried
    registry, gained = cycle.session.registry, sum_of(cycle.session, [task for task in tasks if task.key in promised])
    now = cycle.session.now
    moves = tuple(
        PodMove(
            each.task.key,
            each.task.job,
            each.task.node,
            placed[each.task.key],
            max(now - (each.task.since or each.task.created), 0.0),
            each.lost_seconds,
        )
        for each in sorted(chosen, key=lambda one: one.task.key)
    )
    return DefragmentationPlan(
        job.key,
        job.queue.name,
        moves,
        promised,
        sum(each.lost_seconds for each in chosen),
        {registry.names[row]: int(gained[row]) for row in np.flatnonzero(gained).tolist()},
        (before, free),
    )
