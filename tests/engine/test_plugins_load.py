"""usage: measured load and estimates; resource-strategy-fit: a rule per resource."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from plugins_world import World, a_pod, class_of, job_of

from unisono.api import kinds
from unisono.api.core import Node
from unisono.api.node_usage import NodeUsage
from unisono.engine.config.arguments import Flags
from unisono.engine.config.model import PluginConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.registry import create
from unisono.engine.session.session import Session
from unisono.errors import ConfigError

NOW = 1_767_225_600.0


def opened(world: World, name: str, **given: Any) -> tuple[Session, Any]:
    session = Session(world.state.snapshot(), now=NOW)
    plugin = create(PluginConfig(name, Flags(), {key.replace("__", "."): value for key, value in given.items()}))
    plugin.open(session)
    return session, plugin


def loaded(*loads: tuple[float, float], **pod: Any) -> World:
    world = World().queue("q").job("j", a_pod("8", "1Gi", **pod))
    for index, (cpu, memory) in enumerate(loads):
        world.node(f"n{index}", has={"cpu": "64", "memory": "256Gi"})
        world.state.node_usage[f"n{index}"] = NodeUsage(cpu, memory, NOW)
    return world


def refused(session: Session, plugin: Any) -> list[str]:
    texts = [""] * session.nodes.size
    for veto in plugin.static_filter(class_of(session, "j-0"), session.nodes):
        for index in np.flatnonzero(veto.nodes):
            texts[index] = texts[index] or veto.reason.text
    return texts


def scores(session: Session, plugin: Any) -> list[float]:
    return [round(float(value), 4) for value in plugin.score(class_of(session, "j-0"), session.nodes)]


# ---- usage


def test_busy_nodes_take_nobody() -> None:
    session, plugin = opened(loaded((80.0, 80.0), (80.1, 0.0), (0.0, 80.1)), "usage")
    cpu, memory = (f"the {what} load of the node exceeds the upper limit." for what in ("CPU", "memory"))
    assert refused(session, plugin) == ["", cpu, memory]


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({"thresholds__cpu": 50, "thresholds__mem": 60}, (50, 60)),
        ({"thresholds": {"cpu": 50}}, (50, 80)),
        ({"thresholds__cpu": 101}, (80, 80)),
        ({}, (80, 80)),
    ],
)
def test_thresholds(given: dict[str, Any], limits: tuple[int, int]) -> None:
    assert opened(loaded(), "usage", **given)[1].limits == limits


def test_idle_nodes_score_higher_by_the_worked_example() -> None:
    session, plugin = opened(loaded((40.0, 50.0), (0.0, 0.0)), "usage")
    assert scores(session, plugin) == [275.0, 500.0]
    plugin.placed(job_of(session, "j"), class_of(session, "j-0"), [0])
    plugin.shadow[1] = 0  # the example leaves the memory of the pod out
    assert scores(session, plugin) == [253.125, 500.0]
    plugin.shadow[:] = 0
    assert scores(session, plugin)[0] == 275.0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"usage__weight": 1}, [60.0]),
        ({"usage__weight": -2}, [300.0]),
        ({"cpu__weight": 3, "memory__weight": 1}, [250.0]),
        ({"usage__weight": 1, "cpu__weight": -1}, [60.0]),
    ],
)
def test_weights_of_usage(given: dict[str, Any], expected: list[float]) -> None:
    session, plugin = opened(loaded((60.0, 20.0)), "usage", **given)
    assert scores(session, plugin) == expected


def test_weights_of_nothing_have_no_opinion() -> None:
    for given in ({"usage__weight": 0}, {"cpu__weight": 0, "memory__weight": 0}):
        session, plugin = opened(loaded((60.0, 20.0)), "usage", **given)
        assert plugin.score(class_of(session, "j-0"), session.nodes) is None


def test_stale_and_missing_values_are_not_looked_at() -> None:
    world = loaded((99.0, 99.0), (99.0, 99.0), (99.0, 99.0))
    world.state.node_usage["n0"] = NodeUsage(99.0, 99.0, NOW - 301)
    del world.state.node_usage["n1"]
    session, plugin = opened(world, "usage")
    assert refused(session, plugin)[:2] == ["", ""]
    assert refused(session, plugin)[2]
    assert scores(session, plugin)[:2] == [0.0, 0.0]


def test_the_later_of_metrics_and_annotations_counts() -> None:
    world = loaded((10.0, 10.0))
    told = {"cpu": "90", "memory": "10", "time": "2026-01-01T00:00:00Z"}
    meta = {"name": "n0", "annotations": {f"unisono.io/usage-{key}": value for key, value in told.items()}}
    status = {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "9"}}
    world.state.apply("MODIFIED", kinds.NODES, msgspec.convert({"metadata": meta, "status": status}, Node))
    world.state.node_usage["n0"] = NodeUsage(10.0, 10.0, NOW - 1)
    assert refused(*opened(world, "usage"))[0]
    world.state.node_usage["n0"] = NodeUsage(10.0, 10.0, NOW + 1)
    assert not refused(*opened(world, "usage"))[0]


def a_limited_pod(cpu: str, limit: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": limit, "memory": "1Gi"}}
    return {"schedulerName": "volcano", "containers": [{"name": "c", "resources": resources}]}


@pytest.mark.parametrize(
    ("pod", "load", "given", "milli"),
    [
        (a_pod("8"), 0.0, {}, 5_600),
        (a_pod("8"), 0.7, {}, 6_720),
        (a_limited_pod("4", "8"), 0.0, {"estimator__burst_ratio": 0.5}, 4_800),
        (a_limited_pod("4", "5"), 0.7, {"estimator__request_ratio": 1.0, "estimator__risk_factor": 3.0}, 5_000),
        (a_pod("", ""), 0.0, {}, 250),
        (a_pod("", ""), 0.7, {"estimator__be_cpu": "1"}, 1_200),
        (a_pod("", ""), 0.0, {"estimator__be_cpu": 300}, 300),
        (a_pod("8"), 0.0, {"estimator__request_ratio": 1.5}, 5_600),
    ],
)
def test_estimates(pod: dict[str, Any], load: float, given: dict[str, Any], milli: float) -> None:
    session, plugin = opened(World().node("n").queue("q").job("j", pod), "usage", **given)
    assert plugin.estimator.estimate(class_of(session, "j-0"), load)[0] == pytest.approx(milli)


def test_new_pods_are_estimated_and_given_back() -> None:
    world = loaded((0.0, 0.0))
    world.job("new", a_pod("10", node="n0", phase="Pending")).job("old", a_pod("10", node="n0"))
    session, plugin = opened(world, "usage")
    assert plugin.shadow[0].tolist() == [7_000.0]
    job, pod_class = job_of(session, "j"), class_of(session, "j-0")
    plugin.placed(job, pod_class, [0, 0])
    assert plugin.shadow[0].tolist() == [18_200.0]
    plugin.removed(job, pod_class, [0, 0])
    assert plugin.shadow[0].tolist() == [7_000.0]
    plugin.removed(job, pod_class, [0])  # evicted: measured load stays
    assert plugin.shadow[0].tolist() == [7_000.0]


def test_an_unreadable_quantity_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"estimator\.be_mem must be a quantity"):
        opened(loaded(), "usage", estimator__be_mem="a lot")


# ---- resource-strategy-fit

GPU = "nvidia.com/gpu"
BOTH = {"cpu": {"type": "LeastAllocated", "weight": 1}, GPU: {"type": "MostAllocated", "weight": 2}}


def mixed(*pods: dict[str, Any], **annotations: str) -> World:
    """a: half used; b: empty; c: no GPU; j-0 asks for 2 cpu and 2 GPUs."""
    world = World().queue("q")
    for name, gpus in (("a", "8"), ("b", "8"), ("c", "0")):
        world.node(name, has={"cpu": "8", **({GPU: gpus} if gpus != "0" else {})})
    world.job("old", a_pod("4", "1Gi", node="a", has={GPU: "4"}))
    return world.job("j", *(pods or (a_pod("2", "1Gi", has={GPU: "2"}, annotations=annotations),)))


def fit(world: World, **given: Any) -> list[float]:
    return scores(*opened(world, "resource-strategy-fit", **given))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"resources": BOTH},
            [10 * 100 * (0.25 + 2 * 0.75) / 3, 10 * 100 * (0.75 + 2 * 0.25) / 3, 10 * 100 * 0.75 / 3],
        ),
        ({"resources": {GPU: {"type": "MostAllocated"}}, "resourceStrategyFitWeight": 1}, [75, 25, 0]),
        ({"resources": {"nvidia.com/*": {"type": "MostAllocated"}}, "resourceStrategyFitWeight": 1}, [75, 25, 0]),
        ({"resources": {"*": {"type": "MostAllocated"}}, "resourceStrategyFitWeight": 1}, [0, 0, 0]),
        (
            {"resources": {"pods": {"type": "LeastAllocated"}}, "resourceStrategyFitWeight": 1},
            [100 * 108 / 110, 100 * 109 / 110, 100 * 109 / 110],
        ),
        ({"resources": {"cpu": {"type": "Whatever", "weight": -3}}, "resourceStrategyFitWeight": 1}, [25, 75, 75]),
        ({"resourceStrategyFitWeight": -1}, [10 * (25 + 80) / 2, 10 * (75 + 90) / 2, 10 * (75 + 90) / 2]),
    ],
)
def test_scores_by_resource(given: dict[str, Any], expected: list[float]) -> None:
    assert fit(mixed(), **given) == pytest.approx(expected, abs=1e-3)


def test_the_longest_prefix_wins_and_an_exact_name_before_it() -> None:
    given = {"nvidia.com/*": {"type": "LeastAllocated"}, "nvidia.com/g*": {"type": "MostAllocated"}}
    assert fit(mixed(), resources=given, resourceStrategyFitWeight=1) == [75, 25, 0]
    assert fit(mixed(), resources={**given, GPU: {}}, resourceStrategyFitWeight=1) == [25, 75, 0]


def test_a_node_that_would_overflow_has_no_points() -> None:
    assert fit(mixed(a_pod("6", "1Gi")), resourceStrategyFitWeight=1)[0] == 0


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"type": "MostAllocated", "weight": '{"cpu": 1}'}, [75, 25, 25]),
        ({"type": "LeastAllocated", "weight": '{"nvidia.com/gpu": 5}'}, [25, 75, 0]),
        ({"type": "Sideways", "weight": '{"cpu": 1}'}, [0, 0, 0]),
        ({"type": "MostAllocated"}, [0, 0, 0]),
        ({"type": "MostAllocated", "weight": "[1]"}, [0, 0, 0]),
        ({"weight": '{"cpu": 1}'}, [25, 75, 75]),
    ],
)
def test_a_pod_brings_its_own_rule(annotations: dict[str, str], expected: list[float]) -> None:
    keys = {"type": "volcano.sh/resource-strategy-scoring-type", "weight": "volcano.sh/resource-strategy-weight"}
    world = mixed(**{keys[key]: value for key, value in annotations.items()})
    assert fit(world, resources={"cpu": {}}, resourceStrategyFitWeight=1) == expected


def test_scarce_resources_are_kept_for_those_who_need_them() -> None:
    sra = {"enable": True, "resources": f"{GPU}, example.com/fpga", "weight": 10, "resourceWeight": {GPU: 3}}
    plain = mixed(a_pod("1", "1Gi"))
    assert fit(plain, resourceStrategyFitWeight=0, sra=sra) == [250, 250, 1000]
    assert fit(mixed(), resourceStrategyFitWeight=0, sra=sra) == [250, 250, 0]
    for off in ({**sra, "enable": False}, {**sra, "weight": 0}):
        session, plugin = opened(plain, "resource-strategy-fit", resourceStrategyFitWeight=0, sra=off)
        assert plugin.score(class_of(session, "j-0"), session.nodes) is None


@pytest.mark.parametrize(
    ("cpu", "memory", "pod", "refused_nodes"),
    [
        (1.0, 1.0, a_pod("1", "1Gi"), ["a", "b"]),  # a: 4 GPUs idle keep 4 cpu and 4 GB, 4 cpu are idle
        (0.5, 0.5, a_pod("1", "1Gi"), []),
        (0.5, 2.0, a_pod("1", "1Gi"), ["b"]),
        (9.0, 9.0, a_pod("1", "1Gi", has={GPU: "1"}), []),
    ],
)
def test_cpu_and_memory_are_kept_for_idle_devices(
    cpu: float, memory: float, pod: dict[str, Any], refused_nodes: list[str]
) -> None:
    proportions = {f"{GPU}.cpu": cpu, f"{GPU}.memory": memory}
    given = {"enable": "true", "resources": GPU, "resourceProportion": proportions}
    session, plugin = opened(mixed(pod), "resource-strategy-fit", proportional=given)
    vetoes = plugin.filter(class_of(session, "j-0"), session.nodes)
    hit = [name for veto in vetoes for name, no in zip(session.nodes.names, veto.nodes.tolist(), strict=True) if no]
    assert hit == refused_nodes
    assert all(veto.reason.text == f"proportional of resource {GPU} check failed" for veto in vetoes)


def test_volcanos_spelling_of_the_arguments_loads() -> None:
    text = """
actions: "allocate"
tiers:
- plugins:
  - name: usage
    enablePredicate: false
    arguments:
      usage.weight: 5
      thresholds: {cpu: 80, mem: 70}
      estimator.be_cpu: 250
  - name: resource-strategy-fit
    arguments:
      resources: {nvidia.com/*: {type: MostAllocated, weight: 2}}
      sra: {enable: true, resources: nvidia.com/gpu, weight: 10}
"""
    assert [plugin.name for plugin in load_config(text).plugins] == ["usage", "resource-strategy-fit"]


# ---- usage, of GPUs


def with_gpus(*loads: tuple[float | None, float | None], asks: bool = True) -> World:
    world = World().queue("q").job("j", a_pod("8", "1Gi", has={"nvidia.com/gpu": "1"} if asks else {}))
    for index, (gpu, memory) in enumerate(loads):
        world.node(f"n{index}", has={"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8"})
        world.state.node_usage[f"n{index}"] = NodeUsage(20.0, 20.0, NOW, gpu, memory)
    return world


@pytest.mark.parametrize(
    ("loads", "asks", "given", "points"),
    [
        # (0.2 + 0.2 + 0.9 + 0.1) / 4 = 0.35 of a node in use
        ([(90.0, 10.0), (0.0, 0.0)], True, {}, [325.0, 450.0]),
        ([(90.0, 10.0), (0.0, 0.0)], False, {}, [400.0, 400.0]),
        ([(90.0, 10.0), (None, None)], True, {}, [325.0, 400.0]),
        ([(None, 50.0), (90.0, None)], True, {}, [350.0, 283.3333]),
        ([(90.0, 10.0), (0.0, 0.0)], True, {"gpu__weight": 2, "gpumem__weight": 0}, [225.0, 450.0]),
        ([(90.0, 10.0), (0.0, 0.0)], True, {"gpu__weight": 0, "gpumem__weight": 0}, [400.0, 400.0]),
        ([(90.0, 10.0), (0.0, 50.0)], True, {"cpu__weight": 0, "memory__weight": 0}, [250.0, 375.0]),
    ],
    ids=["both", "pods without GPUs", "not measured", "one of the two", "weights", "no weight", "GPUs alone"],
)
def test_the_load_of_gpus_counts_for_pods_that_ask_for_some(
    loads: list[tuple[float | None, float | None]], asks: bool, given: dict[str, int], points: list[float]
) -> None:
    session, plugin = opened(with_gpus(*loads, asks=asks), "usage", **given)
    assert scores(session, plugin) == points


def test_nodes_with_busy_gpus_take_no_pod_that_asks_for_some() -> None:
    loads = (80.1, 0.0), (80.0, 90.0), (0.0, 90.1), (None, None)
    limits = {"thresholds": {"gpu": 80, "gpumem": 90}}
    texts = [f"the GPU{part} load of the node exceeds the upper limit." for part in ("", " memory")]
    assert refused(*opened(with_gpus(*loads), "usage", **limits)) == [texts[0], "", texts[1], ""]
    assert refused(*opened(with_gpus(*loads, asks=False), "usage", **limits)) == [""] * 4
    assert refused(*opened(with_gpus((100.0, 100.0)), "usage")) == [""]
