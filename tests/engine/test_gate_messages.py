"""What the admission gates say: true amounts, nodes that are out of sight, the queue of the tree that binds."""

from __future__ import annotations

from support.build import cluster, gang, group, node, nodes, pod, queue, schedule
from unisono.engine.config_file.reader import default_config
from unisono.engine.verdict import Verdict


def said(*things: object) -> Verdict:
    return schedule(cluster(*things), default_config()).verdicts["ns/j"]


def test_what_is_free_is_told_without_the_factor_and_with_the_jobs_that_hold_it() -> None:
    hog = [pod(f"hog-{index}", "hog", cpu=8, node=f"n00{index}", phase="Running") for index in range(2)]
    verdict = said(nodes(2, cpu=8), group("hog", 2, phase="Running"), hog, waiting(2, 4))
    assert verdict.message == "cpu 8 is asked for, and cpu 0 of 16 is free; ns/hog holds cpu 16"
    assert verdict.have == {"cpu": 0}


def test_a_gang_larger_than_all_nodes_is_told_so() -> None:
    assert said(nodes(4, cpu=8), waiting(6, 8)).message == (
        "cpu 48 is asked for, and all usable nodes together have cpu 32"
    )


def test_nodes_out_of_sight_come_first() -> None:
    away = [node("a", cpu=8, unschedulable=True), node("b", cpu=8, ready=False), node("c", cpu=8)]
    assert said(away, waiting(3, 8)).message == (
        "1 of 3 nodes is not ready (b); 1 of 3 nodes is cordoned (a); "
        "cpu 24 is asked for, and all usable nodes together have cpu 8"
    )


def test_the_guarantee_of_another_queue_is_named() -> None:
    queues = [queue("vip", guarantee={"cpu": 8}), queue("q")]
    verdict = said(nodes(2, cpu=8), queues, gang("j", 2, cpu=8, queue="q", phase="Pending", min_resources=True))
    assert verdict.message == (
        "queue q may hold cpu 8, none of it is in use; cpu 16 is asked for; cpu 8 is the guarantee of queue vip"
    )


def waiting(members: int, cpu: int) -> object:
    return gang("j", members, cpu=cpu, phase="Pending", min_resources=True)
