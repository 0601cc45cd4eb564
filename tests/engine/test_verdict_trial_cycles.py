"""Cycles of trials: what a change leaves alone stays together and asleep, and is decided as if each job were asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_verdict_changes import CONFIGS, SHARES, build, some
from verdict_world import Objects

from support.build import START, cluster, config, flatten, gang, node, pod, priority_class, queue
from support.examples import examples
from unisono import engine
from unisono.engine.actions import run_actions
from unisono.engine.changes import AddLabels, AddNodes, RaiseCapability, Together, Uncordon, UsePriority
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.registry import lookup_with
from unisono.engine.verdict import Asked, Cause
from unisono.engine.verdicts.edit import Edit
from unisono.engine.verdicts.trial import Trials

CAPPED = config(("priority", "gang"), ("overcommit", "predicates", "proportion", "nodeorder"))


def waiting(number: int) -> list[Any]:
    """Gangs alike, all admitted."""
    return [gang(f"b{at}", 1, created=at) for at in range(number)]


def test_jobs_that_a_change_leaves_alone_stay_together() -> None:
    edit = Edit(cluster(flatten([node("a", cpu=1), waiting(6)])).snapshot())
    edit.job("ns/b2")
    after = edit.snapshot().waiting
    assert after is not None
    assert [len(alike) for alike in after.alike.values()] == [5]
    assert after.others == {"ns/b2"}


def test_jobs_that_a_change_leaves_alike_fail_alike_and_the_one_that_is_asked_for_by_itself() -> None:
    snapshot = cluster(flatten([node("a", cpu=1), waiting(6)])).snapshot()
    edit = Edit(snapshot)
    edit.ask("ns/b0")
    edit.job("ns/b1")
    after = edit.snapshot()
    assert after.jobs["ns/b0"].kin == 0
    assert after.jobs["ns/b1"].kin == after.jobs["ns/b2"].kin != 0


@pytest.mark.parametrize("name", sorted(CONFIGS))
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 10**9))
def test_a_cycle_of_a_trial_decides_as_one_that_looks_at_each_job(name: str, seed: int) -> None:
    random = Random(seed)
    nodes, jobs = some(random)
    edit = Edit(cluster(build(nodes, jobs, None)).snapshot())
    keys = sorted(edit.origin.jobs)
    for key in random.sample(keys, min(2, len(keys))):
        edit.job(key).priority_class = "high"
    edit.ask(random.choice(keys))
    after = edit.snapshot()
    found = []
    for snapshot, reasons in ((after, False), (replace(after, waiting=None), True)):
        cycle = Cycle(snapshot, CONFIGS[name], START + 1000.0, 0, lookup_with({}), reasons=reasons)
        run_actions(cycle)
        phases = {job.key: job.phase for job in cycle.served()}
        found.append((_places(cycle), Counter({key: phases[key] != "Pending" for key in keys if key in phases})))
    (binds, phases), (expected, all_phases) = found
    assert binds == expected
    assert all(all_phases[key] == phase for key, phase in phases.items())


def _places(cycle: Cycle) -> dict[str, int]:
    return {
        task.key: column
        for placement in cycle.bound
        for task, column in zip(placement.tasks, placement.columns, strict=True)
    }


def _trials(things: list[Any], key: str, asks: list[Together]) -> list[tuple[bool, int]]:
    """Whether a job starts after each of the changes, and how many cycles each question took."""
    found: list[tuple[bool, int]] = []
    ticks = count()
    cycles = 0

    class Counted(Trials):
        def _run(self, edit: Edit, key: str, among: Any = None) -> Cycle | None:
            nonlocal cycles
            cycles += 1
            return super()._run(edit, key, among)

    def search(trials: Trials) -> None:
        nonlocal cycles
        trials.ask(key, Together(()), alone=True)
        for change in asks:
            cycles = 0
            found.append((trials.ask(key, change, alone=False) is None, cycles))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unisono.engine.verdicts.advise.Trials", Counted)
        patch.setattr("unisono.engine.verdicts.advise._Attempt.compose", lambda _, __, trials: search(trials))
        engine.run(
            Objects(flatten(things)).state().snapshot(),
            CAPPED,
            START + 1000.0,
            monotonic=lambda: float(next(ticks)),
            verdicts=Asked(key.__eq__, 1e9),
        )
    return found


def test_changes_that_differ_in_nodes_alone_are_tried_from_where_the_rest_is_made() -> None:
    things = [node("a", cpu=4), pod("x", node="a", cpu=4), priority_class("high", 10)]
    things += [gang(f"b{at}", 1, cpu=4, created=at) for at in range(9)]
    changes = [Together((UsePriority("high"), AddNodes("a", number))) for number in (1, 2)]
    (first, cycles), (second, fewer) = _trials([*things, gang("j", 1, cpu=8, created=20)], "ns/j", changes)
    assert (first, second) == (False, False)
    assert fewer < cycles


def test_equal_jobs_sleep_in_a_trial_unless_they_may_be_placed() -> None:
    """Of equal jobs in a trial only those are looked at that may be placed."""
    edit = Edit(cluster(flatten([node("a", cpu=1), pod("x", node="a", cpu=1), waiting(9)])).snapshot())
    edit.ask("ns/b0")
    cycle = Cycle(edit.snapshot(), SHARES, START + 1000.0, 0, lookup_with({}), reasons=False)
    run_actions(cycle)
    assert [job.key for job in cycle.jobs] == ["ns/b0"]


def _asking(things: list[Any], key: str, search: Callable[[Trials], None], chosen: Any = SHARES) -> list[str]:
    """What a cycle reports of itself when ``search`` is what is tried for a job."""
    ticks = count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unisono.engine.verdicts.advise._Attempt.compose", lambda _, __, trials: search(trials))
        decisions = engine.run(
            Objects(flatten(things)).state().snapshot(),
            chosen,
            START + 1000.0,
            monotonic=lambda: float(next(ticks)),
            verdicts=Asked(key.__eq__, 1e9),
        )
    return [f"{one.subject}: {one.message}" for one in decisions.violations]


def test_nothing_is_offered_of_nodes_that_only_a_trial_has() -> None:
    """Nobody can put a label on a node that is not there."""
    answers: list[Any] = []

    def search(trials: Trials) -> None:
        answers.append(trials.ask("ns/j", AddNodes("a", 1), alone=True))

    things = [node("a", cpu=4), pod("x", node="a", cpu=4), gang("j", 1, cpu=2, selector={"disk": "ssd"})]
    assert _asking(things, "ns/j", search) == []
    (draft,) = answers
    assert draft.verdict.cause is Cause.FILTERS
    assert not [step for ladder in draft.ladders for step in ladder if isinstance(step, AddLabels)]


def test_an_error_in_a_trial_is_reported_once_and_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trials, "strict", False)
    found: list[Any] = []

    def search(trials: Trials) -> None:
        found.extend(trials.starts("ns/j", Uncordon(("no-such-node",))) for _ in range(3))

    reported = _asking([node("a", cpu=4), pod("x", node="a", cpu=4), gang("j", 1, cpu=2)], "ns/j", search)
    what = "trying Uncordon for PodGroup ns/j"
    assert reported == [f"{what}: {what} failed: KeyError: 'no-such-node'"]
    assert found == [False] * 3


def test_a_change_is_made_once_where_it_was_the_first_stage_of_another_question() -> None:
    """What is left of the other question has the change already."""
    things = [
        node("a", cpu=8),
        queue("q", capability={"cpu": 1}),
        gang("j", 1, cpu=2, queue="q"),
    ]
    raised, answers = RaiseCapability("q", {"cpu": 500}), list[Any]()

    def search(trials: Trials) -> None:
        answers.append(trials.ask("ns/j", Together((raised, AddNodes("a", 1))), alone=False))
        answers.append(trials.ask("ns/j", raised, alone=False))

    _asking(things, "ns/j", search)
    assert [one.verdict.cause for one in answers] == [Cause.OVER_CAPABILITY, Cause.OVER_CAPABILITY]
    assert answers[0].verdict.have == answers[1].verdict.have == {"cpu": 1500}
