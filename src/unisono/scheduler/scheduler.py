"""The running scheduler: watches feed the cluster state, the engine decides, writers carry it out.

::

    reflectors ──► Feed ──► ClusterState ──snapshot──► engine.run (thread) ──► Decisions
                     ▲                                                            │
                     └── assume / forget ◄── Binder, Evictor, Reports ◄───────────┘

No cycle runs before every list has been handled. A cycle runs when something changed (a little later, to take in what
comes together), when the configuration changed, or when a waiting time ends; otherwise nothing is done.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import structlog
from prometheus_client import CollectorRegistry

from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.kinds import PODS
from unisono.api.queues import unenforced
from unisono.api.times import parse_time
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig, enforced_queue_fields
from unisono.engine.decisions import Decisions, Eviction, Violation
from unisono.engine.verdict import ANOTHER_NAMESPACE, Asked, Verdict
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.events import EventRecorder
from unisono.kube.reflector import Reflector, ReflectorStatistics
from unisono.scheduler.binder import Binder
from unisono.scheduler.cycle_pause import Evicting, Pause, Placing
from unisono.scheduler.evictor import GIVE_UP, Evictor, PartialGangs, Release
from unisono.scheduler.explain import Rejections, VerdictBook
from unisono.scheduler.explanations import STARTED, Explained, Explanations, Meanwhile, Outcome
from unisono.scheduler.feed import KINDS, OPTIONAL, Feed
from unisono.scheduler.heartbeat import HEARTBEAT_LEASE, Heartbeat
from unisono.scheduler.held_room import HeldRooms, KeptUse
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.recording import Recorder
from unisono.scheduler.reports import Reports
from unisono.scheduler.settings import ConfigNotices, ConfigSource, FixedConfig, MappedConfig, PluginFailures
from unisono.scheduler.settings import reflectors as config_reflectors
from unisono.scheduler.usage import UsageCollector

_log = structlog.get_logger(__name__)

# Every waiting job is looked at again after this time even if no event came: a missed event must not be for ever.
_RECHECK_SECONDS = 30.0
_ERROR_SECONDS = 1.0
# Without the end of a cycle for so long, the scheduler does not count as ready.
_SILENT_SECONDS = 30.0


class Decide(Protocol):
    """The engine: one cycle's decisions from a snapshot; pure."""

    def __call__(self, snapshot: Snapshot, config: SchedulerConfig, now: float, seed: int = 0) -> Decisions:
        """Decide; ``now`` is seconds since the epoch."""
        ...


Runner = Callable[[Callable[[], Decisions]], Awaitable[Decisions]]
"""Runs the engine off the event loop."""


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """What a scheduler did and holds.

    Attributes:
        cycles: cycles in which the engine ran.
        idle: wake-ups with nothing to do.
        failures: cycles that raised.
        binds: binds sent.
        waiting_jobs: jobs with a verdict.
        waiting_writes: status writes that wait.
        last_cycle_seconds: duration of the latest cycle's decision.
        config_error: what is wrong with the newest configuration, or empty.
    """

    cycles: int
    idle: int
    failures: int
    binds: int
    waiting_jobs: int
    waiting_writes: int
    last_cycle_seconds: float
    config_error: str


class Scheduler:
    """Schedules the pods of ``scheduler_names`` until cancelled.

    Attributes:
        kinds: what is watched on the API server.
    """

    kinds: tuple[Kind[Any], ...] = KINDS

    def __init__(
        self,
        client: Client,
        config_source: ConfigSource | None = None,
        clock: Clock = SYSTEM_CLOCK,
        *,
        registry: CollectorRegistry | None = None,
        scheduler_names: Sequence[str] = ("volcano", "unisono"),
        default_queue: str = "default",
        period: float = 1.0,
        debounce: float = 0.05,
        share_debounce: float = 0.25,
        gather: float = 1.0,
        gang_patience: float = 60.0,
        bind_concurrency: int = 64,
        decide: Decide | None = None,
        asked: Asked | None = None,
        explanations: Explanations | None = None,
        runner: Runner | None = None,
        seed: int = 0,
        heartbeat_lease: str = HEARTBEAT_LEASE,
        recorder: Recorder | None = None,
        any_release: bool = False,
    ) -> None:
        """Make a scheduler.

        Args:
            client: of the API server; with leader election the fenced one.
            config_source: configuration, None for the default.
            clock: time.
            registry: where metrics are registered, None for an own registry.
            scheduler_names: pods that name one of these are ours.
            default_queue: queue of PodGroups that name none.
            period: longest time in seconds between two looks at the state.
            debounce: time in seconds between a change and the cycle.
            share_debounce: the same where several queues share the cluster.
            gather: longest time in seconds for which a burst of arrivals is awaited.
            gang_patience: longest time in seconds that a gang may stay partly bound.
            bind_concurrency: binds under way at a time.
            decide: the engine; None for the real one.
            asked: the only jobs that the engine explains; None: all.
            explanations: when and where the engine explains; None: within cycles.
            runner: how the engine is run off the event loop; None for a thread.
            seed: of the engine's tie-breaking randomness.
            heartbeat_lease: ``NAMESPACE/NAME`` of the Lease that is renewed when cycles end.
            recorder: writes down what is seen and decided; None for nothing.
            any_release: the configuration may be in the ConfigMap of a release of Volcano's chart of any name, which
                takes the right to list the ConfigMaps of its namespace.
        """
        self._clock, self._seed = clock, seed
        self._default_queue = default_queue
        self._bind_concurrency = bind_concurrency
        self._config_map = MappedConfig(config_source or FixedConfig(), self._look)
        self._source = self._adapted(self._config_map)
        self._explanations = explanations or Explanations(clock.monotonic, asked)
        self._decide = decide or _engine(clock.monotonic, self._explanations)
        self._deciding = False
        self._meanwhile: Meanwhile | None = None
        self._outcome: Outcome | None = None
        self._runner = runner or asyncio.to_thread
        self.metrics = Metrics(registry)
        self.events = EventRecorder(client, "unisono-scheduler", clock=clock)
        self.verdicts = VerdictBook()
        self._pause = Pause(clock, lambda: self.feed.arrivals, self._shares, period, debounce, share_debounce, gather)
        self.ready = asyncio.Event()
        self._recorder = recorder
        make_state = ClusterState if recorder is None else recorder.state
        state = make_state(scheduler_names, default_queue)
        self.feed = Feed(state, self._look)
        self.feed.arrived = self._watched
        self._heartbeat = Heartbeat(client, clock, heartbeat_lease, scheduler_names)
        self.metrics.silent.set_function(self._heartbeat.silent_seconds)
        for field, gauge in self.metrics.unenforced.items():
            gauge.set_function(partial(self._unenforced, field))
        self.metrics.volcano.read(self.feed.groups, state.book.jobs)
        self._notices = ConfigNotices(self._source, self.events, self.metrics, self._heartbeat.reference)
        self._compose(client, bind_concurrency, gang_patience)
        self._reflectors += config_reflectors(client, self._config_map, clock, any_release=any_release)
        self._seen_version = -1
        self._enforced = enforced_queue_fields(self._source.poll())
        self._seen_config: SchedulerConfig | None = None
        self._due_at = self._last_seconds = 0.0
        self._cycles = self._idle = self._failures = self._binds = 0

    def _compose(self, client: Client, bind_concurrency: int, gang_patience: float) -> None:
        """Make those who read from the API and those who write to it."""
        feed, events, metrics, clock = self.feed, self.events, self.metrics, self._clock
        self._plugin_failures = PluginFailures(clock)
        self._binder, self._evictor = self._writers(client, bind_concurrency, gang_patience)
        self._reports = Reports(client, feed, self.verdicts, events, metrics, clock)
        self._rejections = Rejections(feed, events, metrics, self._reports.set_aside)
        self._gangs = PartialGangs(gang_patience)
        self._kept_use = KeptUse(client, feed, clock)
        self._usage = UsageCollector(client, feed, lambda: self._source.poll().metrics, metrics, clock)
        self._reflectors: list[Reflector[Any]] = [
            Reflector(client, kind, feed.sink(kind), clock=clock, absent_seconds=OPTIONAL.get(kind))
            for kind in self.kinds
        ]
        self._held_rooms = HeldRooms(feed, clock) if PODS in self.kinds else None
        if self._held_rooms is not None:
            self._reflectors.append(self._held_rooms.reflector(client))

    def _adapted(self, source: ConfigSource) -> ConfigSource:
        """The source with what this scheduler needs beyond what users write."""
        return source

    def _look(self) -> None:
        """Look at the state soon."""
        self._pause.wake()

    def _shares(self) -> bool:
        """Whether several queues share the cluster."""
        return any(name not in ("root", self._default_queue) for name in self.feed.queues)

    def _writers(self, client: Client, bind_concurrency: int, gang_patience: float) -> tuple[Placing, Evicting]:
        """Who carries out binds and evictions."""
        binder = Binder(
            client,
            self.feed,
            self.events,
            self.metrics,
            self._clock,
            concurrency=bind_concurrency,
            # The rest of the patience is for placing the missing members again.
            heal_seconds=gang_patience / 3,
        )
        return binder, Evictor(client, self.events, self.metrics, self._clock, feed=self.feed)

    async def run(self) -> None:
        """Watch, decide and write until cancelled."""
        loop = asyncio.get_running_loop()

        def tell(outcome: Outcome) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._hear, outcome)

        self._explanations.tell = tell
        try:
            async with asyncio.TaskGroup() as group:
                for reflector in self._reflectors:
                    group.create_task(reflector.run())
                group.create_task(self._reports.run())
                for reflector in self._reflectors:
                    await reflector.synced.wait()
                _log.info("scheduler.ready", events=self.feed.events)
                self.ready.set()
                group.create_task(self._usage.run())
                await self._usage.first()
                group.create_task(self._heartbeat.run())
                group.create_task(self._kept_use.run())
                if self._held_rooms is not None:
                    group.create_task(self._held_rooms.run())
                await self._loop()
        finally:
            self._explanations.close()
            await self._kept_use.close()
            await self._heartbeat.close()
            await self._binder.close()
            await self._evictor.close()
            await self.events.close()
            if self._recorder is not None:
                self._recorder.close()

    @property
    def working(self) -> asyncio.Event:
        """Set once the first cycle has ended and the heartbeat told so: from then on clients see it alive."""
        return self._heartbeat.told

    def configuration(self) -> SchedulerConfig:
        """The configuration in force."""
        return self._source.poll()

    def verdict(self, job: str) -> Verdict | None:
        """Latest verdict of a PodGroup (``namespace/name``), None when it does not wait."""
        return self.verdicts.get(job)

    def statistics(self) -> SchedulerStatistics:
        """What happened so far."""
        return SchedulerStatistics(
            cycles=self._cycles,
            idle=self._idle,
            failures=self._failures,
            binds=self._binds,
            waiting_jobs=len(self.verdicts),
            waiting_writes=self._reports.waiting(),
            last_cycle_seconds=self._last_seconds,
            config_error=self._source.error,
        )

    def unready(self) -> list[str]:
        """Why it does not schedule although it runs."""
        silent = self._heartbeat.silent_seconds()
        return [f"no cycle has ended for {silent:.0f} s"] if silent > _SILENT_SECONDS else []

    def streams(self) -> dict[str, ReflectorStatistics]:
        """How the watches fare, by resource; a stream that is silent for long is an alarm."""
        return {reflector.kind.resource: reflector.statistics() for reflector in self._reflectors}

    def _unenforced(self, field: str) -> float:
        """Queues that state a field in vain."""
        queues = list(self.feed.queues.values())
        return float(sum(field in unenforced(queue.spec, self._enforced) for queue in queues))

    def _watched(self, pod: Pod) -> None:
        created = pod.metadata.creation_timestamp
        if created and pod.spec.scheduler_name in self.feed.state.scheduler_names:
            with suppress(ValueError):  # a time that is none is told of where the pod is taken in
                self.metrics.task_watched.observe(max(0.0, self._clock.time() - parse_time(created)) * 1000)

    async def _loop(self) -> None:
        while True:
            try:
                await self.cycle()
                config = self._source.poll()
                self._enforced = enforced_queue_fields(config)
                notes = (*config.notes, *self._config_map.notes)
                source = self._source
                self._heartbeat.ended(source.error, self._enforced, source.name, notes, source.text, config.parts)
            except Exception:
                # One broken cycle must not end scheduling; the state is intact because the engine only reads it.
                self._failures += 1
                self._seen_version = -1
                self.metrics.cycles_failed.inc()
                _log.exception("cycle.failed")
                await self._clock.sleep(_ERROR_SECONDS)
            await self._pause.until_due(self._due_at, self._last_seconds)

    async def cycle(self) -> bool:
        """One look at the state; answers whether the engine ran."""
        config = self._source.poll()
        now = self._clock.monotonic()
        self._notices.tell((*config.notes, *self._config_map.notes), now)
        changed = self.feed.state.version != self._seen_version or config is not self._seen_config
        if config is not self._seen_config:
            self._binder.limit(config.bind_concurrency or self._bind_concurrency)
        if not changed and now < self._due_at:
            self._idle += 1
            self.metrics.cycles_idle.inc()
            return False
        self._deciding = True
        try:
            decisions, version = await self._decide_on(config)
            if self._explanations.begun:
                self._meanwhile = Meanwhile(decisions, version)
            elif self._meanwhile is not None:
                self._meanwhile.note(decisions)
            self._cycles += 1
            self.metrics.cycles_run.inc()
            await self._carry_out(decisions)
        except BaseException:
            self._meanwhile = None
            self._explanations.drop()
            raise
        finally:
            self._deciding = False
        self._seen_version, self._seen_config = version, config
        self._release_gangs()
        times = [at for at in (decisions.again_at, self._evictor.follow_notices()) if at is not None]
        self._due_at = self._next_due(min(times, default=None))
        if self._outcome is not None:
            self._take_outcome(self._outcome)
        return True

    def _hear(self, outcome: Outcome) -> None:
        """A copy has found out why jobs wait, or has failed; it is taken over between cycles."""
        self._outcome = outcome
        if not self._deciding:
            self._take_outcome(outcome)

    def _take_outcome(self, outcome: Outcome) -> None:
        explained, meanwhile = self._explanations.ended(outcome), self._meanwhile
        self._meanwhile = self._outcome = None
        current = False
        if explained is not None and meanwhile is not None:
            self._take_explained(explained, meanwhile)
            current = self.feed.state.version == meanwhile.version and not meanwhile.cycles
        if not current:
            self._due_at = min(self._due_at, self._clock.monotonic() + self._explanations.pause())
            self._look()

    def _take_explained(self, explained: Explained, meanwhile: Meanwhile) -> None:
        outcome, state = explained.decisions, self.feed.state
        new = [each for each in outcome.violations if each not in meanwhile.violations]
        if (explained.bound, explained.evicted) != (meanwhile.bound, meanwhile.evicted):
            new.append(Violation("explanation", "a cycle decided otherwise than its copy that looked at every job"))
            self._explanations.within_cycles()
        self._tell_violations(new)
        self.metrics.explanation.observe(explained.seconds * 1000)
        for part in explained.memory:
            state.memo.put(part)
        meanwhile.remove_outdated(explained, state.book.jobs, state.tasks)
        self._rejections.complete(outcome)
        self.verdicts.replace(outcome.verdicts)
        self._reports.take(outcome, meanwhile.told)
        self._count_waiting(outcome)

    async def _decide_on(self, config: SchedulerConfig) -> tuple[Decisions, int]:
        started = self._clock.monotonic()
        now = self._clock.time()
        with self.feed.hold():
            failing = self._plugin_failures.setbacks(self.feed.state.book.jobs)
            self.feed.state.set_back(failing | self._binder.setbacks())
            snapshot = self.feed.state.snapshot()
            opened = self._clock.monotonic()
            version = self.feed.state.version
            if self._recorder is not None:
                self._recorder.cycle(config, now, self._seed)
            decisions = await self._runner(lambda: self._decide(snapshot, config, now, self._seed))
            if self._recorder is not None:
                self._recorder.decided(decisions)
        self._last_seconds = self._clock.monotonic() - started
        self.metrics.open_session.observe((opened - started) * 1000)
        self.metrics.cycle.observe(self._last_seconds * 1000)
        return decisions, version

    async def _carry_out(self, decisions: Decisions) -> None:
        """Hand the decisions to the writers, with a moment for requests in this process between the steps."""
        self._tell_violations(decisions.violations)
        self.metrics.stages(decisions.seconds)
        for name in decisions.plugins_off:
            self.metrics.plugin_switched_off(name)
        for failure in decisions.plugin_failures:
            self.metrics.plugin_failed(failure.plugin, failure.hook)
        self.metrics.plugin_backoffs.inc(self._plugin_failures.take(decisions.failed_jobs, self.feed.state.book.jobs))
        self._evict(decisions.evictions)
        sent = self._binder.submit(decisions.binds)
        self._binds += len(sent)
        self._rejections.complete(decisions)
        self._reports.bound(f"{bind.namespace}/{bind.pod}" for bind in sent)
        if decisions.explained:
            self.verdicts.replace(decisions.verdicts)
        else:
            self.verdicts.started(update.key for update in decisions.pod_groups if update.phase in STARTED)
        await asyncio.sleep(0)
        self._reports.take(decisions)
        self._reports.idle(decisions.idle)
        await asyncio.sleep(0)
        if decisions.explained:
            self._count_waiting(decisions)
        if sent or decisions.evictions:
            _log.info(
                "cycle.decided",
                binds=len(sent),
                jobs=len({bind.job for bind in sent}),
                evictions=len(decisions.evictions),
                waiting=len(self.verdicts),
                milliseconds=round(self._last_seconds * 1000, 1),
            )

    def _tell_violations(self, violations: Iterable[Violation]) -> None:
        for violation in violations:
            if violation.plugin:
                _log.error("plugin.failed", plugin=violation.plugin, error=violation.message)
            else:
                self.metrics.violations.inc()
                _log.error("cycle.violation", subject=violation.subject, error=violation.message)

    def _evict(self, evictions: Sequence[Eviction]) -> None:
        groups: dict[tuple[str, str, str, float], list[tuple[str, str, str]]] = defaultdict(list)
        for eviction in evictions:
            victim, named = (eviction.namespace, eviction.pod, eviction.uid), self._for_whom(eviction)
            why = eviction.note or (f"{eviction.reason} for {named}" if named else eviction.reason)
            groups[eviction.reason, why, eviction.beneficiary, eviction.notice].append(victim)
        for (reason, why, beneficiary, notice), victims in groups.items():
            self._evictor.submit(victims, reason, why, beneficiary, notice)

    def _for_whom(self, eviction: Eviction) -> str:
        """The job that takes the place, as the victim's owner may know it."""
        of = eviction.beneficiary.partition("/")[0]
        if not of or of == eviction.namespace or self._source.poll().names_others:
            return eviction.beneficiary
        return f"a job of {ANOTHER_NAMESPACE}"

    def _release_gangs(self) -> None:
        state = self.feed.state
        now = self._clock.monotonic()
        for release in self._gangs.observe(state.book.jobs, state.book.active, now, self._binder.busy):
            self._give_back(release)

    def _give_back(self, release: Release) -> None:
        why = (
            f"gang {release.job} was bound only in part for {self._gangs.patience:.0f} s "
            f"({release.ready} of {release.min_member} members)"
        )
        _log.warning("gang.released", job=release.job, pods=len(release.pods), ready=release.ready)
        self.metrics.gangs_released.inc()
        self._binder.hold(release.job, least=self._gangs.patience)
        self._evictor.submit([(task.namespace, task.name, task.uid) for task in release.pods], GIVE_UP, why)
        group = self.feed.groups.get(release.job)
        if group is not None:
            self.events.event(group, "Warning", "GangReleased", f"{len(release.pods)} pods are removed: {why}")

    def _next_due(self, again_at: float | None) -> float:
        """When to run the engine again even if nothing changes."""
        now = self._clock.monotonic()
        times = [now + _RECHECK_SECONDS]
        if again_at is not None:
            times.append(now + max(0.0, again_at - self._clock.time()))
        parts = (self._binder.next_release(), self._gangs.next_due(), self._plugin_failures.next_release())
        times += [when for when in parts if when is not None]
        return min(times)

    def _count_waiting(self, decisions: Decisions) -> None:
        tasks: Counter[str] = Counter()
        for key, verdict in decisions.verdicts.items():
            tasks[key.partition("/")[2]] += max(0, verdict.tasks_needed - verdict.tasks_placeable)
        self.metrics.waiting(tasks)


def _engine(monotonic: Callable[[], float], explanations: Explanations) -> Decide:
    from unisono.engine import run
    from unisono.engine.plugins.extender import extender_with
    from unisono.gc_pauses import collector_paused
    from unisono.scheduler.extender import Extenders, call

    plugin = extender_with(call, Extenders(monotonic).begin)
    cycle = partial(run, monotonic=monotonic, plugins={"extender": plugin})
    return collector_paused()(partial(explanations.decide, cycle))
