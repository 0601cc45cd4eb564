"""Jobs that no room could start claim no share, and claim and reclaim it from the cycle in which they could start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from eviction_world import OFF, RECLAIM, Plane, settings

from support.build import flatten, gang, group, node, pod, queue
from unisono.api.annotations import RESERVATION
from unisono.api.core import Toleration

CALENDAR = settings("enqueue, allocate, reclaim, backfill", gang=OFF, drf=OFF, more="\n  - name: calendar")
TAINT = ("dedicated", "others", "NoSchedule")
TOLERANT = (Toleration(key="dedicated", operator="Exists"),)


class Stuck(NamedTuple):
    """A cause, and what takes it away.

    Attributes:
        jobs: eight of one pod of one cpu, or gangs of as many, as things of the queue ``stuck``.
        cured: objects in the place of others.
        node: of the one node.
        others: of the pods of the other queue.

    """

    jobs: Callable[[], list[Any]]
    cured: Callable[[], list[Any]]
    node: Mapping[str, Any] | None = None
    others: Mapping[str, Any] | None = None


def singles(**more: Any) -> list[Any]:
    return [gang(f"s{at}", 1, queue="stuck", min_resources=True, **more) for at in range(8)]


def of_gang(gated: int, size: int = 8, minimum: int = 8) -> list[Any]:
    pods = [pod(f"s-{at}", "s", cpu=1, gates=["wait"] if at < gated else ()) for at in range(size)]
    return [group("s", minimum, queue="stuck"), *pods]


def noted(name: str) -> list[Any]:
    found = singles()
    for things in found:
        things[0].metadata.annotations = {RESERVATION: name} if name else None
    return found


def only(**more: Any) -> list[Any]:
    return [node("n1", cpu=8, **more)]


CAUSES = {
    "gates": Stuck(lambda: singles(gates=["wait"]), singles),
    "selector": Stuck(lambda: singles(selector={"kind": "fast"}), lambda: only(labels={"kind": "fast"})),
    "taint": Stuck(singles, only, node={"taints": [TAINT]}, others={"tolerations": TOLERANT}),
    "missing device": Stuck(lambda: singles(gpu=1), lambda: only(gpu=8)),
    "too large": Stuck(lambda: singles(mem="64Gi"), lambda: only(mem="640Gi")),
    "reservation": Stuck(lambda: noted("of-nobody"), lambda: noted("")),
    "too few pods": Stuck(lambda: of_gang(0, 4, 6), lambda: of_gang(0, 6, 4)),
    "gang of which a pod is gated": Stuck(lambda: of_gang(1, 4, 4), lambda: of_gang(0, 4, 4)),
    "more pods than nodes take": Stuck(lambda: of_gang(0, 9, 9), lambda: [*of_gang(0, 9, 4)]),
}


def beside(cause: Stuck) -> Plane:
    """The jobs of the queue beside a queue of the same weight that asks for all eight cpu."""
    things = [*only(**cause.node or {}), queue("stuck"), queue("other"), *cause.jobs()]
    others = [
        gang(f"o{at}", 1, queue="other", created=10.0, min_resources=True, **cause.others or {}) for at in range(8)
    ]
    plane = Plane(CALENDAR, *things, *others, grace=0)
    plane.settle()
    return plane


@pytest.mark.parametrize("cause", CAUSES)
def test_what_no_room_could_start_claims_no_share(cause: str) -> None:
    plane = beside(CAUSES[cause])
    assert sum(plane.running().values()) == 8
    assert {name[0] for name in plane.running()} == {"o"}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_share_is_reclaimed_once_nothing_but_room_is_missing(cause: str) -> None:
    """In the next cycle, and not more than the share."""
    plane = beside(CAUSES[cause])
    for thing in flatten(CAUSES[cause].cured()):
        plane.put(thing)
    plane.cycle()
    assert sum(map(len, plane.evicted)) == 4
    plane.settle()
    assert sum(number for name, number in plane.running().items() if name[0] == "s") == 4
    assert sum(map(len, plane.evicted)) == 4


@pytest.mark.parametrize(("gated", "starts"), [(0, 4), (3, 4), (4, 4), (5, 5), (7, 7), (8, 8)])
def test_gated_pods_beyond_a_minimum_claim_nothing(gated: int, starts: int) -> None:
    """Pods of a job of which any number may run; those without a gate claim their part."""
    things = [*only(), queue("stuck"), queue("other"), *of_gang(gated, 8, 1)]
    things += [gang(f"o{at}", 1, queue="other", created=-10.0, min_resources=True) for at in range(8)]
    plane = Plane(RECLAIM, *things)
    plane.settle()
    assert sum(number for name, number in plane.running().items() if name[0] == "o") == starts
    assert plane.running().get("s", 0) == 8 - starts


def test_gates_below_a_limit_of_a_parent() -> None:
    """What the capability of a parent leaves is not divided for pods that cannot start."""
    things = [
        node("n1", cpu=8),
        queue("org", capability={"cpu": 5}),
        queue("a", parent="org"),
        queue("b", parent="org"),
    ]
    things += [
        group("g", 4, queue="a"),
        *[pod(f"g-{at}", "g", cpu=1, gates=["x"] if not at else ()) for at in range(4)],
    ]
    things += gang("b", 5, 2, queue="b", cpu=1)
    plane = Plane(RECLAIM, *things)
    plane.settle()
    assert plane.running() == {"b": 5}


def test_a_resource_that_was_not_known_when_nodes_were_counted() -> None:
    """Its row comes to a table that has not changed else: what was kept of the nodes has no such row."""
    plane = Plane(RECLAIM, *only(), queue("stuck"), queue("other"), *flatten([gang("a", 9, queue="other", cpu=1)]))
    plane.settle()
    for thing in flatten([gang("b", 1, queue="stuck", **{"example.com/new": 1}), gang("c", 1, queue="other")]):
        plane.put(thing)
    plane.settle()
    assert plane.running() == {"c": 1}
