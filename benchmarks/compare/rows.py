"""The rows that are compared: each builds its cluster once, and is then measured as often as wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.clusters import START, Shape, objects, state_of
from benchmarks.decision import QUICK, SHAPES, many_specs, never_fits
from benchmarks.features import EVICTING, PLACING
from benchmarks.measure import Case, clock
from benchmarks.running import full_cluster, late_jobs, rebuilt
from unisono.api.core import Node, Pod
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config_file.reader import default_config

Measure = Callable[[], float]
"""Measures once; CPU seconds."""

RUNNING = {"2 %": Shape(200, 250, 8), "10 %": Shape(1_000, 1_250, 8), "full": Shape(10_000, 12_500, 8)}


def _cold(build: Callable[[], Case]) -> Measure:
    """A cycle to which earlier cycles have left nothing."""
    case = build()
    config = case.config or default_config()

    def once() -> float:
        case.state.memo.clear()
        snapshot = case.state.snapshot()
        start = clock()
        run(snapshot, config, START + 1e6)
        return clock() - start

    return once


def _shape(shape: Shape) -> Case:
    return Case(shape.title, state_of(shape))


def _idle(shape: Shape) -> Measure:
    """A cycle with nothing pending, like the one before."""
    state, config = state_of(shape, running=True), default_config()
    return partial(_warm, state, config)


def _again(build: Callable[[], Case]) -> Measure:
    """A cycle in which nothing is new, so that most of what it needs is known from the one before."""
    case = build()
    return partial(_warm, case.state, case.config or default_config())


def _warm(state: ClusterState, config: object) -> float:
    start = clock()
    run(state.snapshot(), config, START + 1e6)  # type: ignore[arg-type]
    return clock() - start


def _arrivals(shape: Shape, number: int) -> Measure:
    """Pods that come after an idle cycle; they are gone before the next measurement."""
    state, config = state_of(shape, running=True), default_config()

    def once() -> float:
        state.memo.clear()
        _warm(state, config)
        for kind, obj in late_jobs(shape, number):
            state.apply("ADDED", kind, obj)
        seconds = _warm(state, config)
        for kind, obj in reversed(list(late_jobs(shape, number))):
            state.apply("DELETED", kind, obj)
        return seconds

    return once


def _rebuild(shape: Shape) -> Measure:
    return lambda: rebuilt(shape)[1]


def _rows(scales: tuple[str, ...]) -> Iterator[tuple[str, str, Callable[[], Measure]]]:
    """Group, name and what builds a row."""
    full = "full" in scales
    for shape in SHAPES if full else QUICK:
        yield "shapes", shape.title, partial(_cold, partial(_shape, shape))
    specs = 1_000 if full else 100
    yield "specs", f"{specs:,} different specs x 10", partial(_cold, partial(many_specs, specs))
    yield "specs", "verdict of a gang of 20,000", partial(_cold, never_fits)
    size = 1.0 if full else 0.1
    for build in (*PLACING, *EVICTING):
        yield "features", f"{build.__name__} x {size:g}", partial(_cold, partial(build, size))
    for name in scales:
        shape = RUNNING[name]
        jobs = shape.nodes // 10
        yield "running", f"rebuild, {shape.nodes:,} nodes", partial(_rebuild, shape)
        yield "running", f"nothing pending, {shape.nodes:,} nodes", partial(_idle, shape)
        yield "running", f"{jobs:,} arrivals, {shape.nodes:,} nodes", partial(_arrivals, shape, jobs)
        gangs = partial(full_cluster, jobs)
        yield "running", f"{jobs:,} equal gangs wait", partial(_cold, gangs)
        yield "running", f"{jobs:,} equal gangs wait, unchanged", partial(_again, gangs)
    gangs_, nodes = (1_000, 2_000) if full else (100, 200)
    wrong = partial(wrong_selectors, gangs_, nodes)
    yield "verdicts", f"{gangs_:,} wrong selectors, {nodes:,} nodes", partial(_cold, wrong)
    yield "verdicts", f"{gangs_:,} wrong selectors, {nodes:,} nodes, unchanged", partial(_again, wrong)


def rows(*, quick: bool) -> dict[str, tuple[str, Callable[[], Measure]]]:
    """What builds each row, and its group, by name."""
    scales = ("2 %", "10 %") if quick else ("2 %", "10 %", "full")
    return {name: (group, build) for group, name, build in _rows(scales)}


# The shape whose verdicts cost most: gangs that wait, each for a label of its own that no node has.


def wrong_selectors(gangs: int, nodes: int) -> Case:
    """``gangs`` gangs of four, each with another selector, on ``nodes`` labelled nodes."""
    state = ClusterState()
    number = 0
    for kind, obj in objects(Shape(nodes, gangs, 4)):
        if isinstance(obj, Node):
            obj.metadata.labels = {"kubernetes.io/hostname": obj.metadata.name, "zone": f"zone-{number % 10}"}
            number += 1
        if isinstance(obj, Pod):
            job = obj.metadata.name.rpartition("-worker-")[0]
            obj.spec.node_selector = {"zone": f"wrong-{job}"}
        state.apply("ADDED", kind, obj)
    return Case(f"{gangs:,} gangs with different wrong selectors, {nodes:,} nodes", state)
