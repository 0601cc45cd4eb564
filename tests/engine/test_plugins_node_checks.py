"""node-checks: jobs get no places on nodes that wait for a check, and are told so."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import START, cluster, gang, group, node, node_check, placed, pod, queue, schedule
from unisono.api.annotations import NODE_CHECKS, QUARANTINE
from unisono.api.core import Node, Toleration
from unisono.api.groups.health import FAILURE, USE
from unisono.api.kinds import NODE_CHECKS as CHECKS
from unisono.api.kinds import NODES, PODS
from unisono.api.node_checks import Mark, marks_text
from unisono.cluster.state import ClusterState
from unisono.engine.changes import AddNodes, AddToleration, LiftQuarantine, LowerMinAvailable, RaiseCapability
from unisono.engine.config_file.reader import default_config
from unisono.engine.decisions import Decisions
from unisono.engine.plugins.node_checks import NodeChecksPlugin
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause


def decide(state: ClusterState) -> Decisions:
    return schedule(state, default_config(), now=START)


def marked(name: str, state: str = "", *, out: str = "", **more: Any) -> Node:
    made = node(name, gpu=8, taints=[(QUARANTINE, out, "NoSchedule")] if out else (), **more)
    made.metadata.annotations = {NODE_CHECKS: marks_text({"gpus": Mark(state, START)})} if state else {}
    return made


def user(name: str = "u", **options: Any) -> list[Any]:
    amounts = {"gpu": 1, **options}
    return [group(name, 1, phase="Running"), pod(f"{name}-0", name, node="n0", phase="Running", **amounts)]


ALL: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("check", "state", "others", "goes"),
    [
        # No word of it yet.
        (ALL, "", [], False),
        ({"when": [USE, FAILURE]}, "", [], True),
        (ALL, "", user(), True),
        ({"nodes": ["m*"]}, "", [], True),
        ({"nodes": ["n?"]}, "", [], False),
        ({"node_selector": {"rack": "b"}}, "", [], True),
        ({"node_selector": {"rack": "a"}}, "", [], False),
        ({"nodes": ["n0"], "node_selector": {"rack": "b"}}, "", [], True),
        # What its book says.
        (ALL, "Passed", [], True),
        (ALL, "Lifted", [], True),
        (ALL, "Kept", [], True),
        (ALL, "Waiting", [], False),
        (ALL, "Checking", [], False),
        (ALL, "Waiting", user(), False),
        # In use: until the last one has gone.
        (ALL, "InUse", user(), True),
        (ALL, "InUse", user(gpu=0, cpu=1), False),
        (ALL, "InUse", [], False),
        ({"resources": ["example.com/fpga"]}, "InUse", user(), False),
        ({"resources": ["nvidia.com/gpu"]}, "InUse", user(), True),
    ],
)
def test_which_nodes_take_jobs(check: dict[str, Any], state: str, others: list[Any], goes: bool) -> None:
    there = marked("n0", state, labels={"rack": "a"})
    state_of = cluster(there, others, node_check(**check), gang("j", 1, cpu=1))
    assert bool(placed(decide(state_of))) is goes


def test_a_node_whose_last_job_has_ended_is_closed_before_a_controller_has_seen_it() -> None:
    state = cluster(marked("n0", "InUse"), user(), node_check(), gang("j", 1, gpu=1))
    assert placed(decide(state)) == {"j-w-0": "n0"}
    (gone,) = [one for one in user() if one.metadata.name == "u-0"]
    state.apply("DELETED", PODS, gone)
    assert placed(decide(state)) == {}


def test_without_a_check_the_books_of_nodes_mean_nothing_and_the_plug_in_takes_no_part() -> None:
    state = cluster(marked("n0", "Waiting"), gang("j", 1, gpu=1))
    assert not NodeChecksPlugin.used(Session(state.snapshot(), START))
    assert placed(decide(state)) == {"j-w-0": "n0"}


def test_changes_of_checks_and_books_count_at_once() -> None:
    state = cluster(marked("n0"), node_check(), gang("j", 1, gpu=1))
    assert placed(decide(state)) == {}
    state.apply("MODIFIED", NODES, marked("n0", "Passed"))
    assert placed(decide(state)) == {"j-w-0": "n0"}
    state.apply("MODIFIED", NODES, marked("n0", "Waiting"))
    assert placed(decide(state)) == {}
    state.apply("MODIFIED", CHECKS, node_check(nodes=["other"]))
    assert placed(decide(state)) == {"j-w-0": "n0"}


def test_a_broken_check_is_set_aside_and_named_and_closes_nothing() -> None:
    state = cluster(marked("n0"), node_check(timeout="soon"), gang("j", 1, gpu=1))
    assert [(one.key, "spec.timeout" in one.message) for one in state.rejected.all()] == [("gpus", True)]
    assert placed(decide(state)) == {"j-w-0": "n0"}


def test_pods_that_look_after_nodes_go_to_nodes_that_wait() -> None:
    tolerant = {"tolerations": [Toleration(key=QUARANTINE, operator="Exists")]}
    state = cluster(marked("n0"), node_check(), gang("j", 1, cpu=1, **tolerant))
    assert placed(decide(state)) == {"j-w-0": "n0"}


def test_the_verdict_says_how_many_nodes_wait_and_are_checked_and_are_out() -> None:
    there = [marked("n0", "Waiting"), marked("n1", "Checking"), marked("n2", "Failed", out="gpus"), node("n3")]
    verdict = decide(cluster(there, node_check(nodes=["n0", "n1", "n2"]), gang("j", 2, gpu=8))).verdicts["ns/j"]
    assert "2 node(s) wait for NodeCheck gpus" in verdict.message
    assert "2 nodes wait for NodeCheck gpus, 1 being checked now (n1); 1 failed it and is out" in verdict.message


def test_a_job_for_which_only_nodes_in_quarantine_are_left_is_offered_to_lift_it_and_no_toleration() -> None:
    there = marked("n0", "Failed", out="gpus")
    there.metadata.annotations |= {QUARANTINE: "NodeCheck gpus failed: exit code 7"}
    verdict = decide(cluster(there, node_check(), gang("j", 1, gpu=8))).verdicts["ns/j"]
    assert "Node n0 is in quarantine" in verdict.message
    assert "because NodeCheck gpus failed: exit code 7" in verdict.message
    assert "unisono node lift n0" in verdict.message
    assert LiftQuarantine(("n0",)) in verdict.changes
    assert not any(isinstance(one, AddToleration) for one in verdict.changes)


def test_a_job_that_only_waits_for_a_check_is_told_to_wait() -> None:
    verdict = decide(cluster(marked("n0", "Waiting"), node_check(), gang("j", 1, gpu=8))).verdicts["ns/j"]
    assert not verdict.changes
    assert "wait until node n0 has passed NodeCheck gpus" in verdict.suggestion


@pytest.mark.parametrize("state", ["Passed", "Checking", "Waiting"])
def test_what_a_limit_keeps_from_a_job_is_the_same_while_idle_nodes_are_checked(state: str) -> None:
    """Else its conditions would be written anew at the beginning and at the end of each check."""
    there = [marked("n0", "Passed", cpu=8), marked("n1", state, cpu=8)]
    wants = [queue("q", capability={"cpu": 8}), gang("j", 2, queue="q", phase="Pending", min_resources=True, cpu=6)]
    verdict = decide(cluster(there, node_check(), wants)).verdicts["ns/j"]
    assert verdict.cause is Cause.OVER_CAPABILITY
    assert verdict.changes == (LowerMinAvailable(1), RaiseCapability("q", {"cpu": 4000}))


@pytest.mark.parametrize("out", ["", "gpus", "by-hand"])
@pytest.mark.parametrize("mark", ["InUse", "Waiting", ""])
def test_nodes_that_would_be_added_count_as_having_passed_and_are_as_many_as_are_needed(mark: str, out: str) -> None:
    there = marked("n0", mark, out=out, labels={"rack": "a"})
    state = cluster(there, user(gpu=8), node_check(nodes=None, node_selector={"rack": "a"}), gang("j", 2, gpu=8))
    verdict = decide(state).verdicts["ns/j"]
    assert AddNodes("n0", 2) in verdict.changes
    assert "added" not in verdict.message
