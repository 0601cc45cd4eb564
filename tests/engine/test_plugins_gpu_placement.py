"""gpu-placement: each rule's formula by hand, and its choice of node and card."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support import build
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config.model import PluginConfig
from unisono.engine.plugins import gpu_placement
from unisono.engine.plugins.gpu_placement import GpuPlacementPlugin
from unisono.errors import ConfigError

MILLI, COUNT = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count"
INDEX = "alibabacloud.com/gpu-index"


def ints(*values: Any) -> Any:
    return np.array(values, dtype=np.int64)


def test_dot_product_prefers_what_is_less_alike() -> None:
    found = gpu_placement.dot_product(ints(64000, 128000), ints(8000, 0), (64000, 4000), (128000, 8000))
    assert found.tolist() == [int(100 * (1 - (0.25 + 0.5) / 2)), int(100 * (1 - 0.5 / 2))]


def test_best_fit_spreads_over_the_candidates() -> None:
    among = np.array([True, True, False])
    found = gpu_placement.best_fit(ints(128000, 64000, 0), ints(8000, 8000, 0), (0, 0), (128000, 8000), among)
    assert found[:2].tolist() == [0, 100]
    assert gpu_placement.best_fit(ints(1), ints(1), (0, 0), (1, 1), np.array([True])).tolist() == [0]


def test_clustering_counts_kinds() -> None:
    same, others = ints(2, 1, 0, 0), ints(0, 1, 0, 3)
    assert gpu_placement.clustering(ints(8000, 8000, 8000, 0), same, others, 8000).tolist() == [75, 50, 25, 25]


@pytest.mark.parametrize(
    ("free", "milli", "count", "points"),
    [
        ([1000, 1000, -1], 500, 1, 31),  # an idle node of two cards
        ([600, 1000, 1000], 500, 1, 94),  # a card in use
        ([400, 1000, 1000], 500, 1, 49),  # an idle card of a node in use
        ([400, 1000, 1000], 1000, 2, 48),
    ],
)
def test_packing_takes_what_is_in_use_first(free: list[int], milli: int, count: int, points: int) -> None:
    assert gpu_placement.packing(ints(free), milli, count).tolist() == [points]


def chosen(state: ClusterState, rule: str, seed: int = 0) -> dict[str, tuple[str, str]]:
    given = {"gpu-placement": {"gpu-placement.rule": rule}}
    config = build.config(
        ("gang",), ("predicates", "deviceshare", "gpu-placement"), actions="allocate", arguments=given
    )
    decisions = run(state.snapshot(), config, build.START + 1000.0, seed)
    assert decisions.violations == []
    return {bind.pod: (bind.node, bind.annotations.get(INDEX, "")) for bind in decisions.binds}


def cluster(*things: Any) -> ClusterState:
    nodes = [build.node(name, cpu=64, **{MILLI: 1000 * cards, COUNT: cards}) for name, cards in (("a", 4), ("b", 2))]
    old = build.pod("old", node="b", annotations={INDEX: "1"}, **{MILLI: 600, "cpu": 1})
    return build.cluster(nodes, old, *things)


def part(name: str, amount: int, **given: Any) -> list[Any]:
    return build.gang(name, 1, **{MILLI: amount, "cpu": 1, **given})


@pytest.mark.parametrize("rule", ["best-fit", "dot-product", "clustering", "packing"])
def test_rules_that_pack_take_the_card_in_use(rule: str) -> None:
    assert chosen(cluster(part("new", 300)), rule) == {"new-w-0": ("b", "1")}


def test_clustering_keeps_kinds_apart_as_they_come() -> None:
    """A whole card goes to the idle node, the next one to it; a part joins the part."""
    pods = [part("whole0", 1000, created=0), part("part", 300, created=1), part("whole1", 1000, created=2)]
    found = chosen(cluster(pods), "clustering")
    assert {pod: node for pod, (node, _) in found.items()} == {"whole0-w-0": "a", "part-w-0": "b", "whole1-w-0": "a"}


def test_random_goes_anywhere_and_repeats_by_seed() -> None:
    state = cluster([part(f"p{at}", 100, created=at) for at in range(8)])
    first = chosen(state, "random", seed=1)
    assert first == chosen(state, "random", seed=1)
    assert first != chosen(state, "random", seed=2)
    assert len(set(first.values())) > 2


@pytest.mark.parametrize("rule", ["clustering", "packing"])
def test_pods_without_gpu_go_anywhere(rule: str) -> None:
    assert chosen(cluster(build.gang("plain", 1, cpu=1)), rule)["plain-w-0"][0] == "a"


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"gpu-placement.rule must be one of best-fit, .*, not luck"):
        GpuPlacementPlugin(PluginConfig("gpu-placement", arguments={"gpu-placement.rule": "luck"}))
