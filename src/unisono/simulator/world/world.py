"""The simulated world: jobs arrive, run and end on a virtual clock, and the engine decides.

::

    heap of events ──► moment ──► ClusterState ──snapshot──► engine.run ──► Decisions
         ▲                                                                      │
         └──────────── ends, repairs, next cycles ◄── binds, evictions ◄────────┘

All events of one moment happen before the engine is asked. A run depends on nothing but the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from unisono import engine
from unisono.api.kinds import HYPER_NODES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES
from unisono.api.resources import resource_list
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import Bind, Decisions, Eviction, PodCondition
from unisono.errors import UnisonoError
from unisono.gc_pauses import collect_now, collector_paused
from unisono.simulator.clusters.model import Cluster, gpus_of, make_queue, with_shared_gpus
from unisono.simulator.workload.job import WHOLE_GPU, Job
from unisono.simulator.world import outcome as outcomes
from unisono.simulator.world.heap import EventHeap
from unisono.simulator.world.live_jobs import Adopted, LiveJob
from unisono.simulator.world.objects import ObjectMaker, priority_object, succeeded, with_status
from unisono.simulator.world.outcome import EvictionRecord, JobOutcome, Run, Stretch
from unisono.simulator.world.progress import Unit, units_of
from unisono.simulator.world.settings import NodeChange, Settings
from unisono.simulator.world.speed import SpeedModel
from unisono.simulator.world.trouble import Trouble

Progress = Callable[[int, int], None]
"""Is told from time to time: jobs that have ended, and all jobs."""

_MOST_CYCLES = 16
"""Cycles at one moment; what still moves then goes on a second later."""
_SETTLING = 1.0
_TIDY_CYCLES = 3000
_PASSIVE = frozenset(("enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim"))
"""Actions that do nothing unless a pod waits."""


class SimulationError(UnisonoError):
    """A simulation cannot be run as it was asked for."""


class World:
    """One simulation.

    Args:
        cluster: where it happens.
        jobs: in order of submission.
        config: of the scheduler.
        settings: how the world goes.
        plugins: plug-ins by name, looked up before the registry.
        progress: is told how far it is.
        state: of a live cluster with everything in it; None for an empty one of the cluster's nodes.
        adopted: the jobs in that state.
        until_started: end when all adopted jobs have started, instead of when all jobs have ended.
        watch: is called after the decisions of the moments ``watch_at``.

    Attributes:
        now: seconds since the beginning.
        state: what the engine sees.
        live: jobs that have arrived and not ended, by key of their PodGroup.
    """

    def __init__(
        self,
        cluster: Cluster,
        jobs: Sequence[Job],
        config: SchedulerConfig,
        settings: Settings | None = None,
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        progress: Progress | None = None,
        state: ClusterState | None = None,
        adopted: Sequence[Adopted] = (),
        until_started: bool = False,
        watch: Callable[[World], None] | None = None,
        watch_at: Sequence[float] = (),
    ) -> None:
        self.settings = settings or Settings()
        shared = state is None and any(role.gpu_milli < WHOLE_GPU for job in jobs for role in job.roles)
        self.cluster = with_shared_gpus(cluster) if shared else cluster
        self.jobs, self.config, self.plugins = jobs, config, dict(plugins or {})
        self.now = 0.0
        self.live: dict[str, LiveJob] = {}
        self._progress = progress
        self.state = state or ClusterState()
        self._live_state, self._adopted = state is not None, adopted
        self._to_start = len(adopted) if until_started else 0
        self._watch, self._watch_at, self._watching = watch, watch_at, False
        self._maker = ObjectMaker(shared=shared, run_times=self.settings.run_times, epoch=self.settings.epoch)
        self._heap = EventHeap()
        self._names = tuple(node.metadata.name for node in self.cluster.nodes)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._up = set(self._numbers)
        self._pods: dict[str, tuple[LiveJob, int]] = {}
        self._run = Run(self.cluster, self._names, [JobOutcome(job) for job in jobs])
        self._speed = SpeedModel(self.cluster, self.settings)
        self._trouble = Trouble(self.cluster, self.settings)
        self._ended = 0
        self._arrivals_left = len(jobs) - len(adopted)
        self._next_cycle, self._due = 0.0, -1.0
        self._dirty = False
        self._passive = set(config.actions) <= _PASSIVE
        self._waiting: dict[str, None] = {}

    @property
    def up(self) -> frozenset[str]:
        """Names of the nodes that are there."""
        return frozenset(self._up)

    @property
    def outcomes(self) -> Sequence[JobOutcome]:
        """What has happened to the jobs so far."""
        return self._run.outcomes

    # ---- set-up

    def _announce(self) -> None:
        if not self._live_state:
            self._fill_state()
        self._note_capacity()
        for number, adopted in enumerate(self._adopted):
            self._adopt(number, adopted)
        for number, job in enumerate(self.jobs[len(self._adopted) :], start=len(self._adopted)):
            self._heap.push(job.submit, "arrive", number)
        for change in (*self.settings.changes, *self._trouble.first()):
            if change.node not in self._numbers:
                raise SimulationError(f"the settings change a node {change.node}, which the cluster does not have")
            self._heap.push(change.at, "node", change)
        for at in self._watch_at:
            self._heap.push(at, "watch", None)

    def _adopt(self, number: int, adopted: Adopted) -> None:
        """Take over a job of a live cluster as it is."""
        job, outcome = adopted.job, self._run.outcomes[number]
        units = units_of(job)
        unit_of = [units[0]] * job.pods if len(units) == 1 else list(units)
        roles = [role for role in job.roles for _ in range(role.count)]
        live = LiveJob(number, job, outcome, adopted.group, units, unit_of, roles, list(adopted.pods))
        live.incarnations, live.templates = [0] * job.pods, adopted.pods
        self.live[live.key] = live
        outcome.started = adopted.started
        for at, pod in enumerate(adopted.pods):
            self._pods[pod.key] = live, at
            if pod.spec.node_name in self._numbers:
                live.unit_of[at].placed[at] = self._numbers[pod.spec.node_name]
        for unit in units:
            unit.left = max((adopted.left[at] for at in unit.placed or unit.pods), default=unit.left)
            if len(unit.placed) >= unit.minimum:
                unit.attempts = 1
                self._open_stretch(live, unit)
            if len(unit.placed) < len(unit.pods):
                self._waiting[live.key] = None
        self._wake(0.0)

    def _fill_state(self) -> None:
        state = self.state
        for node in self.cluster.nodes:
            state.apply("ADDED", NODES, node)
        for hyper_node in self.cluster.hyper_nodes:
            state.apply("ADDED", HYPER_NODES, hyper_node)
        queues = {queue.metadata.name: queue for queue in self.cluster.queues}
        for name in ("default", *sorted({job.queue for job in self.jobs})):
            queues.setdefault(name, make_queue(name))
        for queue in queues.values():
            state.apply("ADDED", QUEUES, queue)
        for value in sorted({job.priority for job in self.jobs} - {0}):
            state.apply("ADDED", PRIORITY_CLASSES, priority_object(value))
        for rejected in state.rejected.all():
            raise SimulationError(f"{rejected.kind} {rejected.key}: {rejected.message}")

    def _note_capacity(self) -> None:
        nodes = [node for node in self.cluster.nodes if node.metadata.name in self._up]
        gpus = sum(gpus_of(node) for node in nodes)
        cpu = sum(resource_list(node.status.allocatable).get("cpu", 0) for node in nodes)
        self._run.capacity.append((self.now, gpus, cpu))

    # ---- the loop

    def run(self) -> Run:
        """Live until all jobs have ended, nothing can change any more, or the time is over.

        Raises:
            SimulationError: the settings do not fit the cluster, or the cluster is broken.

        """
        until = inf if self.settings.until is None else self.settings.until
        with collector_paused():
            self._announce()
            tidy = _TIDY_CYCLES
            while self._heap and self._heap.time <= until:
                self.now = self._heap.time
                for kind, what in self._heap.moment():
                    self._handlers[kind](self, what)
                if self._dirty and self.now >= self._next_cycle:
                    self._decide()
                elif self._dirty:
                    self._wake(self._next_cycle)
                if self._watching and self._watch is not None:
                    self._watching = False
                    self._watch(self)
                if self._is_over():
                    break
                if self._run.cycles >= tidy:
                    tidy = self._run.cycles + _TIDY_CYCLES
                    collect_now()
        if until < inf:
            self.now = max(self.now, until)
        self._close()
        return self._run

    def _is_over(self) -> bool:
        if self._to_start:
            return all(outcome.started is not None for outcome in self._run.outcomes[: self._to_start])
        return not self.live and not self._arrivals_left

    def _wake(self, at: float) -> None:
        """Ask for a cycle at a later moment."""
        if self._due < self.now or at < self._due or (self._due == self.now < at):
            self._due = at
            self._heap.push(at, "cycle", None)

    def _on_watch(self, _: object) -> None:
        self._watching = True

    def _on_cycle(self, _: object) -> None:
        self._dirty = True

    def _decide(self) -> None:
        """Cycles until nothing moves any more at this moment."""
        for _ in range(_MOST_CYCLES):
            self._dirty = False
            self._next_cycle = self.now + self.settings.period
            if self._passive and not self._waiting:
                return
            decisions = self._ask()
            again = self._carry_out(decisions)
            if not self.settings.retry:
                self._drop_waiting()
                return
            if not again:
                if self._waiting and self.settings.recheck:
                    self._wake(self.now + self.settings.recheck)
                return
        self._dirty = True
        self._wake(self.now + max(_SETTLING, self.settings.period))

    def _ask(self) -> Decisions:
        self._run.cycles += 1
        settings = self.settings
        snapshot, now = self.state.snapshot(), self.settings.epoch + self.now
        return engine.run(snapshot, self.config, now, settings.seed, plugins=self.plugins, verdicts=False)

    # ---- decisions

    def _carry_out(self, decisions: Decisions) -> bool:
        """Let what was decided happen; answers whether it may lead to more decisions at once."""
        self._run.violations += [f"{one.subject}: {one.message}" for one in decisions.violations]
        again = False
        for update in decisions.pod_groups:
            live = self.live.get(update.key)
            if live is None:
                continue
            admitted = update.phase != (live.group.status.phase or "Pending") and update.key in self._waiting
            live.group = with_status(live.group, update)
            self.state.apply("MODIFIED", POD_GROUPS, live.group)
            again = again or admitted
        for condition in decisions.pod_conditions:
            self._nominate(condition)
        started = self._bind_all(decisions.binds)
        again = again and bool(self._waiting) and not started
        self._evict(decisions.evictions)
        return again or (bool(decisions.evictions) and self.settings.grace <= 0)

    def _nominate(self, condition: PodCondition) -> None:
        """A pod waits for the places of others that are evicted for it."""
        found = self._pods.get(f"{condition.namespace}/{condition.pod}")
        if found is not None and condition.nominated_node:
            live, at = found
            live.pods[at] = self._maker.nominated(live.pods[at], condition.nominated_node)
            self.state.apply("MODIFIED", PODS, live.pods[at])

    def _bind_all(self, binds: Sequence[Bind]) -> bool:
        touched: dict[tuple[str, int], tuple[LiveJob, Unit]] = {}
        for bind in binds:
            found = self._pods.get(f"{bind.namespace}/{bind.pod}")
            if found is None:
                continue
            live, at = found
            unit = live.unit_of[at]
            pod = live.pods[at] = self._maker.running(live.pods[at], bind.node, self.now, bind.annotations)
            self.state.apply("MODIFIED", PODS, pod)
            unit.placed[at] = self._numbers[bind.node]
            touched[live.key, unit.number] = live, unit
        self._run.binds += len(binds)
        for live, unit in touched.values():
            self._begin(live, unit)
            if all(len(each.placed) == len(each.pods) or each.over for each in live.units):
                self._waiting.pop(live.key, None)
        return bool(touched)

    def _begin(self, live: LiveJob, unit: Unit) -> None:
        """Let a unit run that has its places, or go on with more of them."""
        if len(unit.placed) < unit.minimum:
            return
        overhead = 0.0
        if unit.stretch is not None:
            self._end_stretch(unit, "resized")
        else:
            overhead = self.settings.startup + (live.job.restart_overhead if unit.attempts else 0.0)
            unit.attempts += 1
            unit.since = self.now + overhead
        self._open_stretch(live, unit, overhead)
        if live.outcome.started is None and sum(len(each.placed) for each in live.units) >= live.job.minimum:
            live.outcome.started = self.now

    def _open_stretch(self, live: LiveJob, unit: Unit, overhead: float = 0.0) -> None:
        pods = tuple(sorted(unit.placed))
        nodes = tuple(unit.placed[at] for at in pods)
        gpu = sum(live.roles[at].gpu_demand for at in pods)
        cpu = sum(live.roles[at].cpu_milli for at in pods)
        unit.stretch = Stretch(self.now, self.now, unit.number, nodes, pods, gpu, cpu, overhead=overhead)
        live.outcome.stretches.append(unit.stretch)
        unit.rate = self._speed.rate(nodes, len(unit.pods))
        unit.version += 1
        end = unit.end()
        if end < inf:
            self._heap.push(end, "finish", (live, unit, unit.version))
        alarm = self._trouble.pod_failure(self.now, len(pods))
        if alarm < end:
            self._heap.push(alarm, "fail", (live, unit, unit.version))

    def _end_stretch(self, unit: Unit, cause: str) -> None:
        stretch = unit.stretch
        assert stretch is not None
        unit.settle(self.now)
        stretch.end, stretch.cause = self.now, cause
        unit.attained += stretch.end - stretch.start
        unit.stretch, unit.rate = None, 0.0
        unit.version += 1

    def _evict(self, evictions: Sequence[Eviction]) -> None:
        lost: dict[str, tuple[LiveJob, list[int]]] = {}
        for eviction in evictions:
            key = f"{eviction.namespace}/{eviction.pod}"
            found = self._pods.get(key)
            if found is None:
                continue
            live, at = found
            victim, beneficiary = live.job.name, eviction.beneficiary.partition("/")[2]
            gpu = live.roles[at].gpu_demand
            self._run.evictions.append(EvictionRecord(self.now, victim, beneficiary, eviction.reason, gpu))
            live.outcome.evictions += 1
            self.state.release(key, self.settings.epoch + self.now)
            lost.setdefault(live.key, (live, []))[1].append(at)
        for live, pods in lost.values():
            self._lose(live, pods, "evicted", grace=self.settings.grace)

    # ---- pods that lose their places

    def _lose(self, live: LiveJob, lost: Iterable[int], cause: str, *, grace: float = 0.0) -> None:
        """Pods lose their places; a unit that falls below its minimum stops, and its other pods go as well."""
        by_unit: dict[int, list[int]] = {}
        for at in lost:
            unit = live.unit_of[at]
            if at in unit.placed:
                by_unit.setdefault(unit.number, []).append(at)
        for number, hit in by_unit.items():
            unit, gone = live.units[number], hit
            stretch = unit.stretch
            if stretch is not None:
                self._end_stretch(unit, cause)
            for at in gone:
                del unit.placed[at]
            if len(unit.placed) >= unit.minimum and stretch is not None:
                stretch.cause = "resized"
                self._open_stretch(live, unit)
            else:
                gone = [*gone, *unit.placed]
                unit.placed.clear()
                if stretch is not None:
                    stretch.lost = unit.fall_back(live.job.checkpoint)
            if grace > 0:
                for at in gone:
                    self.state.release(live.pods[at].key, None)
                self._heap.push(self.now + grace, "gone", (live, [(at, live.incarnations[at]) for at in gone]))
            else:
                self._remake(live, gone)
        self._waiting[live.key] = None
        self._dirty = True

    def _on_gone(self, what: tuple[LiveJob, list[tuple[int, int]]]) -> None:
        live, pods = what
        if live.key in self.live:
            self._remake(live, [at for at, incarnation in pods if live.incarnations[at] == incarnation])

    def _remake(self, live: LiveJob, pods: Iterable[int]) -> None:
        """Replace pods by new ones that wait."""
        for at in sorted(pods):
            old = live.pods[at]
            self.state.apply("DELETED", PODS, old)
            del self._pods[old.key]
            live.incarnations[at] += 1
            self._add_pod(live, at)
        self._dirty = True

    def _add_pod(self, live: LiveJob, at: int) -> None:
        again = live.incarnations[at]
        name = f"{live.job.name}-{at}" if not again else f"{live.job.name}-r{again}-{at}"
        if live.templates:
            pod = self._maker.again(live.templates[at], name, self.now)
        else:
            pod = self._maker.pod(live.job, live.roles[at], name, self.now)
        if at < len(live.pods):
            live.pods[at] = pod
        else:
            live.pods.append(pod)
        self._pods[pod.key] = live, at
        self.state.apply("ADDED", PODS, pod)

    # ---- arrivals and ends

    def _on_arrive(self, number: int) -> None:
        self._arrivals_left -= 1
        job = self.jobs[number]
        units = units_of(job)
        unit_of = [units[0]] * job.pods if len(units) == 1 else list(units)
        roles = [role for role in job.roles for _ in range(role.count)]
        live = LiveJob(number, job, self._run.outcomes[number], self._maker.group(job, number), units, unit_of, roles)
        if live.key in self.live:
            raise SimulationError(f"two jobs of {job.user or 'one user'} have the name {job.name}: names must differ")
        self.live[live.key] = live
        self.state.apply("ADDED", POD_GROUPS, live.group)
        live.incarnations = [0] * job.pods
        for at in range(job.pods):
            self._add_pod(live, at)
        self._waiting[live.key] = None
        self._dirty = True

    def _on_finish(self, what: tuple[LiveJob, Unit, int]) -> None:
        live, unit, version = what
        if unit.version != version:
            return
        self._end_stretch(unit, "completed")
        unit.over = True
        self._dirty = True
        for at in unit.pods:
            if at in unit.placed:
                live.pods[at] = succeeded(live.pods[at], self.settings.epoch + self.now)
                self.state.apply("MODIFIED", PODS, live.pods[at])
        if all(each.over for each in live.units):
            self._remove(live, outcomes.COMPLETED)

    def _on_fail(self, what: tuple[LiveJob, Unit, int]) -> None:
        live, unit, version = what
        if unit.version != version:
            return
        victim = self._trouble.choice(sorted(unit.placed))
        self._failed(live, [victim], "failed")

    def _failed(self, live: LiveJob, pods: Sequence[int], cause: str) -> None:
        live.outcome.failures += 1
        self._lose(live, pods, cause)
        limit = live.job.max_retries
        if limit is not None and live.outcome.failures > limit:
            self._remove(live, outcomes.FAILED)

    def _remove(self, live: LiveJob, state: str) -> None:
        """The job is over: its pods and its PodGroup are deleted."""
        for unit in live.units:
            if unit.stretch is not None:
                self._end_stretch(unit, "end")
            unit.version += 1
        for pod in live.pods:
            self.state.apply("DELETED", PODS, pod)
            del self._pods[pod.key]
        self.state.apply("DELETED", POD_GROUPS, live.group)
        del self.live[live.key]
        self._waiting.pop(live.key, None)
        live.outcome.state, live.outcome.ended = state, None if state == outcomes.DROPPED else self.now
        self._dirty = True
        self._ended += 1
        if self._progress is not None:
            self._progress(self._ended, len(self.jobs))

    def _drop_waiting(self) -> None:
        for key in list(self._waiting):
            live = self.live[key]
            if live.outcome.started is None:
                self._remove(live, outcomes.DROPPED)
        self._dirty = False

    # ---- nodes

    def _on_node(self, change: NodeChange) -> None:
        name = change.node
        if change.up == (name in self._up):
            return
        number = self._numbers[name]
        if change.up:
            self._up.add(name)
            self.state.apply("ADDED", NODES, self.cluster.nodes[number])
        else:
            self._up.discard(name)
            hit = [live for live in self.live.values() if any(number in unit.placed.values() for unit in live.units)]
            for live in hit:
                lost = [at for unit in live.units for at, place in unit.placed.items() if place == number]
                self._failed(live, lost, "node lost")
            self.state.apply("DELETED", NODES, self.cluster.nodes[number])
        for later in self._trouble.next(change, self.now):
            self._heap.push(later.at, "node", later)
        self._note_capacity()
        self._dirty = True

    def _close(self) -> None:
        """Write down how things stand at the end."""
        self._run.end = self.now
        for live in self.live.values():
            running = False
            for unit in live.units:
                if unit.stretch is not None:
                    running = True
                    self._end_stretch(unit, "end")
            live.outcome.state = outcomes.RUNNING if running else outcomes.WAITING

    _handlers: Mapping[str, Callable[..., None]] = {
        "arrive": _on_arrive,
        "finish": _on_finish,
        "fail": _on_fail,
        "gone": _on_gone,
        "node": _on_node,
        "cycle": _on_cycle,
        "watch": _on_watch,
    }
