"""Gangs alike share a draft of their verdict, and where very many wait some are examined in each cycle."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import cluster, gang, group, kind_of, node, nodes, pod, queue, schedule
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import default_config
from unisono.engine.decisions import Decisions
from unisono.engine.verdict import Verdict
from unisono.engine.verdicts import drafts, trial
from unisono.engine.verdicts.drafts import NOT_EXAMINED, Drafts

FULL = [
    nodes(3, cpu=4),
    group("hog", 1, phase="Running"),
    [pod(f"hog-{i}", "hog", node=f"n00{i}", cpu=3) for i in range(3)],
]
WORLDS: dict[str, list[Any]] = {
    "full": [FULL, [gang(f"g{i:02}", 4, created=i, cpu=1) for i in range(30)]],
    "full, admitted by promises": [
        FULL,
        [gang(f"g{i:02}", 8, created=i, phase="Pending", min_resources=True, cpu=1) for i in range(30)],
    ],
    "beyond a capability": [
        nodes(9, cpu=4),
        queue("q", capability={"cpu": 6}),
        [gang(f"g{i:02}", 4, queue="q", created=i, cpu=1) for i in range(30)],
        [gang(f"p{i:02}", 4, queue="q", created=i, phase="Pending", min_resources=True, cpu=1) for i in range(5)],
    ],
    "single pods": [FULL, [gang(f"g{i:02}", 1, created=i, cpu=2) for i in range(30)]],
    "too large": [FULL, [gang(f"g{i:02}", 1, created=i, cpu=9) for i in range(30)]],
    "wrong selectors": [
        [node(f"n{i}", labels={"zone": "a"}) for i in range(3)],
        [gang(f"g{i:02}", 2, created=i, selector={"zone": "b"}) for i in range(30)],
    ],
}


def verdicts(state: ClusterState) -> dict[str, Verdict]:
    return schedule(state, default_config()).verdicts


@pytest.mark.parametrize("name", WORLDS)
def test_gangs_alike_are_told_what_each_would_be_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = verdicts(cluster(WORLDS[name]))
    monkeypatch.setattr(Drafts, "_likeness", lambda *_: ())
    assert shared == verdicts(cluster(WORLDS[name]))
    assert len(shared) >= 30


def different(number: int) -> list[Any]:
    return [gang(f"g{i:02}", 3, created=i, selector={"zone": f"b{i}"}, cpu=1) for i in range(number)]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle examines the first 20 gangs, and 5 more."""
    monkeypatch.setattr(drafts, "MOST_EXAMINED", 25 * (drafts._EACH + 3 // drafts._NODES))
    monkeypatch.setattr(trial, "COST_LIMIT", 1)


def unexamined(decisions: Decisions) -> set[str]:
    return {key for key, verdict in decisions.verdicts.items() if NOT_EXAMINED in verdict.message}


@pytest.mark.usefixtures("few")
def test_each_gang_is_examined_within_a_few_cycles_and_nothing_false_is_said_meanwhile() -> None:
    state = cluster([node(f"n{i}", labels={"zone": "a"}) for i in range(3)], different(40))
    first = schedule(state, default_config())
    assert len(unexamined(first)) == 15
    for key in unexamined(first):
        told = first.verdicts[key]
        assert told.message.startswith("0/3 nodes are unavailable: 3 node(s) didn't match")
        assert (told.suggestion, told.changes, told.untried) == ("", (), ())
        assert (told.position > 20, told.ahead) == (True, ("ns/g00", "ns/g01"))
    left = [len(unexamined(schedule(state, default_config()))) for _ in range(4)]
    assert left == [10, 5, 0, 0]
    last = schedule(state, default_config()).verdicts
    whole = cluster([node(f"n{i}", labels={"zone": "a"}) for i in range(3)], different(40))
    drafts.MOST_EXAMINED *= 9
    assert verdicts(whole) == last


@pytest.mark.usefixtures("few")
def test_what_was_found_is_kept_only_while_the_gang_waits_for_the_same() -> None:
    def world() -> list[Any]:
        return [[node(f"n{i}", labels={"zone": "a"}, cpu=8) for i in range(3)], different(40)]

    state = cluster(world())
    for _ in range(4):
        decisions = schedule(state, default_config())
    assert "zone=b39" in decisions.verdicts["ns/g39"].message
    gone = node("n2", labels={"zone": "a"}, cpu=8)
    state.apply("DELETED", kind_of(gone), gone)
    decisions = schedule(state, default_config())
    for verdict in decisions.verdicts.values():
        assert "0/3" not in verdict.message
    assert unexamined(decisions)


WAYS = [node(f"n{i}", labels={"zone": "a"}, cpu=2) for i in range(3)]
