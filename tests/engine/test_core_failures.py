"""Plug-ins that raise, decisions that break a rule: others go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from support.build import bound_per_job, cluster, config, gang, nodes, placed, schedule
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import FloatArray, RawScore, Veto, Vote
from unisono.engine.candidates import table
from unisono.engine.contract.plugin import HOOK_FLAGS, Plugin
from unisono.engine.placement import plain_jobs
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.job_state import JobState
from unisono.engine.session.node_view import NodeView
from unisono.engine.verdict import Cause

EVICTION_HOOKS = {"starving", "preemptive", "shuffled", "retained", "protected", "allowance", "spared", "lost_work"} | {
    hook for hook in HOOK_FLAGS if hook.startswith("victim")
}
"""Asked by actions that this cycle does not run."""

CLAIM_HOOKS = {"preparations"}
"""Asked only about pods with claims for volumes or devices."""

TOPOLOGY_HOOKS = {"domain_gradients", "domain_points"} | {hook for hook in HOOK_FLAGS if hook.startswith("group_")}
"""Asked only about jobs with network topology or sub-groups."""

SHORTCUTS = {"admissible", "filter_at", "line_score", "score_at", "underused"}
"""Asked only in support of another hook that the same plug-in answers."""


def raising(hook: str) -> type[Plugin]:
    def fail(self: Plugin, *_: Any) -> Any:
        raise RuntimeError("broken")

    return type("Broken", (Plugin,), {"name": "broken", hook: fail})


PLACES: dict[str, dict[str, int]] = {
    **{key: {} for key in ("valid", "ready", "overused", "allocatable", "headroom", "prefilter", "annotations")},
    **{key: {} for key in ("static_filter", "filter", "domain_filter", "placed", "moved")},
    **{key: {"c": 1} for key in ("enqueueable", "enqueued")},
}
"""What is bound where a hook fails for every job: where it may refuse, only jobs that it is not asked about."""


@pytest.mark.parametrize("hook", [*HOOK_FLAGS, "open", "close"])
def test_a_plugin_that_raises_is_reported_and_the_cycle_goes_on(hook: str) -> None:
    settings = config(("broken", "gang"), ("predicates",))
    state = cluster(nodes(2, cpu=2), gang("a", 2, phase="Pending", min_resources=True), gang("b", 9), gang("c", 1))
    decisions = schedule(state, settings, plugins={"broken": raising(hook)})
    assert bound_per_job(decisions) == PLACES.get(hook, {"a": 2, "c": 1})
    asked = hook not in EVICTION_HOOKS | SHORTCUTS | CLAIM_HOOKS | TOPOLOGY_HOOKS
    assert {v.subject for v in decisions.violations} == ({"plug-in broken"} if asked else set())


def _unbuilt(hook: str) -> type[Plugin]:
    def init(self: Plugin, _: Any) -> None:
        raise ValueError("no such weight")

    return type("Unbuilt", (Plugin,), {"name": "unbuilt", "__init__": init, hook: lambda *_: None})


@pytest.mark.parametrize(("hook", "binds"), [("score", 1), ("valid", 0), ("filter", 0), ("protected", 1)])
def test_what_a_plugin_that_cannot_be_built_would_check_is_refused(hook: str, binds: int) -> None:
    state = cluster(nodes(1), gang("j", 1))
    decisions = schedule(state, config(("gang", "unbuilt")), plugins={"unbuilt": _unbuilt(hook)})
    assert len(decisions.binds) == binds
    assert [v.message for v in decisions.violations] == [
        "plug-in unbuilt failed in construction: ValueError: no such weight"
    ]
    assert decisions.plugins_off == ["unbuilt"]
    if not binds:
        verdict = decisions.verdicts["ns/j"]
        assert verdict.cause is Cause.PLUGIN_FAILED
        assert verdict.message == f"plug-in unbuilt failed in {hook} for job ns/j: ValueError: no such weight"
        assert not decisions.failed_jobs, "no job is to blame for it"


def test_a_plugin_that_cannot_be_imported_lets_nothing_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = schedule(cluster(nodes(1), gang("j", 1)), config(("gang", "no_such_module:Plugin")))
    assert not decisions.binds
    assert decisions.verdicts["ns/j"].cause is Cause.PLUGIN_FAILED
    assert "No module named 'no_such_module'" in decisions.verdicts["ns/j"].message


def test_a_plugin_that_does_not_exist_is_left_out_and_reported() -> None:
    decisions = schedule(cluster(nodes(1), gang("j", 1)), config(("gang", "nowhere")))
    assert len(decisions.binds) == 1
    assert [v.message for v in decisions.violations] == ["plug-in nowhere does not exist and is left out"]


def test_an_action_that_fails_takes_back_what_it_had_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = CombinedAnswers.ready

    def ready(self: CombinedAnswers, job: JobState) -> bool:
        if job.name == "b" and job.ready_count:
            raise RuntimeError("engine bug")
        return real(self, job)

    monkeypatch.setattr(CombinedAnswers, "ready", ready)
    decisions = schedule(cluster(nodes(2), gang("a", 1), gang("b", 2, created=1), gang("c", 1, created=2)))
    assert bound_per_job(decisions) == {"a": 1}
    assert any(v.subject == "action allocate" for v in decisions.violations)


def test_a_decision_that_breaks_an_invariant_is_dropped_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table.CandidateTable, "fits", lambda self, view: np.ones(view.size, dtype=np.bool_))
    monkeypatch.setattr(table.SingleNodeScore, "of", lambda *_, **__: None)
    decisions = schedule(cluster(nodes(1, cpu=1), gang("j", 2)))
    assert not decisions.binds
    assert decisions.verdicts["ns/j"].cause is Cause.INVARIANT
    assert "node n000 would be given more cpu than it has" in decisions.violations[0].message


def test_a_partial_gang_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CombinedAnswers, "ready", lambda self, job: job.ready_count > 0)
    monkeypatch.setattr(plain_jobs, "may_start", lambda job, left: False)
    decisions = schedule(cluster(nodes(1, cpu=1), gang("j", 2), gang("other", 1, cpu=0, created=1)))
    assert "j" not in bound_per_job(decisions)
    assert decisions.violations[0].message.endswith("below minMember 2")


class Fast(Plugin):
    """The worked example of the contract."""

    name = "fast"

    def static_score(self, pod_class: PodClass, nodes: NodeView) -> Sequence[RawScore]:
        has = nodes.label_codes("fast") >= 0
        return [RawScore(has.astype(float), weight=self.arguments.get("fast.weight", 1.0) * 100)]


def test_the_worked_example() -> None:
    from support.build import node

    settings = config(("gang",), ("fast",), arguments={"fast": {"fast.weight": 2.0}})
    state = cluster(node("a"), node("b", labels={"fast": "yes"}), gang("j", 1))
    assert placed(schedule(state, settings, plugins={"fast": Fast})) == {"j-w-0": "b"}


class Spread(Plugin):
    """Keeps its own books, so its answers are no function of the view: at most one task per node and session."""

    name = "spread"
    pure = False

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.used: set[int] = set()

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        self.used.update(nodes)

    def removed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        self.used.difference_update(nodes)

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        from unisono.engine.answers import Reason

        taken = np.isin(nodes.columns, sorted(self.used))
        return [Veto(taken, Reason("node(s) were used already"))]


def test_a_plugin_with_books_of_its_own_is_asked_for_each_task() -> None:
    settings = config(("gang",), ("spread",))
    state = cluster(nodes(3), gang("a", 4), gang("b", 3, created=1))
    decisions = schedule(state, settings, plugins={"spread": Spread})
    assert sorted(placed(decisions).items()) == [("b-w-0", "n000"), ("b-w-1", "n001"), ("b-w-2", "n002")]
    assert decisions.verdicts["ns/a"].reasons == {"node(s) were used already": 3}


def test_votes_end_with_the_first_tier_that_permits() -> None:
    """Appendix A6: a permit of an earlier tier saves from a later refusal; in the same tier the refusal wins."""
    from unisono.engine.answers import Refusal

    class Yes(Plugin):
        name = "yes"

        def enqueueable(self, job: JobState) -> Vote | Refusal:
            return Vote.PERMIT

    class No(Plugin):
        name = "no"

        def enqueueable(self, job: JobState) -> Vote | Refusal:
            return Refusal("no", Cause.OVER_SHARE)

    both = {"yes": Yes, "no": No}
    job = gang("j", 1, phase="Pending", min_resources=True)
    assert schedule(cluster(nodes(1), job), config(("yes",), ("no",)), plugins=both).binds
    assert not schedule(cluster(nodes(1), job), config(("yes", "no")), plugins=both).binds
    assert not schedule(cluster(nodes(1), job), config(("no",), ("yes",)), plugins=both).binds


def test_scores_that_are_no_numbers_count_for_nothing_and_are_reported() -> None:
    class Odd(Plugin):
        name = "odd"

        def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
            return np.where(nodes.columns == 0, np.nan, 1.0)

        pure = False

    decisions = schedule(cluster(nodes(2), gang("j", 1)), config(("odd",)), plugins={"odd": Odd})
    assert placed(decisions) == {"j-w-0": "n000"}
    assert [v.message for v in decisions.violations] == [
        "plug-in odd failed in score for pods of job ns/j: answered points that are not finite numbers"
    ]
