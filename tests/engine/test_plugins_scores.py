"""nodeorder and binpack: points per node."""

from __future__ import annotations

from typing import Any

import pytest
from plugins_world import World, a_pod, class_of, job_of, task_of

from unisono.engine.config.model import SchedulerConfig
from unisono.engine.cycle.transaction import Transaction
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.plugins.registry import create
from unisono.engine.session.node_view import NodeAt

OFF = {
    f"{name}.weight": 0
    for name in ("leastrequested", "mostrequested", "balancedresource", "nodeaffinity", "tainttoleration")
}


def scored(world: World, pod: dict[str, Any], name: str, **arguments: Any) -> list[float] | None:
    world.queue("q").job("j", pod)
    session, plugin = world.open(name, **arguments)
    points = plugin.score(class_of(session, "j-0"), session.nodes)
    return None if points is None else points.tolist()


def raw(world: World, pod: dict[str, Any], **arguments: Any) -> list[tuple[list[float], float, str]]:
    world.queue("q").job("j", pod)
    session, plugin = world.open("nodeorder", **arguments)
    return [
        (score.raw.tolist(), score.weight, score.normalise.value)
        for score in plugin.static_score(class_of(session, "j-0"), session.nodes)
    ]


def two_nodes() -> World:
    """n1 empty, n2 with half of its cpu and memory in use."""
    return World().node("n1").node("n2").pod("x", **a_pod("5", "5Gi", node="n2"))


@pytest.mark.parametrize(
    ("arguments", "points"),
    [
        ({"leastrequested.weight": 1}, [90, 40]),
        ({"leastrequested.weight": 3}, [270, 120]),
        ({"mostrequested.weight": 1}, [10, 60]),
        ({"balancedresource.weight": 2}, [150, 150]),
        ({"leastrequested.weight": 1, "mostrequested.weight": 1, "balancedresource.weight": 1}, [175, 175]),
    ],
)
def test_nodeorder_points(arguments: dict[str, int], points: list[float]) -> None:
    assert scored(two_nodes(), a_pod(), "nodeorder", **{**OFF, **arguments}) == points


def test_nodeorder_weights_of_zero_switch_everything_off() -> None:
    assert scored(two_nodes(), a_pod(), "nodeorder", **OFF) is None
    assert raw(two_nodes(), a_pod(), **OFF) == []


def test_containers_that_state_nothing_count_as_100m_and_200mi() -> None:
    world = World().node("n1", has={"cpu": "1", "memory": "2000Mi"}).node("n2", has={"cpu": "1", "memory": "2000Mi"})
    world.pod("x", **a_pod("", "", node="n2"))
    assert scored(world, a_pod("", ""), "nodeorder", **{**OFF, "leastrequested.weight": 1}) == [90, 80]


def test_balance_looks_at_gpus_only_where_some_are_asked_for() -> None:
    gpu = "nvidia.com/gpu"
    arguments = {**OFF, "balancedresource.weight": 1}
    world = World().node("n1", has={"cpu": "64", "memory": "256Gi", gpu: "8"})
    world.pod("x", **a_pod("16", "64Gi", node="n1", has={gpu: "4"}))
    assert scored(world, a_pod("8", "32Gi", has={gpu: "2"}), "nodeorder", **arguments) == [72]
    assert scored(world, a_pod("8", "32Gi"), "nodeorder", **arguments) == [75]
    assert scored(world, a_pod("", ""), "nodeorder", **arguments) == [0]


def test_preferred_affinity_sums_the_weights_of_matching_terms() -> None:
    def term(weight: int, *expressions: dict[str, Any]) -> dict[str, Any]:
        return {"weight": weight, "preference": {"matchExpressions": list(expressions)}}

    has_zone = {"key": "zone", "operator": "Exists"}
    in_a = {"key": "zone", "operator": "In", "values": ["a"]}
    pod = a_pod(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [term(10, has_zone), term(5, in_a), term(7)]
            }
        }
    )
    world = World().node("n1").node("n2", {"zone": "b"}).node("n3", {"zone": "a"})
    assert raw(world, pod, **{**OFF, "nodeaffinity.weight": 2}) == [([0, 10, 15], 2, "max")]


def test_untolerated_preferences_against_a_node_are_counted() -> None:
    def taint(key: str, effect: str = "PreferNoSchedule") -> dict[str, str]:
        return {"key": key, "effect": effect}

    world = (
        World()
        .node("n1")
        .node("n2", taints=[taint("a"), taint("b")])
        .node("n3", taints=[taint("a"), taint("c", "NoExecute")])
    )
    tolerations = [{"key": "b", "operator": "Exists"}, {"key": "a", "operator": "Exists", "effect": "NoSchedule"}]
    only = {**OFF, "tainttoleration.weight": 3}
    assert raw(world, a_pod(), **only) == [([0, 2, 1], 3, "max-reversed")]
    assert raw(world, a_pod(tolerations=tolerations), **only) == [([0, 1, 1], 3, "max-reversed")]


GPU, FOO = "nvidia.com/gpu", "example.com/foo"
WORKED = {
    "binpack.weight": 10,
    "binpack.cpu": 5,
    "binpack.memory": 1,
    "binpack.resources": f"{GPU}, {FOO}",
    f"binpack.resources.{GPU}": 2,
    f"binpack.resources.{FOO}": 3,
}


def gpu_nodes() -> World:
    big = {"cpu": "64", "memory": "256Gi", GPU: "8"}
    world = World().node("a", has=big).node("b", has=big)
    world.pod("x", **a_pod("16", "64Gi", node="a", has={GPU: "4"}))
    return world.pod("y", **a_pod("8", "32Gi", node="b", has={GPU: "2"}))


@pytest.mark.parametrize(
    ("arguments", "points"),
    [
        (WORKED, [468.75, 312.5]),
        ({}, [37.5, 25.0]),
        ({"binpack.cpu": -4, "binpack.memory": -1}, [37.5, 25.0]),
        ({"binpack.weight": 0}, None),
        ({"binpack.cpu": 0}, [37.5, 25.0]),
        ({"binpack.cpu": 0, "binpack.memory": 0}, [0.0, 0.0]),
        ({"binpack.cpu": 0, "binpack.memory": 0, "binpack.resources": GPU}, [75.0, 50.0]),
    ],
)
def test_binpack_points(arguments: dict[str, Any], points: list[float] | None) -> None:
    assert scored(gpu_nodes(), a_pod("8", "32Gi", has={GPU: "2"}), "binpack", **arguments) == points


def test_binpack_ignores_pods_that_ask_for_nothing_weighted() -> None:
    assert scored(gpu_nodes(), a_pod("", "", has={GPU: "1"}), "binpack") is None


def test_binpack_gives_nothing_to_a_node_that_would_overflow() -> None:
    assert scored(gpu_nodes(), a_pod("50", "1Gi"), "binpack")[0] == 0.0


LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30, "finalizers": ["x/y"]}


def leaving_world() -> World:
    """n1: half of it is held by a pod that is being deleted; n2: the same by one that runs; n3: empty."""
    world = World().node("n1").node("n2").node("n3").queue("q")
    world.pod("old", meta=LEAVING, **a_pod("5", "5Gi", node="n1"))
    return world.job("r", a_pod("5", "5Gi", node="n2"), phase="Running").job("j", a_pod(), a_pod("1", ""))


def test_nodeorder_counts_pods_that_leave_and_what_is_promised_but_not_what_is_evicted_now() -> None:
    arguments = {**OFF, "leastrequested.weight": 1, "balancedresource.weight": 1}
    session, plugin = leaving_world().open("nodeorder", **arguments)
    transaction, pods = (
        Transaction(session, CombinedAnswers(SchedulerConfig(("allocate",), ()), create, session)),
        class_of(session, "j-0"),
    )

    def points() -> list[float]:
        every = plugin.score(pods, session.nodes).tolist()
        alone = [NodeAt(session.matrix[:, at].tolist(), session.rows, future=False) for at in range(3)]
        assert [plugin.score_at(pods, node) for node in alone] == every
        return every

    assert points() == [40 + 75, 40 + 75, 90 + 75]
    transaction.evict(job_of(session, "r"), task_of(session, "r-0"), 1, "preempt")
    assert points() == [40 + 75, 90 + 75, 90 + 75]
    transaction.place_on(job_of(session, "j"), task_of(session, "j-1"), 2, pipelined=True)
    assert points()[2] == (80 + 88) // 2 + 75  # 200Mi for what states no memory, as where it runs already
    transaction.rollback(0)
    assert points() == [40 + 75, 40 + 75, 90 + 75]
