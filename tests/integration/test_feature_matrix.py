"""A fixed part of what ``python -m benchmarks.matrix`` searches, and that its judge sees what is wrong."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2]))
features: Any = import_module("benchmarks.matrix.features")
judge: Any = import_module("benchmarks.matrix.judge")
kinds: Any = import_module("benchmarks.matrix.judge")
facts: Any = import_module("benchmarks.check.facts")


@pytest.mark.parametrize(
    "seed", [*range(4), 92021, 100103, *(pytest.param(seed, marks=pytest.mark.more) for seed in range(4, 17))]
)
def test_features_do_not_break_each_other(seed: int, tmp_path: Path) -> None:
    assert judge.judge(seed, tmp_path) == []


def test_a_seed_always_makes_the_same_cluster() -> None:
    assert features.made(7) == features.made(7)


def test_every_feature_is_drawn() -> None:
    assert {name for seed in range(200) for name in features.made(seed).features} == set(features.FEATURES)


def _pod(name: str, namespace: str = "team") -> Any:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": {"scheduling.k8s.io/group-name": "j"}},
        "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "3"}}}]},
        "status": {"phase": "Running"},
    }


def test_limits_are_read_from_outside() -> None:
    notes = {"unisono.io/user-limits": "pods=1"}
    group = {"metadata": {"name": "j", "namespace": "team", "annotations": {"unisono.io/user": "ann"}}, "status": {}}
    objects = [
        {"kind": "Queue", "metadata": {"name": "q", "annotations": notes}, "spec": {"parent": "org"}},
        {"kind": "Queue", "metadata": {"name": "org"}, "spec": {"capability": {"cpu": "5"}}},
        {"kind": "PodGroup", **group, "spec": {"queue": "q"}},
        {
            "kind": "ResourceQuota",
            "metadata": {"name": "r", "namespace": "team"},
            "spec": {"hard": {"requests.cpu": "4"}},
        },
        _pod("a"),
        _pod("b"),
    ]
    assert judge.beyond(facts.Facts.of(objects)) == [
        "queue org holds 6.0 of cpu and may hold 5",
        "user ann holds 2.0 of pods in q and may hold 1",
        "quota team/r allows 4 of requests.cpu and 6.0 are used",
    ]


@pytest.mark.parametrize(
    ("nodes", "cards", "wrong"),
    [
        (["f", "f"], [1, 1], False),
        (["s", "s"], [2, 2], False),
        (["s", "s"], [1, 1], True),
        (["f", "s"], [1, 2], True),
        (["n", "n"], [1, 1], True),
        ([], [], False),
    ],
)
def test_a_gang_is_on_one_of_the_kinds_that_it_names(nodes: list[str], cards: list[int], wrong: bool) -> None:
    notes = {"unisono.io/one-of": "kind=fast, kind=slow*2@0.7"}
    group = {"metadata": {"name": "j-0000", "namespace": "team", "annotations": notes}, "status": {}, "spec": {}}
    objects = [{"kind": "PodGroup", **group}]
    for name, labels in (("f", {"kind": "fast"}), ("s", {"kind": "slow"}), ("n", {})):
        objects.append({"kind": "Node", "metadata": {"name": name, "labels": labels}})
    for number, (node, many) in enumerate(zip(nodes, cards, strict=True)):
        made = _pod(f"p-{number}")
        made["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "j-0000"
        made["spec"] = {"nodeName": node, "containers": [{"resources": {"requests": {"example.com/card": str(many)}}}]}
        objects.append(made)
    assert bool(kinds.of_one_kind(facts.Facts.of(objects), {"team/j": {"example.com/card": 1}})) is wrong
