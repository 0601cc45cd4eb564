"""The simulated world: jobs arrive, run and end on a virtual clock, and the engine decides.

::

    heap of events ──► moment ──► ClusterState ──snapshot──► engine.run ──► Decisions
         ▲                                                                      │
         └──────────── ends, repairs, next cycles ◄── binds, evictions ◄────────┘

All events of one moment happen before the engine is asked. A run depends on nothing but the arguments.
`places` has the jobs and their pods, `cycles` asks the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from unisono.api.kinds import HYPER_NODES, NODES, PRIORITY_CLASSES, QUEUES
from unisono.api.resources import resource_list
from unisono.api.scheduling import Queue
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.contract.plugin import Plugin
from unisono.errors import UnisonoError
from unisono.gc_pauses import collect_now, collector_paused
from unisono.simulator.clusters.model import Cluster, gpus_of, make_queue, with_shared_gpus
from unisono.simulator.workload.job import WHOLE_GPU, Job
from unisono.simulator.world.cycles import Cycles
from unisono.simulator.world.heap import EventHeap
from unisono.simulator.world.live_jobs import Adopted, LiveJob
from unisono.simulator.world.objects import ObjectMaker, priority_object
from unisono.simulator.world.outcome import JobOutcome, Run
from unisono.simulator.world.places import Places
from unisono.simulator.world.progress import Unit
from unisono.simulator.world.settings import NodeChange, Settings
from unisono.simulator.world.trouble import Trouble

Progress = Callable[[int, int], None]
"""Is told from time to time: jobs that have ended, and all jobs."""

_TIDY_CYCLES = 3000


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
        state: what the engine sees.
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
        self.jobs, self.state = jobs, state or ClusterState()
        self._live_state, self._adopted = state is not None, adopted
        self._to_start = len(adopted) if until_started else 0
        self._progress = progress
        self._watch, self._watch_at, self._watching = watch, watch_at, False
        names = tuple(node.metadata.name for node in self.cluster.nodes)
        self._up = set(names)
        self._run = Run(self.cluster, names, [JobOutcome(job) for job in jobs])
        self._heap = EventHeap()
        self._maker = ObjectMaker(shared=shared, run_times=self.settings.run_times, epoch=self.settings.epoch)
        self._trouble = Trouble(self.cluster, self.settings)
        self._places = Places(self.state, self.settings, self._maker, self._heap, self._run, self._trouble)
        opened = all((queue.status.state or "Open") == "Open" for queue in queues_of(self.cluster, jobs))
        whole = not self._live_state and opened
        self._cycles = Cycles(config, dict(plugins or {}), self._places, whole=whole)
        self._arrivals_left = len(jobs) - len(adopted)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._heap.now

    @property
    def live(self) -> Mapping[str, LiveJob]:
        """Jobs that have arrived and not ended, by key of their PodGroup."""
        return self._places.live

    @property
    def up(self) -> frozenset[str]:
        """Names of the nodes that are there."""
        return frozenset(self._up)

    @property
    def outcomes(self) -> Sequence[JobOutcome]:
        """What has happened to the jobs so far."""
        return self._run.outcomes

    # ---- the loop

    def run(self) -> Run:
        """Live until all jobs have ended, nothing can change any more, or the time is over.

        Raises:
            SimulationError: the settings do not fit the cluster, or the cluster is broken.

        """
        until = inf if self.settings.until is None else self.settings.until
        heap, run = self._heap, self._run
        with collector_paused():
            self._announce()
            tidy = _TIDY_CYCLES
            while heap and heap.time <= until:
                for kind, what in heap.moment():
                    self._handlers[kind](self, what)
                self._cycles.after_moment()
                if self._watching and self._watch is not None:
                    self._watching = False
                    self._watch(self)
                if self._is_over():
                    break
                if run.cycles >= tidy:
                    tidy = run.cycles + _TIDY_CYCLES
                    collect_now()
        if until < inf:
            heap.now = max(heap.now, until)
        run.end = heap.now
        self._places.close()
        return run

    def _announce(self) -> None:
        """What is there at the beginning, and the events that are known from then on."""
        if not self._live_state:
            fill(self.state, self.cluster, self.jobs)
        self._note_capacity()
        for number, adopted in enumerate(self._adopted):
            live = LiveJob.of(number, adopted.job, self._run.outcomes[number], adopted.group)
            self._places.adopt(live, adopted)
            self._cycles.wake(0.0)
        for number, job in enumerate(self.jobs[len(self._adopted) :], start=len(self._adopted)):
            self._heap.push(job.submit, "arrive", number)
        for change in (*self.settings.changes, *self._trouble.first()):
            if change.node not in self._places.numbers:
                raise SimulationError(f"the settings change a node {change.node}, which the cluster does not have")
            self._heap.push(change.at, "node", change)
        for at in self._watch_at:
            self._heap.push(at, "watch", None)

    def _is_over(self) -> bool:
        if self._to_start:
            return all(outcome.started is not None for outcome in self._run.outcomes[: self._to_start])
        return not self.live and not self._arrivals_left

    # ---- events

    def _on_arrive(self, number: int) -> None:
        self._arrivals_left -= 1
        job = self.jobs[number]
        live = LiveJob.of(number, job, self._run.outcomes[number], self._maker.group(job, number))
        if live.key in self.live:
            raise SimulationError(f"two jobs of {job.user or 'one user'} have the name {job.name}: names must differ")
        self._places.add(live)

    def _on_finish(self, what: tuple[LiveJob, Unit, int]) -> None:
        live, unit, version = what
        if unit.version == version:
            self._places.finish(live, unit)
            self._tell()

    def _on_fail(self, what: tuple[LiveJob, Unit, int]) -> None:
        live, unit, version = what
        if unit.version == version:
            self._places.fail(live, [self._trouble.choice(sorted(unit.placed))], "failed")
            self._tell()

    def _on_gone(self, what: tuple[LiveJob, list[tuple[int, int]]]) -> None:
        self._places.leave(*what)

    def _on_cycle(self, _: object) -> None:
        self._places.changed = True

    def _on_watch(self, _: object) -> None:
        self._watching = True

    def _on_node(self, change: NodeChange) -> None:
        name, places = change.node, self._places
        if change.up == (name in self._up):
            return
        number = places.numbers[name]
        if change.up:
            self._up.add(name)
            self.state.apply("ADDED", NODES, self.cluster.nodes[number])
        else:
            self._up.discard(name)
            hit = [live for live in self.live.values() if any(number in unit.placed.values() for unit in live.units)]
            for live in hit:
                lost = [at for unit in live.units for at, place in unit.placed.items() if place == number]
                places.fail(live, lost, "node lost")
            self.state.apply("DELETED", NODES, self.cluster.nodes[number])
        places.room.note(number, up=change.up)
        for later in self._trouble.next(change, self.now):
            self._heap.push(later.at, "node", later)
        self._note_capacity()
        places.changed = True

    def _note_capacity(self) -> None:
        nodes = [node for node in self.cluster.nodes if node.metadata.name in self._up]
        gpus = sum(gpus_of(node) for node in nodes)
        cpu = sum(resource_list(node.status.allocatable).get("cpu", 0) for node in nodes)
        self._run.capacity.append((self.now, gpus, cpu))

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._places.ended, len(self.jobs))

    _handlers: Mapping[str, Callable[..., None]] = {
        "arrive": _on_arrive,
        "finish": _on_finish,
        "fail": _on_fail,
        "gone": _on_gone,
        "node": _on_node,
        "cycle": _on_cycle,
        "watch": _on_watch,
    }


class SimulationError(UnisonoError):
    """A simulation cannot be run as it was asked for."""


def queues_of(cluster: Cluster, jobs: Sequence[Job]) -> list[Queue]:
    """The queues of the cluster, and those that only jobs name."""
    queues = {queue.metadata.name: queue for queue in cluster.queues}
    for name in ("default", *sorted({job.queue for job in jobs})):
        queues.setdefault(name, make_queue(name))
    return list(queues.values())


def fill(state: ClusterState, cluster: Cluster, jobs: Sequence[Job]) -> None:
    """Add nodes, topology, queues and priority classes.

    Raises:
        SimulationError: one of them is not valid.

    """
    for node in cluster.nodes:
        state.apply("ADDED", NODES, node)
    for hyper_node in cluster.hyper_nodes:
        state.apply("ADDED", HYPER_NODES, hyper_node)
    for queue in queues_of(cluster, jobs):
        state.apply("ADDED", QUEUES, queue)
    for value in sorted({job.priority for job in jobs} - {0}):
        state.apply("ADDED", PRIORITY_CLASSES, priority_object(value))
    for rejected in state.rejected.all():
        raise SimulationError(f"{rejected.kind} {rejected.key}: {rejected.message}")
