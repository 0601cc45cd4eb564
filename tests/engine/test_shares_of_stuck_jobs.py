"""Jobs that no room could start claim no share, and claim and reclaim it from the cycle in which they could start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from eviction_world import OFF, RECLAIM, Plane, settings
from test_plugins_claims import claim, device, device_class, slice_of

from support.build import flatten, gang, group, node, node_check, pod, queue
from unisono.api import kinds
from unisono.api.annotations import NODE_CHECKS
from unisono.api.core import Pod, PodResourceClaim, Toleration
from unisono.api.node_checks import Mark, marks_text
from unisono.api.node_usage import NodeUsage

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


def only(**more: Any) -> list[Any]:
    return [node("n1", cpu=8, **more)]


CAUSES = {
    "gates": Stuck(lambda: singles(gates=["wait"]), singles),
    "selector": Stuck(lambda: singles(selector={"kind": "fast"}), lambda: only(labels={"kind": "fast"})),
    "taint": Stuck(singles, only, node={"taints": [TAINT]}, others={"tolerations": TOLERANT}),
    "missing device": Stuck(lambda: singles(gpu=1), lambda: only(gpu=8)),
    "too large": Stuck(lambda: singles(mem="64Gi"), lambda: only(mem="640Gi")),
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
    plane = Plane(RECLAIM, *things, *others, grace=0)
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


# ---- what passes: others' pods, and the moment


def share_of_stuck(plane: Plane) -> int:
    """Thousandths of a cpu."""
    return next(each.shares.deserved[0] for each in plane.cycle().figures if each.name == "stuck" and each.shares)


def with_claims(things: list[Any], count: int, given: bool) -> tuple[list[Any], list[Any]]:
    """The pods with one claim each, of so many devices."""
    pods = [thing for thing in flatten(things) if isinstance(thing, Pod)]
    for each in pods:
        each.spec.resource_claims = [PodResourceClaim(name="c", resource_claim_name=each.metadata.name)]
    claims = [
        claim(each.metadata.name, {"count": count}, given_to=f"g{at}" if given else "") for at, each in enumerate(pods)
    ]
    return things, claims


@pytest.mark.parametrize(("devices", "share"), [(1, 4000), (4, 4000)])
def test_devices_that_others_hold_take_no_share_away(devices: int, share: int) -> None:
    holding = [group("o", 1, queue="other"), *[pod(f"o-{at}", "o", cpu=1, node="n1") for at in range(4)]]
    runs, held = with_claims(holding, 1, given=True)
    waits, wanted = with_claims(gang("s", 4, 1, queue="stuck", cpu=1), devices, given=False)
    things = [*only(), queue("stuck"), queue("other"), *runs, *waits, *gang("p", 8, 1, queue="other", cpu=1)]
    plane = Plane(RECLAIM, *things)
    plane.state.apply("ADDED", kinds.DEVICE_CLASSES, device_class())
    plane.state.apply("ADDED", kinds.RESOURCE_SLICES, slice_of("n1", *[device(f"g{at}") for at in range(4)]))
    for each in (*held, *wanted):
        plane.state.apply("ADDED", kinds.RESOURCE_CLAIMS, each)
    assert share_of_stuck(plane) == share


def test_load_that_others_make_takes_no_share_away() -> None:
    config = settings("enqueue, allocate, reclaim, backfill", gang=OFF, drf=OFF, more="\n  - name: usage")
    plane = Plane(config, *only(), queue("stuck"), queue("other"), *singles(), *gang("o", 8, 1, queue="other", cpu=1))
    for load in (99.0, 1.0):
        plane.state.report_usage({"n1": NodeUsage(load, load, plane.now)})
        assert share_of_stuck(plane) == 4000


@pytest.mark.parametrize("state", ["Waiting", "Passed"])
def test_a_node_that_waits_for_its_check_takes_no_share_away(state: str) -> None:
    there = only()
    there[0].metadata.annotations = {NODE_CHECKS: marks_text({"gpus": Mark(state, 0.0)})}
    config = settings("enqueue, allocate, reclaim, backfill", gang=OFF, drf=OFF, more="\n  - name: node-checks")
    plane = Plane(config, *there, queue("stuck"), queue("other"), *singles(), *gang("o", 8, 1, queue="other", cpu=1))
    plane.state.apply("ADDED", kinds.NODE_CHECKS, node_check("gpus"))
    assert share_of_stuck(plane) == 4000
