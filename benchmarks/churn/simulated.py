"""Scheduler, controllers, simulated nodes and the embedded API in this process, on a virtual clock."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import _lru_cache_wrapper
from pathlib import Path
from types import ModuleType
from typing import Any

from prometheus_client import CollectorRegistry

from benchmarks.churn.fit import Sample
from benchmarks.churn.load import Load
from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.apiserver.backend import Backend
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.keeper import ObjectKeeper
from unisono.controllers.registry import COMPONENT, all_controllers
from unisono.kube.controller import Manager
from unisono.kube.events import EventRecorder
from unisono.scheduler.scheduler import Scheduler
from unisono.standalone.background import SCHEDULER_NAMES
from unisono.standalone.shadow import LoopClock, VirtualLoop

NODES = [{"name": "node", "count": 10, "capacity": {"cpu": 64, "memory": "512Gi"}}]
Report = Callable[[Sample], None]


class World:
    """The parts of one process; ``roots`` is what is looked through for what grows."""

    def __init__(self, backend: Backend, clock: LoopClock) -> None:
        client = self.client = backend.client(field_manager="churn")
        self._recorder = EventRecorder(backend.client(field_manager=COMPONENT), COMPONENT, clock=clock)
        registry = self._registry = CollectorRegistry()
        keeper = ObjectKeeper(client, self._recorder, registry=registry, clock=clock)
        self._manager = Manager(backend.client(field_manager=COMPONENT), clock=clock, keeper=keeper)
        self._controllers = [
            *all_controllers(self._recorder, scheduler_names=SCHEDULER_NAMES, registry=registry),
            *builtin_controllers(self._recorder),
        ]
        self._scheduler = Scheduler(
            backend.client(field_manager="unisono-scheduler"),
            None,
            clock,
            registry=CollectorRegistry(),
            scheduler_names=SCHEDULER_NAMES,
        )
        self._nodes = SimulatedNodes(backend.client(), parse_specs(NODES), clock, volumes=True)
        self.roots = {
            "api": backend,
            "manager": self._manager,
            "controllers": self._controllers,
            "recorder": self._recorder,
            "scheduler": self._scheduler,
            "nodes": self._nodes,
        }

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._manager.run(self._controllers))
                group.create_task(self._scheduler.run())
                group.create_task(self._nodes.run())
        finally:
            await self._recorder.close(timeout=0.0)


async def _life(folder: Path, options: Any, report: Report) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock, file = LoopClock(loop), folder / "state.db"
    backend = await Backend.open(file, clock=clock.time, timers=clock)
    loop.busy = lambda: backend.store.statistics()["pending"] > 0
    world = World(backend, clock)
    working = asyncio.create_task(world.run())
    load = Load(
        world.client,
        clock,
        pods=options.pods,
        size=options.size,
        per_second=options.pods / (options.hours * 3600),
        window=options.window,
        seconds_scale=1.0,
    )
    loading = asyncio.create_task(load.run())
    end, told = time.monotonic() + options.minutes * 60, 0
    try:
        while not loading.done() and not working.done() and time.monotonic() < end:
            await clock.sleep(5)
            if load.counts.pods >= told:
                told += options.every
                report(_sample(load, clock, world, file))
        report(_sample(load, clock, world, file))
        for task in (loading, working):
            if task.done():
                task.result()
    finally:
        for task in (loading, working):
            task.cancel()
        await asyncio.gather(loading, working, return_exceptions=True)
        await backend.close()
    if load.errors:
        print("refused:", dict(load.errors.most_common(5)), flush=True)


def _sample(load: Load, clock: LoopClock, world: World, file: Path) -> Sample:
    figures: dict[str, float] = {f"objects {name}": number for name, number in objects().items()}
    figures |= {f"entries {name}": number for name, number in entries(world.roots).items()}
    figures |= {f"cache {name}": number for name, number in caches().items()}
    gc.collect()
    figures["tasks"] = len(asyncio.all_tasks())
    figures["rss"] = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    figures["store"] = file.stat().st_size
    log = file.with_name(file.name + "-wal")
    figures["write-ahead log"] = log.stat().st_size if log.exists() else 0
    figures["cpu"] = time.process_time()
    return Sample(load.counts.pods, clock.monotonic(), figures)


def run(folder: Path, options: Any, report: Report) -> None:
    """Live as long as the options say, telling ``report`` of each sample."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_life(folder, options, report))


# What a process holds: entries of every container that can be reached from its parts, and objects by class.


_PLAIN = (str, bytes, int, float, bool, type(None), type, ModuleType)
_OURS = ("unisono.", "benchmarks.")


def entries(roots: Mapping[str, Any]) -> Counter[str]:
    """Entries by path, as ``scheduler._feed._records[]``; containers in equal places count together.

    Only attributes of this project's classes, and what is in containers, are followed.
    """
    found: Counter[str] = Counter()
    seen: set[int] = {id(found)}
    waiting = deque((name, root) for name, root in roots.items())
    while waiting:
        path, value = waiting.popleft()
        if isinstance(value, _PLAIN) or id(value) in seen:
            continue
        seen.add(id(value))
        for name, child in _parts(value, path, found):
            waiting.append((name, child))
    return found


def caches() -> Counter[str]:
    """Entries of the caches and containers that belong to modules of this project."""
    found: Counter[str] = Counter()
    for module in [module for name, module in sys.modules.items() if name.startswith("unisono.")]:
        for name, value in vars(module).items():
            if isinstance(value, _lru_cache_wrapper):
                found[f"{module.__name__}.{name}"] = value.cache_info().currsize
            elif isinstance(value, (dict, list, set, deque, OrderedDict)):
                found[f"{module.__name__}.{name}"] = len(value)
            elif isinstance(value, type) and value.__module__ == module.__name__:
                found.update(dict(_of_class(value)))
    return found


def objects() -> Counter[str]:
    """Live objects by class, after a full collection."""
    gc.collect()
    return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())


def _of_class(owner: type) -> Iterator[tuple[str, int]]:
    for name, value in vars(owner).items():
        inner = getattr(value, "__func__", value)
        if isinstance(inner, _lru_cache_wrapper):
            yield f"{owner.__module__}.{owner.__qualname__}.{name}", inner.cache_info().currsize


def _parts(value: Any, path: str, found: Counter[str]) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        found[path] += len(value)
        return [(f"{path}[]", child) for child in list(value.values())]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        if not isinstance(value, tuple):
            found[path] += len(value)
        return [(f"{path}[]", child) for child in list(value)]
    if type(value).__module__ == "numpy":
        found[path] += int(getattr(value, "size", 0))
        return ()
    if type(value).__module__.startswith(_OURS) and "unisono.api." not in type(value).__module__:
        return [(f"{path}.{name}", child) for name, child in _attributes(value)]
    return ()


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for owner in type(value).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield name, getattr(value, name)
