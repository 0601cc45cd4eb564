"""Budgets in the engine: who starts, who waits and what is said, who leaves, and who comes later."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import PREEMPT, running_pods

from support.build import (
    START,
    bound_per_job,
    budget,
    cluster,
    config,
    gang,
    group,
    node,
    nodes,
    price_list,
    priority_class,
    queue,
    schedule,
)
from unisono.api.annotations import RUN_SECONDS, USER
from unisono.api.groups.budgets import Price
from unisono.api.times import rfc3339
from unisono.engine.answers import BUDGET
from unisono.engine.changes import AddAnnotation, RaiseBudget, UseQueue
from unisono.engine.config_file.reader import default_config
from unisono.engine.plugins.budgets import BudgetsPlugin
from unisono.engine.verdict import Cause, shown

NOW = START + 3600.0
"""What runs in these worlds since the beginning has done so for an hour."""
SOFT = config(("budgets", "priority", "gang"), ("predicates", "nodeorder"))


def holder(name: str, number: int = 1, **options: Any) -> list[Any]:
    """A job that has run on node n1 since the beginning."""
    where, notes = options.pop("queue", "default"), options.pop("annotations", None)
    head = group(name, number, phase="Running", queue=where, annotations=notes)
    return [head, *running_pods(name, ["n1"] * number, **({"cpu": 1} | options))]


@pytest.mark.parametrize(
    ("amount", "used", "starts"),
    [(10, 9.5, True), (10, 10, False), (10, 11, False), (10, None, True)],
    ids=["something left", "used up", "overdrawn", "not counted yet"],
)
def test_nothing_starts_once_a_hard_budget_is_used_up(amount: float, used: float | None, starts: bool) -> None:
    there = budget("team", {"cpu": amount}, None if used is None else {"cpu": used})
    decisions = schedule(cluster(nodes(3), there, gang("g", 2)), now=NOW)
    assert bound_per_job(decisions) == ({"g": 2} if starts else {})
    assert not decisions.violations


@pytest.mark.parametrize(("amount", "starts"), [(3, False), (5, True)])
def test_what_runs_now_counts_up_to_now(amount: int, starts: bool) -> None:
    """Four pods have run for an hour since it was counted."""
    there = budget("team", {"cpu": amount}, {"cpu": 0})
    decisions = schedule(cluster(nodes(3), there, holder("old", 4), gang("g", 1)), now=NOW)
    assert bound_per_job(decisions) == ({"g": 1} if starts else {})


@pytest.mark.parametrize(
    ("whose", "held"),
    [
        ({"queues": ["default"]}, True),
        ({"queues": ["root"]}, True),
        ({"queues": ["other"]}, False),
        ({"namespaces": ["ns"]}, True),
        ({"namespaces": ["n*"]}, True),
        ({"namespaces": ["m*"]}, False),
        ({"users": ["ann"]}, True),
        ({"users": ["bob"]}, False),
        ({"queues": ["other"], "users": ["ann"]}, True),
    ],
    ids=str,
)
def test_whose_budget_it_is(whose: dict[str, list[str]], held: bool) -> None:
    there = budget("team", {"cpu": 1}, {"cpu": 1}, **whose)
    mine = gang("g", 1)
    mine[0].metadata.annotations = {USER: "ann"}
    decisions = schedule(cluster(nodes(3), queue("other"), there, mine), now=NOW)
    assert (not decisions.binds) == held


@pytest.mark.parametrize("pods", [True, False], ids=["with pods", "without"])
@pytest.mark.parametrize("whose", [{"queues": ["spent"]}, {"users": ["ann"]}, {"namespaces": ["ns2"]}], ids=str)
def test_what_a_budget_stops_claims_no_share(whose: dict[str, list[str]], pods: bool) -> None:
    """Half of the cluster would stay empty for it."""
    there = budget("team", {"cpu": 1}, {"cpu": 1}, **whose)
    hog = gang("hog", 8, queue="spent", namespace="ns2", cpu=1, min_resources=True)
    hog[0].metadata.annotations = {USER: "ann"}
    things = [nodes(2, cpu=4), queue("spent"), queue("other"), there, hog if pods else hog[:1]]
    jobs = [gang(f"g{at}", 1, queue="other", cpu=1) for at in range(8)]
    decisions = schedule(cluster(things, jobs), default_config(), now=NOW)
    assert len(decisions.binds) == 8


def test_a_new_period_begins_with_nothing() -> None:
    """The builders' clock begins at 22:13:20, so that a new hour begins 2,800 seconds later."""
    there = budget("team", {"cpu": 1}, {"cpu": 1}, period="Hour")
    state = cluster(nodes(3), there, gang("g", 1))
    before = schedule(state, now=START + 2799.0)
    assert not before.binds
    assert before.again_at == pytest.approx(START + 2800.0, abs=0.01)
    assert len(schedule(state, now=START + 2801.0).binds) == 1


def test_a_cycle_is_due_when_it_will_be_used_up() -> None:
    there = budget("team", {"cpu": 8}, {"cpu": 0})
    decisions = schedule(cluster(nodes(3), there, holder("old", 4)), now=NOW)
    assert decisions.again_at == pytest.approx(NOW + 3600.0, abs=0.01)


def test_with_a_half_life_something_is_left_again() -> None:
    """Of 10 hours half counts after an hour, so that 8 are left free after log2(10/8) hours."""
    there = (
        budget("team", {"cpu": 8}, {"cpu": 10}, halfLife="1h")
        if False
        else budget("team", {"cpu": 8}, {"cpu": 10}, half_life="1h")
    )
    state = cluster(nodes(3), there, gang("g", 1))
    again = START + 1158.93
    first = schedule(state, now=START + 60.0)
    assert not first.binds
    assert first.again_at == pytest.approx(again, abs=0.1)
    assert len(schedule(state, now=again + 1.0).binds) == 1


def test_what_has_gone_does_not_become_less_before_it_is_counted() -> None:
    state = cluster(nodes(3), budget("team", {"cpu": 3}, {"cpu": 0}), old := holder("old", 4), gang("g", 1))
    assert not schedule(state, now=NOW).binds
    for each in old[1:]:
        state.apply("DELETED", _kind("Pod"), each)
    assert not schedule(state, now=NOW + 1.0).binds
    told = budget("team", {"cpu": 3}, {"cpu": 2.5})
    told.status.counted = rfc3339(NOW + 1.0)
    state.apply("MODIFIED", _kind("Budget"), told)
    assert len(schedule(state, now=NOW + 2.0).binds) == 1


@pytest.mark.parametrize(("amount", "used", "starts"), [(10, 9.99, False), (10, 9.8, True), (11, 10, True)])
def test_what_was_used_up_is_not_open_again_for_a_little_that_a_count_leaves(
    amount: int, used: float, starts: bool
) -> None:
    """Else jobs would start and be evicted by turns."""
    state = cluster(nodes(3), budget("team", {"cpu": 10}, {"cpu": 10}), gang("g", 1))
    assert not schedule(state, now=NOW).binds
    state.apply("MODIFIED", _kind("Budget"), budget("team", {"cpu": amount}, {"cpu": used}))
    assert bool(schedule(state, now=NOW + 1.0).binds) is starts


@pytest.mark.parametrize(("used", "starts"), [(0.097, False), (0.096, True)])
def test_nor_for_the_seconds_by_which_counts_differ(used: float, starts: bool) -> None:
    """Begins and ends of pods are told in whole seconds, in which six CPUs use more than a part of a tiny budget."""
    state = cluster(nodes(3), budget("team", {"cpu": 0.1}, {"cpu": 0}), old := holder("old", 6), gang("g", 1))
    assert not schedule(state, now=NOW).binds
    for each in old[1:]:
        state.apply("DELETED", _kind("Pod"), each)
    assert not schedule(state, now=NOW + 1.0).binds
    told = budget("team", {"cpu": 0.1}, {"cpu": used})
    told.status.counted = rfc3339(NOW + 1.0)
    state.apply("MODIFIED", _kind("Budget"), told)
    assert bool(schedule(state, now=NOW + 2.0).binds) is starts


def test_what_is_tried_begins_with_what_is_remembered() -> None:
    """A copy in which the first budget was open would have its job take the place that the other one's is offered."""
    mine, yours = (budget(name, {"cpu": 10}, {"cpu": 10}, queues=[name]) for name in ("mine", "yours"))
    jobs = gang("first", 1, queue="mine", cpu=8, created=1), gang("second", 1, queue="yours", cpu=8, created=2)
    state = cluster(node("n1"), queue("mine"), queue("yours"), mine, yours, jobs)
    assert not schedule(state, now=NOW).binds
    state.apply("MODIFIED", _kind("Budget"), budget("mine", {"cpu": 10}, {"cpu": 9.99}, queues=["mine"]))
    changes = schedule(state, now=NOW + 1.0).verdicts["ns/second"].changes
    assert RaiseBudget("yours", {"cpu": 18}) in changes


def _kind(name: str) -> Any:
    from unisono.api import kinds

    return {"Pod": kinds.PODS, "Budget": kinds.BUDGETS}[name]


@pytest.mark.parametrize(("hours", "starts"), [(3.9, False), (4.1, True)])
def test_money_is_counted_by_the_labels_of_nodes(hours: float, starts: bool) -> None:
    """Two CPUs run for an hour on a spot node, at 2 in place of 5."""
    prices = price_list(Price("cpu", "2", {"kind": "spot"}), Price("cpu", "5"))
    there = budget("team", {"money": hours}, {"money": 0})
    old = holder("old", 2)
    state = cluster(node("n1", labels={"kind": "spot"}), prices, there, old, gang("g", 1))
    assert bool(schedule(state, now=NOW).binds) == starts


@pytest.mark.parametrize(
    ("left", "seconds", "starts"),
    [(2.0, 3600, True), (1.9, 3600, False), (1.9, 1800, True), (9.0, None, False)],
    ids=["just fits", "too long", "shorter", "not stated"],
)
def test_jobs_must_fit_where_the_budget_says_so(left: float, seconds: int | None, starts: bool) -> None:
    """Two pods of one CPU."""
    there = budget("team", {"cpu": left}, {"cpu": 0}, starts="IfItFits")
    notes = None if seconds is None else {RUN_SECONDS: str(seconds)}
    decisions = schedule(cluster(nodes(3), there, gang("g", 2, annotations=notes)), now=START)
    assert bound_per_job(decisions) == ({"g": 2} if starts else {})
    if not starts:
        assert decisions.verdicts["ns/g"].cause is Cause.BUDGET


def test_jobs_of_one_cycle_fit_together_and_beside_what_runs() -> None:
    """One runs for another hour, and so there is room for two of the three."""
    there = budget("team", {"cpu": 4.2}, {"cpu": 0}, starts="IfItFits")
    notes = {RUN_SECONDS: "3600"}
    old = holder("old", 1, annotations={RUN_SECONDS: "7200"})
    state = cluster(nodes(3), there, old, [gang(f"g{at}", 1, annotations=notes) for at in range(3)])
    assert len(schedule(state, now=NOW).binds) == 2


def test_the_verdict_has_numbers_and_fixes_that_were_tried() -> None:
    there = budget("team", {"cpu": 10}, {"cpu": 10}, period="Hour")
    decisions = schedule(cluster(nodes(3), queue("other"), there, gang("g", 2)), now=START + 60.0)
    verdict = decisions.verdicts["ns/g"]
    assert verdict.cause is Cause.BUDGET
    assert shown(verdict.message) == (
        f"budget team is used up: all 10 hours of cpu; there is more at {rfc3339(START + 2800.0)}"
    )
    assert RaiseBudget("team", {"cpu": 12}) in verdict.changes
    assert UseQueue("other") in verdict.changes
    assert f"wait until {rfc3339(START + 2800.0)}" in verdict.suggestion


@pytest.mark.parametrize("forgotten", [{}, {"period": "Hour"}, {"half_life": "2h"}], ids=str)
def test_the_message_stays_while_use_goes_on(forgotten: dict[str, str]) -> None:
    """It stands in conditions and events, which are written whenever it is another one."""
    state = cluster(nodes(3), budget("team", {"cpu": 10}, {"cpu": 12}, **forgotten), holder("old", 2), gang("g", 2))
    told = {schedule(state, now=START + 60.0 + after).verdicts["ns/g"].message for after in (0.0, 3.1, 60.7, 400.3)}
    assert len(told) == 1


def test_another_queue_is_offered_also_where_the_first_ones_are_full() -> None:
    """Two have no room for the job, and one a used-up budget of its own."""
    full = [queue(name, capability={"cpu": 1}) for name in ("a", "b", "c", "d")]
    shut = budget("shut", {"cpu": 1}, {"cpu": 1}, queues=["e"])
    there = budget("team", {"cpu": 1}, {"cpu": 1}, queues=["mine"])
    state = cluster(nodes(3), full, queue("e"), queue("f"), queue("mine"), shut, there, gang("g", 2, queue="mine"))
    changes = schedule(state, default_config(), now=NOW).verdicts["ns/g"].changes
    assert UseQueue("default") in changes
    assert UseQueue("f") in changes


def test_a_job_that_does_not_fit_is_told_how_long_it_may_run() -> None:
    there = budget("team", {"cpu": 2}, {"cpu": 0}, starts="IfItFits")
    asks = gang("g", 2, annotations={RUN_SECONDS: "7200"})
    verdict = schedule(cluster(nodes(3), there, asks), now=START).verdicts["ns/g"]
    assert shown(verdict.message).startswith("a pod needs 2 hours of cpu, and ")
    assert RaiseBudget("team", {"cpu": 4}) in verdict.changes
    assert AddAnnotation(RUN_SECONDS, "3600") in verdict.changes


def test_jobs_that_wait_for_admission_are_told_so() -> None:
    there = budget("team", {"cpu": 1}, {"cpu": 1})
    asks = gang("g", 1, phase="Pending", min_resources=True)
    decisions = schedule(cluster(nodes(3), there, asks), default_config(), now=NOW)
    assert decisions.verdicts["ns/g"].cause is Cause.BUDGET
    assert not any(one.phase == "Inqueue" for one in decisions.pod_groups)


def test_nobody_is_evicted_for_a_job_whose_budget_is_used_up() -> None:
    there = budget("team", {"cpu": 1}, {"cpu": 1}, namespaces=["ns"])
    ranks = [priority_class("low", 10), priority_class("high", 100)]
    old = holder("old", 2, cpu=4)
    high = gang("g", 1, priority_class="high", cpu=4)
    decisions = schedule(cluster(node("n1", cpu=8), ranks, there, old, high), PREEMPT, now=NOW)
    assert decisions.evictions == []


@pytest.mark.parametrize(("running", "leave"), [("Evict", 2), ("Finish", 0), (None, 0)])
def test_running_pods_leave_only_where_the_budget_says_so(running: str | None, leave: int) -> None:
    notice = {"notice": "10m"} if running == "Evict" else {}
    there = budget("team", {"cpu": 1}, {"cpu": 1}, running=running, **notice)
    decisions = schedule(cluster(node("n1"), there, holder("old", 2)), now=NOW)
    assert [one.reason for one in decisions.evictions] == [BUDGET] * leave
    assert not decisions.violations
    for one in decisions.evictions:
        assert (one.beneficiary, one.notice) == ("", 600.0)
        assert one.note == "budget team, which is used up (3 of 1 hours of cpu)"


def test_jobs_of_a_soft_budget_come_later_and_still_start() -> None:
    there = budget("team", {"cpu": 1}, {"cpu": 2}, mode="Soft", users=["ann"])
    late, early = gang("late", 1, created=5.0, cpu=8), gang("early", 1, created=1.0, cpu=8)
    early[0].metadata.annotations = {USER: "ann"}
    state = cluster(node("n1", cpu=8), there, late, early)
    assert bound_per_job(schedule(state, SOFT, now=NOW)) == {"late": 1}
    assert bound_per_job(schedule(state, default_config(), now=NOW)) == {"late": 1}
    assert bound_per_job(schedule(state, now=NOW)) == {"early": 1}, "it was the first one"
    assert bound_per_job(schedule(cluster(node("n1", cpu=8), there, early), SOFT, now=NOW)) == {"early": 1}


def test_queues_of_a_soft_budget_come_later() -> None:
    there = budget("team", {"cpu": 1}, {"cpu": 2}, mode="Soft", queues=["a"])
    jobs = [gang("of-a", 1, queue="a", cpu=8), gang("of-b", 1, queue="b", cpu=8)]
    state = cluster(node("n1", cpu=8), queue("a"), queue("b"), jobs)
    assert bound_per_job(schedule(state, SOFT, now=NOW)) == {"of-a": 1}
    state = cluster(node("n1", cpu=8), queue("a"), queue("b"), there, jobs)
    assert bound_per_job(schedule(state, SOFT, now=NOW)) == {"of-b": 1}


def test_the_plug_in_stays_out_of_cycles_without_a_soft_budget_that_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr(BudgetsPlugin, "open", lambda self, session: opened.append(session))
    hard = budget("team", {"cpu": 1}, {"cpu": 1})
    for there in ([], [hard], [budget("team", {"cpu": 3}, {"cpu": 1}, mode="Soft")]):
        schedule(cluster(nodes(1), there, gang("g", 1)), default_config(), now=START)
    assert not opened


def test_decisions_over_a_budget_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    from unisono.engine.session import budgets

    monkeypatch.setattr(budgets.BudgetLimit, "room", lambda self, pod_class, *, now: 99)
    decisions = schedule(cluster(nodes(3), budget("team", {"cpu": 1}, {"cpu": 1}), gang("g", 1)), now=NOW)
    assert decisions.binds == []
    assert [one.message for one in decisions.violations] == ["budget team is used up"]
