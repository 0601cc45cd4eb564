"""What a job or a queue does not let go: all its pods, or those that its gang needs, whoever asks for the room."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import BOTH, OFF, PREEMPT, RECLAIM, Plane, running_pods, settings

from support.build import gang, group, node, priority_class, queue
from unisono.api.annotations import EVICTABLE
from unisono.api.queues import evictable_of, level_at, quotas_of

GANGS = settings("enqueue, allocate, gangpreempt, gangreclaim, backfill", gang=OFF, drf=OFF)


def held(
    *, config: Any, core: int, note: str = "", of_queue: str = "", same_queue: bool = False, wants: int = 2
) -> Plane:
    """``old`` holds all four places, ``core`` of them as its minimum, when ``new`` comes, which may take from it."""
    own = {EVICTABLE: note} if note else {}
    notes = {EVICTABLE: of_queue} if of_queue else {}
    things = [node("n1", cpu=2), node("n2", cpu=2), queue("a", 1, annotations=notes), queue("b", 3)]
    things += [priority_class("low", 5), priority_class("high", 1000)]
    old = group("old", core, queue="a", phase="Running", priority_class="low", annotations=own)
    things += [old, *running_pods("old", ["n1", "n1", "n2", "n2"])]
    to = "a" if same_queue else "b"
    return Plane(config, *things, gang("new", wants, queue=to, priority_class="high", min_resources=True))


ACTIONS = [(RECLAIM, False), (PREEMPT, True), (BOTH, False), (GANGS, False), (GANGS, True)]
NAMES = ["reclaim", "preempt", "both", "gangreclaim", "gangpreempt"]


@pytest.mark.parametrize(("config", "same"), ACTIONS, ids=NAMES)
@pytest.mark.parametrize("of_queue", [False, True], ids=["job", "queue"])
def test_the_core_stays_and_the_surplus_may_go(config: Any, same: bool, of_queue: bool) -> None:
    said = {"of_queue": "surplus"} if of_queue else {"note": "surplus"}
    plane = held(config=config, core=2, same_queue=same, **said)  # type: ignore[arg-type]
    plane.settle(20)
    assert plane.running() == {"old": 2, "new": 2}
    larger = held(config=config, core=2, same_queue=same, wants=3, **said)  # type: ignore[arg-type]
    larger.settle(20)
    assert larger.running() == {"old": 4}, "nobody goes for a gang that needs one of the core"


@pytest.mark.parametrize(("config", "same"), ACTIONS, ids=NAMES)
def test_without_a_word_a_gang_may_go_whole_and_with_none_nothing_goes(config: Any, same: bool) -> None:
    plane = held(config=config, core=4, same_queue=same)
    plane.settle(20)
    assert plane.running().get("new") == 2
    for said in ({"note": "none"}, {"note": "surplus"}, {"of_queue": "none"}):
        kept = held(config=config, core=4, same_queue=same, **said)  # type: ignore[arg-type]
        kept.settle(20)
        assert kept.running() == {"old": 4}, said


@pytest.mark.parametrize(
    ("of_queue", "note", "stays"),
    [
        ("surplus,100=none", "", False),
        ("5=none", "", True),
        ("none,5=all", "", False),
        ("all", "none", False),
        ("all", "surplus", False),
        ("none", "all", False),
        ("none", "surplus", False),
        ("none", "nonsense", True),
        ("nonsense", "none", True),
        ("nonsense", "", False),
        ("", "nonsense", False),
    ],
)
def test_jobs_keep_no_more_than_their_queue_says_for_their_priority(of_queue: str, note: str, stays: bool) -> None:
    plane = held(config=RECLAIM, core=0, of_queue=of_queue, note=note)
    plane.settle(20)
    assert (plane.running().get("new", 0) == 0) is stays


def test_what_a_queue_above_says_counts_below_it() -> None:
    plane = held(config=RECLAIM, core=0)
    plane.put(queue("above", annotations={EVICTABLE: "none"}))
    plane.put(queue("a", 1, parent="above"))
    plane.settle(20)
    assert plane.running() == {"old": 4}


@pytest.mark.parametrize(("above", "parent"), [("above", "above"), ("root", "root"), ("root", "")])
def test_nobody_keeps_places_of_others_against_a_queue_above(above: str, parent: str) -> None:
    plane = held(config=RECLAIM, core=0, note="none")
    plane.put(queue(above, annotations={EVICTABLE: "all"}))
    plane.put(queue("a", 1, parent=parent))
    plane.settle(20)
    assert plane.running().get("new") == 2


def test_a_gang_that_lost_a_member_keeps_the_others() -> None:
    things = [node("n1", cpu=3), queue("a", 1), queue("b", 3)]
    broken = group("old", 4, queue="a", phase="Running", annotations={EVICTABLE: "surplus"})
    plane = Plane(RECLAIM, *things, broken, *running_pods("old", ["n1"] * 3), gang("new", 1, queue="b"))
    plane.settle(10)
    assert plane.running() == {"old": 3}


def test_the_verdict_says_who_keeps_them() -> None:
    plane = held(config=RECLAIM, core=4, of_queue="surplus")
    message = plane.cycle().verdicts["ns/new"].message
    assert "queue a lets" in message and f"no pods that its gang needs (4) (annotation {EVICTABLE})" in message


@pytest.mark.parametrize(
    "text", ["some", "10=", "x=none", "1=all,1=none", "all,none", "1.5=all", "1e3=none", "\u0663=none", "nan=none"]
)
def test_levels_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be all, surplus or none|the same priority"):
        evictable_of(text)


def test_queues_say_a_bounded_number_of_things() -> None:
    with pytest.raises(ValueError, match="at most 100"):
        evictable_of(",".join(f"{number}=none" for number in range(101)))
    with pytest.raises(ValueError, match="at most 100"):
        quotas_of(",".join(f"deserved.r{number}=1%" for number in range(101)))


def test_levels_by_priority() -> None:
    bands = evictable_of(" surplus, 1000=none ,-5=all")
    assert [level_at(bands, priority) for priority in (-10, -5, 999, 1000)] == ["surplus", "all", "all", "none"]
    assert level_at([], 7) == "all"
