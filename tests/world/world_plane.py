"""A world: the whole control plane in one process on a seeded loop, and the story that happens to it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import hashlib
import json
import os
import random as chance
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import structlog
from prometheus_client import CollectorRegistry
from world_answers import needs, offers
from world_answers import waiting as waiting_jobs
from world_configured import Settings
from world_deeds import Deeds, Process
from world_loop import PROCESS, RunsInCircles, SeededLoop, WorldClock
from world_network import Weather, Wire
from world_rest import Eviction, held_back, helpless, limits, miscounted, stuck, unanswered, unkept, unrest, waiting
from world_server import NOW
from world_story import Deed, Story

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.kinds import JOBS, LEASES, POD_GROUPS, PODS
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.execution import RETRIES
from unisono.controllers.keeper import ObjectKeeper
from unisono.controllers.registry import COMPONENT, all_controllers
from unisono.engine import run
from unisono.engine.config_file.reader import load_config
from unisono.errors import ApiError, UnisonoError
from unisono.kube import pace
from unisono.kube.client import Client
from unisono.kube.controller import Manager
from unisono.kube.events import EventRecorder
from unisono.kube.informer import Informer
from unisono.kube.leader import LeaderElector, LeadershipLost
from unisono.scheduler.explanations import Explained, Explanations
from unisono.scheduler.process_copy import Done, Unfinished
from unisono.scheduler.scheduler import Scheduler
from unisono.scheduler.settings import FixedConfig

_NAMES = ("volcano", "unisono", "default-scheduler")
# Virtual seconds after the last thing broke until the world must be at rest, and between two looks at it.
_REST, _APART = 180.0, 30.0
_MOST_WRITES = 6
# After how long every waiting job has been looked at again.
_AGAIN = 45.0


@dataclass(slots=True)
class Outcome:
    """What became of a world.

    Attributes:
        found: what must never be, and was.
        history: one line for each thing that happened.
        steps: callbacks that ran.
        seconds: virtual seconds.

    """

    found: list[str]
    history: list[str]
    steps: int
    seconds: float

    @property
    def digest(self) -> str:
        """Of the history."""
        return hashlib.sha256("\n".join(self.history).encode()).hexdigest()


class _Enough(Exception):
    """Something was found."""


class World(Deeds):
    """Made for one story; ``live`` runs it."""

    def __init__(
        self, story: Story, folder: Path, loop: SeededLoop, until: Callable[[str], bool] | None = None
    ) -> None:
        super().__init__(story, folder, loop)
        self._until = until
        self._config = load_config(story.config_text, "world")
        self._processes: dict[str, Process] = {}
        self._evictions: list[Eviction] = []
        self._advice = story.advice
        self._observers: dict[str, Informer[Any]] = {}

    # ---- processes

    def _add(self, name: str, work: Callable[[Wire, WorldClock], Awaitable[None]]) -> None:
        self._processes[name] = Process(name, work, WorldClock(self._loop, NOW))
        self._begin(self._processes[name])

    def _begin(self, process: Process) -> None:
        process.lives += 1
        identity = f"{process.name}.{process.lives}"
        process.wire = Wire(self, identity if "scheduler" in identity else process.name, process.name, process.clock)
        context = contextvars.copy_context()
        context.run(PROCESS.set, process.name)
        process.task = asyncio.create_task(self._life(process, process.wire), context=context)

    async def _life(self, process: Process, wire: Wire) -> None:
        failures = 0
        while True:
            try:
                await process.work(wire, process.clock)
                self.note(f"{process.name} ended by itself")
            except (ApiError, OSError, LeadershipLost) as error:
                self.note(f"{process.name} ended: {error}")
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                causes = _leaves(error)
                if any(not isinstance(one, ApiError | OSError | LeadershipLost) for one in causes):
                    self.truth.say(f"{process.name} ended: {_where(causes[0])}")
            failures += 1
            await asyncio.sleep(min(5.0, 0.5 * failures))

    async def _kill(self, name: str) -> None:
        process = self._processes.get(name)
        if process is None or process.task is None or process.wire is None:
            return
        self.note(f"{name} dies")
        process.wire.dead = True
        process.wire.cut()
        task, process.task = process.task, None
        task.cancel()
        process.ended.append(task)

    def _revive(self, name: str) -> None:
        process = self._processes.get(name)
        if process is not None and process.task is None:
            self.note(f"{name} starts")
            self._begin(process)

    def _leading(self, name: str, work: Callable[[Client, WorldClock], Awaitable[None]]) -> Any:
        async def lead(wire: Wire, clock: WorldClock) -> None:
            elector = LeaderElector(wire, f"world-{name}", "default", wire.process, clock=clock)
            await elector.run(lambda client: work(client, clock))

        return lead

    async def _schedule(self, client: Client, clock: WorldClock) -> None:
        configured, before, copied = self.truth.configured, None, False
        draw = Random(self.story.seed)

        def beside(work: Callable[[], Explained], done: Done) -> Any:
            """Works it out at once, and tells it later; some copies of processes come to nothing."""
            nonlocal copied
            copied = True
            try:
                found = work()
            finally:
                copied = False
            delay, told = draw.random() * 5, found if draw.random() < 0.9 else Unfinished("it was killed")
            self._loop.call_later(delay, done, told)

        def decide(snapshot: Any, config: Any, *given: Any, **more: Any) -> Any:
            nonlocal before
            decisions = run(snapshot, config, *given, **more, monotonic=clock.monotonic, advice=self._advice)
            if copied:
                return decisions
            used = Settings(tuple(config.actions), tuple(plugin.name for plugin in config.plugins))
            actions = [one.reason for one in decisions.evictions]
            for wrong in configured.judge(before, used, actions, self._loop.time()):
                self.truth.say(wrong)
            before = used
            for one in decisions.evictions:
                now, pod = self._loop.time(), f"{one.namespace}/{one.pod}"
                self._evictions.append(Eviction(now, one.uid, pod, one.reason, one.beneficiary))
            for broken in decisions.violations:
                self.truth.say(f"the engine breaks an invariant: {broken.subject}: {broken.message}")
            return decisions

        explanations = Explanations(clock.monotonic, copies=beside, least=-1.0) if self.story.seed % 3 == 1 else None
        scheduler = Scheduler(
            client,
            FixedConfig(self._config),
            clock,
            registry=CollectorRegistry(),
            scheduler_names=_NAMES,
            decide=decide if explanations is None else partial(explanations.decide, decide),
            explanations=explanations,
        )
        await scheduler.run()

    async def _control(self, client: Client, clock: WorldClock) -> None:
        recorder = EventRecorder(client, COMPONENT, clock=clock)
        registry = CollectorRegistry()
        keeper = ObjectKeeper(client, recorder, registry=registry, clock=clock)
        everywhere = all_controllers(recorder, scheduler_names=_NAMES, registry=registry)
        source = Random(self.draw.getrandbits(32))
        try:
            await Manager(client, clock=clock, keeper=keeper, retries=RETRIES).run(
                [*everywhere, *builtin_controllers(recorder, source=source)]
            )
        finally:
            await recorder.close(timeout=0.0)

    async def _simulate(self, wire: Wire, clock: WorldClock) -> None:
        await SimulatedNodes(wire, parse_specs(list(self.story.nodes)), clock, volumes=True).run()

    async def _observe(self, wire: Wire, clock: WorldClock) -> None:
        """A client of no component: what informers hold, and whether watches tell all."""
        async with asyncio.TaskGroup() as group:
            for kind in (PODS, POD_GROUPS, JOBS):
                informer: Informer[Any] = Informer(_Checked(wire, self), kind, clock=clock)
                self._observers[kind.resource] = informer
                group.create_task(informer.run())

    # ---- life

    async def live(self) -> None:
        """Let the story happen, then look whether all comes to rest."""
        await self._start_server()
        await self._prepare()
        for letter in "ab"[: self.story.replicas]:
            self._add(f"scheduler-{letter}", self._leading("scheduler", self._schedule))
        self._add("controllers-a", self._leading("controllers", self._control))
        self._add("nodes", self._simulate)
        self._add("observer", self._observe)
        doing = [asyncio.create_task(self._later(deed)) for deed in self.story.deeds]
        try:
            while self._loop.time() < self.story.ends:
                await self._pass(1.0)
            await asyncio.gather(*doing)
            await self._rest()
        except _Enough:
            pass
        finally:
            for task in doing:
                task.cancel()
            await self._end()

    async def _pass(self, seconds: float) -> None:
        """Let time go by."""
        for _ in range(max(1, int(seconds / 5))):
            await asyncio.sleep(min(seconds, 5.0))
            self.truth.look_at_gangs()
            if self._until is not None and any(map(self._until, self.truth.found)):
                raise _Enough

    async def _later(self, deed: Deed) -> None:
        await asyncio.sleep(deed.at)
        await self._do(deed)

    async def _prepare(self) -> None:
        for name, value in (("high", 1000), ("low", 10)):
            body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            await self._do_create("admin", {**body, "value": value})
        for queue in self.story.queues:
            await self._do_create("admin", queue)

    async def _rest(self) -> None:
        truth = self.truth
        self.weather = Weather()
        if self._disk is not None:
            self._disk.fullness = 0.0
        for name in self._processes:
            self._revive(name)
        self.note("rest")
        self._broke()
        await self._pass(_REST)
        quiet = dict(truth.writes)
        looks, tasks = [], []
        for _ in range(3):
            texts = {f"PodGroup {key} waits though it fits" for key in waiting(truth, truth.configured.config)}
            texts |= {
                *stuck(truth, self._clock.time()),
                *held_back(truth),
                *miscounted(truth),
                *unkept(truth, self._evictions),
                *unanswered(truth),
                *truth.configured.at_rest(truth.objects[LEASES.resource]),
                *self._unwritten(),
            }
            looks.append(texts)
            tasks.append(len(asyncio.all_tasks()))
            await self._pass(_APART)
        for text in sorted(set.intersection(*looks)):
            truth.say(text)
        if tasks[2] > tasks[1] + 20 > tasks[0] + 40:
            truth.say(f"tasks become more and more at rest: {tasks}")
        for text in [*unrest(truth, quiet, _MOST_WRITES), *limits(truth)]:
            truth.say(text)
        old = self._loop.time() - _REST
        for text in helpless(truth, {one.beneficiary for one in self._evictions if one.at > old and one.beneficiary}):
            truth.say(text)
        self._compare_observers()
        if self.story.asks and not truth.found:
            await self._ask()

    async def _ask(self) -> None:
        """Do what waiting jobs are told would start them, one after the other, and see that each starts."""
        self._advice = True
        for _ in range(self.story.asks):
            await self._pass(_AGAIN)
            told = [one for key, verdict in waiting_jobs(self.truth) for one in self._offers(key, verdict)]
            if not told:
                return
            key, change, deeds = self.draw.choice(told)
            least = max((one.get("to") or 0 for one in change.get("changes") or [change]), default=0)
            for deed in deeds:
                await self._do(deed)
            for _ in range(12):
                await self._pass(5.0)
                if not needs(self.truth, key, least):
                    break
            else:
                self.truth.say(f"PodGroup {key} was told {json.dumps(change)}, and {needs(self.truth, key, least)}")

    def _offers(self, key: str, verdict: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any], list[Deed]]]:
        if not verdict:
            self.truth.say(f"PodGroup {key} waits and has no verdict")
        return [(key, change, deeds) for change, deeds in offers(self.truth, key, verdict)]

    def _unwritten(self) -> set[str]:
        backend = self._backend
        pending = 0 if backend is None else backend.store.statistics()["pending"]
        return {"writes are pending in the store for long"} if pending else set()

    def _compare_observers(self) -> None:
        for resource, informer in self._observers.items():
            held = {item.key: item.metadata.resource_version for item in informer.items()}
            true = {f"{key[1]}/{key[2]}": str(v) for key, v in self.truth.versions.items() if key[0] == resource}
            for key in sorted(held.keys() | true.keys()):
                if held.get(key) != true.get(key):
                    self.truth.say(f"an informer holds {resource} {key} at {held.get(key)}, and it is {true.get(key)}")

    async def _end(self) -> None:
        tasks = []
        for process in self._processes.values():
            if process.wire is not None:
                process.wire.dead = True
                process.wire.cut()
            tasks += [task for task in (process.task, *process.ended) if task is not None]
        for _ in range(3):
            for task in tasks:
                task.cancel()
            await asyncio.wait([asyncio.ensure_future(asyncio.sleep(5))])
        if self._backend is not None:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._backend.close(), 20)


class _Checked:
    """A client that looks whether its watches leave something out or go back."""

    def __init__(self, wire: Wire, world: World) -> None:
        self._wire, self._world = wire, world
        self._known: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)

    async def list(self, kind: Any, namespace: str | None = None, **options: Any) -> Any:
        """Remember up to where the reflector knows everything."""
        found = await self._wire.list(kind, namespace, **options)
        self._known[kind.resource] = int(found.resource_version)
        return found

    async def watch(self, kind: Any, namespace: str | None = None, **options: Any) -> AsyncIterator[Any]:
        """Pass on what comes."""
        truth, at = self._world.truth, int(options["resource_version"])
        if at > self._known[kind.resource]:
            truth.say(f"a reflector knows {kind.plural} up to {self._known[kind.resource]} and asks what is after {at}")
        if at < self._known[kind.resource]:
            truth.say(f"a reflector asks for {kind.plural} after {at}, and has heard of all up to more")
        async for event in self._wire.watch(kind, namespace, **options):
            version = int(event.object.metadata.resource_version or 0)
            if event.type != "BOOKMARK" and version <= at:
                truth.say(f"a watch on {kind.plural} tells of {version} after {at}")
            left_out = [one for one in truth.revisions[kind.resource] if at < one < version]
            if left_out:
                truth.say(f"a watch on {kind.plural} goes from {at} to {version} and leaves out {left_out[:3]}")
            at = self._known[kind.resource] = max(at, version)
            yield event


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]


def _where(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "unisono" in frame.filename]
    place = f" ({frames[-1].filename.rpartition('unisono/')[2]}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


class _Log:
    """A processor of structlog: unexpected errors of components are findings."""

    def __init__(self) -> None:
        self.say: Callable[[str], None] = lambda _: None

    def __call__(self, _: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        """Take one record."""
        if event.get("exc_info") or method == "exception":
            error = sys.exc_info()[1]
            if error is not None and not isinstance(error, ApiError | OSError | LeadershipLost):
                self.say(f"{event.get('event')}: {_where(error)}")
        raise structlog.DropEvent


LOG = _Log()


def _folder() -> Path:
    shared = Path("/dev/shm")
    parent = shared if os.access(shared, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="world-", dir=parent))


_broken_off: list[Any] = []
"""Loops and worlds that ended before their coroutines, kept until they are swept."""


def sweep() -> None:
    """Collect what earlier worlds left; coroutines of one that was broken off cannot end without their loop."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _broken_off.clear()
            gc.collect()
    finally:
        sys.unraisablehook = hook


def lived(story: Story, *, until: Callable[[str], bool] | None = None) -> Outcome:
    """Run a story to its end, or until something is found of which ``until`` is true."""
    structlog.configure(processors=[LOG], cache_logger_on_first_use=False)
    folder, collecting = _folder(), gc.isenabled()
    sweep()
    gc.disable()
    pace.JITTER.seed(story.seed)
    state = chance.getstate()
    chance.seed(story.seed)
    loop = SeededLoop(Random(story.seed), story.disorder)
    loop.set_exception_handler(lambda *_: None)
    asyncio.set_event_loop(loop)
    world = life = None
    try:
        world = World(story, folder, loop, until)
        LOG.say = world.truth.say
        life = world.live()
        loop.run_until_complete(life)
    except (RunsInCircles, UnisonoError) as error:
        assert world is not None
        _broken_off.append((loop, world, life))
        world.truth.say(str(error))
    finally:
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        asyncio.set_event_loop(None)
        with suppress(RuntimeError):
            loop.close()
        chance.setstate(state)
        shutil.rmtree(folder, ignore_errors=True)
        if collecting:
            gc.enable()
    return Outcome(world.truth.found, world.history, loop.steps, loop.time())
