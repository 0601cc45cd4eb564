"""What the admission gates say: true amounts, nodes that are out of sight, the queue of the tree that binds."""

from __future__ import annotations

from support.build import cluster, gang, group, node, nodes, pod, queue, schedule
from unisono.engine.changes import LowerMinAvailable, SetMinResources
from unisono.engine.config_file.reader import default_config
from unisono.engine.verdict import Verdict


def said(*things: object) -> Verdict:
    return schedule(cluster(*things), default_config()).verdicts["ns/j"]


def test_what_is_free_is_told_without_the_factor_and_with_the_jobs_that_hold_it() -> None:
    hog = [pod(f"hog-{index}", "hog", cpu=8, node=f"n00{index}", phase="Running") for index in range(2)]
    verdict = said(nodes(2, cpu=8), group("hog", 2, phase="Running"), hog, waiting(2, 4))
    assert verdict.message == (
        "cpu 8 is asked for, and cpu 0 of 16 is free; ns/hog holds cpu 16; no preemption among equal priorities"
    )
    assert verdict.have == {"cpu": 0}


def test_a_gang_larger_than_all_nodes_is_told_so() -> None:
    assert said(nodes(4, cpu=8), waiting(6, 8)).message == (
        "only 4 of 6 pods fit on the usable nodes even if they were empty: cpu 48 is asked for, and they have cpu 32"
    )


def test_nodes_out_of_sight_come_first() -> None:
    away = [node("a", cpu=8, unschedulable=True), node("b", cpu=8, ready=False), node("c", cpu=8)]
    assert said(away, waiting(3, 8)).message == (
        "1 of 3 nodes is not ready (b); 1 of 3 nodes is cordoned (a); "
        "only 1 of 3 pods fits on the usable nodes even if they were empty: cpu 24 is asked for, and they have cpu 8"
    )


def test_the_guarantee_of_another_queue_is_named() -> None:
    queues = [queue("vip", guarantee={"cpu": 8}), queue("q")]
    verdict = said(nodes(2, cpu=8), queues, gang("j", 2, cpu=8, queue="q", phase="Pending", min_resources=True))
    assert verdict.message == (
        "queue q may hold cpu 8, none of it is in use; cpu 16 is asked for; cpu 8 is the guarantee of queue vip"
    )


def waiting(members: int, cpu: int) -> object:
    return gang("j", members, cpu=cpu, phase="Pending", min_resources=True)


def said_of(*things: object) -> str:
    return said(*things).message


def test_a_pod_larger_than_any_node_is_named_before_any_sum() -> None:
    assert said_of(nodes(4, cpu=32), gang("j", 1, cpu=64)) == (
        "pod j-w-0 asks for cpu 64, and the largest node (n000) has cpu 32"
    )
    assert (
        said_of(nodes(4, cpu=8), waiting(2, 16))
        == "each of 2 pods asks for cpu 16, and the largest node (n000) has cpu 8"
    )


def test_a_forgotten_unit_is_guessed() -> None:
    assert said_of(nodes(2, cpu=8), gang("j", 1, cpu=1000)).endswith("; did you mean 1000m instead of 1000?")
    assert "did you mean" not in said_of(nodes(2, cpu=112), gang("j", 1, cpu=200))


def test_amounts_that_no_node_has_together() -> None:
    kinds = [node("g", cpu=8, gpu=4), node("c", cpu=64)]
    assert said_of(kinds, gang("j", 1, cpu=16, gpu=1)) == (
        "pod j-w-0 asks for cpu 16, nvidia.com/gpu 1 together, and nodes with nvidia.com/gpu 1 have at most cpu 8"
    )


def test_the_largest_hole_is_told() -> None:
    taken = [pod(f"s-{index}", node=f"n00{index}", cpu=6) for index in range(4)]
    message = said_of(nodes(4, cpu=8), taken, gang("j", 1, cpu=4))
    assert message.startswith("cpu 4 is asked for, and cpu 8 of 32 is free, at most 2 on one node; pod ns/s-")


def test_unhealthy_devices_come_before_what_is_full() -> None:
    sick = node("sick", cpu=8, gpu=0)
    sick.status.capacity = {"cpu": "8", "nvidia.com/gpu": "8"}
    message = said_of(sick, node("well", cpu=8, gpu=8), pod("x", node="well", gpu=8), gang("j", 1, gpu=8))
    assert message.startswith("only 0 of 8 nvidia.com/gpu can be used on node sick (is its device plug-in down?); ")
    alone = said_of(sick, gang("j", 1, gpu=8))
    assert "0 of 8 nvidia.com/gpu" in alone
    assert "no node offers" not in alone


def test_jobs_that_wait_longer_are_named() -> None:
    older = gang("a", 1, cpu=8, created=1)
    message = said_of(nodes(1, cpu=8), pod("x", node="n000", cpu=8), older, gang("j", 1, cpu=8, created=2))
    assert message.endswith("; 2nd in queue default, behind ns/a")


def test_requests_that_fit_the_largest_node_are_offered() -> None:
    assert said(nodes(4, cpu=8), waiting(2, 16)).suggestion == "request at most cpu 8 per pod"
    kinds = [node("g", cpu=8, gpu=4), node("c", cpu=64)]
    assert said(kinds, gang("j", 1, cpu=16, gpu=1)).suggestion == "request at most cpu 8 per pod"


def test_cordoned_nodes_are_offered_behind_the_gate_unless_another_taint_keeps_pods_away() -> None:
    away = nodes(2, cpu=8, unschedulable=True)
    assert said(away, waiting(2, 8)).suggestion == "uncordon n000 and n001"
    tainted = nodes(2, cpu=8, unschedulable=True, taints=[("dedicated", "infra", "NoSchedule")])
    assert "uncordon" not in said(tainted, waiting(2, 8)).suggestion


def test_offers_are_tried_on_the_pods_that_admission_would_bring() -> None:
    hog = [pod(f"hog-{index}", "hog", cpu=7, node=f"n00{index}", phase="Running") for index in range(2)]
    verdict = said(
        nodes(2, cpu=8), group("hog", 2, phase="Running"), hog, group("j", 2, phase="Pending", resources={"cpu": "8"})
    )
    assert not any(isinstance(change, LowerMinAvailable) for change in verdict.changes)


def test_min_resources_above_what_the_pods_ask_for_are_told_and_no_node_is_offered() -> None:
    given = (
        group("g", 2, phase="Pending", resources={"cpu": "100"}),
        [pod(f"g-{index}", "g", cpu=2) for index in range(2)],
    )
    verdict = schedule(cluster(nodes(2, cpu=8), given), default_config()).verdicts["ns/g"]
    assert verdict.message == "minResources (cpu 100) ask for more than all its 2 pods do (cpu 4)"
    assert verdict.changes == (SetMinResources({"cpu": 4000}),)
    assert verdict.suggestion == "set minResources to cpu 4"


def test_one_pod_of_several_roles_is_too_large_however_they_share_what_the_gang_asks_for() -> None:
    waits = group("j", 3, phase="Pending", roles={"head": 1, "gpu": 2}, resources={"cpu": "33"})
    assert said_of(nodes(3, cpu=8), waits).startswith(
        "one of 3 pods is too large: they ask for cpu 33, and the largest"
    )
