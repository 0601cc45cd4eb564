"""The pure decisions about a pod: tables of situations, and invariants over random lives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.agent.lifecycle import (
    ContainerView,
    Exit,
    Plan,
    PodView,
    Reason,
    RestartRule,
    backoff,
    decide,
    next_crashes,
)

NOW = 1000.0


def none(name: str = "main", role: Any = "main", **fields: Any) -> ContainerView:
    return ContainerView(name, role, **fields)


def running(name: str = "main", role: Any = "main", **fields: Any) -> ContainerView:
    return ContainerView(name, role, "running", **({"runs": 1, "started_at": NOW - 5} | fields))


def exited(code: int, name: str = "main", role: Any = "main", ago: float = 0.0, **fields: Any) -> ContainerView:
    last = Exit(code, NOW - ago - 1, NOW - ago)
    return ContainerView(name, role, "exited", **({"runs": 1, "crashes": 1, "last": last} | fields))


def pod(*containers: ContainerView, policy: str = "Never", **fields: Any) -> PodView:
    return PodView("p", policy, containers, **fields)


SOME, OTHERS = (RestartRule(frozenset((42,))),), (RestartRule(frozenset((42,)), but=True),)
ALL = (RestartRule(frozenset((42,)), everything=True),)
ASKED = Exit(42, NOW - 9, NOW - 8)


def short(plan: Plan) -> tuple[str, list[str], list[str], bool]:
    return plan.phase, plan.start, sorted(plan.stop), plan.done


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (pod(none()), ("Pending", ["main"], [], False)),
        (pod(running()), ("Running", [], [], False)),
        (pod(none("a"), running("b")), ("Pending", ["a"], [], False)),
        (pod(exited(0)), ("Succeeded", [], [], True)),
        (pod(exited(1)), ("Failed", [], [], True)),
        (pod(exited(0, "a"), running("b")), ("Running", [], [], False)),
        (pod(exited(0, "a"), exited(2, "b")), ("Failed", [], [], True)),
        (pod(exited(1), policy="OnFailure"), ("Running", ["main"], [], False)),
        (pod(exited(0), policy="OnFailure"), ("Succeeded", [], [], True)),
        (pod(exited(0), policy="Always"), ("Running", ["main"], [], False)),
        (pod(exited(1, crashes=2), policy="Always"), ("Running", [], [], False)),
        (pod(exited(1, crashes=2, ago=10), policy="Always"), ("Running", ["main"], [], False)),
        # a container's own policy, and what counts before it
        (pod(exited(1, restart_policy="OnFailure")), ("Running", ["main"], [], False)),
        (pod(exited(0, restart_policy="OnFailure")), ("Succeeded", [], [], True)),
        (pod(exited(1, restart_policy="Never"), policy="Always"), ("Failed", [], [], True)),
        (pod(exited(42, restart_policy="Never", rules=SOME)), ("Running", ["main"], [], False)),
        (pod(exited(41, restart_policy="Never", rules=SOME)), ("Failed", [], [], True)),
        (pod(exited(42, restart_policy="Never", rules=OTHERS)), ("Failed", [], [], True)),
        (pod(exited(41, restart_policy="Never", rules=OTHERS)), ("Running", ["main"], [], False)),
        (pod(exited(42, "i", "init", restart_policy="Never", rules=SOME), none()), ("Pending", ["i"], [], False)),
        # a rule that starts everything again: what runs is ended first, then init containers come first
        (pod(exited(42, "a", rules=ALL), running("b")), ("Running", [], ["b"], False)),
        (pod(running("s", "sidecar"), exited(42, rules=ALL)), ("Running", [], ["s"], False)),
        (pod(exited(42, "a", rules=ALL), exited(143, "b")), ("Running", ["a", "b"], [], False)),
        (pod(exited(42, "a", rules=ALL), exited(0, "b", ago=60)), ("Running", ["a", "b"], [], False)),
        (pod(exited(0, "i", "init", ago=60), exited(42, rules=ALL)), ("Pending", ["i"], [], False)),
        (pod(exited(137, "s", "sidecar"), exited(42, rules=ALL)), ("Pending", ["s"], [], False)),
        (pod(exited(0, "i", "init"), exited(42, ago=8, rules=ALL)), ("Running", ["main"], [], False)),
        (pod(running("a", previous=ASKED, rules=ALL), running("b")), ("Running", [], [], False)),
        (pod(exited(0, "a", previous=ASKED, rules=ALL), exited(0, "b")), ("Succeeded", [], [], True)),
        (pod(exited(42, rules=(*SOME, *ALL)), running("b")), ("Running", ["main"], [], False)),
        (pod(exited(42, rules=ALL), running("b"), deleting=True), ("Running", [], ["b"], False)),
        # init containers, in order
        (pod(none("i", "init"), none()), ("Pending", ["i"], [], False)),
        (pod(running("i", "init"), none()), ("Pending", [], [], False)),
        (pod(exited(0, "i", "init"), none("j", "init"), none()), ("Pending", ["j"], [], False)),
        (pod(exited(0, "i", "init"), none()), ("Pending", ["main"], [], False)),
        (pod(exited(1, "i", "init"), none()), ("Failed", [], [], True)),
        (pod(exited(1, "i", "init"), none(), policy="OnFailure"), ("Pending", ["i"], [], False)),
        # sidecars
        (pod(none("s", "sidecar"), none()), ("Pending", ["s"], [], False)),
        (pod(running("s", "sidecar"), none()), ("Pending", ["main"], [], False)),
        (pod(running("s", "sidecar", passed=False), none()), ("Pending", [], [], False)),
        (pod(running("s", "sidecar"), exited(0)), ("Running", [], ["s"], False)),
        (pod(exited(143, "s", "sidecar"), exited(0)), ("Succeeded", [], [], True)),
        (pod(exited(1, "s", "sidecar"), running()), ("Running", ["s"], [], False)),
        # the end
        (pod(running(), deleting=True), ("Running", [], ["main"], False)),
        (pod(none(), deleting=True), ("Failed", [], [], True)),
        (pod(exited(0), deleting=True), ("Succeeded", [], [], True)),
        (pod(exited(1), deleting=True, policy="Always"), ("Failed", [], [], True)),
        (pod(running(), deadline=NOW), ("Running", [], ["main"], False)),
        (pod(exited(143), deadline=NOW), ("Failed", [], [], True)),
        (pod(running(), deadline=NOW + 1), ("Running", [], [], False)),
        (pod(none(), failure=Reason("CannotRun", "x")), ("Failed", [], [], True)),
        (pod(running(failing=Reason("Unhealthy", "Liveness probe failed"))), ("Running", [], ["main"], False)),
        # a start that failed is tried again later
        (pod(none(blocked=Reason("CreateContainerConfigError", "x"), retry_at=NOW + 2)), ("Pending", [], [], False)),
        (pod(none(blocked=Reason("CreateContainerConfigError", "x"), retry_at=NOW)), ("Pending", ["main"], [], False)),
    ],
)  # fmt: skip
def test_next_step(view: PodView, expected: tuple[str, list[str], list[str], bool]) -> None:
    assert short(decide(view, NOW)) == expected


def test_back_off_is_told_and_timed() -> None:
    plan = decide(pod(exited(1, crashes=3), policy="OnFailure"), NOW)
    assert plan.waiting["main"] == Reason("CrashLoopBackOff", "back-off 20s restarting failed container=main pod=p")
    assert plan.wake == NOW + 20


@pytest.mark.parametrize(("crashes", "seconds"), [(0, 0), (1, 0), (2, 10), (3, 20), (4, 40), (7, 300), (99, 300)])
def test_backoff(crashes: int, seconds: float) -> None:
    assert backoff(crashes) == seconds


def test_a_long_run_starts_the_back_off_over() -> None:
    assert next_crashes(6, Exit(1, 0, 599)) == 7
    assert next_crashes(6, Exit(1, 0, 600)) == 1


def test_deadline_is_waited_for() -> None:
    assert decide(pod(running(), deadline=NOW + 7), NOW).wake == NOW + 7
    plan = decide(pod(exited(143), deadline=NOW), NOW)
    assert plan.reason.reason == "DeadlineExceeded"


@given(
    policy=st.sampled_from(["Never", "OnFailure", "Always"]),
    roles=st.lists(st.sampled_from(["init", "sidecar"]), max_size=3),
    mains=st.integers(1, 3),
    choices=st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0, 1])), min_size=1, max_size=60),
)
def test_any_life(policy: str, roles: list[Any], mains: int, choices: list[tuple[int, int]]) -> None:
    """Containers end at random: nothing starts out of order, a pod that is over stays so and runs nothing."""
    state: dict[str, ContainerView] = {}
    for index, role in enumerate([*roles, *["main"] * mains]):
        state[f"c{index}"] = ContainerView(f"c{index}", role)
    now, over = NOW, None
    for pick, code in choices:
        plan = decide(PodView("p", policy, tuple(state.values())), now)
        if over is not None:
            assert plan.done
            assert plan.phase == over
            assert not plan.start
        if plan.done:
            over = plan.phase
            assert over in ("Succeeded", "Failed")
            assert not any(c.state == "running" for c in state.values())
        for name in plan.start:
            old = state[name]
            assert old.state != "running"
            if old.role == "main":
                assert all(c.last is not None for c in state.values() if c.role == "init")
            state[name] = ContainerView(name, old.role, "running", old.runs + 1, old.crashes, now)
        alive = [n for n, c in state.items() if c.state == "running"]
        ending = list(plan.stop) or alive[pick % len(alive) : pick % len(alive) + 1] if alive else []
        now += 1000.0
        for name in ending:
            old, end = state[name], Exit(code, now - 1000.0, now)
            state[name] = ContainerView(name, old.role, "exited", old.runs, 1, old.started_at, end)
