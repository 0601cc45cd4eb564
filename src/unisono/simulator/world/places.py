"""Live jobs, their pods, and where these run: what starts, stops, is lost, fails and comes again."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from math import inf
from typing import Any, TypeVar

from unisono.api.budget_use import Uses
from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.cluster.state import ClusterState
from unisono.engine.decisions import Bind, Eviction, PodCondition, PodGroupUpdate
from unisono.simulator.clusters import Cluster
from unisono.simulator.workload.job import WHOLE_GPU
from unisono.simulator.world import outcome as outcomes
from unisono.simulator.world.live_jobs import Adopted, LiveJob, Needs, Room, SpeedModel, Unit
from unisono.simulator.world.objects import ObjectMaker, succeeded, with_checkpoint, with_status
from unisono.simulator.world.outcome import EvictionRecord, Run, Stretch
from unisono.simulator.world.settings import NodeChange, Settings

# The event heap of a virtual clock; events of one moment come in the order in which they were pushed.


class EventHeap:
    """Times with what happens then.

    Attributes:
        now: time of the moment that was taken last.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, str, Any]] = []
        self._serial = count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def time(self) -> float:
        """Time of the next event."""
        return self._heap[0][0]

    def push(self, at: float, kind: str, what: Any) -> None:
        """Let something happen at ``at``."""
        heapq.heappush(self._heap, (at, next(self._serial), kind, what))

    def moment(self) -> Iterator[tuple[str, Any]]:
        """Take the events of the next moment, those included that are pushed for it meanwhile."""
        now = self.now = self.time
        while self._heap and self._heap[0][0] <= now:
            _, _, kind, what = heapq.heappop(self._heap)
            yield kind, what


# Random failures of pods, nodes and topology domains; each draw depends on the seed alone.

T = TypeVar("T")
_NODE, _DOMAIN, _REPAIR = "node", "domain", "repair"
MOST_FAILURES = 1000
"""A job is given up then: one that fails sooner than it can end would go on for ever."""


class Trouble:
    """When what fails; every node and domain draws from a stream of its own."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._failures = settings.failures
        self._seed = settings.seed
        self._until = inf if settings.until is None else settings.until
        self._names = [node.metadata.name for node in cluster.nodes]
        self._pods = random.Random(f"{settings.seed}/pods")  # nosec B311 # draws of a simulation, no secret
        self._streams: dict[str, random.Random] = {}
        self._domain_of: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}
        self._away: set[str] = set()
        tier = self._failures.tier
        for name in self._names if self._failures.domain else ():
            path = cluster.paths.get(name, ())
            if len(path) >= tier:
                self._domain_of[name] = path[tier - 1]
                self._members.setdefault(path[tier - 1], []).append(name)

    def _after(self, stream: str, mean: float) -> float:
        generator = self._streams.get(stream)
        if generator is None:
            generator = self._streams[stream] = random.Random(f"{self._seed}/{stream}")  # nosec B311 # draws of a simulation, no secret
        return generator.expovariate(1 / mean)

    def first(self) -> Iterator[NodeChange]:
        """The first failure of each node and domain."""
        if self._failures.node:
            for name in self._names:
                yield NodeChange(self._after(name, self._failures.node), name, up=False, cause=_NODE)
        for domain in self._members:
            yield from self._domain_failure(domain, 0.0)

    def _domain_failure(self, domain: str, now: float) -> Iterator[NodeChange]:
        at = now + self._after(f"domain {domain}", self._failures.domain)
        for name in self._members[domain]:
            yield NodeChange(at, name, up=False, cause=_DOMAIN)

    def next(self, change: NodeChange, now: float) -> Iterator[NodeChange]:
        """The next failure of what has just failed.

        Each node and domain has one chain of failures: those at which a node is away already change nothing.
        """
        name = change.node
        if change.cause == _NODE:
            yield NodeChange(now + self._after(name, self._failures.node), name, up=False, cause=_NODE)
        elif change.cause == _DOMAIN and name == self._members[self._domain_of[name]][0]:
            yield from self._domain_failure(self._domain_of[name], now)

    def allows(self, change: NodeChange) -> bool:
        """Note what is planned for a node; one that is away as planned is not repaired."""
        if not change.cause:
            (self._away.discard if change.up else self._away.add)(change.node)
        return change.cause != _REPAIR or change.node not in self._away

    def repair(self, change: NodeChange, now: float) -> Iterator[NodeChange]:
        """When a node that has just failed is back."""
        if change.cause and not change.up:
            after = self._after(f"repair {change.node}", self._failures.repair)
            yield NodeChange(now + after, change.node, up=True, cause=_REPAIR)

    def pod_failure(self, now: float, pods: int) -> float:
        """When the first of so many pods fails."""
        mean = self._failures.pod
        return now + self._pods.expovariate(pods / mean) if mean else inf

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, each as likely."""
        return self._pods.choice(options)


# Live jobs, their pods, and where these run: what starts, stops, is lost and comes again.
#
# Every change is told to the engine's state, and noted in the outcomes of the jobs.

_ROUNDED = 1.0
"""By so many seconds times on the wire may be off."""


class Places:
    """The jobs that have arrived and not ended, and the places of their pods.

    Args:
        state: what the engine sees.
        settings: how the world goes.
        maker: makes its objects.
        heap: the clock, and where ends are noted that are foreseen.
        run: what is written down.
        trouble: when pods fail.

    Attributes:
        live: by key of their PodGroup.
        waiting: those of them with pods that wait.
        coming: those of them that no cycle has admitted yet.
        wanted: what their pods ask for that wait, and of how many jobs.
        room: free amounts of the nodes, less only what these jobs hold.
        changed: something has happened that the engine should look at.
        made: pods have been made for a job that was admitted; the engine has not seen them.
        pods_wait: the pods of a job are made when it is admitted, and not when it arrives.
        ended: how many jobs are over.
        when_over: is told the name of each of them.
        uses: who has used what of budgets; None where there are none.
    """

    def __init__(
        self, state: ClusterState, settings: Settings, maker: ObjectMaker, heap: EventHeap, run: Run, trouble: Trouble
    ) -> None:
        self.state, self.settings, self.maker, self.heap, self.run = state, settings, maker, heap, run
        self.trouble = trouble
        self.live: dict[str, LiveJob] = {}
        self.waiting: dict[str, LiveJob] = {}
        self.coming: dict[str, LiveJob] = {}
        self.wanted: Counter[Needs] = Counter()
        self._wants: dict[str, frozenset[Needs]] = {}
        self._unmade: set[str] = set()
        self.numbers = {name: number for number, name in enumerate(run.node_names)}
        self.room = Room(run.cluster.nodes)
        self.changed = self.made = self.pods_wait = False
        self.ended = 0
        self.when_over: Callable[[str], None] = lambda _: None
        self.uses: Uses | None = None
        self._speed = SpeedModel(run.cluster, settings)
        self._pods: dict[str, tuple[LiveJob, int]] = {}

    def _tell(self, event: str, kind: Kind[Any], obj: Any, *, evicted: bool = False) -> None:
        """Something of a job has changed: the state hears of it, and who counts for budgets."""
        self.state.apply(event, kind, obj)
        if self.uses is not None:
            gone = event == "DELETED"
            if kind is PODS:
                self.uses.put_pod(obj, self.settings.epoch + self.heap.now, gone=gone, evicted=evicted)
            else:
                self.uses.put_group(obj, gone=gone)

    # ---- jobs come and go

    def add(self, live: LiveJob) -> None:
        """A job arrives: its PodGroup and its pods are made."""
        self.live[live.key] = live
        self._tell("ADDED", POD_GROUPS, live.group)
        live.pods = [self._pod(live, at) for at in range(live.job.pods)]
        if self.pods_wait:
            self._unmade.add(live.key)
        else:
            self._make_pods(live)
        self._note_waiting(live)
        self.changed = True

    def adopt(self, live: LiveJob, adopted: Adopted) -> None:
        """Take over a job of a live cluster as it is; its objects are in the state."""
        live.pods, live.templates = list(adopted.pods), adopted.pods
        self.live[live.key] = live
        live.outcome.started = adopted.started
        if adopted.unmade:
            self._unmade.add(live.key)
        for at, pod in enumerate(adopted.pods if not adopted.unmade else ()):
            self._pods[pod.key] = live, at
            if pod.spec.node_name in self.numbers:
                self._put(live, at, self.numbers[pod.spec.node_name])
        for unit in live.units:
            unit.left = max((adopted.left[at] for at in unit.placed or unit.pods), default=unit.left)
            if len(unit.placed) >= unit.minimum:
                unit.attempts = 1
                unit.done = max(-(adopted.started or 0.0), 0.0)  # lost where it is evicted, though it was before
                self._open_stretch(live, unit)
        self._note_waiting(live)

    def finish(self, live: LiveJob, unit: Unit) -> None:
        """A part of a job has done its work."""
        self._end_stretch(unit, "completed")
        unit.over = True
        self.changed = True
        for at in list(unit.placed):
            live.pods[at] = succeeded(live.pods[at], self.settings.epoch + self.heap.now)
            self._tell("MODIFIED", PODS, live.pods[at])
        self._take_from(live, unit, list(unit.placed))
        if all(each.over for each in live.units):
            self.remove(live, outcomes.COMPLETED)
        else:
            self._note_waiting(live)

    def remove(self, live: LiveJob, state: str) -> None:
        """The job is over: its pods and its PodGroup are deleted."""
        for unit in live.units:
            if unit.stretch is not None:
                self._end_stretch(unit, "end")
            self._take_from(live, unit, list(unit.placed))
            unit.version += 1
        for pod in live.pods if live.key not in self._unmade else ():
            self._tell("DELETED", PODS, pod)
            del self._pods[pod.key]
        self._unmade.discard(live.key)
        self._tell("DELETED", POD_GROUPS, live.group)
        del self.live[live.key]
        self._forget_waiting(live.key)
        live.outcome.state, live.outcome.ended = state, None if state == outcomes.DROPPED else self.heap.now
        self.changed = True
        self.ended += 1
        self.when_over(live.job.name)

    def _note_waiting(self, live: LiveJob) -> None:
        """Follow whether the job waits, and for what."""
        wants = frozenset(live.wanted())
        if not wants:
            self._forget_waiting(live.key)
            return
        if wants != self._wants.get(live.key):
            self._forget_wants(live.key)
            self.wanted.update(wants)
            self._wants[live.key] = wants
        self.waiting[live.key] = live
        self._note_phase(live)

    def _note_phase(self, live: LiveJob) -> None:
        if (live.group.status.phase or "Pending") == "Pending":
            self.coming[live.key] = live
        else:
            self.coming.pop(live.key, None)

    def _forget_waiting(self, key: str) -> None:
        if self.waiting.pop(key, None) is not None:
            self._forget_wants(key)
            self.coming.pop(key, None)

    def _forget_wants(self, key: str) -> None:
        for needs in self._wants.pop(key, ()):
            self.wanted[needs] -= 1
            if not self.wanted[needs]:
                del self.wanted[needs]

    def close(self) -> None:
        """Write down how things stand at the end."""
        for live in self.live.values():
            running = False
            for unit in live.units:
                if unit.stretch is not None:
                    running = True
                    self._end_stretch(unit, "end")
            live.outcome.state = outcomes.RUNNING if running else outcomes.WAITING

    def note_saved_work(self) -> None:
        """Tell of jobs that save their work when they did so last: the part of a job that did so first counts."""
        for live in self.live.values():
            every = live.job.checkpoint
            running = [unit for unit in live.units if unit.stretch is not None] if every is not None else []
            if not running:
                continue
            since = min(unit.saved_at(self.heap.now, every or 0.0) for unit in running)
            if since - live.saved >= _ROUNDED:
                live.saved = since
                live.group = with_checkpoint(live.group, self.settings.epoch + since)
                self._tell("MODIFIED", POD_GROUPS, live.group)

    # ---- what the engine decides

    def write(self, live: LiveJob, update: PodGroupUpdate) -> None:
        """The scheduler writes the status of a PodGroup."""
        live.group = with_status(live.group, update)
        if live.key in self.waiting:
            self._note_phase(live)
        self._tell("MODIFIED", POD_GROUPS, live.group)
        if live.key in self._unmade and live.key not in self.coming:
            self._make_pods(live)

    def _make_pods(self, live: LiveJob) -> None:
        """Make the pods of a job that has been admitted, as its controller does."""
        self._unmade.discard(live.key)
        for at, pod in enumerate(live.pods):
            live.pods[at] = self.maker.again(pod, pod.metadata.name, self.heap.now)
            self._pods[live.pods[at].key] = live, at
            self._tell("ADDED", PODS, live.pods[at])
        self.made = True

    def nominate(self, condition: PodCondition) -> None:
        """A pod waits for the places of others that are evicted for it."""
        entry = self._pods.get(f"{condition.namespace}/{condition.pod}")
        if entry is not None and (condition.nominated_node or condition.withdrawn):
            live, at = entry
            live.pods[at] = self.maker.nominated(live.pods[at], condition.nominated_node)
            self._tell("MODIFIED", PODS, live.pods[at])

    def bind(self, binds: Sequence[Bind]) -> bool:
        """Pods get their places; answers whether any did."""
        touched: dict[tuple[str, int], tuple[LiveJob, Unit]] = {}
        for bind in binds:
            entry = self._pods.get(f"{bind.namespace}/{bind.pod}")
            if entry is None:
                continue
            live, at = entry
            pod = live.pods[at] = self.maker.running(live.pods[at], bind.node, self.heap.now, bind.annotations)
            self._tell("MODIFIED", PODS, pod)
            unit = self._put(live, at, self.numbers[bind.node])
            touched[live.key, unit.number] = live, unit
        self.run.binds += len(binds)
        for live, unit in touched.values():
            self._begin(live, unit)
            self._note_waiting(live)
        return bool(touched)

    def evict(self, evictions: Sequence[Eviction]) -> None:
        """Pods lose their places to others."""
        lost: dict[str, tuple[LiveJob, list[int]]] = {}
        for eviction in evictions:
            key = f"{eviction.namespace}/{eviction.pod}"
            entry = self._pods.get(key)
            if entry is None:
                continue
            live, at = entry
            victim, beneficiary = live.job.name, eviction.beneficiary.partition("/")[2]
            gpu = live.roles[at].gpu_demand
            self.run.evictions.append(EvictionRecord(self.heap.now, victim, beneficiary, eviction.reason, gpu))
            live.outcome.evictions += 1
            self.state.release(key, self.settings.epoch + self.heap.now)
            lost.setdefault(live.key, (live, []))[1].append(at)
        for live, pods in lost.values():
            self._lose(live, pods, "evicted", grace=self.settings.grace)

    # ---- places and progress

    def _put(self, live: LiveJob, at: int, node: int) -> Unit:
        unit = live.unit_of[at]
        unit.placed[at] = node
        self.room.take(node, live.needs[at])
        return unit

    def _take_from(self, live: LiveJob, unit: Unit, pods: Iterable[int]) -> None:
        for at in pods:
            self.room.give(unit.placed.pop(at), live.needs[at])

    def _begin(self, live: LiveJob, unit: Unit) -> None:
        """Let a unit run that has its places, or go on with more of them."""
        if len(unit.placed) < unit.minimum:
            return
        now, overhead = self.heap.now, 0.0
        if unit.stretch is not None:
            self._end_stretch(unit, "resized")
        else:
            overhead = self.settings.startup + (live.job.restart_overhead if unit.attempts else 0.0)
            unit.attempts += 1
            unit.since = now + overhead
        self._open_stretch(live, unit, overhead)
        if live.outcome.started is None and sum(len(each.placed) for each in live.units) >= live.job.minimum:
            live.outcome.started = now

    def _open_stretch(self, live: LiveJob, unit: Unit, overhead: float = 0.0) -> None:
        now, pods = self.heap.now, tuple(sorted(unit.placed))
        nodes = tuple(unit.placed[at] for at in pods)
        gpu = sum(live.roles[at].gpu_demand for at in pods)
        cpu = sum(live.roles[at].cpu_milli for at in pods)
        unit.stretch = Stretch(now, now, unit.number, nodes, pods, gpu, cpu, overhead=overhead)
        live.outcome.stretches.append(unit.stretch)
        unit.rate = self._speed.rate(nodes, len(unit.pods))
        unit.version += 1
        end = unit.end()
        if end < inf:
            self.heap.push(end, "finish", (live, unit, unit.version))
        for mark in self.settings.marks if gpu else ():
            left = mark * WHOLE_GPU / gpu - unit.attained
            if 0 < left < end - now:
                self.heap.push(now + left + _ROUNDED, "cycle", None)
        alarm = self.trouble.pod_failure(now, len(pods))
        if alarm < end:
            self.heap.push(alarm, "fail", (live, unit, unit.version))

    def _end_stretch(self, unit: Unit, cause: str) -> None:
        stretch = unit.stretch
        assert stretch is not None
        unit.settle(self.heap.now)
        stretch.end, stretch.cause = self.heap.now, cause
        unit.attained += stretch.end - stretch.start
        unit.stretch, unit.rate = None, 0.0
        unit.version += 1

    # ---- pods that lose their places

    def fail(self, live: LiveJob, pods: Sequence[int], cause: str) -> None:
        """Pods fail; the job is given up after so many failures."""
        live.outcome.failures += 1
        self._lose(live, pods, cause)
        limit = live.job.max_retries
        if live.outcome.failures > (MOST_FAILURES if limit is None else limit):
            self.remove(live, outcomes.FAILED)

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
            self._take_from(live, unit, gone)
            if len(unit.placed) >= unit.minimum and stretch is not None:
                stretch.cause = "resized"
                self._open_stretch(live, unit)
            else:
                gone = [*gone, *unit.placed]
                self._take_from(live, unit, list(unit.placed))
                if stretch is not None:
                    stretch.lost = unit.fall_back(live.job.checkpoint)
            if grace > 0:
                for at in gone:
                    self.state.release(live.pods[at].key, None)
                self.heap.push(self.heap.now + grace, "gone", (live, [(at, live.incarnations[at]) for at in gone]))
            else:
                self._remake(live, gone, evicted=cause != "failed")
        self._note_waiting(live)
        self.changed = True

    def leave(self, live: LiveJob, pods: Sequence[tuple[int, int]]) -> None:
        """The time of grace of evicted pods is over; ``pods`` are their numbers and which incarnation was evicted."""
        if live.key in self.live:
            self._remake(live, [at for at, incarnation in pods if live.incarnations[at] == incarnation])

    def _remake(self, live: LiveJob, pods: Iterable[int], *, evicted: bool = True) -> None:
        """Replace pods by new ones that wait; ``evicted``: they go for the sake of others."""
        for at in sorted(pods):
            old = live.pods[at]
            self._tell("DELETED", PODS, old, evicted=evicted)
            del self._pods[old.key]
            live.incarnations[at] += 1
            self._add_pod(live, at)
        self.changed = True

    def _add_pod(self, live: LiveJob, at: int) -> None:
        pod = live.pods[at] = self._pod(live, at)
        self._pods[pod.key] = live, at
        self._tell("ADDED", PODS, pod)

    def _pod(self, live: LiveJob, at: int) -> Pod:
        """The pod of this number, as its controller makes it now."""
        again = live.incarnations[at]
        name = f"{live.job.name}-{at}" if not again else f"{live.job.name}-r{again}-{at}"
        if live.templates:
            return self.maker.again(live.templates[at], name, self.heap.now)
        return self.maker.pod(live.job, live.roles[at], name, self.heap.now)
