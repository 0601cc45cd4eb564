"""A large cluster that runs already: rebuild, idle cycles, arrivals, gangs that wait, memory."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.clusters import START, Shape, named, objects, state_of
from benchmarks.measure import Case, Row, clock, decide, timed
from unisono.api import kinds
from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config_file.reader import default_config
from unisono.gc_pauses import collector_paused

_decide = collector_paused()(run)
"""A cycle as the scheduler runs it."""


def running_rows(scale: float) -> Iterator[Row]:
    """Rows at 10,000 nodes with 100,000 running pods, times ``scale``."""
    shape = Shape(int(10_000 * scale), int(12_500 * scale), 8)
    pods = shape.jobs * shape.gang
    what = f"{shape.nodes:,} nodes, {pods:,} running"
    state, seconds = rebuilt(shape)
    yield Row(f"rebuild from lists: {what}", pods / seconds, "pods/s", 60_000, "more", f"{seconds:.2f} s")
    config = default_config()
    _decide(state.snapshot(), config, START)
    idle = timed(lambda: _decide(state.snapshot(), config, START), 10)
    yield Row(f"cycle with nothing pending: {what}", idle * 1000, "ms", 1.0, "less")
    unchanged = timed(lambda: state.version == state.snapshot().version, 10)
    yield Row(f"nothing has changed: {what}", unchanged * 1000, "ms", 1.0, "less")
    arrivals = max(int(1_000 * scale), 10)
    for kind, obj in late_jobs(shape, arrivals):
        state.apply("ADDED", kind, obj)
    start = clock()
    decisions = _decide(state.snapshot(), config, START + 1e6)
    seconds = clock() - start
    note = f"{len(decisions.binds):,} placed"
    yield Row(f"{arrivals:,} arrivals: {what}", seconds * 1000, "ms", None, "less", note)
    yield waiting_gangs(int(1_000 * scale))


def late_jobs(shape: Shape, number: int) -> Iterator[tuple[Kind[object], Object]]:
    """Jobs of one pod that come when a shape runs."""
    return named(objects(replace(shape, nodes=0, queues=1, jobs=number, gang=1)), "late-")


def rebuilt(shape: Shape) -> tuple[ClusterState, float]:
    """A state from one list per kind, and the seconds that it took; decoding is not counted."""
    lists: dict[str, tuple[Kind[object], list[object]]] = {}
    for kind, obj in objects(shape, running=True):
        lists.setdefault(kind.kind, (kind, []))[1].append(obj)
    state = ClusterState()
    start = clock()
    for kind, found in lists.values():
        with collector_paused():
            state.replace(kind, found)  # type: ignore[arg-type]
    state.snapshot()
    return state, clock() - start


def full_cluster(number: int) -> Case:
    """Nothing fits: equal gangs of 8 one-GPU pods wait for a full cluster."""
    state = state_of(Shape(number, number, 8, pod="gpu"), running=True)
    for kind, obj in named(objects(Shape(0, number, 8, pod="gpu")), "late-"):
        if kind is not kinds.QUEUES:
            state.apply("ADDED", kind, obj)
    return Case(f"{number:,} equal gangs wait for a full cluster", state)


def waiting_gangs(number: int) -> Row:
    """A cycle of a full cluster."""
    case = full_cluster(number)
    seconds, decisions = decide(case.state, 2)
    note = f"{len(decisions.verdicts):,} verdicts, {len(decisions.pod_conditions):,} pods told"
    return Row(case.name, seconds * 1000, "ms", None, "less", note)


_MEASURE = "from benchmarks.running import resident; resident({nodes})"


def memory(nodes: int) -> Row:
    """Resident memory of a fresh process that holds the state of a cluster with ten pods per node, after one cycle."""
    command = [sys.executable, "-c", _MEASURE.format(nodes=nodes)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    before, after = (float(part) for part in answer.stdout.split())
    pods = nodes * 10
    note = f"{(after - before) * 1024 / pods:,.1f} KiB per pod beyond the {before:,.0f} MiB of the program"
    return Row(f"memory: {nodes:,} nodes, {pods:,} running", after, "MiB", 1024, "less", note)


def resident(nodes: int) -> None:
    """Print resident memory before and after, in MiB."""
    before = _resident()
    state = state_of(Shape(nodes, nodes * 10 // 8, 8), running=True)
    _decide(state.snapshot(), default_config(), START)
    gc.collect()
    print(before, _resident())


def _resident() -> float:
    """Present resident memory where the system tells it (Linux), else the peak so far; MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if "VmRSS" in line) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024
