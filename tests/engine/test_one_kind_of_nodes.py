"""Gangs that take nodes of one kind, of several that they name: which kind, and what is told of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.build import (
    START,
    cluster,
    config,
    gang,
    group,
    node,
    placed,
    pod,
    price_list,
    priority_class,
    queue,
    schedule,
)
from unisono.api.annotations import GOT, ONE_OF, ONE_OF_BY
from unisono.api.groups.budgets import Price
from unisono.api.kinds import PODS
from unisono.api.one_of import kinds_of
from unisono.engine.changes import RaiseCapability
from unisono.engine.config_file.reader import default_config
from unisono.engine.decisions import Decisions
from unisono.engine.plugins.one_of import OneOfPlugin

KEY = "gpu.example.com/type"
LIST = f"{KEY}=h100, {KEY}=a100, {KEY}=l40s"


def kind(name: str, number: int, gpu: int = 4, **labels: str) -> list[object]:
    more = {key.replace("__", "/"): value for key, value in labels.items()}
    return [node(f"{name}-{at}", cpu=64, gpu=gpu, labels={KEY: name, **more}) for at in range(number)]


def job(name: str, size: int, text: str = LIST, *, by: str = "", gpu: int = 4, **given: Any) -> list[object]:
    things = gang(name, size, gpu=gpu, **given)
    things[0].metadata.annotations = {ONE_OF: text} | ({ONE_OF_BY: by} if by else {})
    return things


def on(decisions: Decisions) -> dict[str, set[str]]:
    """Kinds of nodes by job."""
    found: dict[str, set[str]] = {}
    for name, where in placed(decisions).items():
        found.setdefault(name.partition("-")[0], set()).add(where.rpartition("-")[0])
    return found


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ((2, 2, 2), "h100"),
        ((1, 2, 2), "a100"),
        ((1, 1, 2), "l40s"),
        ((1, 1, 1), None),
        ((0, 0, 2), "l40s"),
    ],
)
def test_all_pods_get_the_first_kind_that_has_room_for_all(nodes: tuple[int, ...], expected: str | None) -> None:
    there = [kind(name, number) for name, number in zip(("h100", "a100", "l40s"), nodes, strict=True)]
    state = cluster(there, job("j", 2))
    decisions = schedule(state, default_config())
    assert on(decisions) == ({"j": {expected}} if expected else {})
    assert {bind.annotations.get(GOT) for bind in decisions.binds} == ({f"{KEY}={expected}"} if expected else set())
    notes = [update.notes for update in decisions.pod_groups]
    assert notes == [{GOT: f"{KEY}={expected}"} if expected else {}]


def test_two_gangs_do_not_share_what_is_free_twice() -> None:
    jobs = [job(name, 2, created=at) for at, name in enumerate("abc")]
    state = cluster(kind("h100", 3), kind("a100", 2), kind("l40s", 1), jobs)
    assert on(schedule(state, default_config())) == {"a": {"h100"}, "b": {"a100"}}


def test_pods_that_come_later_get_the_same_kind() -> None:
    state = cluster(kind("h100", 2), kind("a100", 3), job("j", 3))
    first = schedule(state, default_config())
    assert on(first) == {"j": {"a100"}}
    for bind in first.binds[:2]:
        state.assume(f"ns/{bind.pod}", bind.node, bind.annotations)
    again = schedule(state, default_config())
    assert on(again) == {"j": {"a100"}}
    # Where no node of that kind is left, it waits, though there is one of a better kind.
    state.apply("ADDED", PODS, pod("hog", node=first.binds[2].node, gpu=4, scheduler="other"))
    assert on(schedule(state, default_config())) == {}


def test_a_gang_of_which_nothing_runs_any_more_chooses_anew() -> None:
    state = cluster(kind("h100", 2), kind("a100", 2), job("j", 2))
    for at in range(2):
        state.apply("MODIFIED", PODS, pod(f"j-w-{at}", "j", node=f"a100-{at}", deleting=True, gpu=4))
        state.apply("ADDED", PODS, pod(f"j-v-{at}", "j", gpu=4))
    assert on(schedule(state, default_config())) == {"j": {"h100"}}


EDITED = f"{KEY}=h100, {KEY}=l40s"


@pytest.mark.parametrize("told", [f"{KEY}=a100", ""])
@pytest.mark.parametrize("whole", [True, False], ids=["PodGroup", "pods"])
def test_a_gang_keeps_to_what_it_got_whatever_its_list_says_by_now(*, told: str, whole: bool) -> None:
    """A pod that is made again has the new list; those that run had the old one, or the PodGroup's is another."""
    before = {} if whole else {ONE_OF: LIST}
    runs = pod("j-w-0", "j", role="w", node="a100-0", gpu=4, annotations={**before, **({GOT: told} if told else {})})
    fresh = pod("j-w-1", "j", role="w", gpu=4, annotations={} if whole else {ONE_OF: EDITED})
    head = group("j", 2, phase="Running", annotations={ONE_OF: EDITED if whole else LIST})
    state = cluster(kind("h100", 2), kind("a100", 2), kind("l40s", 2), head, fresh, runs)
    # What a pod that was never told anything got can only be read from its own list.
    assert on(schedule(state, default_config())) == {"j": {"a100" if told or not whole else "h100"}}
    state = cluster(kind("h100", 2), kind("a100", 1), kind("l40s", 2), head, fresh, runs)
    assert bool(on(schedule(state, default_config()))) is (whole and not told)


def test_pods_that_were_made_for_a_kind_that_is_no_longer_there_are_made_again() -> None:
    """They ask for twice the devices, which no kind of the new list means."""
    things = choosing("j", 2, EDITED, made=f"{KEY}=a100*2", gpu=4)
    decisions = schedule(cluster(kind("h100", 2), things), default_config())
    assert (placed(decisions), told(decisions)) == ({}, {"j": f"{KEY}=h100"})


def test_pods_whose_template_names_no_kinds_go_anywhere() -> None:
    """The list stands on the pods of one task, and on nothing else."""
    workers = [pod(f"j-w-{at}", "j", role="worker", gpu=4, annotations={ONE_OF: LIST}) for at in range(2)]
    there = [kind("h100", 1), kind("a100", 2), node("plain-0", cpu=4)]
    state = cluster(there, group("j", 3), pod("j-m-0", "j", role="master", cpu=2), workers)
    state.apply("ADDED", PODS, pod("x", node="h100-0", gpu=0, cpu=63))
    found = placed(schedule(state, default_config()))
    assert {found["j-w-0"].rpartition("-")[0], found["j-w-1"].rpartition("-")[0]} == {"a100"}
    assert len(found) == 3


def test_parts_choose_each_for_itself() -> None:
    first = [pod(f"j-a-{at}", "j", gpu=4, annotations={ONE_OF: LIST}) for at in range(2)]
    second = [pod(f"j-b-{at}", "j", gpu=4, annotations={ONE_OF: f"{KEY}=l40s, {KEY}=a100"}) for at in range(2)]
    state = cluster(kind("h100", 1), kind("a100", 2), kind("l40s", 2), group("j", 4), first, second)
    found = placed(schedule(state, default_config()))
    assert {name: where.rpartition("-")[0] for name, where in found.items()} == {
        "j-a-0": "a100",
        "j-a-1": "a100",
        "j-b-0": "l40s",
        "j-b-1": "l40s",
    }


PRICES = price_list(
    Price(resource="nvidia.com/gpu", per_hour="0.90", node_selector={KEY: "a100", "life": "spot"}),
    Price(resource="nvidia.com/gpu", per_hour="4", node_selector={KEY: "h100"}),
    Price(resource="nvidia.com/gpu", per_hour="1.5"),
)


@pytest.mark.parametrize(
    ("by", "text", "expected"),
    [
        ("", LIST, "h100"),
        ("order", LIST, "h100"),
        ("price", LIST, "a100"),  # 1.5 as l40s, which stands behind it
        ("price", f"{KEY}=h100@3, {KEY}=a100, {KEY}=l40s@0.5", "h100"),
        ("price", f"{KEY}=h100@2, {KEY}=a100, {KEY}=l40s@1.2", "l40s"),
        ("speed", f"{KEY}=a100@0.5, {KEY}=h100, {KEY}=l40s@0.3", "h100"),
        ("speed", f"{KEY}=a100@2, {KEY}=h100, {KEY}=l40s@3", "l40s"),
    ],
)
def test_by_order_price_or_speed(by: str, text: str, expected: str) -> None:
    things = [kind(name, 2) for name in ("h100", "a100", "l40s")]
    assert on(schedule(cluster(*things, job("j", 2, text, by=by), PRICES), default_config())) == {"j": {expected}}


def test_the_price_of_a_kind_is_that_of_its_cheapest_nodes() -> None:
    spot = node("a100-9", cpu=64, gpu=4, labels={KEY: "a100", "life": "spot"})
    things = [kind("h100", 2), kind("a100", 1), kind("l40s", 2), spot]
    state = cluster(*things, job("j", 2, f"{KEY}=l40s, {KEY}=a100", by="price"), PRICES)
    assert on(schedule(state, default_config())) == {"j": {"a100"}}


def low(nodes: list[str]) -> list[object]:
    """A job with one pod on each of these nodes."""
    groups = [group(f"low{at}", 0, phase="Running", priority_class="low") for at in range(len(nodes))]
    pods = [pod(f"low{at}-0", f"low{at}", node=name, gpu=4, priority=1) for at, name in enumerate(nodes)]
    return [priority_class("low", 1), priority_class("high", 9), *groups, *pods]


def held(name: str, nodes: list[str], **given: Any) -> list[object]:
    head = group(name, 0 if "queue" in given else len(nodes), phase="Running", **given)
    return [head, *(pod(f"{name}-{at}", name, node=on, gpu=4, priority=9) for at, on in enumerate(nodes))]


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
@pytest.mark.parametrize(
    ("busy", "victims"),
    [
        (["h100-0", "h100-1"], set()),  # nobody goes while there is room on a lesser kind
        (["h100-0", "h100-1", "a100-0", "a100-1"], {"low0", "low1"}),
        (["a100-0", "a100-1"], set()),
    ],
)
def test_first_without_evictions_on_any_kind_then_with(action: str, busy: list[str], victims: set[str]) -> None:
    settings = config(
        ("priority", "gang"), ("predicates", "nodeorder", "one-of"), actions=f"enqueue, {action}, allocate"
    )
    wanted = job("j", 2, priority_class="high", priority=9)
    state = cluster(kind("h100", 2), kind("a100", 2), low(busy), wanted)
    decisions = schedule(state, settings)
    assert {each.pod.partition("-")[0] for each in decisions.evictions} == victims
    if not victims:
        assert on(decisions) == {"j": {"a100" if "h100-0" in busy else "h100"}}


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_others_are_evicted_on_the_next_kind_where_the_first_is_not_to_be_had(action: str) -> None:
    settings = config(
        ("priority", "gang"), ("predicates", "nodeorder", "one-of"), actions=f"enqueue, allocate, {action}"
    )
    own = held("top", ["h100-0", "h100-1"], priority_class="high")
    lesser = low(["a100-0", "a100-1", "a100-2"])
    state = cluster(kind("h100", 2), kind("a100", 3), own, lesser, job("j", 2, priority_class="high", priority=9))
    decisions = schedule(state, settings)
    assert len(decisions.evictions) == 2
    assert {each.node.rpartition("-")[0] for each in decisions.evictions} == {"a100"}
    assert {each.node.rpartition("-")[0] for each in decisions.pipelined} == {"a100"}


def test_reclaim_goes_by_the_kinds_in_order_too() -> None:
    tiers = ("priority", "gang"), ("predicates", "proportion", "one-of")
    settings = config(*tiers, actions="enqueue, allocate, reclaim")
    others = held("o", ["h100-0", "h100-1", "a100-0", "a100-1"], queue="other")
    state = cluster(kind("h100", 2), kind("a100", 2), queue("default"), queue("other"), others, job("j", 2))
    decisions = schedule(state, settings)
    assert {each.node.rpartition("-")[0] for each in decisions.evictions} == {"h100"}
    assert len(decisions.evictions) == 2


def test_the_verdict_says_of_each_kind_what_it_lacks() -> None:
    state = cluster(kind("h100", 1), kind("a100", 3, gpu=2), job("j", 2))
    message = schedule(state, default_config()).verdicts["ns/j"].message
    assert (
        f"one kind of nodes would be enough: "
        f"{KEY}=h100: 1 of 2 pods find room on 1 node (too little nvidia.com/gpu); "
        f"{KEY}=a100: 0 of 2 pods find room on 3 nodes (too little nvidia.com/gpu); "
        f"{KEY}=l40s: there is no such node"
    ) in message


def test_a_kind_that_nodes_have_and_the_list_has_not_is_tried_as_a_fix() -> None:
    state = cluster(kind("h100", 1), kind("b200", 2), job("j", 2, f"{KEY}=h100, {KEY}=a100"))
    verdict = schedule(state, default_config()).verdicts["ns/j"]
    assert f'annotate its pods with {ONE_OF}: "{KEY}=h100, {KEY}=a100, {KEY}=b200"' in verdict.suggestion


def test_the_plug_in_is_not_opened_where_nobody_chooses() -> None:
    state = cluster(kind("h100", 2), gang("j", 2, gpu=4))
    assert not state.snapshot().calendar.choosing
    state = cluster(kind("h100", 2), job("j", 2))
    assert state.snapshot().calendar.choosing == {("PodGroup", "ns/j")}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("h100", "'h100' is no label of nodes"),
        ("a=b*0", "must have a whole number from 1 to 64 behind the *"),
        ("a=b*half", "must have a whole number from 1 to 64 behind the *"),
        ("a=b, a=b", "a=b stands there twice"),
        ("a=b@fast", "must have a number above 0"),
        ("a=b@0", "must have a number above 0"),
        ("a=b@0.5*2", "must have the * before the @: write a=b*2@0.5"),
        ("a=b@*2", "must have the * before the @: write a=b*2"),
        (", ".join(f"a=b{at}" for at in range(9)), "9 kinds of nodes are too many, 8 at most"),
        ("a=b+a=c", "names label a twice"),
        ("a=b c", "is no label of nodes"),
    ],
)
def test_what_admission_refuses(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        kinds_of(text)


def test_a_list_that_cannot_be_read_binds_nobody() -> None:
    """Admission refuses it; what came in another way must not stop others, nor be held to half of what it says."""
    state = cluster(kind("h100", 1), kind("a100", 1), job("j", 2, "nonsense"), job("k", 1, created=1))
    assert len(on(schedule(state, default_config()))["j"]) == 2


TWICE = f"{KEY}=h100, {KEY}=a100*2, {KEY}=l40s"


def choosing(name: str, size: int, text: str = TWICE, *, made: str = "", gpu: int = 2, **given: Any) -> list[object]:
    """As a controller makes it: what the job says stands on its pods, too."""
    notes = {ONE_OF: text} | ({GOT: made} if made else {})
    return job(name, size, text, gpu=gpu, annotations=notes, **given)


def told(decisions: Decisions) -> dict[str, str]:
    return {update.name: update.notes[GOT] for update in decisions.pod_groups if GOT in update.notes}


def test_where_a_kind_takes_other_amounts_the_pods_are_made_again_for_it() -> None:
    """One node of the second kind holds what two pods ask for, and not what they take there."""
    state = cluster(kind("h100", 1, gpu=2), kind("a100", 1), kind("l40s", 1, gpu=2), choosing("j", 2))
    decisions = schedule(state, default_config())
    assert (placed(decisions), told(decisions)) == ({}, {})
    state = cluster(kind("h100", 1, gpu=2), kind("a100", 2), kind("l40s", 1, gpu=2), choosing("j", 2))
    decisions = schedule(state, default_config())
    assert placed(decisions) == {}
    assert told(decisions) == {"j": f"{KEY}=a100*2"}
    assert f"its pods find room on nodes of {KEY}=a100*2, and are made again to ask for the devices" in (
        decisions.verdicts["ns/j"].message
    )
    assert not decisions.violations


def test_places_are_kept_until_the_pods_are_there() -> None:
    state = cluster(kind("a100", 2), choosing("j", 2), gang("k", 1, gpu=1, created=5))
    for _ in range(2):
        decisions = schedule(state, default_config())
        assert placed(decisions) == {}
        assert told(decisions) == {"j": f"{KEY}=a100*2"}
    after = cluster(kind("a100", 2), choosing("j", 2, made=f"{KEY}=a100*2", gpu=4), gang("k", 1, gpu=1, created=5))
    decisions = schedule(after, default_config())
    assert on(decisions) == {"j": {"a100"}}
    assert {bind.annotations.get(GOT) for bind in decisions.binds} == {f"{KEY}=a100*2"}


def test_pods_that_were_made_for_a_kind_go_elsewhere_only_when_it_has_no_room() -> None:
    made = choosing("j", 2, made=f"{KEY}=a100*2", gpu=4)
    decisions = schedule(cluster(kind("h100", 2), kind("a100", 2), made), default_config())
    assert on(decisions) == {"j": {"a100"}}
    made = choosing("j", 2, made=f"{KEY}=a100*2", gpu=4)
    decisions = schedule(cluster(kind("h100", 2, gpu=2), kind("a100", 1), made), default_config())
    assert placed(decisions) == {}
    assert told(decisions) == {"j": f"{KEY}=h100"}


def test_what_a_queue_may_hold_counts_what_pods_take_there() -> None:
    for most, expected in ((8, {"j": f"{KEY}=a100*2"}), (7, {})):
        limited = queue("default", capability={"gpu": most})
        state = cluster(limited, kind("h100", 1, gpu=2), kind("a100", 2), choosing("j", 2))
        settings = config(("priority", "gang"), ("predicates", "capacity", "one-of"))
        assert told(schedule(state, settings)) == expected


def test_nobody_is_evicted_for_a_kind_for_which_pods_would_have_to_be_made_again() -> None:
    settings = config(("priority", "gang"), ("predicates", "one-of"), actions="enqueue, allocate, preempt")
    wanted = choosing("j", 2, priority_class="high", priority=9)
    decisions = schedule(cluster(kind("a100", 2), low(["a100-0", "a100-1"]), wanted), settings)
    assert decisions.evictions == []


def test_prices_count_what_pods_take_there() -> None:
    """1.5 for one card, twice that for two."""
    for text, expected in (
        (f"{KEY}=h100, {KEY}=l40s*2", {"j": f"{KEY}=l40s*2"}),
        (f"{KEY}=h100, {KEY}=l40s*3", {}),
    ):
        state = cluster(kind("h100", 2), kind("l40s", 2, gpu=6), choosing("j", 2, text, by="price"), PRICES)
        assert told(schedule(state, default_config())) == (expected or {"j": f"{KEY}=h100"})


def test_places_are_not_kept_for_ever_for_pods_that_nobody_makes_again() -> None:
    state = cluster(kind("a100", 2), choosing("j", 2), gang("k", 1, gpu=1, created=5))
    for seconds, expected in ((0.0, {}), (60.0, {}), (61.0, {"k-w-0": "a100-0"}), (300.0, {"k-w-0": "a100-0"})):
        assert placed(schedule(state, default_config(), now=START + 1000.0 + seconds)) == expected, seconds


def test_the_verdict_counts_what_pods_take_on_each_kind() -> None:
    state = cluster(kind("a100", 1), choosing("j", 2, f"{KEY}=h100, {KEY}=a100*2"))
    message = schedule(state, default_config()).verdicts["ns/j"].message
    assert f"{KEY}=a100*2: 1 of 2 pods find room on 1 node (too little nvidia.com/gpu)" in message


HIGH = {"priority_class": "high", "priority": 9}
MADE_AGAIN = "no pod is evicted for it, as its pods would have to be made again"


def test_a_list_of_one_kind_means_its_amounts_too() -> None:
    """Pods that would never fit with them are not made for it, and nobody takes the places that fitting ones get."""
    for gpu, expected in ((4, {"j": f"{KEY}=a100*2"}), (5, {})):
        state = cluster(kind("a100", 2, gpu=8), choosing("j", 2, f"{KEY}=a100*2", gpu=gpu))
        decisions = schedule(state, default_config())
        assert (placed(decisions), told(decisions)) == ({}, expected)
    state = cluster(kind("a100", 1), choosing("j", 1, f"{KEY}=a100*2"), gang("k", 1, gpu=1, created=5))
    for seconds, others in ((0.0, {}), (61.0, {"k-w-0": "a100-0"})):
        decisions = schedule(state, default_config(), now=START + 1000.0 + seconds)
        assert placed(decisions) == others, seconds
    assert told(decisions) == {}


def test_pods_without_devices_need_not_be_made_again() -> None:
    state = cluster(kind("a100", 2), choosing("j", 2, f"{KEY}=a100*2", gpu=0, cpu=1))
    assert on(schedule(state, default_config())) == {"j": {"a100"}}


@pytest.mark.parametrize(
    ("text", "amount", "message"),
    [
        (
            f"{KEY}=a100*4",
            12_000,
            "has capability nvidia.com/gpu 4, none of it is in use; nvidia.com/gpu 16 is asked for",
        ),
        (
            f"{KEY}=h100, {KEY}=a100*4",
            12_000,
            f"{KEY}=a100*4: queue q has capability nvidia.com/gpu 4, none of it is in use; nvidia.com/gpu 16 is asked",
        ),
    ],
)
def test_limits_are_told_with_what_pods_take_there(text: str, amount: int, message: str) -> None:
    """And the capability is raised by what is missing, not by what the template's amounts would be on top."""
    limited = queue("q", capability={"nvidia.com/gpu": 4})
    there = [kind("a100", 2, gpu=8), kind("h100", 1, gpu=1)]
    verdict = schedule(cluster(there, limited, choosing("j", 2, text, queue="q")), default_config()).verdicts["ns/j"]
    assert message in verdict.message
    raised = [each for each in verdict.changes if isinstance(each, RaiseCapability)]
    assert [dict(each.amounts) for each in raised] == ([{"nvidia.com/gpu": amount}] if amount else [])


def test_a_pod_that_is_too_large_for_a_kind_is_told_with_what_it_takes_there() -> None:
    state = cluster(kind("a100", 2, gpu=8), node("big", cpu=8, gpu=32), choosing("j", 2, f"{KEY}=a100*8"))
    message = schedule(state, default_config()).verdicts["ns/j"].message
    assert "each of 2 pods asks for nvidia.com/gpu 16, and the largest node (a100-0) has nvidia.com/gpu 8" in message


def test_what_is_free_and_who_holds_it_are_of_the_kind_that_is_told() -> None:
    names = [f"{name}-{at}" for name in ("h100", "a100", "l40s") for at in range(2)]
    of = {"h100": "big", "a100": "middle", "l40s": "other"}
    held = [pod(f"{of[name[:4]]}-{name}", of[name[:4]], node=name, gpu=2) for name in names]
    heads = [group(name, 1, phase="Running") for name in of.values()]
    waits = job("j", 2, f"{KEY}=h100, {KEY}=a100", gpu=3)
    state = cluster(*(kind(name, 2) for name in of), node("free", cpu=8, gpu=1), heads, held, waits)
    message = schedule(state, default_config()).verdicts["ns/j"].message.partition("; one kind of nodes")[0]
    assert f"on nodes of {KEY}=h100, nvidia.com/gpu 6 is asked for, and nvidia.com/gpu 4 of 8 is free" in message
    assert "ns/big holds nvidia.com/gpu 4" in message
    assert "middle" not in message
    assert "other" not in message
    assert "could hold such a pod" not in message


@pytest.mark.parametrize("text", [f"{KEY}=h100, {KEY}=a100", f"{KEY}=h100"])
def test_a_selector_that_leaves_out_every_kind_is_named(text: str) -> None:
    there = [kind("h100", 2, zone="a"), kind("a100", 2, zone="a"), node("x", cpu=64, gpu=8, labels={"zone": "b"})]
    message = (
        schedule(cluster(there, job("j", 2, text, selector={"zone": "b"})), default_config()).verdicts["ns/j"].message
    )
    assert message.endswith("no node of a kind that it names is one that its node selector and node affinity allow")


def test_a_selector_that_leaves_out_one_kind_is_named_there() -> None:
    there = [kind("h100", 2, zone="a"), kind("a100", 1, zone="b")]
    state = cluster(there, job("j", 2, f"{KEY}=h100, {KEY}=a100", selector={"zone": "b"}))
    message = schedule(state, default_config()).verdicts["ns/j"].message
    assert (
        f"{KEY}=h100: there is no such node that its node selector and node affinity allow; {KEY}=a100: 1 of 2"
        in message
    )


@pytest.mark.parametrize("text", [f"{KEY}=h100, {KEY}=a100*2", f"{KEY}=a100*2"])
@pytest.mark.parametrize("evicts", [True, False])
def test_it_is_told_that_nobody_is_evicted_for_other_amounts(text: str, *, evicts: bool) -> None:
    actions = "enqueue, allocate, preempt" if evicts else "enqueue, allocate"
    settings = config(("priority", "gang"), ("predicates", "one-of"), actions=actions)
    state = cluster(kind("a100", 1), low(["a100-0"]), choosing("j", 1, text, **HIGH))
    decisions = schedule(state, settings)
    assert decisions.evictions == []
    assert (MADE_AGAIN in decisions.verdicts["ns/j"].message) is evicts


def test_pods_that_nobody_makes_again_are_told() -> None:
    state = cluster(kind("a100", 1), choosing("j", 1, f"{KEY}=h100, {KEY}=a100*2"))
    for seconds in (0.0, 61.0):
        decisions = schedule(state, default_config(), now=START + 1000.0 + seconds)
    assert f"its pods should have been made again for {KEY}=a100*2 within 60 s, and were not" in (
        decisions.verdicts["ns/j"].message
    )


def test_a_gang_without_pods_is_told_of_its_minimum() -> None:
    decisions = schedule(cluster(kind("a100", 1), group("j", 2, phase="Inqueue")), default_config())
    messages = [condition.message for update in decisions.pod_groups for condition in update.conditions]
    assert any("2/2 tasks in gang unschedulable" in message for message in messages), messages


def test_pods_on_nodes_of_another_kind_are_never_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariant holds whatever becomes of the filter."""
    monkeypatch.setattr(OneOfPlugin, "filter", lambda self, pod_class, nodes: ())
    decisions = schedule(cluster(kind("h100", 1), kind("a100", 1), job("j", 2)), default_config())
    assert placed(decisions) == {}
    assert [each.message for each in decisions.violations] == [
        f"its pods would be bound to nodes that are not of {KEY}=h100"
    ]


def test_a_gang_whose_kinds_cannot_be_had_says_nothing_of_others_like_it() -> None:
    """Both have the same shape: what they may take stands on their PodGroups alone."""
    settings = config(("priority", "gang"), ("predicates", "one-of"), actions="enqueue, allocate, preempt")
    given = {"priority_class": "high", "priority": 9}
    first, second = job("a", 2, f"{KEY}=gone, {KEY}=away", **given), gang("b", 2, gpu=4, created=5, **given)
    decisions = schedule(cluster(kind("h100", 2), low(["h100-0", "h100-1"]), first, second), settings)
    assert len(decisions.evictions) == 2
    assert {each.pod.partition("-")[0] for each in decisions.pipelined} == {"b"}


def test_one_more_kind_is_offered_where_pods_take_other_amounts_too() -> None:
    """And not where it would not help: of the kind that takes twice as many there is too little."""
    text = f"{KEY}=h100, {KEY}=a100*2"
    for number, offered in ((2, True), (1, False)):
        state = cluster(kind("a100", 1), kind("b200", number, gpu=2), choosing("j", 2, text))
        verdict = schedule(state, default_config()).verdicts["ns/j"]
        assert (f'annotate its pods with {ONE_OF}: "{text}, {KEY}=b200"' in verdict.suggestion) is offered


def test_a_gang_waits_for_places_that_are_about_to_be_free_on_an_earlier_kind() -> None:
    leaving = [pod(f"x{at}", node=f"h100-{at}", gpu=4, deleting=True, scheduler="other") for at in range(2)]
    decisions = schedule(cluster(kind("h100", 2), kind("a100", 2), leaving, job("j", 2)), default_config())
    assert placed(decisions) == {}
    assert {each.node for each in decisions.pipelined} == {"h100-0", "h100-1"}
