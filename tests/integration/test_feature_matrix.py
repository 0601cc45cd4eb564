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
facts: Any = import_module("benchmarks.check.facts")


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.more) for seed in range(4, 17))])
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
