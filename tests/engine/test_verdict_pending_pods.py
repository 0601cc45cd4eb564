"""What the waiting pods of a gang have in common is found once and holds until one of them changes."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import cluster, group, kind_of, pod
from unisono.engine.verdicts.pending_pods import MOST_SAMPLES, PendingPods, pending_pods


def found(*pods: Any) -> PendingPods:
    return pending_pods(cluster([group("g", 1), *pods]).snapshot().jobs["ns/g"])


def of_kinds(number: int) -> list[Any]:
    return [pod(f"g-{at}", "g", cpu=1 + at, selector={"zone": f"z{at}"}) for at in range(number)]


@pytest.mark.parametrize(
    ("pods", "gated", "samples", "groups"),
    [
        ([], 0, [], []),
        ([pod(f"g-{at}", "g", cpu=1) for at in (2, 0, 1)], 0, ["g-0"], [("g-0", "", 3)]),
        ([pod("g-0", "g", cpu=1), pod("g-1", "g", cpu=2)], 0, ["g-0", "g-1"], [("g-0", "", 1), ("g-1", "", 1)]),
        ([pod("g-0", "g", gates=("wait",)), pod("g-1", "g")], 1, ["g-0"], [("g-0", "", 2)]),
        ([pod("g-0", "g", scheduler="other"), pod("g-1", "g")], 0, ["g-1"], [("g-1", "", 1)]),
        ([pod("g-0", "g", role="a"), pod("g-1", "g", role="b")], 0, ["g-0"], [("g-0", "a", 1), ("g-1", "b", 1)]),
    ],
)
def test_pods_of_a_kind_are_counted(
    pods: list[Any], gated: int, samples: list[str], groups: list[tuple[str, str, int]]
) -> None:
    told = found(*pods)
    assert told.gated == gated
    assert [task.name for task in told.samples] == samples
    assert [(one.first, one.role, one.count) for one in told.groups] == groups


@pytest.mark.parametrize(("number", "groups"), [(8, 8), (9, 0), (20, 0)])
def test_of_many_kinds_a_few_are_looked_at(number: int, groups: int) -> None:
    told = found(*of_kinds(number))
    assert len(told.samples) == MOST_SAMPLES
    assert len(told.groups) == groups


def test_it_is_found_again_when_a_pod_has_changed() -> None:
    state = cluster([group("g", 1), pod("g-0", "g", gates=("wait",)), pod("g-1", "g")])
    first = pending_pods(state.snapshot().jobs["ns/g"])
    assert pending_pods(state.snapshot().jobs["ns/g"]) is first
    free = pod("g-0", "g")
    state.apply("MODIFIED", kind_of(free), free)
    assert pending_pods(state.snapshot().jobs["ns/g"]).gated == 0
