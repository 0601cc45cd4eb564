"""Reservations: nodes are kept for some, or for maintenance, from a time to a time."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import START, cluster, gang, group, node, nodes, placed, pod, queue, reservation, schedule
from unisono.api.annotations import EVICT_NOTICE, EVICTABLE, FAILED_NODES, RESERVATION, RUN_SECONDS, USER
from unisono.api.base import LabelSelector
from unisono.api.core import Affinity, PodAffinity, PodAffinityTerm
from unisono.api.kinds import PODS, RESERVATIONS
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine.changes import AddAnnotation, AddLabels, AddNodes, UseQueue
from unisono.engine.config.model import PluginConfig
from unisono.engine.config_file.reader import default_config, load_config
from unisono.engine.decisions import Decisions
from unisono.engine.plugin_host.tiers import PluginTiers
from unisono.engine.plugins.calendar import CalendarPlugin
from unisono.engine.plugins.registry import find
from unisono.engine.session.calendar import slots_at
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause

HOUR = 3600.0


def job(name: str, *, size: int = 1, notes: dict[str, str] | None = None, **more: Any) -> list[Any]:
    things = gang(name, size, **({"cpu": 8} | more))
    things[0].metadata.annotations = notes
    return things


def decide(state: ClusterState, after: float = 0.0) -> Decisions:
    return schedule(state, default_config(), now=START + after)


def where(decisions: Decisions) -> dict[str, str]:
    return {name.partition("-")[0]: on for name, on in placed(decisions).items()}


LATER = {"start": HOUR, "end": 3 * HOUR, "nodes": ["n000"]}
TEAM = {**LATER, "queues": ["team"]}


@pytest.mark.parametrize(
    ("spec", "who", "after", "goes"),
    [
        # Others: before, where they end in time or do not; within; after.
        (TEAM, {}, 0.0, False),
        (TEAM, {"notes": {RUN_SECONDS: "3600"}}, 0.0, True),
        (TEAM, {"notes": {RUN_SECONDS: "3601"}}, 0.0, False),
        (TEAM, {"annotations": {RUN_SECONDS: "1800"}}, 0.5 * HOUR, True),
        (TEAM, {"annotations": {RUN_SECONDS: "1800"}}, 0.6 * HOUR, False),
        (TEAM, {"annotations": {RUN_SECONDS: "60"}}, 2 * HOUR, False),
        (TEAM, {}, 3 * HOUR, True),
        # Those who may use it: at any time.
        (TEAM, {"queue": "team"}, 0.0, True),
        (TEAM, {"queue": "team"}, 2 * HOUR, True),
        (TEAM, {"queue": "below"}, 2 * HOUR, True),
        (TEAM, {"queue": "other"}, 2 * HOUR, False),
        ({**LATER, "users": ["alice"]}, {"notes": {USER: "alice"}}, 2 * HOUR, True),
        ({**LATER, "users": ["alice"]}, {"notes": {USER: "bob"}}, 2 * HOUR, False),
        ({**LATER, "users": ["ns"]}, {}, 2 * HOUR, False),
        ({**LATER, "namespaces": ["ns"]}, {}, 2 * HOUR, True),
        ({**LATER, "namespaces": ["n*"]}, {}, 2 * HOUR, True),
        ({**LATER, "namespaces": ["nsa"]}, {}, 2 * HOUR, False),
        # Maintenance: nobody.
        ({**LATER, "purpose": "Maintenance"}, {"queue": "team"}, 2 * HOUR, False),
        ({**LATER, "purpose": "Maintenance"}, {"queue": "team"}, 3 * HOUR, True),
        # Those who name it: on its nodes and within its windows alone.
        (TEAM, {"queue": "team", "notes": {RESERVATION: "r"}}, 0.0, False),
        (TEAM, {"queue": "team", "notes": {RESERVATION: "r"}}, HOUR, True),
        (TEAM, {"queue": "team", "notes": {RESERVATION: "r", RUN_SECONDS: "7200"}}, HOUR, True),
        (TEAM, {"queue": "team", "notes": {RESERVATION: "r", RUN_SECONDS: "7201"}}, HOUR, False),
        (TEAM, {"queue": "team", "notes": {RESERVATION: "r"}}, 3 * HOUR, False),
        (TEAM, {"queue": "team", "notes": {RESERVATION: "none"}}, HOUR, False),
        (TEAM, {"queue": "other", "notes": {RESERVATION: "r"}}, HOUR, False),
        # Every day.
        ({**TEAM, "start": None, "end": None, "schedule": "0 0 * * *", "duration": "1h"}, {}, 0.0, False),
    ],
)
def test_who_gets_a_place_when(spec: dict[str, Any], who: dict[str, Any], after: float, goes: bool) -> None:
    queues = [queue("team"), queue("other"), queue("below", parent="team")]
    state = cluster(nodes(1, cpu=8), queues, job("a", **who), reservation("r", **spec))
    assert bool(where(decide(state, after))) is goes


def test_a_job_that_names_a_reservation_waits_although_there_is_none_at_all() -> None:
    state = cluster(nodes(1, cpu=8), job("a", notes={RESERVATION: "r"}))
    decisions = decide(state)
    assert where(decisions) == {}
    assert "wait for reservation r, which does not exist" in decisions.verdicts["ns/a"].message


def test_the_template_of_a_jobs_pods_may_name_it() -> None:
    state = cluster(nodes(1, cpu=8), job("a", annotations={RESERVATION: "r"}))
    assert where(decide(state)) == {}
    state.apply("ADDED", RESERVATIONS, reservation("r", 0.0, HOUR, nodes=["*"], namespaces=["ns"]))
    assert where(decide(state)) == {"a": "n000"}
    assert state.snapshot().calendar.reserving
    state.apply("DELETED", PODS, pod("a-w-0", "a"))
    assert not state.snapshot().calendar.reserving


def test_a_job_that_names_a_reservation_keeps_to_its_nodes_and_others_use_the_rest() -> None:
    state = cluster(
        nodes(2, cpu=8),
        [queue("team")],
        job("a", queue="team", notes={RESERVATION: "r"}),
        job("b"),
        reservation("r", **{**TEAM, "nodes": ["n001"]}),
    )
    assert where(decide(state, HOUR)) == {"a": "n001", "b": "n000"}


RACK = {"labels": {"rack": "a"}}


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"nodes": ["n2", "gone"]}, "n2"),
        ({"nodes": ["*"]}, "n0 n1 n2 n3"),
        ({"node_selector": {"rack": "a"}}, "n1 n2"),
        ({"node_selector": {"rack": "b"}}, ""),
        ({"node_selector": {"rack": "a"}, "nodes": ["n0", "n1"]}, "n1"),
        ({"count": 2}, "n1 n2"),
        ({"count": 9}, "n0 n1 n2 n3"),
        ({"amounts": {"nvidia.com/gpu": 9}}, "n1 n2"),
        ({"amounts": {"nvidia.com/gpu": 8}}, "n1"),
        ({"amounts": {"nvidia.com/gpu": 99}}, "n0 n1 n2 n3"),
        ({"amounts": {"example.com/none": 1}}, ""),
    ],
)
def test_which_nodes(spec: dict[str, Any], kept: str) -> None:
    """Those that take no pods come last where only some are meant."""
    there = [node("n0", gpu=8, ready=False), node("n1", gpu=8, **RACK), node("n2", gpu=8, **RACK), node("n3", gpu=8)]
    state = cluster(there, reservation("r", 0.0, HOUR, queues=["team"], **spec))
    session = Session(state.snapshot(), START)
    (slot,) = slots_at(session)
    assert [session.snapshot.nodes.names[at] for at in slot.columns] == kept.split()


def names(state: ClusterState, after: float) -> dict[str, list[str]]:
    session = Session(state.snapshot(), START + after)
    there = session.snapshot.nodes.names
    return {slot.booking.name: [there[at] for at in slot.columns] for slot in slots_at(session)}


def test_two_that_want_some_nodes_at_one_time_get_different_ones_and_keep_them() -> None:
    first = reservation("z", 0.0, 2 * HOUR, count=1, queues=["team"])
    second = reservation("a", HOUR, 3 * HOUR, count=1, queues=["team"], created=1.0)
    third = reservation("b", 2 * HOUR, 3 * HOUR, count=1, queues=["team"], created=2.0)
    state = cluster(nodes(3), first, second, third)
    for after in (0.0, HOUR, 1.9 * HOUR):
        assert names(state, after) == {"z": ["n000"], "a": ["n001"], "b": ["n000"]}
    assert names(state, 2.5 * HOUR) == {"a": ["n001"], "b": ["n000"]}


def test_a_broken_reservation_is_set_aside_and_named_and_the_others_hold() -> None:
    state = cluster(nodes(1, cpu=8), job("a"), reservation("r", **TEAM), reservation("bad", 0.0, nodes=["n000"]))
    assert [(one.key, "spec.end" in one.message) for one in state.rejected.all()] == [("bad", True)]
    assert where(decide(state)) == {}


def test_the_status_alone_changes_nothing_and_a_change_counts_at_once() -> None:
    state = cluster(nodes(1, cpu=8), job("a"), reservation("r", **TEAM))
    version = state.version
    told = reservation("r", **TEAM)
    told.status.phase = "Waiting"
    state.apply("MODIFIED", RESERVATIONS, told)
    assert state.version == version
    state.apply("MODIFIED", RESERVATIONS, reservation("r", **{**TEAM, "nodes": ["n001"]}))
    assert state.version > version
    assert where(decide(state)) == {"a": "n000"}
    state.apply("DELETED", RESERVATIONS, told)
    assert where(decide(state)) == {"a": "n000"}


def test_the_plug_in_is_not_even_opened_where_nothing_is_reserved() -> None:
    for state, wanted in (
        (cluster(nodes(1), job("a")), False),
        (cluster(nodes(1), job("a"), reservation("r", **TEAM)), True),
        (cluster(nodes(1), job("a", notes={RESERVATION: "r"})), True),
    ):
        tiers = PluginTiers(default_config(), find, Session(state.snapshot(), START))
        assert any(isinstance(each, CalendarPlugin) for each in tiers.plugins()) is wanted


def test_jobs_that_are_kept_away_alike_share_answers() -> None:
    short = job("short", notes={RUN_SECONDS: "60"})
    state = cluster(
        nodes(2), job("a"), job("b"), short, job("t", queue="team"), reservation("r", **TEAM), queue("team")
    )
    session = Session(state.snapshot(), START)
    plugin = CalendarPlugin(PluginConfig("calendar"))
    plugin.open(session)
    told = {}
    for key in ("a", "b", "short", "t"):
        session.subject = session.job(f"ns/{key}")
        told[key] = plugin.answers_alike(next(iter(session.subject.record.pending.values())).pod_class)
    assert told["a"] == told["b"] != ""
    assert told["short"] == told["t"] == ""
    (alike,) = [one for one in session.snapshot.waiting.alike.values() if len(one) == 3]
    session.subject = session.job("ns/a")
    parts = plugin.answers_in_parts(next(iter(session.subject.record.pending.values())).pod_class, alike)
    assert (parts.usual, [key for _, key in parts.others], parts.other) == (told["a"], ["ns/short"], "")


@pytest.mark.parametrize("keeps", ["calendar", "failed-nodes"])
def test_a_node_that_is_kept_stays_kept_when_others_make_it_like_one_that_is_not(keeps: str) -> None:
    """Scores are remembered by a node's amounts: the second node, once as full as the first was, is not like it."""
    there = [node("n0", cpu=8, labels={"name": "n0"}), node("n1", cpu=8, labels={"name": "n1"})]
    notes = {FAILED_NODES: f"n0=4@{rfc3339(START)}"} if keeps == "failed-nodes" else {}
    jobs = [
        job("a", notes=notes, cpu=2),
        job("b", queue="team", cpu=2, selector={"name": "n0"}, created=1.0),
        job("c", notes=notes, cpu=2, created=2.0),
        job("d", notes=notes, cpu=2, created=3.0),
    ]
    kept = [reservation("r", -HOUR, HOUR, nodes=["n0"], queues=["team"])] if keeps == "calendar" else []
    state = cluster(there, queue("team"), *jobs, *kept)
    assert where(decide(state)) == {"a": "n1", "b": "n0", "c": "n1", "d": "n1"}


# ---- pods leave


def running(name: str, on: str, *, notes: dict[str, str] | None = None, since: float = -HOUR, **more: Any) -> list[Any]:
    things = [group(name, 1, phase="Running", queue=more.pop("queue", "default"), annotations=notes)]
    return [*things, pod(f"{name}-w-0", name, node=on, created=since, **({"cpu": 2} | more))]


def leaves(decisions: Decisions) -> dict[str, str]:
    return {one.pod.partition("-")[0]: one.note for one in decisions.evictions}


DOWN = {"start": 2 * HOUR, "end": 3 * HOUR, "nodes": ["n000"], "purpose": "Maintenance"}
FROM = f"maintenance r from {rfc3339(START + 2 * HOUR)} on"


@pytest.mark.parametrize(
    ("spec", "what", "after", "goes"),
    [
        (DOWN, {}, 2 * HOUR - 61, False),
        (DOWN, {}, 2 * HOUR - 60, True),
        (DOWN, {}, 2.5 * HOUR, True),
        (DOWN, {}, 3 * HOUR, False),
        # Told as long before as they want to be.
        (DOWN, {"notes": {EVICT_NOTICE: "10m"}}, 2 * HOUR - 661, False),
        (DOWN, {"notes": {EVICT_NOTICE: "10m"}}, 2 * HOUR - 660, True),
        # Those that end in time stay; one that has not ended at the start goes all the same.
        (DOWN, {"annotations": {RUN_SECONDS: f"{3 * HOUR}"}}, 2 * HOUR - 60, False),
        (DOWN, {"annotations": {RUN_SECONDS: f"{3 * HOUR}"}}, 2 * HOUR, True),
        (DOWN, {"annotations": {RUN_SECONDS: f"{3 * HOUR + 1}"}}, 2 * HOUR - 60, True),
        # Elsewhere, protected, or another scheduler's, or a DaemonSet's.
        (DOWN, {"on": "n001"}, 2 * HOUR, False),
        (DOWN, {"notes": {EVICTABLE: "none"}}, 2 * HOUR, False),
        (DOWN, {"annotations": {"volcano.sh/preemptable": "false"}}, 2 * HOUR, False),
        (DOWN, {"scheduler": "other"}, 2 * HOUR, False),
        (DOWN, {"labels": {"controller-revision-hash": "1"}}, 2 * HOUR, False),
        # Reserved nodes: only where that is asked for, and not who may use them.
        ({**DOWN, "purpose": None, "queues": ["team"]}, {}, 2 * HOUR, False),
        ({**DOWN, "purpose": None, "queues": ["team"], "running": "Evict"}, {}, 2 * HOUR, True),
        ({**DOWN, "purpose": None, "queues": ["team"], "running": "Evict"}, {"queue": "team"}, 2 * HOUR, False),
    ],
)
def test_which_pods_leave_and_when(spec: dict[str, Any], what: dict[str, Any], after: float, goes: bool) -> None:
    things = running("a", **{"on": "n000", **what})
    state = cluster(nodes(2, cpu=8), queue("team"), things, reservation("r", **spec))
    decisions = decide(state, after)
    assert not decisions.violations
    found = leaves(decisions)
    assert found.keys() == ({"a"} if goes else set())
    if goes and spec is DOWN:
        assert found["a"] == FROM


def test_the_next_cycle_is_due_when_a_pod_is_told_and_when_a_window_begins_or_ends() -> None:
    state = cluster(nodes(2, cpu=8), running("a", "n000", notes={EVICT_NOTICE: "10m"}), reservation("r", **DOWN))
    times = [0.0]
    while (again := decide(state, times[-1]).again_at) is not None:
        times.append(again - START)
        if decide(state, times[-1]).evictions:
            state.release("ns/a-w-0")
    assert times == [0.0, 2 * HOUR - 1860, 2 * HOUR - 660, 2 * HOUR, 3 * HOUR]


def test_what_leaves_goes_elsewhere_and_the_status_follows() -> None:
    state = cluster(
        nodes(2, cpu=8), running("a", "n000"), running("d", "n000", scheduler="other"), reservation("r", **DOWN)
    )
    (told,) = decide(state).reservations
    assert (told.phase, told.node_count, told.nodes, told.others) == ("Waiting", 1, ("n000",), 2)
    assert (told.window_start, told.window_end) == (rfc3339(START + 2 * HOUR), rfc3339(START + 3 * HOUR))
    assert leaves(decide(state, 2 * HOUR)) == {"a": FROM}
    state.apply("DELETED", PODS, pod("a-w-0", "a"))
    state.apply("ADDED", PODS, pod("a-w-1", "a", cpu=2))
    decisions = decide(state, 2 * HOUR)
    assert where(decisions) == {"a": "n001"}
    assert [(one.phase, one.others) for one in decisions.reservations] == [("Active", 1)]
    assert [one.phase for one in decide(state, 3 * HOUR).reservations] == ["Over"]


def test_a_gang_that_gets_pods_in_this_cycle_loses_its_others_in_the_next() -> None:
    things = [*running("a", "n000"), pod("a-w-1", "a", cpu=2)]
    state = cluster(nodes(2, cpu=8), things, reservation("r", **DOWN))
    decisions = decide(state, 2 * HOUR)
    assert (where(decisions), leaves(decisions), decisions.violations) == ({"a": "n001"}, {}, [])
    assert decisions.again_at == START + 2 * HOUR + 1


# ---- what is said


@pytest.mark.parametrize(
    ("spec", "who", "after", "says", "help"),
    [
        (
            TEAM,
            {},
            0.0,
            "1 node(s) were kept for reservation r from 2023-11-14T23:13:20Z to 2023-11-15T01:13:20Z. "
            "Reservation r has 1 node for queue team, 2023-11-14T23:13:20Z to 2023-11-15T01:13:20Z; "
            "how long its pods run is not stated.",
            [UseQueue("team"), AddAnnotation(RUN_SECONDS, "3600")],
        ),
        (
            {**TEAM, "queues": None, "users": ["alice", "bob"], "namespaces": ["lab-*"]},
            {"notes": {RUN_SECONDS: "7200"}},
            0.0,
            "Reservation r has 1 node for users alice and bob and namespace lab-*, 2023-11-14T23:13:20Z to "
            "2023-11-15T01:13:20Z; its pods may run for 2h0m0s.",
            [AddAnnotation(RUN_SECONDS, "3600")],
        ),
        (
            {**LATER, "purpose": "Maintenance"},
            {},
            2 * HOUR,
            "1 node(s) were kept for maintenance r until 2023-11-15T01:13:20Z. Maintenance r has 1 node for nobody,",
            "wait until 2023-11-15T01:13:20Z, when maintenance r ends",
        ),
        (
            TEAM,
            {"queue": "team", "notes": {RESERVATION: "r"}},
            0.0,
            "wait for reservation r, which is from 2023-11-14T23:13:20Z to 2023-11-15T01:13:20Z",
            "wait until 2023-11-14T23:13:20Z, when reservation r begins",
        ),
        (
            TEAM,
            {"queue": "team", "notes": {RESERVATION: "r", RUN_SECONDS: "7200"}},
            2 * HOUR,
            "reservation r are only kept until 2023-11-15T01:13:20Z, and the job runs longer",
            f"state a run time of at most 1h0m0s (annotation {RUN_SECONDS})",
        ),
        (
            TEAM,
            {"notes": {RESERVATION: "r"}},
            2 * HOUR,
            "wait for reservation r, which is not for this job",
            f"name a reservation that is for this job in the annotation {RESERVATION}, or remove it",
        ),
    ],
)
def test_a_job_that_waits_for_the_calendar_says_so(
    spec: dict[str, Any], who: dict[str, Any], after: float, says: str, help: str | list[Any]
) -> None:
    state = cluster(nodes(1, cpu=8), queue("team"), job("a", **who), reservation("r", **spec))
    verdict = decide(state, after).verdicts["ns/a"]
    assert says in verdict.message
    assert verdict.cause is Cause.RESERVED
    if isinstance(help, str):
        assert help in verdict.suggestion
    else:
        assert [change for change in verdict.changes if not isinstance(change, AddNodes)] == help


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"nodes": ["n000", "n001"]}, ""),
        ({"nodes": ["n0", "x", "n000"]}, "there is no node n0; there is no node x"),
        ({"node_selector": {"rack": "a"}}, "no node matches"),
        ({"hyper_node": "rack"}, "there is no HyperNode rack"),
        ({"count": 9}, "2 of 9 nodes match"),
        ({"amounts": {"cpus": "1"}}, "no node of these has cpus (did you mean cpu?)"),
        ({"amounts": {"cpu": "20"}}, "these nodes have 16 of 20 cpu"),
        ({"nodes": ["*"], "queues": ["team", "nosuch"]}, "there is no queue nosuch"),
    ],
)
def test_the_status_says_what_is_not_there(spec: dict[str, Any], says: str) -> None:
    state = cluster(nodes(2, cpu=8), queue("team"), reservation("r", **{**TEAM, "nodes": None, **spec}))
    (update,) = decide(state).reservations
    assert update.message == says


def test_one_that_is_over_says_when_it_was() -> None:
    state = cluster(nodes(1, cpu=8), queue("team"), reservation("r", **TEAM))
    (update,) = decide(state, 4 * HOUR).reservations
    assert (update.phase, update.window_end) == ("Over", rfc3339(START + 3 * HOUR))


def test_a_reservation_that_keeps_no_node_from_a_job_is_not_told() -> None:
    """Its node refuses the job for another reason: to wait for its end would be in vain."""
    near = PodAffinityTerm(
        label_selector=LabelSelector(match_labels={"app": "cache"}), topology_key="kubernetes.io/hostname"
    )
    rules = Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=[near]))
    state = cluster(nodes(2, cpu=8), queue("team"), job("a", affinity=rules), reservation("r", **TEAM))
    verdict = decide(state, 2 * HOUR).verdicts["ns/a"]
    assert "affinity" in verdict.message
    assert "reservation" not in f"{verdict.message} {verdict.suggestion}".lower(), verdict


def test_what_is_offered_lets_the_job_start() -> None:
    """The run time that is offered is one with which it starts in the next cycle, too."""
    state = cluster(nodes(1, cpu=8), queue("team"), job("a"), reservation("r", **{**TEAM, "start": 0.99 * HOUR}))
    offered = [one for one in decide(state).verdicts["ns/a"].changes if isinstance(one, AddAnnotation)]
    assert offered == [AddAnnotation(RUN_SECONDS, "3540")]
    state.apply("MODIFIED", PODS, pod("a-w-0", "a", cpu=8, annotations={RUN_SECONDS: offered[0].value}))
    assert where(decide(state, 20.0)) == {"a": "n000"}


def test_room_for_a_gang_that_starves_is_kept_on_nodes_that_are_not_kept_from_it() -> None:
    """Plug-in reservation keeps the two nodes on which it finds most room, the first one of which is the team's."""
    config = load_config(
        'actions: "allocate"\n'
        "tiers: [{plugins: [{name: gang}, {name: reservation}, {name: predicates}, {name: calendar}]}]"
    )
    busy = [thing for at in (1, 2) for thing in running(f"b{at}", f"n00{at}", cpu=8)]
    small = job("small", queue="team", cpu=2, created=1.0)
    for kept, on in (([], "n000"), ([reservation("r", 0.0, 9 * HOUR, nodes=["n000"], queues=["team"])], "n000")):
        state = cluster(nodes(3, cpu=8), queue("team"), job("big", size=2, cpu=8), busy, small, *kept)
        found = where(schedule(state, config, now=START + HOUR))
        assert found == ({"small": on} if kept else {})


@pytest.mark.parametrize("labels", [{}, {"rack": "a"}])
def test_a_node_that_is_kept_for_others_is_not_offered_to_be_labelled(labels: dict[str, str]) -> None:
    """The node that is kept has most room, and with the label the job would wait for the end of the reservation."""
    state = cluster(
        node("n000", cpu=16, labels={"rack": "b"}),
        node("n001", cpu=8, labels=labels),
        queue("team"),
        job("a", selector={"disk": "fast"}),
        reservation("r", **TEAM),
    )
    changes = decide(state, 2 * HOUR).verdicts["ns/a"].changes
    assert [one.nodes for one in changes if isinstance(one, AddLabels)] == [("n001",)]
