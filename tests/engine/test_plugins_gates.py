"""sla, resourcequota, pdb and cdp: gates at admission and around evictions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from plugins_world import World, a_pod, job_of, task_of

from unisono import engine
from unisono.api import kinds
from unisono.api.core import Pod, PodDisruptionBudget, ResourceQuota
from unisono.api.times import duration_or_none, parse_duration
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Purpose, Refusal, Vote
from unisono.engine.config.arguments import Flags
from unisono.engine.config.model import PluginConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.registry import create
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause

CREATED = 1_767_225_600.0
"""2026-01-01T00:00:00Z, when `World` creates everything."""


def opened(world: World, name: str, now: float = 0.0, **arguments: Any) -> tuple[Session, Any]:
    session = Session(world.state.snapshot(), now=now)
    plugin = create(PluginConfig(name, Flags(), arguments))
    plugin.open(session)
    return session, plugin


# ---- durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h30m", 5_400), ("90s", 90), ("1.5h", 5_400), ("250ms", 0.25), ("0", 0), ("-1m", -60), ("1m1s1ms", 61.001)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "1", "5 m", "1x", "m", "1h-5m"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration(text)
    assert duration_or_none(text) is None


# ---- sla


def waiting(name: str, annotations: dict[str, str] | None = None) -> World:
    world = World().node("n1").queue("q").job(name, a_pod(), phase="Pending", minResources={"cpu": "1"})
    if annotations:
        world.state.book.jobs[f"ns/{name}"].annotations = annotations
    return world


@pytest.mark.parametrize(
    ("own", "everybody", "age", "vote"),
    [
        ("", "1h", 3_599, Vote.ABSTAIN),
        ("", "1h", 3_600, Vote.PERMIT),
        ("10m", "1h", 600, Vote.PERMIT),
        ("2h", "1h", 3_600, Vote.ABSTAIN),
        ("", "", 10**9, Vote.ABSTAIN),
        ("soon", "1m", 60, Vote.PERMIT),
        ("-1m", "", 60, Vote.ABSTAIN),
    ],
)
def test_sla_permits_after_the_waiting_time(own: str, everybody: str, age: float, vote: Vote) -> None:
    world = waiting("j", {"volcano.sh/sla-waiting-time": own} if own else None)
    arguments = {"sla-waiting-time": everybody} if everybody else {}
    session, plugin = opened(world, "sla", CREATED + age, **arguments)
    assert plugin.enqueueable(job_of(session, "j")) is vote
    assert plugin.pipelined(job_of(session, "j")) is vote


def test_sla_serves_the_earliest_deadline_first() -> None:
    world = World().node("n1").queue("q")
    for name, limit in (("a", "2h"), ("b", "1h"), ("c", "")):
        world.job(name, a_pod())
        if limit:
            world.state.book.jobs[f"ns/{name}"].annotations = {"sla-waiting-time": limit}
    session, plugin = opened(world, "sla")
    assert sorted("cab", key=lambda name: plugin.job_key(job_of(session, name))) == ["b", "a", "c"]


def test_sla_never_keeps_what_others_are_evicted_for() -> None:
    world = World().node("n1").queue("q").job("old", a_pod(node="n1")).job("new", a_pod(), a_pod())
    session, plugin = opened(world, "sla", CREATED + 9, **{"sla-waiting-time": "1s"})
    session.subject, old = job_of(session, "new"), task_of(session, "old-0")
    assert plugin.pipelined(session.subject) is Vote.PERMIT
    plugin.moved(job_of(session, "old"), [old], [0], TaskStatus.RUNNING, TaskStatus.RELEASING)
    assert plugin.pipelined(session.subject) is Vote.ABSTAIN
    plugin.moved(job_of(session, "old"), [old], [0], TaskStatus.RELEASING, TaskStatus.RUNNING)
    assert plugin.pipelined(session.subject) is Vote.PERMIT


def test_sla_in_an_earlier_tier_admits_against_overcommit() -> None:
    text = """
actions: "enqueue"
tiers:
- plugins: [{name: sla, arguments: {sla-waiting-time: 1h}}, {name: gang}]
- plugins: [{name: overcommit}]
"""
    world = World().node("n1").queue("q").job("j", a_pod("99"), phase="Pending", minResources={"cpu": "99"})
    for age, phase in ((60, "Pending"), (3_600, "Inqueue")):
        decisions = engine.run(world.state.snapshot(), load_config(text), now=CREATED + age)
        assert [update.phase for update in decisions.pod_groups] == [phase]


# ---- resourcequota


def quota(world: World, name: str = "quota", status: dict[str, Any] | None = None, **spec: Any) -> World:
    value = {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": status or {}}
    world.state.apply("ADDED", kinds.RESOURCE_QUOTAS, msgspec.convert(value, ResourceQuota))
    return world


def asking(world: World, *jobs: tuple[str, dict[str, str]]) -> World:
    for name, amounts in jobs:
        world.job(name, phase="Pending", minMember=2, minResources=amounts)
    return world


def admitted(world: World, *names: str) -> list[bool]:
    session, plugin = opened(world, "resourcequota")
    votes = []
    for job in (job_of(session, name) for name in names):
        vote = plugin.enqueueable(job)
        votes.append(vote is Vote.PERMIT)
        if votes[-1]:
            session.book.promise(job)
    return votes


@pytest.mark.parametrize(
    ("hard", "amounts", "fits"),
    [
        ({"cpu": "4"}, {"cpu": "4"}, True),
        ({"cpu": "4"}, {"cpu": "5"}, False),
        ({"requests.cpu": "4"}, {"cpu": "5"}, False),
        ({"cpu": "4"}, {"requests.cpu": "5"}, False),
        ({"limits.cpu": "4"}, {"cpu": "9"}, True),
        ({"limits.cpu": "4"}, {"cpu": "1", "limits.cpu": "5"}, False),
        ({"pods": "2"}, {"cpu": "1"}, True),
        ({"pods": "1"}, {"cpu": "1"}, False),
        ({"count/pods": "1"}, {"cpu": "1"}, False),
        ({"count/pods": "4"}, {"cpu": "1", "count/pods": "5"}, False),
        ({"requests.nvidia.com/gpu": "4"}, {"nvidia.com/gpu": "5"}, False),
        ({"memory": "1Gi"}, {"memory": "1Gi", "cpu": "99"}, True),
    ],
)
def test_quota_names(hard: dict[str, str], amounts: dict[str, str], fits: bool) -> None:
    world = asking(quota(World().node("n1").queue("q"), hard=hard), ("j", amounts))
    assert admitted(world, "j") == [fits]


def test_a_quota_that_is_full_says_so() -> None:
    status = {"hard": {"cpu": "4"}, "used": {"cpu": "3"}}
    world = asking(quota(World().node("n1").queue("q"), status=status, hard={"cpu": "9"}), ("j", {"cpu": "2"}))
    session, plugin = opened(world, "resourcequota")
    refusal = plugin.enqueueable(job_of(session, "j"))
    assert isinstance(refusal, Refusal)
    assert refusal.message == (
        "resource quota insufficient, requested: {cpu: 2}, used: {cpu: 3}, limited: {cpu: 4} (quota quota)"
    )
    assert (refusal.need, refusal.have, refusal.limit) == ({"cpu": 2_000}, {"cpu": 3_000}, {"cpu": 4_000})
    assert refusal.cause is Cause.QUOTA
    assert refusal.event


def test_what_was_admitted_before_is_reserved() -> None:
    world = quota(World().node("n1").queue("q"), status={"hard": {"cpu": "6"}, "used": {"cpu": "1"}}, hard={"cpu": "6"})
    world.job("before", a_pod("1"), minMember=3, minResources={"cpu": "3"})  # one of its pods exists and is in "used"
    world = asking(world, ("a", {"cpu": "2"}), ("b", {"cpu": "2"}), ("c", {"cpu": "1"}))
    assert admitted(world, "a", "b", "c") == [True, False, True]


def test_without_a_quota_controller_pods_are_counted() -> None:
    world = quota(World().node("n1").queue("q"), hard={"requests.cpu": "5", "pods": "9"})
    world.pod("mine", **a_pod("2", node="n1")).pod("done", **{**a_pod("2", node="n1"), "phase": "Succeeded"})
    world.pod("other", namespace="else", **a_pod("2", node="n1"))
    world = asking(world, ("a", {"cpu": "4"}), ("b", {"cpu": "3"}))
    assert admitted(world, "a", "b") == [False, True]


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        ({"scopes": ["NotBestEffort"]}, True),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopes": ["Terminating"]}, False),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["hi"]}]
                }
            },
            1,
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["lo"]}]
                }
            },
            0,
        ),
    ],
)
def test_scopes(spec: dict[str, Any], counts: bool) -> None:
    world = quota(World().node("n1").queue("q"), hard={"cpu": "1"}, **spec)
    world.job("j", phase="Pending", minMember=1, minResources={"cpu": "2"}, priorityClassName="hi")
    assert admitted(world, "j") == [not counts]


def test_other_namespaces_are_not_concerned() -> None:
    world = asking(World().node("n1").queue("q"), ("j", {"cpu": "99"}))
    assert admitted(world, "j") == [True]


# ---- pdb


def budget(world: World, name: str = "b", status: dict[str, Any] | None = None, **spec: Any) -> World:
    value = {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": status or {}}
    world.state.apply("ADDED", kinds.POD_DISRUPTION_BUDGETS, msgspec.convert(value, PodDisruptionBudget))
    return world


def add(world: World, name: str, job: str, labels: dict[str, str], **status: Any) -> None:
    annotations = {"scheduling.k8s.io/group-name": job}
    meta = {"name": name, "namespace": "ns", "uid": name, "labels": labels, "annotations": annotations}
    value = {"metadata": meta, "spec": {"nodeName": "n1", "containers": []}, "status": {"phase": "Running", **status}}
    world.state.apply("ADDED", kinds.PODS, msgspec.convert(value, Pod))


def labelled(number: int = 3, labels: dict[str, str] | None = None) -> World:
    world = World().node("n1").queue("q").job("old", minMember=1).job("new", a_pod())
    for index in range(number):
        add(world, f"p{index}", "old", labels if labels is not None else {"app": "web"})
    return world


def given(session: Session, plugin: Any, number: int = 3) -> list[bool]:
    tasks = [task_of(session, f"p{index}") for index in range(number)]
    mask = plugin.victims(job_of(session, "new"), task_of(session, "new-0"), tasks, Purpose.PREEMPT)
    return [True] * number if mask is None else list(mask.tolist())


WEB = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"selector": WEB, "minAvailable": 2}, None, [True, False, False]),
        ({"selector": WEB, "maxUnavailable": "67%"}, None, [True, True, True]),
        ({"selector": WEB, "minAvailable": 3}, {"observedGeneration": 1, "disruptionsAllowed": 2}, [True, True, False]),
        ({"selector": WEB, "minAvailable": 9}, None, [False, False, False]),
        ({"selector": {"matchLabels": {"app": "db"}}, "minAvailable": 9}, None, [True, True, True]),
        ({"selector": {}, "minAvailable": 2}, None, [True, False, False]),
        ({"minAvailable": 9}, None, [True, True, True]),
        (
            {"selector": WEB, "minAvailable": 3},
            {"observedGeneration": 1, "disruptedPods": {"p0": "2026-01-01T00:00:00Z"}},
            [True, False, False],
        ),
    ],
)
def test_budgets(spec: dict[str, Any], status: dict[str, Any] | None, expected: list[bool]) -> None:
    session, plugin = opened(budget(labelled(), status=status, **spec), "pdb")
    assert given(session, plugin) == expected


def test_all_budgets_of_a_pod_count() -> None:
    world = budget(budget(labelled(), "a", selector=WEB, minAvailable=1), "b", selector=WEB, minAvailable=2)
    session, plugin = opened(world, "pdb")
    assert given(session, plugin) == [True, False, False]


def test_a_budget_is_spent_over_the_whole_cycle() -> None:
    session, plugin = opened(budget(labelled(), selector=WEB, minAvailable=2), "pdb")
    old, first = job_of(session, "old"), task_of(session, "p0")
    plugin.moved(old, [first], [0], TaskStatus.RUNNING, TaskStatus.RELEASING)
    assert given(session, plugin) == [False, False, False]
    assert plugin.retained([task_of(session, "p1")]).tolist() == [True]
    plugin.moved(old, [first], [0], TaskStatus.RELEASING, TaskStatus.RUNNING)
    assert given(session, plugin) == [True, False, False]


def test_pods_without_labels_have_no_budget() -> None:
    session, plugin = opened(budget(labelled(labels={}), selector=WEB, minAvailable=9), "pdb")
    assert given(session, plugin) == [True, True, True]


def test_without_budgets_it_abstains() -> None:
    session, plugin = opened(labelled(), "pdb")
    assert plugin.victims(job_of(session, "new"), None, [task_of(session, "p0")], Purpose.RECLAIM) is None
    assert plugin.retained([task_of(session, "p0")]) is None


# ---- cdp


SINCE = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}


@pytest.mark.parametrize(
    ("labels", "status", "age", "may_go"),
    [
        ({"volcano.sh/cooldown-time": "10m"}, SINCE, 599, False),
        ({"volcano.sh/cooldown-time": "10m"}, SINCE, 600, True),
        ({"volcano.sh/cooldown-time": "10m"}, {"startTime": "2026-01-01T00:00:00Z"}, 599, False),
        ({"volcano.sh/cooldown-time": "a while"}, SINCE, 1, True),
        ({}, SINCE, 1, True),
    ],
)
def test_cool_down(labels: dict[str, str], status: dict[str, Any], age: float, may_go: bool) -> None:
    world = World().node("n1").queue("q").job("old", minMember=1).job("new", a_pod())
    add(world, "p0", "old", labels, **status)
    session, plugin = opened(world, "cdp", CREATED + age)
    assert given(session, plugin, 1) == [may_go]
