"""Which nodes are due, are checked now, pass, or leave: tables."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import START, node, node_check
from unisono.api.annotations import EXIT_CODE, NODE_CHECK, RUN_SECONDS, SIMULATED
from unisono.api.base import ObjectMeta
from unisono.api.core import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.groups.health import FAILURE, FAULT, FIRST, USE
from unisono.api.node_checks import Mark, rule_of
from unisono.controllers.node_checks.decide import GRACE, Outcome, Seen, outcome_of, plan, pod_name, pod_of, suspicion

NOW = START + 1000.0
OK, BAD = Outcome(passed=True, words=""), Outcome(passed=False, words="exit code 1")
OLD = NOW - 600.0


def seen(state: str = "", since: float = OLD, attempt: int = 0, **more: Any) -> Seen:
    return Seen("n0", Mark(state, since, attempt) if state else None, **more)


@pytest.mark.parametrize(
    ("spec", "node_seen", "becomes"),
    [
        # Nothing is known: before its first job, or not.
        ({}, seen(), "Waiting"),
        ({}, seen(used=True), "InUse"),
        ({"when": [FAILURE]}, seen(), ""),
        ({"when": [USE]}, seen(), ""),
        ({"when": [USE]}, seen(used=True), "InUse"),
        ({"when": [], "idle_every": "10m"}, seen(), "Waiting"),
        ({"when": [], "idle_every": "1h"}, seen(), ""),
        ({"when": [FAILURE]}, seen(failed=NOW), "Waiting"),
        ({"when": [FAILURE]}, seen(failed=START - 1), ""),
        ({"when": [USE]}, seen(released=NOW), "Waiting"),
        # After use.
        ({}, seen("Passed"), ""),
        ({}, seen("Passed", used=True), "InUse"),
        ({}, seen("Kept", used=True), "InUse"),
        ({}, seen("Lifted", used=True), "InUse"),
        ({"when": [FIRST]}, seen("Passed", used=True), ""),
        ({}, seen("InUse", used=True), ""),
        ({}, seen("InUse"), "Waiting"),
        # A job that came and went unseen.
        ({}, seen("Passed", released=NOW - 1), "Waiting"),
        ({}, seen("Passed", released=OLD - 1), ""),
        # After a failure.
        ({"when": [FAILURE]}, seen("Passed", failed=NOW - 1), "Waiting"),
        ({"when": [FAILURE]}, seen("Passed", failed=NOW - 1, used=True), "InUse"),
        ({"when": [USE]}, seen("Passed", failed=NOW - 1), ""),
        # After a fault.
        ({"when": [FAULT]}, seen("Passed", faulted=NOW - 1), "Waiting"),
        ({"when": [FAULT]}, seen("Passed", faulted=NOW - 1, used=True), "InUse"),
        ({"when": [USE]}, seen("Passed", faulted=NOW - 1), ""),
        ({"when": [], "quarantine_after_faults": 3}, seen("Passed", faults=2.4), ""),
        ({"when": [], "quarantine_after_faults": 3}, seen("Passed", faults=2.9), "Failed"),
        ({"when": [], "quarantine_after_faults": 3}, seen(faults=3.0, used=True), "Failed"),
        ({"when": [], "quarantine_after_faults": 3}, seen("Failed", faults=3.0, out="gpus"), ""),
        ({"when": [], "quarantine_after_faults": 3}, seen("Passed", faults=3.0, out="by-hand"), ""),
        ({"quarantine_after_faults": 3, "max_quarantined": 0}, seen("Passed", faults=3.0), ""),
        # Without use for long.
        ({"idle_every": "10m"}, seen("Passed"), "Waiting"),
        ({"idle_every": "10m", "when": [FIRST]}, seen("Passed", used=True), ""),
        ({"idle_every": "11m"}, seen("Passed"), ""),
        # It begins once what was decided before is seen, and not on nodes that are used or away.
        ({}, seen("Waiting"), "Checking:1"),
        ({}, seen("Waiting", NOW - 0.5), ""),
        ({}, seen("Waiting", used=True), "InUse"),
        ({}, seen("Waiting", usable=False), ""),
        ({}, seen("Waiting", busy=True), ""),
        # Outcomes.
        ({}, seen("Checking", OLD, 1), "Checking:2"),
        ({}, seen("Checking", NOW - 10, 1), ""),
        ({}, seen("Checking", NOW - 300 - GRACE + 1, 1), ""),
        ({}, seen("Checking", NOW - 10, 1, outcome=OK), "Passed"),
        ({}, seen("Checking", NOW - 10, 1, outcome=BAD), "Checking:2"),
        ({}, seen("Checking", NOW - 10, 2, outcome=BAD), "Failed"),
        ({"retries": 0}, seen("Checking", NOW - 10, 1, outcome=BAD), "Failed"),
        ({"max_quarantined": 0}, seen("Checking", NOW - 10, 2, outcome=BAD), "Kept"),
        # No pod could be made: that says nothing about the node.
        ({"retries": 0}, seen("Checking", OLD, 1, tried=False), "Checking:1"),
        # Quarantine: until somebody lifts it, or for a time.
        ({}, seen("Failed", out="gpus"), ""),
        ({}, seen("Failed"), "Lifted"),
        ({}, seen("Failed", out="by-hand"), "Lifted"),
        ({"quarantine_for": "10m"}, seen("Failed", out="gpus"), "Waiting"),
        ({"quarantine_for": "11m"}, seen("Failed", out="gpus"), ""),
    ],
)
def test_what_becomes_of_a_node(spec: dict[str, Any], node_seen: Seen, becomes: str) -> None:
    steps = plan(rule_of(node_check(**spec)), [node_seen], NOW).steps
    told = [f"{one.mark.state}{f':{one.mark.attempt}' if one.mark.attempt else ''}" for one in steps]
    assert told == ([becomes] if becomes else [])


def many(number: int, state: str, *, first: int = 0, **more: Any) -> list[Seen]:
    return [Seen(f"n{at:02}", Mark(state, OLD + at, 2), **more) for at in range(first, first + number)]


@pytest.mark.parametrize(
    ("limit", "at_once"), [(None, 2), (5, 5), ("25%", 5), ("1%", 1), (99, 20)], ids=["default", "5", "25%", "1%", "99"]
)
def test_no_more_nodes_are_checked_at_a_time_than_may_be_and_those_first_that_wait_longest(
    limit: Any, at_once: int
) -> None:
    rule = rule_of(node_check(max_concurrent=limit))
    began = [one.node for one in plan(rule, many(20, "Waiting"), NOW).steps]
    assert began == [f"n{at:02}" for at in range(at_once)]
    if at_once < 20:
        busy = [*many(at_once, "Checking"), *many(20 - at_once, "Waiting", first=at_once)]
        busy = [Seen(one.name, Mark(one.mark.state, NOW)) for one in busy if one.mark is not None]
        assert plan(rule, busy, NOW).steps == ()


def test_of_many_that_fail_at_once_only_so_many_leave_and_the_check_is_suspected() -> None:
    rule = rule_of(node_check())
    failing = many(10, "Checking", outcome=BAD)
    steps = plan(rule, failing, NOW).steps
    assert [(one.mark.state, one.out) for one in steps] == [("Failed", True)] * 3 + [("Kept", False)] * 7
    after = [Seen(one.node, one.mark, rule.name if one.out else "") for one in steps]
    assert "3 of 10 nodes are out, and no more than 3 may be" in suspicion(rule, after)
    # One that is lifted makes room, and the next failure leaves: the check is trusted again.
    assert suspicion(rule, [Seen("n00", Mark("Lifted", NOW)), *after[1:]]) == ""
    assert suspicion(rule, after[:3]) == ""


def test_a_node_that_is_out_by_hand_or_for_another_check_does_not_count() -> None:
    rule = rule_of(node_check(max_quarantined=1))
    others = [Seen("n1", Mark("Passed", OLD), "by-hand"), Seen("n2", Mark("Passed", OLD), "network")]
    (step,) = plan(rule, [seen("Checking", OLD, 2, outcome=BAD), *others], NOW).steps
    assert step.out


@pytest.mark.parametrize(
    ("node_seen", "again"),
    [
        (seen("Passed"), None),
        (seen("InUse", used=True), None),
        (seen("Waiting", usable=False), None),
        (seen("Checking", NOW - 10, 1), 320.0),
        (seen("InUse"), 1.0),
    ],
)
def test_when_something_is_due_of_itself(node_seen: Seen, again: float | None) -> None:
    assert plan(rule_of(node_check()), [node_seen], NOW).again == again
    every = plan(rule_of(node_check(idle_every="1h")), [seen("Passed")], NOW).again
    assert every == 3000.0


def test_the_pod_of_a_check_goes_to_its_node_whatever_its_taints_and_ends_in_time() -> None:
    check = node_check(timeout="90s", command=["dcgmi", "diag", "-r", "1"], image="dcgm:4", namespace="ops")
    made = pod_of(check, rule_of(check), node("n0"), Mark("Checking", NOW, 1))
    (only,) = made.spec.containers or ()
    assert (only.image, only.command) == ("dcgm:4", ["dcgmi", "diag", "-r", "1"])
    assert (made.spec.node_name, made.spec.restart_policy, made.spec.active_deadline_seconds) == ("n0", "Never", 90)
    assert [one.operator for one in made.spec.tolerations or ()] == ["Exists"]
    assert (made.metadata.namespace, made.metadata.labels) == ("ops", {NODE_CHECK: "gpus"})
    assert [one.kind for one in made.metadata.owner_references or ()] == ["NodeCheck"]


def test_a_template_is_taken_as_it_is_but_for_where_and_how_long_it_runs() -> None:
    given = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": "diag"}, annotations={RUN_SECONDS: "5"}),
        spec=PodSpec(containers=[Container(name="diag", image="i")], host_network=True, restart_policy="Always"),
    )
    check = node_check(template=given, command=None)
    made = pod_of(check, rule_of(check), node("n0"), Mark("Checking", NOW, 1))
    assert made.metadata.labels == {"app": "diag", NODE_CHECK: "gpus"}
    assert made.metadata.annotations == {RUN_SECONDS: "5"}
    assert (made.spec.host_network, made.spec.restart_policy) == (True, "Never")
    assert given.spec.node_name is None


def test_a_simulated_node_says_how_its_check_ends() -> None:
    there = node("n0", labels={SIMULATED: "true"})
    check = node_check()
    assert pod_of(check, rule_of(check), there, Mark("Checking", NOW, 1)).metadata.annotations == {RUN_SECONDS: "1"}
    there.metadata.annotations = {EXIT_CODE: "3", RUN_SECONDS: "9"}
    made = pod_of(check, rule_of(check), there, Mark("Checking", NOW, 1))
    assert made.metadata.annotations == {RUN_SECONDS: "9", EXIT_CODE: "3"}


def test_names_of_pods_differ_by_try_and_node_and_are_short() -> None:
    names = {
        pod_name("gpus", where, "u", Mark("Checking", since, attempt))
        for where in ("n0", "n1", "x" * 253)
        for since in (NOW, NOW + 1)
        for attempt in (1, 2)
    }
    assert len(names) == 12
    assert max(map(len, names)) <= 63


def ended(phase: str, code: int = 0, message: str = "", reason: str = "") -> Pod:
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=code, message=message or None))
    status = PodStatus(phase=phase, reason=reason or None, container_statuses=[ContainerStatus(name="c", state=state)])
    return Pod(status=status)


@pytest.mark.parametrize(
    ("there", "outcome"),
    [
        (Pod(status=PodStatus(phase="Pending")), None),
        (Pod(status=PodStatus(phase="Running")), None),
        (ended("Succeeded"), OK),
        (ended("Failed", 7), Outcome(passed=False, words="exit code 7")),
        (ended("Failed", 7, "XID 79\nseen"), Outcome(passed=False, words="exit code 7: XID 79 seen")),
        (ended("Failed", 143, reason="DeadlineExceeded"), Outcome(passed=False, words="DeadlineExceeded")),
        (Pod(status=PodStatus(phase="Failed")), Outcome(passed=False, words="it failed")),
    ],
)
def test_how_a_check_ended(there: Pod, outcome: Outcome | None) -> None:
    assert outcome_of(there) == outcome
