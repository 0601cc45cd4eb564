"""Devices that pods of other schedulers hold: counted as taken, card by card where they say which, and never fought."""

from __future__ import annotations

from typing import Any

import pytest

import support.build as build
from support.build import cluster, config, gang, group, node, placed, pod, priority_class, unadvised
from unisono.api.core import Container, Pod, ResourceRequirements
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import default_config

OTHER = {"scheduler": "default-scheduler"}
MEM, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
VGPU = "volcano.sh/vgpu-"


def limited(made: Pod, **limits: int) -> Pod:
    amounts = {key: str(amount) for key, amount in limits.items()}
    made.spec.containers = [Container(name="c", resources=ResourceRequirements(limits=amounts))]  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(
    ("others", "free"),
    [
        ([], 4),
        ([pod("x", node="n", gpu=3, **OTHER)], 1),
        ([pod("x", node="n", gpu=3, phase="Pending", **OTHER)], 1),  # bound, and not started yet
        ([pod("x", nominated="n", gpu=3, **OTHER)], 1),  # its scheduler keeps the place for it
        ([pod("x", gpu=3, **OTHER)], 4),  # it has no place yet
        ([pod("x", node="n", gpu=3, phase="Succeeded", **OTHER)], 4),
        ([pod("x", node="n", gpu=3, deleting=True, **OTHER)], 1),  # until it is gone
        ([pod(f"x{at}", node="n", gpu=1, namespace="slurm", **OTHER) for at in range(2)], 2),  # slurmd in pods
    ],
)
def test_whole_cards(others: list[Pod], free: int) -> None:
    jobs = [gang(f"j{at}", 1, gpu=1, created=at) for at in range(4)]
    assert len(placed(unadvised(cluster(node("n", cpu=64, gpu=4), others, jobs), default_config()))) == free


def test_they_are_never_evicted() -> None:
    settings = config(("priority", "gang"), ("predicates",), actions="enqueue, allocate, preempt, reclaim")
    things = [priority_class("high", 9), pod("x", node="n", gpu=4, priority=-5, **OTHER)]
    state = cluster(node("n", cpu=64, gpu=4), things, gang("j", 1, gpu=4, priority=9, priority_class="high"))
    assert unadvised(state, settings).evictions == []


def shared_cards(*pods: Pod) -> ClusterState:
    """A node with two cards of 16 GiB each, in Alibaba's words."""
    return cluster(node("n", **{MEM: 32, COUNT: 2}), list(pods))


def asking(name: str, memory: int) -> list[Any]:
    return [group(name), limited(pod(f"{name}-0", name), **{MEM: memory})]


@pytest.mark.parametrize(
    ("cards", "asked", "card"),
    [
        ((), 12, "0"),
        (("0",), 12, "1"),
        (("1",), 12, "0"),
        (("0", "1"), 12, None),
        (("0", "1"), 6, "0"),
    ],
)
def test_shared_cards_that_others_name(cards: tuple[str, ...], asked: int, card: str | None) -> None:
    """Ten GiB on each of these cards are held by pods of another scheduler."""
    held = [
        limited(pod(f"x{at}", node="n", annotations={"ALIYUN_COM_GPU_MEM_IDX": at}, **OTHER), **{MEM: 10})
        for at in cards
    ]
    settings = config(("priority", "gang"), ("predicates", "deviceshare"), actions="allocate")
    state = shared_cards(*held)
    for thing in asking("j", asked):
        state.apply("ADDED", build.kind_of(thing), thing)
    found = [bind.annotations["ALIYUN_COM_GPU_MEM_IDX"] for bind in unadvised(state, settings).binds]
    assert found == ([] if card is None else [card])


def test_shared_cards_of_which_others_say_nothing_count_where_they_most_likely_are() -> None:
    settings = config(("priority", "gang"), ("predicates", "deviceshare"), actions="allocate")
    state = shared_cards(limited(pod("x", node="n", **OTHER), **{MEM: 10}))
    for thing in [*asking("j", 12), *asking("k", 12)]:
        state.apply("ADDED", build.kind_of(thing), thing)
    assert [bind.annotations["ALIYUN_COM_GPU_MEM_IDX"] for bind in unadvised(state, settings).binds] == ["1"]
