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

from msgspec.structs import replace

from unisono import engine
from unisono.api import kinds
from unisono.api.budget_use import Uses
from unisono.api.budgets import count
from unisono.api.groups.scheduling import Queue
from unisono.api.resources import resource_list
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import Decisions, PodGroupUpdate
from unisono.engine.plugins.registry import lookup_with
from unisono.errors import UnisonoError
from unisono.gc_pauses import collect_now, collector_paused
from unisono.simulator.abilities import goes_by_saved_work, recheck_seconds
from unisono.simulator.clusters import Cluster, gpus_of, make_queue, with_shared_gpus
from unisono.simulator.workload.job import WHOLE_GPU, Job
from unisono.simulator.world import outcome as outcomes
from unisono.simulator.world.live_jobs import Adopted, LiveJob, Unit
from unisono.simulator.world.objects import ObjectMaker, priority_object
from unisono.simulator.world.outcome import JobOutcome, Run
from unisono.simulator.world.places import EventHeap, Places, Trouble
from unisono.simulator.world.settings import NodeChange, Settings

# When the engine is asked, and what its decisions do to the world.
#
# A cycle that can decide nothing is left out: none of the actions moves running pods, and no node has room for any pod
# that waits. What it would have done is only to admit jobs; where no plug-in may refuse that, they are admitted without
# it.

_MOST_CYCLES = 16
"""Cycles at one moment; what still moves then goes on a second later."""
_SETTLING = 1.0
_QUIET = 86_400.0
"""After so long with nothing to come, no window or limit of time will change a decision."""
_QUIET_WINDOWS = 8 * 86_400.0
"""The same where reservations have windows again and again, a week apart at most."""
_QUIET_PERIODS = 367 * 86_400.0
"""The same where budgets begin anew, a year apart at most."""
_KEEPING = frozenset(("enqueue", "allocate", "backfill"))
"""Actions that do nothing unless there is room for a pod that waits, but for admission."""
_PASSIVE = _KEEPING | {"preempt", "reclaim", "gangpreempt", "gangreclaim", "defragment"}
"""Actions that do nothing unless a pod waits."""


class Cycles:
    """Asks the engine when something has changed.

    Args:
        config: of the scheduler.
        plugins: plug-ins by name, looked up before the registry.
        places: what it decides about.
        whole: the state has nothing but these jobs in it, and all queues are open.
    """

    def __init__(
        self, config: SchedulerConfig, plugins: Mapping[str, type[Plugin]], places: Places, *, whole: bool
    ) -> None:
        self._config, self._plugins, self._places = config, plugins, places
        self._settings, self._heap, self._run = places.settings, places.heap, places.run
        actions = set(config.actions)
        plugin_classes = [lookup_with(plugins)(one.name) for one in config.plugins]
        self._watches = any(one is None or one.remembers for one in plugin_classes)
        self._moves = not actions <= _PASSIVE
        self._passive = not self._moves and not self._watches
        self._admits = "enqueue" in actions
        # Where a gate may refuse, what it lets in next depends on what was tried in each cycle.
        gated = self._admits and any(
            one is None or ("enqueueable" in one.implemented and not one.permits_only) for one in plugin_classes
        )
        # Pods of a job that a gate holds back are not there to be placed in the cycle that lets it in.
        places.pods_wait = gated and self._settings.retry
        self._keeping = whole and actions <= _KEEPING and not gated and not self._watches
        self._recheck = recheck_seconds(config) if self._settings.recheck is None else self._settings.recheck
        self._by_saved_work = goes_by_saved_work(config)
        self._next, self._due = 0.0, -1.0
        self._moved, self._looks = 0.0, 0

    def wake(self, at: float) -> None:
        """Ask for a cycle at a later moment."""
        now = self._heap.now
        if self._due < now or at < self._due or (self._due == now < at):
            self._due = at
            self._heap.push(at, "cycle", None)

    def after_moment(self) -> None:
        """All events of a moment have happened: decide, or do so later where cycles must be further apart."""
        if not self._places.changed:
            return
        if self._heap.now >= self._next:
            self._decide()
        else:
            self.wake(self._next)

    def _decide(self) -> None:
        """Cycles until nothing moves any more at this moment."""
        places, settings, now = self._places, self._settings, self._heap.now
        for _ in range(_MOST_CYCLES):
            places.changed = places.made = False
            self._next = now + settings.period
            if self._passive and not places.waiting and not self._evicts_by_time():
                return
            again = not self._is_vain() and self._carry_out(self._ask())
            if not settings.retry:
                self._drop_waiting()
                return
            if not again:
                self._look_again()
                return
        places.changed = True
        self.wake(now + max(_SETTLING, settings.period))

    def look(self, number: int) -> None:
        """So long nothing has happened that another cycle would be due, unless one has come since."""
        if number == self._looks:
            self._places.changed = True

    def _look_again(self) -> None:
        """Ask for a cycle for what looks at the clock, as long as anything can come of it, after a quiet time."""
        heap, now = self._heap, self._heap.now
        if self._places.live and (self._places.waiting or self._moves) and self._recheck:
            if not heap and now - self._moved > _QUIET:
                return
            self._looks += 1
            heap.push(now + self._recheck, "look", self._looks)

    def _is_vain(self) -> bool:
        """Whether a cycle would bind nothing, and refuse no job: those that have come are admitted then."""
        places = self._places
        if not self._keeping or places.room.holds_any(places.wanted) or self._evicts_by_time():
            return False
        coming = list(places.coming.values())
        if not self._admits:  # a cycle gives those that have come their phase, which later cycles go by
            return not coming
        if coming and any(live.has_places for live in coming):
            return False
        for live in coming:
            meta = live.group.metadata
            places.write(live, PodGroupUpdate(meta.namespace or "", meta.name, meta.uid or "", "Inqueue", 0, 0, 0, ()))
        return True

    def is_quiet(self) -> bool:
        """Whether nothing runs, and nothing has begun for so long that what fails and comes back changes nothing."""
        quiet = max(_QUIET, 10 * self._settings.failures.repair)
        return self._heap.now - self._moved > quiet and not any(one.has_places for one in self._places.live.values())

    def _ask(self) -> Decisions:
        self._run.cycles += 1
        if self._by_saved_work:
            self._places.note_saved_work()
        now = self._settings.epoch + self._heap.now
        if self._places.uses is not None:
            count_budgets(self._places.state, self._places.uses, now)
        snapshot = self._places.state.snapshot()
        return engine.run(snapshot, self._config, now, self._settings.seed, plugins=self._plugins, verdicts=False)

    def _carry_out(self, decisions: Decisions) -> bool:
        """Let what was decided happen; answers whether it may lead to more decisions at once."""
        places = self._places
        self._run.violations += [f"{one.subject}: {one.message}" for one in decisions.violations]
        again = False
        for update in decisions.pod_groups:
            live = places.live.get(update.key)
            if live is None:
                continue
            admitted = update.phase != (live.group.status.phase or "Pending") and update.key in places.waiting
            places.write(live, update)
            again = again or admitted
        for condition in decisions.pod_conditions:
            places.nominate(condition)
        started = places.bind(decisions.binds)
        if started or decisions.evictions:
            self._moved = self._heap.now
        again = (again and bool(places.waiting) and not started) or (started and self._watches)
        places.evict(decisions.evictions)
        if decisions.again_at is not None and self._may_move():
            now = self._heap.now
            self.wake(max(now + max(_SETTLING, self._settings.period), decisions.again_at - self._settings.epoch))
        return again or places.made or (bool(decisions.evictions) and self._settings.grace <= 0)

    def _evicts_by_time(self) -> bool:
        catalogue = self._places.state.catalogue
        if any(purse.evicts for purse in catalogue.budgets.values()):
            return True
        return any(booking.evicts for booking in catalogue.bookings.values())

    def _may_move(self) -> bool:
        """Whether anything may still come of the clock: windows that come again and again do not go on for ever."""
        now, catalogue = self._heap.now, self._places.state.catalogue
        times = [one.times for one in catalogue.bookings.values()]
        times += [one.times for one in catalogue.temporary_quotas.values()]
        if catalogue.budgets and not self._heap and now - self._moved > _QUIET_PERIODS:
            return False
        if not times or self._heap or now - self._moved <= _QUIET_WINDOWS:
            return True
        moment = self._settings.epoch + now
        return any(one.schedule is None and one.window(moment) is not None for one in times)

    def _drop_waiting(self) -> None:
        for live in list(self._places.waiting.values()):
            if live.outcome.started is None:
                self._places.remove(live, outcomes.DROPPED)
        self._places.changed = False


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
        stop: asked after each moment whether to end there, as of `cut`.
        watch: is called after the decisions of the moments ``watch_at``.

    Attributes:
        state: what the engine sees.
        cut: it was stopped before its end.
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
        stop: Callable[[], bool] | None = None,
        watch: Callable[[World], None] | None = None,
        watch_at: Sequence[float] = (),
    ) -> None:
        self.settings = settings or Settings()
        shared = state is None and any(role.gpu_milli < WHOLE_GPU for job in jobs for role in job.roles)
        self.cluster = with_shared_gpus(cluster) if shared else cluster
        self.jobs, self.state = jobs, state or ClusterState()
        self._live_state, self._adopted = state is not None, adopted
        self._to_start = len(adopted) if until_started else 0
        self._progress, self._stop, self.cut = progress, stop, False
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
        self._arrivals_left = 0
        self._followers: dict[str, list[int]] = {}
        self._places.when_over = self._let_follow
        failures = self.settings.failures
        self._failing = bool(failures.pod or failures.node or failures.domain)

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
                if self._stop is not None and self._stop():
                    self.cut = True
                    break
                if run.cycles >= tidy:
                    tidy = run.cycles + _TIDY_CYCLES
                    collect_now()
        if until < inf and not self.cut:
            heap.now = max(heap.now, until)
        run.end = heap.now
        self._places.close()
        for number in (number for waiting in self._followers.values() for number in waiting):
            # What it waits for has not ended: it would have come later.
            outcome = run.outcomes[number]
            outcome.job = replace(outcome.job, submit=max(outcome.job.submit, run.end + 1.0))
        return run

    def _announce(self) -> None:
        """What is there at the beginning, and the events that are known from then on."""
        endless = next((job.name for job in self.jobs if job.run_seconds is None), None)
        if self._failing and endless is not None and self.settings.until is None:
            raise SimulationError(
                f"job {endless} runs until the end, which never comes where something fails: say when, with --until"
            )
        if not self._live_state:
            fill(self.state, self.cluster, self.jobs)
        if self.state.catalogue.budgets:
            self._places.uses = uses_of(self.state, self.cluster, self._adopted, self.settings.epoch)
        self._note_capacity()
        for number, adopted in enumerate(self._adopted):
            live = LiveJob.of(number, adopted.job, self._run.outcomes[number], adopted.group)
            self._places.adopt(live, adopted)
            self._cycles.wake(0.0)
        names = {job.name for job in self.jobs} if any(job.after for job in self.jobs) else ()
        for number, job in enumerate(self.jobs[len(self._adopted) :], start=len(self._adopted)):
            if job.after in names:
                self._followers.setdefault(job.after, []).append(number)
            else:
                self._arrives(number, job.submit)
        for change in (*self.settings.changes, *self._trouble.first()):
            if change.node not in self._places.numbers:
                raise SimulationError(f"the settings change a node {change.node}, which the cluster does not have")
            self._heap.push(change.at, "node", change)
        for at in self._watch_at:
            self._heap.push(at, "watch", None)

    def _is_over(self) -> bool:
        if self._failing and not self._arrivals_left and self._cycles.is_quiet():
            return True
        if self._to_start:
            return all(outcome.started is not None for outcome in self._run.outcomes[: self._to_start])
        return not self.live and not self._arrivals_left

    # ---- events

    def _arrives(self, number: int, at: float) -> None:
        self._arrivals_left += 1
        self._heap.push(at, "arrive", number)

    def _let_follow(self, name: str) -> None:
        """A job is over: those that waited for its end arrive."""
        for number in self._followers.pop(name, ()):
            outcome = self._run.outcomes[number]
            think = outcome.job.think_seconds
            at = max(outcome.job.submit, self.now) if think is None else self.now + think
            outcome.job = replace(outcome.job, submit=at)
            self._arrives(number, at)

    def _on_arrive(self, number: int) -> None:
        self._arrivals_left -= 1
        outcome = self._run.outcomes[number]
        job = outcome.job
        live = LiveJob.of(number, job, outcome, self._maker.group(job, number))
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

    def _on_look(self, number: int) -> None:
        self._cycles.look(number)

    def _on_watch(self, _: object) -> None:
        self._watching = True

    def _on_node(self, change: NodeChange) -> None:
        name, places = change.node, self._places
        for later in self._trouble.next(change, self.now):
            self._heap.push(later.at, "node", later)
        if change.up == (name in self._up) or not self._trouble.allows(change):
            return
        number = places.numbers[name]
        if change.up:
            self._up.add(name)
            self.state.apply("ADDED", kinds.NODES, self.cluster.nodes[number])
        else:
            self._up.discard(name)
            hit = [live for live in self.live.values() if any(number in unit.placed.values() for unit in live.units)]
            for live in hit:
                lost = [at for unit in live.units for at, place in unit.placed.items() if place == number]
                places.fail(live, lost, "node lost")
            self.state.apply("DELETED", kinds.NODES, self.cluster.nodes[number])
        places.room.note(number, up=change.up)
        for later in self._trouble.repair(change, self.now):
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
        "look": _on_look,
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


def uses_of(state: ClusterState, cluster: Cluster, adopted: Sequence[Adopted], now: float) -> Uses:
    """Who uses what of budgets at the beginning."""
    uses = Uses()
    for node in cluster.nodes:
        uses.put_node(node)
    for name, queue in state.book.queues.items():
        uses.put_queue(name, queue.parent)
    for each in adopted:
        uses.put_group(each.group)
        for pod in each.pods if not each.unmade else ():
            uses.put_pod(pod, now)
    return uses


def count_budgets(state: ClusterState, uses: Uses, now: float) -> None:
    """Count, as the controller of a live cluster does, but at once."""
    budgets, prices = state.catalogue.budgets, state.catalogue.prices
    version, counted = (budgets.version, prices.version), now
    for name, purse in budgets.items():
        tally = budgets.tallies[name]
        counted = min(counted, tally.at)
        budgets.set(purse, count(purse, tally, uses.holds(purse, prices, version), now))
    uses.forget(counted, max((purse.least for purse in budgets.values()), default=0.0))


def fill(state: ClusterState, cluster: Cluster, jobs: Sequence[Job]) -> None:
    """Add nodes, topology, queues, the calendar, budgets and priority classes.

    Raises:
        SimulationError: one of them is not valid.
    """
    priorities = sorted({job.priority for job in jobs} - {0})
    for kind, objects in (
        (kinds.NODES, cluster.nodes),
        (kinds.HYPER_NODES, cluster.hyper_nodes),
        (kinds.FLOATING_RESOURCES, cluster.floating),
        (kinds.QUEUES, queues_of(cluster, jobs)),
        (kinds.RESERVATIONS, cluster.reservations),
        (kinds.TEMPORARY_QUOTAS, cluster.temporary_quotas),
        (kinds.BUDGETS, cluster.budgets),
        (kinds.PRICE_LISTS, cluster.price_lists),
        (kinds.PRIORITY_CLASSES, map(priority_object, priorities)),
    ):
        for obj in objects:
            state.apply("ADDED", kind, obj)
    for rejected in state.rejected.all():
        raise SimulationError(f"{rejected.kind} {rejected.key}: {rejected.message}")
