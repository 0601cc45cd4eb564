"""How long queues let pods run: known to whoever looks ahead, and carried out."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import (
    START,
    cluster,
    gang,
    group,
    node,
    nodes,
    placed,
    pod,
    priority_class,
    queue,
    reservation,
    schedule,
)
from unisono.api.annotations import DEFAULT_RUN_TIME, EVICT_NOTICE, EVICTABLE, MAX_RUN_TIME, RUN_SECONDS
from unisono.api.kinds import QUEUES
from unisono.api.queues import run_times_of
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import default_config, load_config
from unisono.engine.decisions import Decisions
from unisono.engine.session.run_times import RunEstimates
from unisono.engine.session.session import Session

HOUR = 3600.0


def decide(state: ClusterState, after: float = 0.0) -> Decisions:
    return schedule(state, default_config(), now=START + after)


def running(
    name: str, *, queue: str = "q", of: str = "", notes: dict[str, str] | None = None, **more: Any
) -> list[Any]:
    head = group(name, 1, phase="Running", queue=queue, annotations=notes, priority_class=of)
    return [head, pod(f"{name}-w-0", name, node="n000", **({"cpu": 1} | more))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4h", {"": 4 * HOUR}),
        (" 4h , urgent=30m", {"": 4 * HOUR, "urgent": 1800.0}),
        ("urgent=30m", {"urgent": 1800.0}),
        ("", {}),
    ],
)
def test_forms(text: str, found: dict[str, float]) -> None:
    assert run_times_of(text) == found


@pytest.mark.parametrize("text", ["long", "0s", "-1h", "=4h", "4h,2h", "a=1h,a=2h", "a=b=", ",".join(["a=1h"] * 101)])
def test_what_is_no_run_time(text: str) -> None:
    with pytest.raises(ValueError):
        run_times_of(text)


BOTH = {MAX_RUN_TIME: "4h,urgent=30m", DEFAULT_RUN_TIME: "1h"}


@pytest.mark.parametrize(
    ("above", "own", "what", "seconds"),
    [
        ({}, BOTH, {}, HOUR),
        ({}, BOTH, {"notes": {RUN_SECONDS: "7200"}}, 2 * HOUR),
        ({}, BOTH, {"annotations": {RUN_SECONDS: "7200"}}, 2 * HOUR),
        ({}, BOTH, {"annotations": {RUN_SECONDS: "72000"}}, 4 * HOUR),
        ({}, BOTH, {"of": "urgent"}, 0.5 * HOUR),
        ({}, {MAX_RUN_TIME: "4h"}, {}, 4 * HOUR),
        ({}, {MAX_RUN_TIME: "urgent=30m"}, {}, 0.0),
        ({}, {DEFAULT_RUN_TIME: "1h"}, {}, HOUR),
        # From above, and the least of them.
        (BOTH, {}, {}, HOUR),
        (BOTH, {MAX_RUN_TIME: "10m"}, {}, 600.0),
        ({MAX_RUN_TIME: "10m"}, {MAX_RUN_TIME: "20m", DEFAULT_RUN_TIME: "1h"}, {}, 600.0),
        # What cannot be read counts as absent.
        ({}, {MAX_RUN_TIME: "for ever", DEFAULT_RUN_TIME: "1h"}, {}, HOUR),
        ({}, {}, {}, 0.0),
    ],
)
def test_what_is_known_of_a_pod(
    above: dict[str, str], own: dict[str, str], what: dict[str, Any], seconds: float
) -> None:
    tree = [queue("top", annotations=above), queue("q", parent="top", annotations=own), priority_class("urgent", 9)]
    state = cluster(nodes(1), tree, running("a", **what))
    snapshot = state.snapshot()
    assert RunEstimates(Session(snapshot, START), learned=False).stated(snapshot.tasks["ns/a-w-0"]) == seconds


def test_a_job_without_a_stated_time_is_backfilled_by_its_queues_limit_and_a_changed_limit_counts_at_once() -> None:
    """Plug-in reservation keeps room for a gang that can start in an hour."""
    config = load_config(
        'actions: "allocate"\n'
        "tiers: [{plugins: [{name: gang}, {name: reservation}, {name: predicates}, {name: calendar}]}]"
    )
    big = gang("big", 2, cpu=8)
    small = gang("small", 1, queue="q", cpu=4, created=1.0)
    long = [
        group("long", 1, phase="Running"),
        pod("long-w-0", "long", node="n000", cpu=8, annotations={RUN_SECONDS: "4200"}),
    ]
    state = cluster(nodes(2, cpu=8), queue("q", annotations={MAX_RUN_TIME: "50m"}), big, small, long)
    for text, goes in (("50m", True), ("3h", False), ("55m", True), ("", False)):
        state.apply("MODIFIED", QUEUES, queue("q", annotations={MAX_RUN_TIME: text} if text else None))
        assert bool(placed(schedule(state, config, now=START + 600.0))) is goes, text


def test_a_job_gets_a_place_before_a_window_by_its_queues_limit() -> None:
    down = reservation("down", HOUR, 2 * HOUR, nodes=["n000"], purpose="Maintenance")
    for text, goes in (("1h", True), ("61m", False)):
        limited = queue("q", annotations={MAX_RUN_TIME: text})
        state = cluster(nodes(1), limited, gang("a", 1, queue="q"), down)
        assert bool(placed(decide(state))) is goes


WHY = f"the run-time limit 4h0m0s of queue q (annotation {MAX_RUN_TIME})"


@pytest.mark.parametrize(
    ("what", "after", "goes"),
    [
        ({}, 4 * HOUR - 1, False),
        ({}, 4 * HOUR, True),
        # The notice is part of its time.
        ({"notes": {EVICT_NOTICE: "10m"}}, 4 * HOUR - 601, False),
        ({"notes": {EVICT_NOTICE: "10m"}}, 4 * HOUR - 600, True),
        ({"annotations": {EVICT_NOTICE: "10m"}}, 4 * HOUR - 600, True),
        # Nothing that its owner may say lifts it.
        ({"annotations": {"volcano.sh/preemptable": "false"}}, 4 * HOUR, True),
        ({"notes": {EVICTABLE: "none"}}, 4 * HOUR, True),
        ({"annotations": {RUN_SECONDS: "72000"}}, 4 * HOUR, True),
        ({"of": "urgent"}, 0.5 * HOUR, True),
        # Others.
        ({"queue": "other"}, 5 * HOUR, False),
        ({"scheduler": "other"}, 5 * HOUR, False),
        ({"phase": "Succeeded"}, 5 * HOUR, False),
    ],
)
def test_a_pod_that_has_run_for_so_long_is_evicted(what: dict[str, Any], after: float, goes: bool) -> None:
    queues = [queue("q", annotations=BOTH), queue("other"), priority_class("urgent", 9)]
    state = cluster(nodes(1), queues, running("a", **what))
    decisions = decide(state, after)
    assert not decisions.violations
    assert [one.pod for one in decisions.evictions] == (["a-w-0"] if goes else [])
    if goes and "of" not in what:
        assert [(one.reason, one.note, one.beneficiary) for one in decisions.evictions] == [("run-time", WHY, "")]


def test_the_next_cycle_is_due_when_the_first_pods_time_is_over() -> None:
    limited = queue("q", annotations={MAX_RUN_TIME: "4h"})
    state = cluster(nodes(1), limited, running("a"), running("b", created=60.0), running("c", queue="default"))
    assert decide(state).again_at == START + 4 * HOUR
    decisions = decide(state, 4 * HOUR)
    assert [one.pod for one in decisions.evictions] == ["a-w-0"]
    assert decisions.again_at == START + 4 * HOUR + 60.0
    state.apply("MODIFIED", QUEUES, queue("q", annotations={MAX_RUN_TIME: "5h"}))
    decisions = decide(state, 4 * HOUR)
    assert (decisions.evictions, decisions.again_at) == ([], START + 5 * HOUR)
    state.apply("MODIFIED", QUEUES, queue("q"))
    assert decide(state, 9 * HOUR).again_at is None


def test_nothing_is_evicted_where_the_plug_in_is_not_in_force() -> None:
    state = cluster([node("n000")], queue("q", annotations=BOTH), running("a"))
    assert schedule(state, load_config("--volcano-strict"), now=START + 9 * HOUR).evictions == []
