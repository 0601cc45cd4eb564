"""In-memory decision speed: from a snapshot to decisions, without any I/O.

Volcano's numbers are those of its own scheduler on the same shapes, in memory, on a 2-core machine.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from benchmarks.clusters import START, Shape, objects, state_of
from unisono.api import kinds
from unisono.api.core import Pod
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config import default_config
from unisono.engine.decisions import Decisions

SHAPES = (
    Shape(1_000, 10_000, 1, wanted=35_000, volcano=349),
    Shape(1_000, 500, 20, wanted=40_000, volcano=387),
    Shape(1_000, 20, 500, wanted=40_000, volcano=392),
    Shape(1_000, 1, 10_000, wanted=40_000, volcano=288),
    Shape(10_000, 500, 20, wanted=25_000, volcano=259),
    Shape(5_000, 1_000, 8, pod="gpu", wanted=20_000, volcano=187),
    Shape(10_000, 12_500, 8, pod="gpu", wanted=15_000),
)
QUICK = (Shape(200, 100, 20, wanted=40_000), Shape(200, 1_000, 1, wanted=35_000))


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement; ``value`` in ``unit``, ``wanted`` the goal, ``better`` says which way is good."""

    name: str
    value: float
    unit: str
    wanted: float | None
    better: str
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.wanted is None:
            return None
        return self.value >= self.wanted if self.better == "more" else self.value <= self.wanted


def decide(state: ClusterState, rounds: int = 3) -> tuple[float, Decisions]:
    """Seconds of the fastest of some cold cycles, and the decisions."""
    best = float("inf")
    decisions = Decisions()
    config = default_config()
    for _ in range(rounds):
        state.memo.clear()
        snapshot = state.snapshot()
        gc.collect()
        gc.freeze()  # what a long-lived scheduler does once: the state is no garbage
        start = time.perf_counter()
        decisions = run(snapshot, config, START + 1e6)
        best = min(best, time.perf_counter() - start)
        gc.unfreeze()
    return best, decisions


def speed(shape: Shape) -> Row:
    """Pods per second of one cycle that places everything that fits."""
    seconds, decisions = decide(state_of(shape), rounds=2 if shape.jobs * shape.gang > 50_000 else 3)
    placed = len(decisions.binds)
    note = f"{placed:,} placed in {seconds:.3f} s"
    if shape.volcano:
        note += f"; Volcano {shape.volcano:,.0f} pods/s"
    if decisions.violations:
        note += f"; {len(decisions.violations)} violations"
    return Row(shape.title, placed / seconds, "pods/s", shape.wanted or None, "more", note)


def running_cluster(scale: float = 1.0) -> Iterator[Row]:
    """Rebuild, idle cycle, arrivals and memory at 10,000 nodes with 100,000 running pods."""
    shape = Shape(int(10_000 * scale), int(12_500 * scale), 8)
    stored = list(objects(shape, running=True))
    state = ClusterState()
    start = time.perf_counter()
    for kind, obj in stored:
        state.apply("ADDED", kind, obj)
    state.snapshot()
    pods = shape.jobs * shape.gang
    what = f"{shape.nodes:,} nodes, {pods:,} running"
    yield Row(f"rebuild: {what}", time.perf_counter() - start, "s", None, "less")
    del stored
    run(state.snapshot(), default_config(), START)
    yield _timed(f"cycle with nothing pending: {what}", lambda: run(state.snapshot(), default_config(), START))
    yield _timed(
        f"idle cycle, version unchanged: {what}", lambda: state.version == state.snapshot().version, wanted=1.0
    )
    late = replace(shape, nodes=0, queues=1, jobs=1_000, gang=1)
    for kind, obj in objects(late):
        if kind is not kinds.QUEUES:
            obj.metadata.name = obj.metadata.name.replace("job-", "late-")
            if isinstance(obj, Pod) and obj.metadata.annotations:
                group = obj.metadata.annotations["scheduling.k8s.io/group-name"]
                obj.metadata.annotations["scheduling.k8s.io/group-name"] = group.replace("job-", "late-")
            state.apply("ADDED", kind, obj)
    seconds, decisions = decide(state)
    yield Row(f"1,000 arrivals: {what}", seconds * 1000, "ms", None, "less", f"{len(decisions.binds):,} placed")


def never_fits() -> Row:
    """Time to the verdict of a gang that no empty cluster could hold."""
    state = state_of(Shape(1_000, 1, 500, pod="gpu"))
    for kind, obj in objects(Shape(0, 1, 20_000, pod="gpu")):
        if kind is not kinds.QUEUES:
            state.apply("MODIFIED", kind, obj)
    seconds, decisions = decide(state)
    (verdict,) = decisions.verdicts.values()
    return Row("verdict of a gang of 20,000 on 1,000 nodes", seconds * 1000, "ms", None, "less", verdict.cause)


def many_specs(number: int = 1_000) -> Row:
    """Pods of many different specs: nothing is shared between them."""
    shape = Shape(1_000, number, 10)
    state = ClusterState()
    for kind, obj in objects(shape):
        if isinstance(obj, Pod) and obj.metadata.annotations:
            index = int(obj.metadata.annotations["scheduling.k8s.io/group-name"][4:])
            requests = obj.spec.containers[0].resources.requests  # type: ignore[index]
            requests["cpu"] = f"{500 + index}m"  # type: ignore[index]
        state.apply("ADDED", kind, obj)
    seconds, decisions = decide(state)
    note = f"{len(decisions.binds):,} placed in {seconds:.3f} s"
    return Row(
        f"1,000 nodes, {number:,} different specs x 10", len(decisions.binds) / seconds, "pods/s", None, "more", note
    )


def _timed(name: str, action: Callable[[], object], wanted: float | None = None) -> Row:
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return Row(name, best * 1000, "ms", wanted, "less")


def memory() -> Row:
    """Peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mib = peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024
    return Row("peak memory of all of this", mib, "MiB", 1024, "less")


def rows(*, quick: bool) -> Iterator[Row]:
    """All measurements, one by one."""
    for shape in QUICK if quick else SHAPES:
        yield speed(shape)
    yield many_specs(100 if quick else 1_000)
    yield never_fits()
    yield from running_cluster(0.02 if quick else 1.0)
    yield memory()
