"""Gangs whose pods do not come keep nobody else from admission for ever."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import Plane, settings

from support.build import gang, group, node, pod

SHARING = ["proportion", "capacity"]


def plane(quota: str, *hog: Any) -> Plane:
    """A gang was promised most of the cluster; another one that needs half of it waits behind it."""
    wants = gang("next", 4, phase="Pending", cpu=1, min_resources=True, created=50)
    return Plane(settings("enqueue, allocate, backfill", quota=quota), node("n1", cpu=8), hog, wants)


def hog(phase: str = "Inqueue") -> Any:
    return group("hog", 7, phase=phase, resources={"cpu": 7})


@pytest.mark.parametrize("quota", SHARING)
def test_the_promise_of_a_gang_whose_pods_do_not_come_lapses(quota: str) -> None:
    it = plane(quota, hog())
    for _ in range(3):
        assert it.cycle().binds == []
        it.now += 20.0
    it.cycle()
    it.cycle()
    assert it.running() == {"next": 4}
    for at in range(7):  # they come after all, and the gang has not lost its admission
        it.put(pod(f"hog-{at}", "hog", cpu=1))
    for at in range(4):
        it.drop(f"ns/next-w-{at}")
    it.settle()
    assert it.running() == {"hog": 7}


@pytest.mark.parametrize("quota", SHARING)
def test_each_pod_that_comes_gives_the_gang_its_time_again(quota: str) -> None:
    it = plane(quota, hog())
    for at in range(2):
        it.put(pod(f"hog-{at}", "hog", cpu=1))
        assert it.cycle().binds == []
        it.now += 50.0
    assert it.cycle().binds == []
    it.now += 61.0
    it.settle()
    assert it.running() == {"next": 4}


@pytest.mark.parametrize("quota", SHARING)
def test_a_gang_with_all_of_its_pods_keeps_its_promise_while_nodes_could_take_them(quota: str) -> None:
    it = plane(quota, hog(), [pod(f"hog-{at}", "hog", cpu=1) for at in range(7)], gang("old", 2, cpu=1, node="n1"))
    for _ in range(5):
        assert it.cycle().binds == []
        it.now += 50.0


@pytest.mark.parametrize("quota", SHARING)
@pytest.mark.parametrize("wish", [{"selector": {"zone": "later"}}, {"cpu": 9}])
def test_a_gang_that_fits_nowhere_keeps_nobody_from_admission(quota: str, wish: dict[str, Any]) -> None:
    asked = {"cpu": 1, **wish}
    it = plane(quota, hog(), [pod(f"hog-{at}", "hog", **asked) for at in range(7)])
    assert it.cycle().binds == []
    it.now += 6.0
    it.settle()
    assert it.running() == {"next": 4}
    if "selector" not in wish:
        return
    it.put(node("n2", cpu=8, labels={"zone": "later"}))  # it has not lost its admission
    it.settle()
    assert it.running() == {"next": 4, "hog": 7}


@pytest.mark.parametrize("quota", SHARING)
def test_a_gang_of_which_one_pod_fits_nowhere_keeps_nobody_from_admission(quota: str) -> None:
    pods = [pod(f"hog-{at}", "hog", cpu=1) for at in range(6)]
    it = plane(quota, hog(), pods, pod("hog-6", "hog", cpu=1, selector={"zone": "later"}))
    assert it.cycle().binds == []
    it.now += 6.0
    it.settle()
    assert it.running() == {"next": 4}


def test_gangs_that_fit_nowhere_hold_others_up_for_seconds_each() -> None:
    hogs = [[group(f"hog{n}", 7, phase="Pending", resources={"cpu": 7}, created=n) for n in range(10)]]
    it = plane("proportion", hogs)
    for _ in range(45):
        it.now += 3.0
        decisions = it.cycle()
        admitted = [one.name for one in decisions.pod_groups if one.phase == "Inqueue" and one.name.startswith("hog")]
        for name in admitted:  # their pods come once they are admitted
            for at in range(7):
                key = ("Pod", f"ns/{name}-{at}")
                if key not in it.objects:
                    it.put(pod(f"{name}-{at}", name, cpu=1, selector={"zone": "later"}))
    assert it.running() == {"next": 4}
