"""Several causes at once: the answer names them all, and the fix that it offers first undoes them all."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from benchmarks.answers import judge
from benchmarks.answers.composed import judge_composed
from benchmarks.answers.mutations import CAUSES, KINDS, case_of, drawn
from benchmarks.answers.plane import Plane

from unisono.api.kinds import BUDGETS, NODES, POD_GROUPS
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.mending import explanations as mending
from unisono.sdk.mending.until_it_runs import Cluster, Found, limit_of, same, until_it_runs

SEED = 20
TOGETHER = (
    "deployment cordon full stale",
    "deployment host node-affinity",
    "deployment limit-pod queue-gone gate",
    "deployment limit-min namespaces",
    "deployment paused-scaler selector",
    "deployment queue-name claim",
    "deployment queue-name overhead full",
    "deployment quota ports",
    "deployment quota-held suspended scheduler",
    "deployment user-limits full device-class",
    "job account taint",
    "job machines queue-closed",
    "job namespaces scheduler",
    "job queue-closed limits",
    "job queue-name scheduler",
    "job limit-default guarantee gate",
    "job limit-pod overhead",
    "jobset guarantee ports",
    "jobset limit-pod init",
    "jobset priority gate",
    "jobset quota cordon",
    "jobset taint large",
    "jobset taint runtime-nodes device",
    "pytorchjob capability device-class stale",
    "pytorchjob limit-default stale",
    "pytorchjob limits queue-name init",
    "pytorchjob members large ports",
    "pytorchjob namespaces device",
)


def _check(case: object, folder: Path) -> None:
    result = judge_composed(case, folder)  # type: ignore[arg-type]
    if not result.sound:
        pytest.skip("the job starts although its causes were put in, or does not without them")
    assert result.named and not result.why, str(result)


@pytest.mark.parametrize("names", TOGETHER)
def test_one_fix_undoes_all(names: str, tmp_path: Path) -> None:
    kind, *causes = names.split()
    _check(case_of(kind, [one for name in causes for one in CAUSES if one.name == name]), tmp_path)


def test_a_fix_has_no_step_that_a_later_one_makes_needless(tmp_path: Path) -> None:
    case = case_of("pytorchjob", [one for one in CAUSES if one.name == "limit-min"])
    told: list[str] = []

    async def work(made: Plane) -> str:
        told.extend(fix.text for fix in (await made.explain(case.question)).fixes if fix.tried)
        return ""

    assert judge.run(judge.stuck(case, tmp_path, work)) == ""
    assert told == ["lower the minimum cpu of LimitRange sizes to 50m"]  # the operator's init container asks for that


def test_what_starts_the_gang_but_not_all_pods_is_not_called_tried(tmp_path: Path) -> None:
    result = judge_composed(
        case_of("deployment", [one for one in CAUSES if one.name == "guarantee"]), tmp_path, every=True
    )
    assert result.named and not result.why and not result.fails, str(result)


def test_no_copy_is_made_of_a_large_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mending, "MOST_OBJECTS", 3)
    case = case_of("job", [one for one in CAUSES if one.name in ("account", "taint")])
    told: list[list[str]] = []

    async def work(made: Plane) -> str:
        answer = await made.explain(case.question, search=True)
        told.extend([answer.warnings, answer.then])
        return ""

    assert judge.run(judge.stuck(case, tmp_path, work)) == ""
    assert told == [["nothing was carried out in a copy of the cluster: the cluster has more than 3 objects"], []]


def test_of_a_large_cluster_the_engine_tries_two_changes_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mending, "MOST_OBJECTS", 3)
    _check(case_of("job", [one for one in CAUSES if one.name in ("cordon", "taint")]), tmp_path)


def test_of_a_large_cluster_it_is_said_that_the_time_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mending, "MOST_OBJECTS", 3)
    monkeypatch.setattr(mending, "ENGINE_SECONDS", 1e-9)
    case = case_of("job", [one for one in CAUSES if one.name in ("cordon", "taint")])
    told: list[str] = []

    async def work(made: Plane) -> str:
        answer = await made.explain(case.question, search=True)
        told.extend(answer.warnings)
        assert not any(fix.tried for fix in answer.fixes)
        return ""

    assert judge.run(judge.stuck(case, tmp_path, work)) == ""
    assert told == ["the search ended after 1e-09 s: there may be a fix that was not tried"]


@pytest.mark.parametrize("names", ["job account", "deployment account"])
def test_where_many_wait_nothing_is_said_of_others_though_the_job_has_no_verdict(
    names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mending, "MOST_WAITING", -1)
    asked: list[frozenset[str] | None] = []

    def search(cluster: Cluster, *args: object) -> Found:
        asked.append(cluster.groups)
        return until_it_runs(cluster, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(mending, "until_it_runs", search)
    kind, *causes = names.split()
    case = case_of(kind, [one for one in CAUSES if one.name in causes])

    async def work(made: Plane) -> str:
        answer = await made.explain(case.question, search=True)
        own = {f"{one.metadata.namespace}/{one.metadata.name}" for one in (await made.client.list(POD_GROUPS)).items}
        assert not answer.verdicts
        assert answer.fixes[0].tried
        assert asked[0] == own  # an empty one says nothing of any that is there
        return ""

    assert judge.run(judge.stuck(case, tmp_path, work)) == ""


def test_what_was_found_of_a_chain_is_offered_as_not_enough(tmp_path: Path) -> None:
    """Who makes the account waits for nodes that are not set up, which no change brings."""
    case = case_of("job", [one for one in CAUSES if one.name in ("account", "taint")])
    told: list[Fix] = []

    async def work(made: Plane) -> str:
        for one in (await made.client.list(NODES)).items:  # none is offered for what only the cloud takes away
            taints = [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]
            await made.client.patch(NODES, one.metadata.name, {"spec": {"taints": taints}})
        await made.settle()
        told.extend((await made.explain(case.question, search=True)).fixes)
        return ""

    assert judge.run(judge.stuck(case, tmp_path, work)) == ""
    assert [(fix.tried, fix.change.get("enough"), bool(fix.operations)) for fix in told] == [(False, False, True)], told


def test_a_search_ends_within_a_step_when_its_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mending, "until_it_runs", partial(until_it_runs, seconds=1e-6))
    case = case_of("job", [one for one in CAUSES if one.name in ("account", "taint")])
    told: list[object] = []

    async def work(made: Plane) -> str:
        answer = await made.explain(case.question, search=True)
        told.extend([answer.then, *(fix.tried for fix in answer.fixes)])
        return ""

    assert judge.run(judge.stuck(case, tmp_path, work)) == ""
    assert told == [[], False]


def test_one_limit_is_raised_once_in_a_chain() -> None:
    def raised(queue: str, **amounts: int) -> Fix:
        return Fix("", False, {"kind": "RaiseCapability", "queue": queue, "amounts": amounts, "tried": False}, ())

    first = limit_of(raised("a", cpu=1))
    assert first == limit_of(raised("a", cpu=7))
    assert first not in (limit_of(raised("b", cpu=1)), limit_of(raised("a", memory=1)))
    assert limit_of(Fix("", False, {"kind": "Uncordon", "nodes": ("n",)}, ())) == ()


def test_a_budget_is_offered_to_be_raised_once() -> None:
    def raised(to: int, budget: str = "team") -> Fix:
        patch = Operation("patch", BUDGETS, budget, "", {"spec": {"amounts": {"cpu": str(to)}}})
        change = {"kind": "RaiseBudget", "name": budget, "amounts": {"cpu": to}}
        return Fix(f"raise budget {budget} to {to} hours of cpu", True, change, (patch,))

    assert same(raised(17), raised(18))
    assert not same(raised(17), raised(17, "other"))


@pytest.mark.more
@pytest.mark.parametrize("case", list(drawn(60, SEED)), ids=lambda case: case.name)
def test_one_fix_undoes_any_two(case: object, tmp_path: Path) -> None:
    _check(case, tmp_path)


@pytest.mark.more
@pytest.mark.parametrize("case", list(drawn(len(KINDS) * len(CAUSES), SEED, 1)), ids=lambda case: case.name)
def test_each_cause_alone(case: object, tmp_path: Path) -> None:
    _check(case, tmp_path)
