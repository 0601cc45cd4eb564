"""eviction-guard: who is protected by how long it has run, how many may go, and who loses least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from eviction_world import PREEMPT, Plane, job_of, running_pods, with_guard
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from support.build import START, cluster, config, flatten, gang, group, node, nodes, priority_class, queue, schedule
from support.examples import examples
from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.times import parse_time, rfc3339
from unisono.cluster.recent import PastEviction, Setback
from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.registry import create
from unisono.errors import ConfigError

NOW = START + 1000.0
RANKS = [priority_class("low", 10), priority_class("high", 100)]


def guarded(
    actions: str = "enqueue, allocate, preempt, reclaim, backfill", *more: str, **arguments: Any
) -> SchedulerConfig:
    """Volcano's tiers with the guard; ``minRunTime="10m"`` and so on, a dot as ``__``."""
    given = "".join(
        f"\n      eviction-guard.{key.replace('__', '.')}: {value}"
        for key, value in ({"window": "1h"} | arguments).items()
    )
    second = ("overcommit", "drf", "predicates", "proportion", "nodeorder", *more)
    return with_guard(actions, given, ("priority", "gang", "conformance"), second)


def holder(name: str, where: list[str], *, minimum: int = 1, ago: float = 900.0, **options: Any) -> list[Any]:
    """A running job of low priority whose pods started ``ago`` seconds before now."""
    notes, head = options.pop("notes", None), options.pop("group_notes", None)
    parts = {"phase": "Running", "priority_class": options.pop("rank", "low"), "queue": options.pop("queue", "default")}
    pods = running_pods(name, where, annotations=notes, **options)
    for one in pods:
        one.status.start_time = rfc3339(NOW - ago)
    return [group(name, minimum, annotations=head, **parts), *pods]


def taker(size: int = 1, **options: Any) -> list[Any]:
    return list(gang("g", size, priority_class="high", **options))


def evicted(plane: Plane) -> list[str]:
    decisions = plane.cycle()
    return sorted(eviction.pod for eviction in decisions.evictions)


# ---- minimum run time

NOTE = "unisono.io/min-run-time"


def annotated(minimum: str) -> Any:
    made = queue("default")
    made.metadata.annotations = {NOTE: minimum}
    return made


@pytest.mark.parametrize(
    ("arguments", "things", "goes"),
    [
        pytest.param({"minRunTime": "15m"}, holder("h", ["n1"]), True, id="it has run for as long"),
        pytest.param({"minRunTime": "15m1s"}, holder("h", ["n1"]), False, id="a second is missing"),
        pytest.param({}, holder("h", ["n1"], ago=0), True, id="no minimum"),
        pytest.param({}, holder("h", ["n1"], notes={NOTE: "1h"}), False, id="the pod says so"),
        pytest.param({}, holder("h", ["n1"], group_notes={NOTE: "1h"}), False, id="its PodGroup says so"),
        pytest.param({}, [annotated("1h"), *holder("h", ["n1"])], False, id="its queue says so"),
        pytest.param({"minRunTime__queues": "{default: 1h}"}, holder("h", ["n1"]), False, id="by queue"),
        pytest.param({"minRunTime__priorityClasses": "{low: 1h}"}, holder("h", ["n1"]), False, id="by priority class"),
        pytest.param(
            {"minRunTime": "1h"},
            [annotated("1m"), *holder("h", ["n1"])],
            True,
            id="the queue counts before the argument",
        ),
        pytest.param(
            {"minRunTime": "1h"},
            holder("h", ["n1"], notes={NOTE: "1m"}, group_notes={NOTE: "2h"}),
            True,
            id="the pod counts before its PodGroup",
        ),
        pytest.param({"minRunTime": "1h"}, holder("h", ["n1"], notes={NOTE: "soon"}), False, id="an unreadable text"),
    ],
)
def test_a_pod_that_has_not_run_for_long_enough_is_no_victim(
    arguments: dict[str, str], things: list[Any], goes: bool
) -> None:
    plane = Plane(guarded(**arguments), RANKS, node("n1", cpu=1), things, taker())
    assert evicted(plane) == (["h-w-0"] if goes else [])


def test_it_is_taken_as_soon_as_it_has_run_for_long_enough() -> None:
    plane = Plane(guarded(minRunTime="20m"), RANKS, node("n1", cpu=1), holder("h", ["n1"]), taker())
    assert plane.cycle().evictions == []
    plane.now += 300.0
    assert evicted(plane) == ["h-w-0"]


def test_somebody_else_on_another_node_goes_instead() -> None:
    things = [*RANKS, *nodes(2, cpu=1), holder("new", ["n000"], ago=5), holder("old", ["n001"])]
    assert evicted(Plane(guarded(minRunTime="5m"), things, taker())) == ["old-w-0"]


def test_alone_in_its_tier_the_guard_names_nobody() -> None:
    """What it does not protect is not up for grabs by that."""
    settings = load_config("""
actions: "allocate, preempt"
tiers:
- plugins: [{name: eviction-guard, arguments: {eviction-guard.minRunTime: 1m}}]
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: predicates}]
""")
    things = [*RANKS, node("n1", cpu=1), holder("h", ["n1"], rank="high")]
    assert evicted(Plane(settings, things, taker())) == []


def test_reclaim_and_whole_gangs_wait_as_well() -> None:
    things = [*RANKS, queue("q", weight=1), queue("default"), node("n1", cpu=2), holder("h", ["n1", "n1"], minimum=2)]
    mine = gang("g", 1, queue="q")
    for actions in ("allocate, reclaim", "allocate, gangreclaim"):
        assert evicted(Plane(guarded(actions, minRunTime="1h"), things, mine)) == []
    assert evicted(Plane(guarded("allocate, gangreclaim"), things, mine)) != []
    for actions, goes in (("allocate, gangpreempt", 2), ("allocate, preempt", 2)):
        whole = [*RANKS, node("n1", cpu=2), holder("h", ["n1", "n1"], minimum=2), taker(2)]
        assert len(evicted(Plane(guarded(actions), whole))) == goes
        assert evicted(Plane(guarded(actions, minRunTime="1h"), whole)) == []


class Everybody(Plugin):
    """Wants every pod to leave."""

    name = "everybody"

    def shuffled(self, candidates: Sequence[Task]) -> BoolArray | None:
        return np.ones(len(candidates), dtype=np.bool_)


def test_shuffle_spares_who_is_protected() -> None:
    things = [*RANKS, node("n1", cpu=8), holder("old", ["n1"]), holder("new", ["n1"], ago=30)]
    things += [holder("cooling", ["n1"], labels={"volcano.sh/cooldown-time": "1h"})]
    things += [holder("critical", ["n1"], priority_class="system-cluster-critical")]
    arguments = {"eviction-guard": {"eviction-guard.minRunTime": "1m"}}
    names = ("gang", "everybody", "conformance", "cdp", "eviction-guard")
    for protecting, stay in (
        (names, {"old-w-0"}),
        (names[:2], {"old-w-0", "new-w-0", "cooling-w-0", "critical-w-0"}),
    ):
        settings = config(protecting, ("predicates",), actions="shuffle", arguments=arguments)
        decisions = schedule(cluster(things), settings, plugins={"everybody": Everybody})
        assert {eviction.pod for eviction in decisions.evictions} == stay


def test_shuffle_keeps_to_the_rate() -> None:
    things = [*RANKS, node("n1", cpu=8), holder("h", ["n1"] * 6)]
    settings = config(
        ("gang", "everybody", "eviction-guard"),
        actions="shuffle",
        arguments={"eviction-guard": {"eviction-guard.maxPerCycle": 2}},
    )
    assert len(schedule(cluster(things), settings, plugins={"everybody": Everybody}).evictions) == 2


# ---- rate


def crowd(pods: int, *takers: Any) -> list[Any]:
    return [*RANKS, node("n1", cpu=pods), holder("h", ["n1"] * pods, minimum=0), *takers]


def single(number: int) -> list[Any]:
    return [gang(f"g{index}", 1, priority_class="high", created=index) for index in range(number)]


def test_no_more_than_so_many_in_one_cycle() -> None:
    plane = Plane(guarded(maxPerCycle=2), crowd(6, single(5)), grace=0)
    assert [len(evicted(plane)) for _ in range(4)] == [2, 2, 1, 0]
    plane.settle()
    assert plane.running() == {"h": 1} | {f"g{index}": 1 for index in range(5)}


def test_no_more_than_so_many_in_a_window() -> None:
    plane = Plane(guarded(maxPerWindow=2, window="10m"), crowd(6, single(5)), grace=0)
    counts = []
    for _ in range(30):
        counts.append(len(evicted(plane)))
        plane.now += 60.0
    assert sum(counts) == 5
    assert max(sum(counts[at : at + 10]) for at in range(21)) == 2


def test_a_gang_that_needs_more_than_is_left_evicts_nobody() -> None:
    plane = Plane(guarded(maxPerWindow=2), crowd(6, taker(3), gang("s", 2, priority_class="high", created=9)))
    assert {e.beneficiary for e in plane.cycle().evictions} == {"ns/s"}


def test_free_places_are_used_when_nobody_may_go_any_more() -> None:
    things = [*RANKS, node("n1", cpu=1), node("n2", cpu=1), holder("h", ["n1"]), taker(2)]
    plane = Plane(guarded(maxPerCycle=1), things)
    assert evicted(plane) == ["h-w-0"]
    plane.settle()
    assert plane.running() == {"g": 2}


def test_each_queue_has_its_own_limit_and_may_say_another() -> None:
    spared = queue("spared")
    spared.metadata.annotations = {"unisono.io/max-evictions": "0"}
    things = [*RANKS, queue("a"), spared, queue("mine", 8), node("n1", cpu=4), node("n2", cpu=4)]
    things += [holder("ha", ["n1"] * 4, minimum=0, queue="a"), holder("hs", ["n2"] * 4, minimum=0, queue="spared")]
    things += [gang(f"g{index}", 1, queue="mine", created=index) for index in range(4)]
    plane = Plane(guarded(maxPerWindowAndQueue=2), things, grace=0)
    jobs = [job for _ in range(6) for job in (plane.cycle(), plane.evicted[-1])[1]]
    assert jobs == ["ha", "ha"]


def test_an_eviction_that_failed_does_not_count() -> None:
    plane = Plane(guarded(maxPerWindow=1), crowd(2, single(1)))
    plane.state.release("ns/h-w-0", NOW - 5)
    assert evicted(plane) == []
    plane.state.keep("ns/h-w-0")
    assert evicted(plane) == ["h-w-1"]


# ---- lost work


@pytest.mark.parametrize(
    ("one", "other", "goes"),
    [
        pytest.param({"ago": 900}, {"ago": 300}, "b", id="it has run for less time"),
        pytest.param(
            {"ago": 900, "notes": {"unisono.io/checkpoint-time": rfc3339(NOW - 60)}}, {"ago": 300}, "a", id="saved"
        ),
        pytest.param(
            {"ago": 900, "group_notes": {"unisono.io/checkpoint-time": rfc3339(NOW - 60)}},
            {"ago": 300},
            "a",
            id="its PodGroup says when it was saved",
        ),
        pytest.param(
            {"ago": 900, "notes": {"unisono.io/checkpoint-time": "lately"}}, {"ago": 300}, "b", id="unreadable"
        ),
        pytest.param({"ago": 300, "gpu": 4}, {"ago": 900, "gpu": 1}, "b", id="fewer cards"),
        pytest.param({"ago": 300}, {"ago": 900, "rank": "lower"}, "b", id="lower priority goes first all the same"),
    ],
)
def test_of_equal_priority_goes_who_loses_least(one: dict[str, Any], other: dict[str, Any], goes: str) -> None:
    """On one node, and where each runs on its own."""
    ranks = [*RANKS, priority_class("lower", 5)]

    def things(where: tuple[str, str]) -> list[Any]:
        machines = [node(name, cpu=8 if len(set(where)) == 1 else 4, gpu=8) for name in sorted(set(where))]
        holders = [holder("a", [where[0]], **{"cpu": 4, **one}), holder("b", [where[1]], **{"cpu": 4, **other})]
        elsewhere = node("elsewhere", cpu=1000, taints=[("only", "others", "NoSchedule")])  # so that cards count most
        return [ranks, machines, elsewhere, holders, taker(cpu=4)]

    for where in (("n1", "n1"), ("n1", "n2"), ("n2", "n1")):
        assert evicted(Plane(guarded("allocate, preempt"), things(where))) == [f"{goes}-w-0"], where


def test_a_pod_that_its_gang_can_spare_costs_less_than_one_that_breaks_it() -> None:
    things = [*RANKS, node("n1", cpu=2), node("n2", cpu=2), node("n3", cpu=2)]
    things += [
        holder("gang", ["n1", "n3"], minimum=2, ago=500, cpu=2),
        holder("spare", ["n2"], minimum=0, ago=900, cpu=2),
    ]
    assert evicted(Plane(guarded("allocate, preempt"), things, taker(cpu=2))) == ["spare-w-0"]


def test_a_gang_that_is_broken_by_the_first_victim_loses_the_others_too() -> None:
    """Its work is lost already; a second gang need not lose its own."""
    things = [*RANKS, *[node(f"n{i}", cpu=1) for i in range(4)]]
    things += [holder("a", ["n0", "n2"], minimum=2, ago=600), holder("b", ["n1", "n3"], minimum=2, ago=500)]
    assert evicted(Plane(guarded("allocate, preempt"), things, taker(2))) == ["b-w-0", "b-w-1"]


def test_whole_gangs_go_by_what_they_lose() -> None:
    things = [*RANKS, node("n1", cpu=2), node("n2", cpu=2)]
    things += [holder("a", ["n1", "n1"], minimum=2, ago=200), holder("b", ["n2", "n2"], minimum=2, ago=900)]
    assert evicted(Plane(guarded("allocate, gangpreempt"), things, taker(2))) == ["a-w-0", "a-w-1"]
    notes = {"unisono.io/checkpoint-time": rfc3339(NOW - 10)}
    saved = [*things[:4], *holder("a", ["n1", "n1"], minimum=2, ago=200)]
    saved += holder("b", ["n2", "n2"], minimum=2, ago=900, group_notes=notes)
    assert evicted(Plane(guarded("allocate, gangpreempt"), saved, taker(2))) == ["b-w-0", "b-w-1"]


def test_without_it_the_order_is_volcanos() -> None:
    things = [*RANKS, node("n1", cpu=2), holder("a", ["n1"], ago=900, created=5), holder("b", ["n1"], ago=300)]
    assert evicted(Plane(guarded("allocate, preempt", leastLostWork="false"), things, taker())) == ["a-w-0"]
    assert evicted(Plane(guarded("allocate, preempt"), things, taker())) == ["b-w-0"]


# ---- arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eviction-guard.window": "25h"}, "eviction-guard.window must be above 0s and at most 24h"),
        ({"eviction-guard.maxPerCycle": -1}, "eviction-guard.maxPerCycle must not be negative"),
        ({"eviction-guard.minRunTime.queues": {"q": 5}}, "eviction-guard.minRunTime.queues: q must be a duration"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create(PluginConfig("eviction-guard", arguments=arguments))


# ---- properties

SETTINGS: list[tuple[str, str, dict[str, Any]]] = [
    ("all", "enqueue, allocate, preempt, reclaim, backfill", {"minRunTime": "3m", "maxPerWindow": 3, "window": "5m"}),
    ("per cycle", "enqueue, allocate, preempt, reclaim", {"maxPerCycle": 1}),
    ("per queue", "enqueue, allocate, preempt, reclaim", {"maxPerWindowAndQueue": 1, "window": "5m"}),
    ("lost work", "enqueue, allocate, preempt, reclaim, backfill", {}),
    ("gangs", "enqueue, allocate, gangpreempt, gangreclaim", {"minRunTime": "3m", "maxPerWindow": 4, "window": "5m"}),
]
CONFIGS = {name: guarded(actions, **arguments) for name, actions, arguments in SETTINGS}
LIMITS = {
    "all": (10**9, 3, 10**9),
    "per cycle": (1, 10**9, 10**9),
    "per queue": (10**9, 10**9, 1),
    "gangs": (10**9, 4, 10**9),
}
MINIMUM = {"all": 180.0, "gangs": 180.0}


def crowded(sizes: list[int], owners: list[int], shape: list[tuple[int, int, int]], wanted: list[Any]) -> list[Object]:
    """Full nodes of ``sizes`` CPUs: CPU by CPU a pod of job ``owners[i]``; ``shape`` is queue, rank and age of a job.

    ``wanted`` are gangs that wait: queue, rank, size.
    """
    ranks = ["low", "mid", "high"]
    things: list[Any] = [priority_class(name, 10 + 10 * at) for at, name in enumerate(ranks)]
    things += [queue("default"), *(queue(f"q{at}", 1 + at, deserved={"cpu": 1 + at}) for at in range(3))]
    where: dict[int, list[str]] = {}
    places = [f"n{at}" for at, cpu in enumerate(sizes) for _ in range(cpu)]
    for at, place in enumerate(places):
        where.setdefault(owners[at % len(owners)] % len(shape), []).append(place)
    things += [node(f"n{at}", cpu=cpu) for at, cpu in enumerate(sizes)]
    for owner, held in sorted(where.items()):
        number, rank, age = shape[owner]
        things.append(
            holder(
                f"h{owner}", held, minimum=len(held) * (age % 2), queue=f"q{number}", rank=ranks[rank], ago=age * 60.0
            )
        )
    for at, (number, rank, size) in enumerate(wanted):
        things.append(gang(f"g{at}", size, queue=f"q{number}", priority_class=ranks[rank], created=at))
    return flatten(things)


third = st.integers(0, 2)
crowds = st.builds(
    crowded,
    st.lists(st.integers(2, 4), min_size=1, max_size=3),
    st.lists(st.integers(0, 4), min_size=3, max_size=8),
    st.lists(st.tuples(third, third, st.integers(0, 9)), min_size=2, max_size=4),
    st.lists(st.tuples(third, third, st.integers(1, 3)), min_size=1, max_size=4),
)
slow = hypothesis_settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])


RETURNED = crowded([2], [0, 1, 0], [(0, 0, 1), (0, 2, 0)], [(0, 1, 1), (1, 0, 1)])
"""A pod of high rank that another queue took back is made again while its own queue's gang waits for a place."""


@slow
@given(crowds, st.sampled_from(sorted(CONFIGS)), st.integers(0, 2))
@example(RETURNED, "lost work", 1)
def test_evictions_keep_the_limits_and_end_and_serve_somebody(objects: list[Object], name: str, grace: int) -> None:
    """A minute per cycle: none before its minimum, none over the rate, each for somebody who starts, and they end.

    Who starts is the beneficiary, unless a pod of a job of its queue with a higher priority has come for that place.
    """
    plane = Plane(CONFIGS[name], *objects, grace=grace)
    per_cycle, per_window, per_queue = LIMITS.get(name, (10**9, 10**9, 10**9))
    history: list[list[str]] = []
    waiting: dict[str, int] = {}
    promised: dict[str, set[str]] = {}
    quiet = 0
    for at in range(30 + 12 * len(plane.pods())):
        began = {one.metadata.name: _began(one) for one in plane.pods()}
        jobs = plane.state.book.jobs
        queues = {key: job.queue for key, job in jobs.items()}
        ranks = {key: ["low", "mid", "high"].index(job.priority_class) for key, job in jobs.items()}
        decisions = plane.cycle()
        for promise in decisions.pipelined:
            promised.setdefault(promise.job, set()).add(promise.node)
        for eviction in decisions.evictions:
            assert plane.now - began[eviction.pod] >= MINIMUM.get(name, 0.0)
            waiting.setdefault(eviction.beneficiary, at)
        for bind in decisions.binds:
            waiting.pop(bind.job, None)
            behind = [key for key in waiting if queues[key] == queues[bind.job] and ranks[key] < ranks[bind.job]]
            for key in behind:
                if bind.node in promised[key]:
                    del waiting[key]
        history.append([queues[f"ns/{job_of(_pod(plane, e.pod))}"] for e in decisions.evictions])
        recent = [one for cycle in history[-5:] for one in cycle]
        assert len(history[-1]) <= per_cycle
        assert len(recent) <= per_window
        assert all(recent.count(one) <= per_queue for one in recent)
        assert all(at - since <= 3 + 2 * grace for since in waiting.values()), "a beneficiary did not start"
        plane.now += 60.0
        quiet = 0 if decisions.evictions or decisions.binds or plane.leaving else quiet + 1
        if quiet > 8:
            return
    raise AssertionError(f"evictions do not end: {plane.evicted}")


def test_a_pod_beyond_a_minimum_that_comes_back_does_not_take_a_place_that_was_made_for_a_gang() -> None:
    """Whatever its rank, as preemption makes no room for such a pod; and evictions end with that."""
    plane = Plane(CONFIGS["lost work"], RETURNED)
    plane.settle()
    assert sum(len(jobs) for jobs in plane.evicted) == 2
    assert plane.running() == {"g0": 1, "g1": 1}


def test_shares_do_not_move_while_victims_leave() -> None:
    """What was promised on the share of a queue whose pods are leaving would be refused once they are back."""
    things = crowded([2, 2, 2], [0, 1, 0], [(0, 0, 0), (1, 0, 0)], [(0, 1, 1), (1, 2, 2)])
    plane = Plane(PREEMPT, things)
    plane.settle()
    assert plane.evicted[0] == ["h1", "h1"]
    assert sum(len(jobs) for jobs in plane.evicted) == 2
    assert plane.running() == {"h0": 4, "g1": 2}


def _pod(plane: Plane, name: str) -> Pod:
    found = plane.objects["Pod", f"ns/{name}"]
    assert isinstance(found, Pod)
    return found


def _began(one: Pod) -> float:
    return parse_time(one.status.start_time or one.metadata.creation_timestamp or "")


# ---- what the verdict says


def _spared(settings: SchedulerConfig, things: list[Any], *past: float, size: int = 1) -> str:
    """What job ``g`` is told, where pods of ``past`` seconds ago count as evicted."""
    state = cluster(RANKS, things, taker(size))
    for number, ago in enumerate(sorted(past, reverse=True)):
        state.evictions.note(PastEviction(NOW - ago, f"ns/old-{number}", f"u{number}", "ns/old", "default"))
    decisions = schedule(state, settings, now=NOW)
    assert not decisions.evictions
    verdict = decisions.verdicts["ns/g"]
    if verdict.spared:
        (update,) = [one for one in decisions.pod_groups if one.name == "g"]
        assert f"no pod is evicted for it: {verdict.spared}" in update.conditions[0].message
    return verdict.spared


def _at(seconds: float) -> str:
    return rfc3339(NOW + seconds)


FULL_NODE = [node("n0", cpu=1)]


@pytest.mark.parametrize(
    ("arguments", "ago", "past", "said"),
    [
        pytest.param(
            {"minRunTime": "10m"},
            180.0,
            (),
            "1 of 1 pod that would have to go has run for less than their minimum (ns/h-w-0 for 180 s of 600 s); "
            f"they may go from {_at(420.0)} on",
            id="minimum run time",
        ),
        pytest.param(
            {"maxPerWindow": 2},
            900.0,
            (3000.0, 600.0),
            "2 of 2 evictions within 3600 s (eviction-guard.maxPerWindow) are used up, and 1 more is needed; "
            f"they may go from {_at(600.0)} on",
            id="window",
        ),
        pytest.param(
            {"maxPerWindowAndQueue": 1},
            900.0,
            (600.0,),
            "1 of 1 evictions within 3600 s (the limit of queue default) are used up, and 1 more is needed; "
            f"they may go from {_at(3000.0)} on",
            id="window of the queue",
        ),
    ],
)
def test_the_verdict_names_the_limit_and_the_time(
    arguments: dict[str, Any], ago: float, past: tuple[float, ...], said: str
) -> None:
    settings = guarded("enqueue, allocate, preempt", **arguments)
    assert _spared(settings, [*FULL_NODE, *holder("h", ["n0"], ago=ago, cpu=1)], *past) == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"maxPerCycle": 1}, "2 pods would have to go at once, and eviction-guard.maxPerCycle lets 1 go"),
        (
            {"maxPerWindow": 1},
            "2 pods would have to go, and eviction-guard.maxPerWindow lets 1 go within 3600 s",
        ),
    ],
)
def test_a_gang_that_needs_more_victims_than_ever_go_is_told(arguments: dict[str, Any], said: str) -> None:
    things = [node("n0", cpu=2), *holder("h", ["n0", "n0"], cpu=1)]
    assert _spared(guarded("enqueue, allocate, preempt", **arguments), things, size=2) == said


def test_nothing_is_said_where_nobody_evicts_or_nobody_could_make_room() -> None:
    young = [*FULL_NODE, *holder("h", ["n0"], ago=5.0, cpu=1)]
    assert not _spared(guarded("enqueue, allocate", minRunTime="10m"), young)
    equal = [*FULL_NODE, *holder("h", ["n0"], ago=5.0, cpu=1, rank="high")]
    assert not _spared(guarded("enqueue, allocate, preempt", minRunTime="10m"), equal)


def test_a_job_whose_binds_failed_is_told_that_nobody_is_evicted_for_it() -> None:
    state = cluster(RANKS, FULL_NODE, holder("h", ["n0"], cpu=1), taker())
    state.set_back({"ns/g": Setback(3, "node n0: no", waiting=False, until=NOW - 9.0, over=NOW + 291.0)})
    verdict = schedule(state, guarded("enqueue, allocate, preempt"), now=NOW).verdicts["ns/g"]
    assert verdict.spared == f"its binds were refused lately, so no pod is evicted for it before {_at(291.0)}"
