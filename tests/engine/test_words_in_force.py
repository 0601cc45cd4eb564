"""What objects state is in force under a configuration of one's own, or its writer is told that it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.build import (
    START,
    budget,
    cluster,
    config,
    flatten,
    gang,
    group,
    node,
    node_check,
    nodes,
    placed,
    pod,
    queue,
    reservation,
    schedule,
)
from unisono.api import annotations as ours
from unisono.api import bounds
from unisono.api.core import Pod
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config.model import FIRST, LAST, SchedulerConfig
from unisono.engine.config_file.reader import default_config, load_config
from unisono.engine.plugin_host.tiers import PluginTiers
from unisono.engine.plugins.registry import BUILT_IN, find
from unisono.engine.session.session import Session

NOW = START + 9 * 3600.0
OWN = load_config(
    'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins: [{name: priority}, {name: gang}]\n'
    "- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]\n"
)
SCORES_BESIDE = load_config(
    "actions: enqueue, allocate\ntiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}]}]\n"
    "nodeorder: [{name: binpack}]\n"
)
NO_TIERS = load_config("actions: enqueue, allocate\ntiers: []\n")
STRICT = load_config("--volcano-strict")


def noted(key: str, value: str, **more: Any) -> list[Any]:
    things = gang("a", 1, cpu=1, **more)
    things[0].metadata.annotations = {key: value}
    return things


def of_users() -> ClusterState:
    mine = [gang(f"a{at}", 1, queue="q") for at in range(4)]
    for each in mine:
        each[0].metadata.annotations = {ours.USER: "ann"}
    return cluster(nodes(1), queue("q", annotations={ours.USER_LIMITS: "pods=2"}), mine)


def of_run_times() -> ClusterState:
    limited = queue("q", annotations={ours.MAX_RUN_TIME: "4h"})
    running = pod("a-0", "a", node="n000", cpu=1)
    return cluster(nodes(1), limited, group("a", 1, phase="Running", queue="q"), running)


def of_budgets() -> ClusterState:
    there = budget("team", {"cpu": 1}, {"cpu": 2}, mode="Soft", users=["ann"])
    late, early = gang("late", 1, created=5.0, cpu=8), gang("early", 1, created=1.0, cpu=8)
    early[0].metadata.annotations = {ours.USER: "ann"}
    return cluster(node("n1", cpu=8), there, late, early)


STATED: dict[str, Callable[[], ClusterState]] = {
    ours.ONE_OF: lambda: cluster(nodes(1), noted(ours.ONE_OF, "example.com/gpu=h100")),
    ours.RESERVATION: lambda: cluster(nodes(1), noted(ours.RESERVATION, "r")),
    ours.FAILED_NODES: lambda: cluster(
        [node("n0", cpu=8), node("small", cpu=0)], noted(ours.FAILED_NODES, f"n0=4@{rfc3339(NOW)}")
    ),
    ours.USER_LIMITS: of_users,
    ours.HOT_SPARES: lambda: cluster(
        node("n0", gpu=8),
        node("n1", gpu=8),
        queue("q", annotations={ours.HOT_SPARES: "1"}),
        group("r", 1, queue="q", phase="Running"),
        pod("r-0", "r", node="n0", gpu=8),
        gang("a", 1, gpu=8),
    ),
    ours.MAX_RUN_TIME: of_run_times,
    "Reservation": lambda: cluster(
        nodes(1), reservation("r", 0.0, 90 * 3600.0, nodes=["*"], queues=["t"]), queue("t"), gang("a", 1)
    ),
    "NodeCheck": lambda: cluster(node("n0", gpu=8), node_check(), gang("a", 1, gpu=1)),
    "Budget": of_budgets,
}
"""By word a cluster in which it decides something."""


NO_BOUNDS = {
    *(ours.RUN_SECONDS, ours.CHECKPOINT_TIME),  # what is known of a job, for whoever asks
    *(ours.GOT, ours.CARDS, ours.USE, ours.QUARANTINE, ours.CLUSTER, ours.CLUSTER_POINTS),  # components write them
    ours.PRICES,  # what members cost, for those who prefer cheap ones
}


def outcome(state: ClusterState, settings: SchedulerConfig) -> Any:
    decisions = schedule(state, settings, now=NOW)
    assert decisions.violations == []
    return placed(decisions), sorted(each.pod for each in decisions.evictions)


@pytest.mark.parametrize("own", [OWN, SCORES_BESIDE, NO_TIERS], ids=["two tiers", "scores beside", "no tiers"])
@pytest.mark.parametrize("word", STATED)
def test_a_word_holds_that_no_tier_mentions(word: str, own: SchedulerConfig) -> None:
    """As under the default configuration, and not only where it is Volcano's exactly."""
    state = STATED[word]()
    assert outcome(state, own) == outcome(state, default_config()) != outcome(state, STRICT)


def not_enforced(decisions: Any) -> list[str]:
    events = [each for update in decisions.pod_groups for each in update.events]
    return [text for _, reason, text in events if reason == "NotEnforced"]


@pytest.mark.parametrize("settings", [OWN, STRICT, config(("gang",), ("predicates",))], ids=["own", "strict", "cases"])
@pytest.mark.parametrize("word", [*bounds.OF_JOBS, *bounds.OF_QUEUES, *bounds.OF_KINDS])
def test_a_bound_is_in_force_or_told(word: str, settings: SchedulerConfig) -> None:
    """Of jobs and queues in an event of the PodGroup, whose text names the plug-in."""
    table = next(each for each in (bounds.OF_JOBS, bounds.OF_QUEUES, bounds.OF_KINDS) if word in each)
    kept = any(plugin in settings.parts for plugin in table[word].plugins) or table[word].evictions
    told = [what for _, what in bounds.in_vain([word], table, settings.parts)]
    assert told == ([] if kept else [f"list the plug-in {table[word].plugins[0]}"])
    if word in bounds.OF_KINDS or word == bounds.HARD_TOPOLOGY:
        return
    on_job = word in bounds.OF_JOBS
    things = noted(word, "x", queue="q") if on_job else gang("a", 1, queue="q")
    state = cluster(nodes(1), queue("q", annotations=None if on_job else {word: "x"}), things)
    of = word if on_job else f"{word} of queue q"
    wanted = [f"{of} is not enforced; {each}" for each in told]
    assert not_enforced(schedule(state, settings, now=NOW)) == wanted
    for thing in flatten(things):  # it started in a cycle that explained nothing
        if isinstance(thing, Pod):
            thing.spec.node_name, thing.status.phase = "n000", "Running"
    state = cluster(nodes(1), queue("q", annotations=None if on_job else {word: "x"}), things)
    assert not_enforced(run(state.snapshot(), settings, NOW, verdicts=False)) == wanted


@pytest.mark.parametrize("action", sorted(bounds.EVICTING))
def test_bounds_on_evictions_need_their_plug_in_where_pods_are_evicted(action: str) -> None:
    words = [word for word, bound in bounds.OF_JOBS.items() if bound.evictions]
    assert [word for word, _ in bounds.in_vain(words, bounds.OF_JOBS, {action})] == words
    guarded = {action, "eviction-guard", "cdp"}
    assert list(bounds.in_vain(words, bounds.OF_JOBS, guarded)) == []


def test_every_plug_in_that_waits_for_a_word_of_our_own_joins() -> None:
    """Those of Volcano's are switched by its configuration alone, and their words are told where they do not count."""
    waiting = {
        name
        for name, plugin in BUILT_IN.items()
        if any(argument.key == f"{name}.AutoEnable" for argument in plugin.known_arguments or ())
    }
    assert waiting - {"deviceshare", "network-topology-aware"} == {*FIRST, *LAST}
    every = (bounds.OF_JOBS, bounds.OF_QUEUES, bounds.OF_KINDS)
    of_words = {plugin for table in every for bound in table.values() for plugin in bound.plugins}
    assert {*FIRST, *LAST} <= of_words <= BUILT_IN.keys()


def test_nothing_joins_a_cycle_that_needs_none_of_it() -> None:
    state = cluster(nodes(1), queue("q"), gang("a", 1, queue="q"))
    for settings in (OWN, SCORES_BESIDE, NO_TIERS):
        hooks = PluginTiers(settings, find, Session(state.snapshot(), now=NOW))
        assert [each.name for each in hooks.plugins()] == [each.name for each in settings.plugins]


def test_a_plug_in_that_is_listed_stays_as_it_is_listed() -> None:
    listed = load_config("actions: allocate\ntiers: [{plugins: [{name: one-of, enablePredicate: false}]}]")
    assert [each.name for tier in listed.in_force for each in tier].count("one-of") == 1


def test_annotations_that_plug_ins_read_are_bounds_or_known_to_be_none() -> None:
    """A plug-in that reads a new word says what becomes of it where the plug-in is not in force."""
    import ast
    from pathlib import Path

    import unisono.engine.plugins as room

    read: set[str] = set()
    for file in Path(room.__file__).parent.rglob("*.py"):
        for each in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(each, ast.ImportFrom) and each.module == "unisono.api.annotations":
                read |= {word for alias in each.names if isinstance(word := getattr(ours, alias.name), str)}
    words = {each for each in read if "/" in each and not each.startswith("system:")}
    assert words - bounds.OF_JOBS.keys() - bounds.OF_QUEUES.keys() == NO_BOUNDS
