"""fragmentation: the measure by hand and by a slow reference, the choice of nodes and cards, the published result."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import build
from support.examples import examples
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.deviceshare.book import DeviceBook
from unisono.engine.plugins.fragmentation.gpus import Gpus, Seen, measure
from unisono.engine.plugins.fragmentation.plugin import FragmentationPlugin
from unisono.engine.plugins.fragmentation.workload import (
    NEVER,
    Measure,
    Workload,
    fragments,
    gain,
    gain_by_card,
    points,
)
from unisono.engine.plugins.registry import lookup_with
from unisono.engine.session.session import Session
from unisono.errors import ConfigError

MILLI, COUNT = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count"
ROOT = Path(__file__).resolve().parents[2]


def config(*plugins: str, **arguments: Any) -> SchedulerConfig:
    given = {f"fragmentation.{key}": value for key, value in arguments.items()}
    listed = ("predicates", *plugins, "fragmentation")
    return build.config(("priority", "gang"), listed, actions="allocate", arguments={"fragmentation": given})


def chosen(state: ClusterState, settings: SchedulerConfig) -> dict[str, str]:
    decisions = build.unadvised(state, settings)
    assert decisions.violations == []
    return {bind.pod: bind.node for bind in decisions.binds}


# ---- the measure

Node = tuple[int, list[int]]
ItemOf = tuple[int, int, int, int]
"""(pods, cpu, cards, thousandths of each)"""


def slow(node: Node, items: list[ItemOf]) -> int:
    """The definition, word by word, times the number of pods."""
    cpu, free = node
    total = 0
    for number, wanted_cpu, cards, milli in items:
        fitting = sum(1 for part in free if part >= milli)
        if not cards or cpu < wanted_cpu or fitting < cards:
            total += number * sum(free)
        else:
            total += number * sum(part for part in free if part < milli)
    return total


def workload(items: list[ItemOf], nodes: int) -> Workload:
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, cpu, cards, milli in items:
        if cards:
            groups.setdefault((cards, milli), []).append((number, cpu))
    sizes = [len(group) for group in groups.values()]
    return Workload(
        total=sum(item[0] for item in items),
        weight=np.array([number for group in groups.values() for number, _ in group], dtype=np.int64),
        cpu=np.array([cpu for group in groups.values() for _, cpu in group], dtype=np.int64),
        starts=np.cumsum([0, *sizes][:-1], dtype=np.intp),
        count=np.array([cards for cards, _ in groups], dtype=np.int64),
        need=np.array([[milli] * nodes for _, milli in groups], dtype=np.int64).reshape(len(groups), nodes),
    )


@pytest.mark.parametrize(
    ("node", "item", "expected"),
    [
        ((8, [1000, 500]), (1, 4, 1, 300), 0),
        ((8, [1000, 500]), (1, 4, 1, 600), 500),
        ((8, [1000, 500]), (1, 4, 2, 600), 1500),
        ((8, [1000, 500]), (1, 9, 1, 300), 1500),
        ((8, [1000, 500]), (1, 1, 0, 0), 1500),
        ((0, [0, 0]), (1, 1, 1, 1000), 0),
    ],
)
def test_a_fragment_is_what_an_item_cannot_use(node: Node, item: ItemOf, expected: int) -> None:
    assert slow(node, [item]) == expected
    cpu, free = np.array([node[0]]), np.array([node[1]])
    assert fragments(workload([item], 1), np.array([0]), cpu, free).tolist() == [expected]


CARDS = st.lists(st.sampled_from((0, 100, 300, 500, 900, 1000)), min_size=3, max_size=3)
NODES = st.lists(st.tuples(st.integers(0, 5), CARDS), min_size=1, max_size=5)
ITEMS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 5), st.integers(0, 3), st.sampled_from((100, 300, 400, 1000))),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(300), deadline=None)
@given(NODES, ITEMS, st.sampled_from((100, 300, 500, 1000)))
def test_the_formulas_say_what_the_definition_says(nodes: list[Node], items: list[ItemOf], taken: int) -> None:
    work, where = workload(items, len(nodes)), np.arange(len(nodes))
    cpu, free = np.array([node[0] for node in nodes]), np.array([node[1] for node in nodes])
    assert fragments(work, where, cpu, free).tolist() == [slow(node, items) for node in nodes]
    less = gain_by_card(work, where, (cpu, cpu), free, np.full(len(nodes), taken), free >= taken)
    for row, (left, cards) in enumerate(nodes):
        for card, part in enumerate(cards):
            if part >= taken:
                after = [*cards[:card], part - taken, *cards[card + 1 :]]
                expected = (slow((left, cards), items) - slow((left, after), items)) / (1000 * work.total)
                assert less[row, card] == pytest.approx(expected)


def test_points_are_cut_not_rounded() -> None:
    for less in (-3000, -1, 0, 1, 700, 3000):
        found = points(gain(np.array([less]), np.array([0]), 1))
        assert found[0] == int(100 / (1 + math.exp(-less / 1000)))


def test_nodes_that_cannot_run_anything_are_all_fragment() -> None:
    work = workload([(1, 1, 1, 500)], 2)
    work.need[:, 1] = NEVER
    free = np.array([[1000, 400], [1000, 400]])
    for balance in (0, 4000):
        measured = replace(work, balance=balance)
        assert fragments(measured, np.array([0, 1]), np.array([4, 4]), free).tolist() == [400, 1400]
    huge = replace(work, balance=1_000_000, cpu=np.array([1]))
    assert fragments(huge, np.array([0, 1]), np.array([256_000, 256_000]), free).tolist() == [400, 1400]


# ---- whole GPUs


def test_a_small_job_leaves_the_whole_node_to_a_large_one() -> None:
    """Two pods of one GPU, one of eight: the single ones belong on the node that is in use already."""
    state = build.cluster(
        build.nodes(2, cpu=64, gpu=8),
        build.pod("x", node="n001", cpu=8, gpu=1),
        [build.gang("big", 1, gpu=8, cpu=8, created=9)] + [build.gang(f"s{i}", 1, gpu=1, cpu=1) for i in range(2)],
    )
    nodes = chosen(state, config())
    assert nodes == {"s0-w-0": "n001", "s1-w-0": "n001", "big-w-0": "n000"}


def test_pods_without_gpu_stay_away_from_gpus() -> None:
    state = build.cluster(
        build.node("a-gpu", cpu=8, gpu=8),
        build.node("b-cpu", cpu=8),
        build.gang("g", 1, gpu=1, cpu=1, created=5),
        build.gang("c", 1, cpu=8),
    )
    assert chosen(state, config())["c-w-0"] == "b-cpu"


def test_scarce_models_are_kept_for_those_who_need_them() -> None:
    labels = {"model": "big"}
    state = build.cluster(
        build.node("a", cpu=64, gpu=8, labels=labels),
        build.node("b", cpu=64, gpu=8),
        [build.gang(f"picky{i}", 1, gpu=4, selector=labels, created=9) for i in range(2)],
        build.gang("any", 1, gpu=4),
    )
    assert chosen(state, config())["any-w-0"] == "b"


def test_without_gpus_or_weight_it_is_silent() -> None:
    def table(state: ClusterState, settings: SchedulerConfig) -> Any:
        cycle = Cycle(state.snapshot(), settings, 0.0, 0, lookup_with({}))
        return cycle.tables.of(next(iter(state.tasks.values())).pod_class)

    with_gpus = build.cluster(build.nodes(2, gpu=2), build.gang("g", 1, gpu=1))
    assert len(table(build.cluster(build.nodes(2), build.gang("g", 1)), config()).silent) == 1
    assert len(table(with_gpus, config(weight=0)).silent) == 1
    assert not table(with_gpus, config()).silent
    assert table(with_gpus, config()).batchable  # all GPUs alike: the fast path stays


# ---- shared cards


def milli(name: str, amount: int, **parts: Any) -> list[Any]:
    return build.gang(name, 1, **{MILLI: amount, "cpu": 1, **parts})


def sharing(name: str, cards: int, **parts: Any) -> Any:
    return build.node(name, cpu=64, **{MILLI: 1000 * cards, COUNT: cards, **parts})


def test_a_part_fills_the_card_that_nobody_else_can_use() -> None:
    """0.4 and 0.3 are idle on two cards, the usual pods ask for 0.4: 0.3 belongs on the card with 0.3."""
    state = build.cluster(
        sharing("n1", 2),
        [build.pod("x", node="n1", annotations={"alibabacloud.com/gpu-index": "0"}, **{MILLI: 600})],
        [build.pod("y", node="n1", annotations={"alibabacloud.com/gpu-index": "1"}, **{MILLI: 700})],
        milli("small", 300),
        [milli(f"usual{i}", 400, created=9) for i in range(5)],
    )
    decisions = build.schedule(state, config("deviceshare"))
    cards = {bind.pod: bind.annotations["alibabacloud.com/gpu-index"] for bind in decisions.binds}
    assert cards == {"small-w-0": "1", "usual0-w-0": "0"}


def test_placing_one_by_one_agrees_with_the_slow_rule() -> None:
    """Each choice is the node and card with most points, recomputed from nothing after every placement."""
    amounts = [300, 700, 500, 500, 200, 1000, 400, 600, 300, 800]
    nodes = {"n1": 2, "n2": 2, "n3": 1}
    state = build.cluster(
        [sharing(name, cards) for name, cards in nodes.items()],
        [milli(f"p{i:02}", amount, created=i) for i, amount in enumerate(amounts)],
    )
    decisions = build.schedule(state, config("deviceshare", coverage=1.0))
    given = {bind.pod: (bind.node, int(bind.annotations["alibabacloud.com/gpu-index"])) for bind in decisions.binds}
    items = [(1, 1000, 1, amount) for amount in amounts]
    free = {name: (64000, [1000] * cards) for name, cards in nodes.items()}
    for number, amount in enumerate(amounts):
        best: tuple[int, str, int] | None = None
        for name, (cpu, cards) in free.items():
            for card, part in enumerate(cards):
                if part >= amount:
                    after = (cpu - 1000, [*cards[:card], part - amount, *cards[card + 1 :]])
                    gain = (slow((cpu, cards), items) - slow(after, items)) / len(items) / 1000
                    score = int(100 / (1 + math.exp(-gain)))
                    if best is None or score > best[0]:
                        best = (score, name, card)
        assert given.get(f"p{number:02}-w-0") == (best[1:] if best else None)
        if best:
            cpu, cards = free[best[1]]
            cards[best[2]] -= amount
            free[best[1]] = (cpu - 1000, cards)


def test_the_report_says_how_much_of_the_idle_gpus_is_of_use() -> None:
    state = build.cluster(
        sharing("n1", 2),
        build.node("n2", cpu=8, gpu=4),
        build.node("n3", cpu=8),
        build.pod("x", node="n1", annotations={"alibabacloud.com/gpu-index": "0"}, **{MILLI: 600}),
        milli("part", 500),
        build.gang("whole", 1, gpu=2, cpu=1),
        build.gang("plain", 1, cpu=1),
    )
    found = measure(state.snapshot(), coverage=1.0)
    # pods: 600 on n1 (running), 500, two whole GPUs, none; idle 1.4 + 4
    assert (found.gpus, found.idle) == (6.0, 5.4)
    assert found.by_node == pytest.approx({"n1": (0.4 + 0.4 + 1.4 + 1.4) / 4, "n2": (4 + 4 + 0 + 4) / 4})
    assert found.fragments == pytest.approx(0.9 + 3.0)
    assert found.ratio == pytest.approx(3.9 / 5.4)


def test_a_cluster_without_gpus_is_not_fragmented() -> None:
    found = measure(build.cluster(build.nodes(2)).snapshot())
    assert (found.gpus, found.idle, found.fragments, found.ratio, found.by_node) == (0.0, 0.0, 0.0, 0.0, {})


# ---- filling a cluster


def test_a_filled_cluster_keeps_fewer_gpus_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment of "Beware of Fragmentation" on generated pods; `benchmarks.openb` runs the recorded ones."""
    monkeypatch.syspath_prepend(str(ROOT))
    openb = import_module("benchmarks.openb")
    draw = Random(1)
    nodes = [openb.OpenNode(96_000, 393_216, gpus, "T4") for gpus in (8, 4, 2, 8) * 30]
    cards = [(1, 300), (1, 600), (1, 1000), (2, 1000), (8, 1000)]
    wanted = draw.choices(cards, weights=(25, 25, 30, 12, 8), k=600)
    pods = [openb.OpenPod(f"p{at:03}", 4_000 * gpus, 8_192, gpus, milli, ()) for at, (gpus, milli) in enumerate(wanted)]
    order = openb.arrivals(pods, sum(node.gpus for node in nodes), seed=42)
    ours, packed, spread = (
        openb.unallocated(nodes, order, openb.configuration(plugin), seed=42)
        for plugin in ("fragmentation", "binpack", "nodeorder")
    )
    assert ours <= packed
    assert ours < 0.75 * spread


# ---- a setting that learns


def gpu_pods(name: str, number: int, **parts: Any) -> list[Any]:
    return [build.gang(f"{name}{at}", 1, created=at, **{"gpu": 1, "cpu": 1, **parts}) for at in range(number)]


def test_cpu_that_gpus_need_is_kept_for_them() -> None:
    """Usual pods ask for 8 cores a GPU. Node b has them to spare; on a, a pod without GPU would strand GPUs."""

    def nodes(**arguments: Any) -> str:
        usual = [{"pods": 9, "spec": {"containers": [{"resources": {"requests": {"cpu": 8, "nvidia.com/gpu": 1}}}]}}]
        state = build.cluster(
            build.node("a", cpu=64, gpu=8),
            build.node("b", cpu=64, gpu=2),
            build.gang("plain", 1, cpu=40),
        )
        return chosen(state, config(pods=usual, **arguments))["plain-w-0"]

    assert nodes() == "a"
    assert nodes(balance=1.0) == "b"


def test_a_kind_is_dear_by_the_share_of_it_that_picky_pods_would_fill() -> None:
    """Of 20 GPUs asked for, 2 are asked of model big, which has 4 of 16: that is 1.6 of 4."""
    labels = {"model": "big"}
    state = build.cluster(
        build.node("a", cpu=64, gpu=4, labels=labels),
        build.nodes(3, prefix="b", cpu=64, gpu=4),
        build.gang("picky", 1, gpu=2, cpu=1, selector=labels),
        gpu_pods("any", 18),
    )
    session = _session(state)
    dear, free = (
        Gpus(session, DeviceBook(session), measure=Measure(1.0), scarcity=value).price for value in (0.5, 0.0)
    )
    assert dear.tolist() == pytest.approx([0.5 * 0.4, 0, 0, 0])
    assert free.tolist() == [0, 0, 0, 0]
    assert chosen(state, config(scarcity=1.0))["any0-w-0"][0] == "b"


def test_what_was_seen_counts_from_the_next_cycle_on() -> None:
    session = _session(build.cluster(build.nodes(1, gpu=8), build.gang("first", 1, gpu=1)))
    seen = Seen()
    assert seen.look(session, "nvidia.com/gpu", []).total() == 1
    state = build.cluster(build.nodes(1, gpu=8), build.gang("second", 2, gpu=2))
    again = _session(state)
    assert seen.look(again, "nvidia.com/gpu", []).total() == 1
    assert seen.look(again, "nvidia.com/gpu", []).total() == 3  # three have been seen; no pod counts twice
    assert seen.look(again, "nvidia.com/gpu", []).total() == 3


def _session(state: ClusterState) -> Session:
    return Session(state.snapshot(), now=0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"usual": "tomorrow"}, "fragmentation.usual must be one of present, seen, not tomorrow"),
        ({"pods": [{"pods": 3}]}, "fragmentation.pods: entry 0 must have pods"),
        ({"balance": -1.0}, "fragmentation.balance must be between 0 and"),
        ({"sizeExponent": 9.0}, "fragmentation.sizeExponent must be between"),
    ],
)
def test_arguments_out_of_place_are_refused(arguments: dict[str, Any], message: str) -> None:
    given = {f"fragmentation.{key}": value for key, value in arguments.items()}
    with pytest.raises(ConfigError, match=message):
        FragmentationPlugin(PluginConfig("fragmentation", arguments=given))


STATES = st.lists(st.tuples(st.integers(0, 9), CARDS), min_size=1, max_size=120)


@settings(max_examples=examples(100), deadline=None)
@given(STATES, ITEMS, st.sampled_from((0, 700, 1500)))
def test_equal_nodes_are_counted_once_and_answers_stay(nodes: list[Node], items: list[ItemOf], balance: int) -> None:
    work = replace(workload(items, len(nodes)), balance=balance)
    cpu, free = np.array([node[0] for node in nodes]), np.array([node[1] for node in nodes])
    one_by_one = [
        int(fragments(work, np.array([at]), cpu[at : at + 1], free[at : at + 1])[0]) for at in range(len(nodes))
    ]
    assert fragments(work, np.arange(len(nodes)), cpu, free).tolist() == one_by_one
