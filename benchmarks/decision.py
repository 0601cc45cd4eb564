"""In-memory decision speed on published shapes: from a snapshot to decisions, without any I/O."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.clusters import Shape, objects, state_of
from benchmarks.features import feature_rows
from benchmarks.measure import Case, Row, decide, placed
from benchmarks.running import memory, running_rows
from unisono.api import kinds
from unisono.api.core import Pod
from unisono.cluster.state import ClusterState

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


def speed(shape: Shape) -> Row:
    """Pods per second of one cycle that places everything that fits."""
    rounds = 2 if shape.jobs * shape.gang > 50_000 else 3
    return placed(Case(shape.title, state_of(shape)), rounds, wanted=shape.wanted, volcano=shape.volcano)


def never_fits() -> Case:
    """A gang that no empty cluster could hold."""
    state = state_of(Shape(1_000, 1, 500, pod="gpu"))
    for kind, obj in objects(Shape(0, 1, 20_000, pod="gpu")):
        if kind is not kinds.QUEUES:
            state.apply("MODIFIED", kind, obj)
    return Case("verdict of a gang of 20,000 on 1,000 nodes", state)


def to_the_verdict() -> Row:
    """Time to the verdict of that gang: one cycle."""
    case = never_fits()
    seconds, decisions = decide(case.state)
    (verdict,) = decisions.verdicts.values()
    return Row(case.name, seconds * 1000, "ms", None, "less", verdict.cause)


def many_specs(number: int) -> Case:
    """Pods of many different specs: every class of pods is looked at on every node."""
    state = ClusterState()
    for kind, obj in objects(Shape(1_000, number, 10)):
        if isinstance(obj, Pod) and obj.metadata.annotations:
            index = int(obj.metadata.annotations["scheduling.k8s.io/group-name"][4:])
            requests = obj.spec.containers[0].resources.requests  # type: ignore[index]
            requests["cpu"] = f"{500 + index}m"  # type: ignore[index]
        state.apply("ADDED", kind, obj)
    return Case(f"1,000 nodes, {number:,} different specs x 10", state)


GROUPS = ("shapes", "specs", "features", "running", "memory", "api")


def rows(group: str, *, quick: bool) -> Iterator[Row]:
    """The measurements of one of the `GROUPS`, one by one."""
    if group == "shapes":
        yield from (speed(shape) for shape in (QUICK if quick else SHAPES))
    elif group == "specs":
        yield placed(many_specs(100 if quick else 1_000), 2, wanted=15_000)
        yield to_the_verdict()
    elif group == "features":
        yield from feature_rows(0.1 if quick else 1.0)
    elif group == "running":
        yield from running_rows(0.02 if quick else 1.0)
    elif group == "memory":
        yield memory(200 if quick else 10_000)
    else:
        from benchmarks.api.rows import api_rows  # `benchmarks.compare` measures older trees, which lack what it uses

        yield from api_rows(0.02 if quick else 1.0)
