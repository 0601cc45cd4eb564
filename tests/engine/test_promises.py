"""What admitted gangs are promised keeps others from room only as long as their owners may still use it."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import Plane, settings

from support.build import (
    START,
    cluster,
    config,
    flatten,
    gang,
    group,
    node,
    pod,
    priority_class,
    queue,
    quota,
    schedule,
)
from unisono.api.annotations import DISPATCH, GANG_PARTS, ORIGIN_UID, USER, USER_LIMITS
from unisono.api.core import PodCondition
from unisono.cluster.promises import owner_of
from unisono.engine.verdict import Cause

SHARING = ["proportion", "capacity"]


def plane(quota: str, *hog: Any) -> Plane:
    """A gang was promised most of the cluster; another one that needs half of it waits behind it."""
    wants = gang("next", 4, phase="Pending", cpu=1, min_resources=True, created=50)
    return Plane(settings("enqueue, allocate, backfill", quota=quota), node("n1", cpu=8), hog, wants)


def hog(phase: str = "Inqueue") -> Any:
    return group("hog", 7, phase=phase, resources={"cpu": 7})


@pytest.mark.parametrize("quota", SHARING)
def test_the_promise_of_a_gang_whose_pods_do_not_come_lapses(quota: str) -> None:
    it = plane(quota, hog())
    for _ in range(3):
        assert it.cycle().binds == []
        it.now += 1.5
    it.now += 1.0
    it.settle()
    assert it.running() == {"next": 4}
    for at in range(7):  # they come after all, and the gang has not lost its admission
        it.put(pod(f"hog-{at}", "hog", cpu=1))
    for at in range(4):
        it.drop(f"ns/next-w-{at}")
    it.settle()
    assert it.running() == {"hog": 7}


@pytest.mark.parametrize("quota", SHARING)
def test_a_driver_is_let_in_by_what_it_makes_later_where_no_share_claims_that(quota: str) -> None:
    """Shares are divided by what pods ask for, and the driver's executors ask for nothing yet."""
    stuck = [group("stuck", 1, queue="q2", resources={"cpu": 9}), pod("stuck-0", "stuck", cpu=1, selector={"no": "x"})]
    driver = [group("driver", 1, phase="Pending", resources={"cpu": 4}, created=50), pod("driver-0", "driver", cpu=1)]
    it = Plane(settings("enqueue, allocate, backfill", quota=quota), queue("q2"), node("n1", cpu=8), stuck, driver)
    for _ in range(3):
        it.now += 1.0
        it.cycle()
    assert it.running() == {"driver": 1}


@pytest.mark.parametrize("quota", SHARING)
def test_after_a_restart_a_gang_that_has_had_its_chance_holds_nobody_up(quota: str) -> None:
    """Nothing is remembered of it, but its pods were told that they find no place."""
    it = plane(quota, hog(), [pod(f"hog-{at}", "hog", cpu=1, selector={"zone": "later"}) for at in range(7)])
    for told in it.cycle().pod_conditions:
        said = PodCondition(type="PodScheduled", status="False", reason=told.reason, message=told.message)
        it.objects["Pod", f"{told.namespace}/{told.pod}"].status.conditions = [said]  # type: ignore[attr-defined]
    assert it.running() == {}
    again = Plane(it.config, *it.objects.values())
    again.now = it.now + 1.0
    again.cycle()
    assert again.running() == {"next": 4}


def test_a_queue_that_holds_all_that_it_may_is_the_reason_and_not_what_is_promised_in_others() -> None:
    stuck = [group("stuck", 1, queue="q2", resources={"cpu": 9}), pod("stuck-0", "stuck", cpu=1, selector={"no": "x"})]
    full = [
        queue("q", capability={"cpu": 1}),
        queue("q2"),
        gang("old", 1, cpu=1, queue="q", node="n1", phase="Running"),
    ]
    wants = gang("next", 1, phase="Pending", cpu=1, min_resources=True, queue="q", created=50)
    it = Plane(settings("enqueue, allocate, backfill"), node("n1", cpu=8), full, stuck, wants)
    for _ in range(2):
        it.now += 1.0
        decisions = it.cycle()
    assert decisions.verdicts["ns/next"].cause is Cause.OVER_CAPABILITY


def test_a_job_of_higher_priority_is_let_in_before_one_like_it_that_waits() -> None:
    """When room comes, it is the first to have it."""
    ranks = [priority_class("high", 9)]
    held = [gang("old", 1, cpu=8, node="n1", phase="Running")]
    low = gang("low", 1, cpu=8, min_resources=True, created=1)
    it = Plane(settings("enqueue, allocate, backfill"), node("n1", cpu=8), ranks, held, low)
    it.cycle()
    high = gang("high", 1, phase="Pending", cpu=8, min_resources=True, priority_class="high", created=50)
    for thing in flatten([high]):
        it.put(thing)
    it.now += 1.0
    it.cycle()
    it.drop("ns/old-w-0")
    for _ in range(3):
        it.now += 1.0
        it.cycle()
    assert it.running() == {"high": 1}


@pytest.mark.parametrize("quota", SHARING)
def test_a_higher_priority_is_let_in_for_what_lower_ones_of_its_queue_wait_for(quota: str) -> None:
    """Not like any of them, and no more is promised to those above than to those below."""
    ranks = [priority_class("high", 9)]
    held = [gang("old", 1, cpu=8, node="n1", phase="Running")]
    low = gang("low", 1, cpu=7, min_resources=True, created=1)
    wants = {"phase": "Pending", "cpu": 5, "min_resources": True}
    high = [gang(f"high-{at}", 1, priority_class="high", created=50 + at, **wants) for at in range(2)]
    equal = gang("equal", 1, created=40, **wants)
    it = Plane(settings("enqueue, allocate, backfill", quota=quota), node("n1", cpu=8), ranks, held, low, high, equal)
    for _ in range(3):
        it.now += 1.0
        it.cycle()
    phases = {name: it.objects["PodGroup", f"ns/{name}"].status.phase for name in ("high-0", "high-1", "equal")}
    assert phases == {"high-0": "Inqueue", "high-1": "Pending", "equal": "Pending"}
    it.drop("ns/old-w-0")
    it.now += 1.0
    it.cycle()
    assert it.running() == {"high-0": 1}


def test_the_share_of_its_queue_is_the_reason_and_not_what_is_promised_in_vain() -> None:
    queues = [queue("q"), queue("q2")]
    old = gang("old", 1, cpu=4, queue="q", node="n1", phase="Running")
    stuck = [group("stuck", 1, queue="q2", resources={"cpu": 6}), pod("stuck-0", "stuck", cpu=6)]
    wants = gang("next", 1, phase="Pending", cpu=2, min_resources=True, queue="q", created=50)
    it = Plane(settings("enqueue, allocate, backfill"), node("n1", cpu=8), queues, old, stuck, wants)
    for _ in range(2):
        it.now += 1.0
        decisions = it.cycle()
    verdict = decisions.verdicts["ns/next"]
    assert (verdict.cause, verdict.message) == (
        Cause.OVER_SHARE,
        "queue q may hold cpu 4 and holds cpu 4; cpu 2 more is asked for",
    )


@pytest.mark.parametrize("quota", SHARING)
def test_each_pod_that_comes_gives_the_gang_its_time_again(quota: str) -> None:
    it = plane(quota, hog())
    for at in range(2):
        it.put(pod(f"hog-{at}", "hog", cpu=1))
        assert it.cycle().binds == []
        it.now += 4.0
    assert it.cycle().binds == []
    it.now += 5.0
    it.settle()
    assert it.running() == {"next": 4}


@pytest.mark.parametrize("quota", SHARING)
def test_what_is_free_goes_to_those_that_fit_once_the_gang_has_been_tried(quota: str) -> None:
    pods = [pod(f"hog-{at}", "hog", cpu=1) for at in range(7)]
    it = plane(quota, hog(), pods, gang("old", 2, cpu=1, node="n1"))
    assert it.cycle().binds == []
    it.now += 1.0
    it.settle()
    assert it.running() == {"old": 2, "next": 4}
    for name, number in (("old", 2), ("next", 4)):  # the gang has not lost its turn
        for at in range(number):
            it.drop(f"ns/{name}-w-{at}")
    it.settle()
    assert it.running() == {"hog": 7}


@pytest.mark.parametrize("quota", SHARING)
def test_all_that_fit_are_let_in_together_and_none_like_one_that_waits_in_vain(quota: str) -> None:
    pods = [pod(f"hog-{at}", "hog", cpu=2) for at in range(7)]
    small = [gang(f"s{n}", 2, phase="Pending", cpu=1, min_resources=True, created=60 + n) for n in range(6)]
    wide = [gang(f"w{n}", 1, phase="Pending", cpu=5, min_resources=True, created=70 + n) for n in range(3)]
    nodes = [node("n1", cpu=4), node("n2", cpu=4)]
    configured = settings("enqueue, allocate, backfill", quota=quota)
    it = Plane(configured, *nodes, group("hog", 7, phase="Inqueue", resources={"cpu": 14}), pods, small, wide)
    assert it.cycle().binds == []
    it.now += 1.0
    decisions = it.cycle()
    admitted = {one.name for one in decisions.pod_groups if one.phase == "Inqueue" and one.name != "hog"}
    assert admitted == {"s0", "s1", "s2", "s3", "w0"}
    it.now += 1.0
    it.settle()
    assert it.running() == {"s0": 2, "s1": 2, "s2": 2, "s3": 2}


@pytest.mark.parametrize("quota", SHARING)
def test_a_gang_whose_pods_will_ask_for_other_nodes_is_not_refused_with_those_like_it(quota: str) -> None:
    """One like it waits in vain for nodes that are not there, and another one behind the gate for that."""

    def asks(name: str, phase: str, created: float, parts: str) -> Any:
        notes = {GANG_PARTS: parts}
        return group(name, 1, phase=phase, resources={"cpu": 1}, created=created, annotations=notes)

    gone = [asks("vain", "Inqueue", 1, "[]"), pod("vain-0", "vain", cpu=1, selector={"zone": "gone"})]
    waiting = [asks("like", "Pending", 60, "[]"), asks("other", "Pending", 61, "[] ")]
    held = [group("hog", 9, phase="Inqueue", resources={"cpu": 18}), [pod(f"hog-{n}", "hog", cpu=2) for n in range(9)]]
    configured = settings("enqueue, allocate, backfill", quota=quota)
    it = Plane(configured, node("n1", cpu=4), node("n2", cpu=4), *held, *gone, *waiting)
    it.cycle()
    it.now += 1.0
    decisions = it.cycle()
    assert {one.name for one in decisions.pod_groups if one.phase == "Inqueue"} - {"hog", "vain"} == {"other"}


@pytest.mark.parametrize("quota", SHARING)
@pytest.mark.parametrize("wish", [{"selector": {"zone": "later"}}, {"cpu": 9}])
def test_a_gang_that_fits_nowhere_keeps_nobody_from_admission(quota: str, wish: dict[str, Any]) -> None:
    asked = {"cpu": 1, **wish}
    it = plane(quota, hog(), [pod(f"hog-{at}", "hog", **asked) for at in range(7)])
    assert it.cycle().binds == []
    it.now += 1.0
    it.settle()
    assert it.running() == {"next": 4}
    if "selector" not in wish:
        return
    it.put(node("n2", cpu=8, labels={"zone": "later"}))  # it has not lost its admission
    it.settle()
    assert it.running() == {"next": 4, "hog": 7}


@pytest.mark.parametrize("quota", SHARING)
def test_a_gang_of_which_one_pod_fits_nowhere_keeps_nobody_from_admission(quota: str) -> None:
    pods = [pod(f"hog-{at}", "hog", cpu=1) for at in range(6)]
    it = plane(quota, hog(), pods, pod("hog-6", "hog", cpu=1, selector={"zone": "later"}))
    assert it.cycle().binds == []
    it.now += 1.0
    it.settle()
    assert it.running() == {"next": 4}


@pytest.mark.parametrize("quota", SHARING)
@pytest.mark.parametrize("pods", [7, 0])
def test_a_gang_has_had_its_chance_in_the_cycle_that_admits_it(quota: str, pods: int) -> None:
    """Its pods are there and fit nowhere, or they are waited for from then on."""
    made = [pod(f"hog-{at}", "hog", cpu=1, selector={"zone": "later"}) for at in range(pods)]
    it = plane(quota, hog("Pending"), made)
    it.cycle()
    it.now += 6.0
    it.cycle()
    assert it.running() == {"next": 4}


def test_many_gangs_that_fit_nowhere_hold_nobody_up() -> None:
    hogs = [[group(f"hog{n}", 7, phase="Pending", resources={"cpu": 7}, created=n) for n in range(10)]]
    it = plane("proportion", hogs)
    for _ in range(4):
        it.now += 3.0
        decisions = it.cycle()
        admitted = [one.name for one in decisions.pod_groups if one.phase == "Inqueue" and one.name.startswith("hog")]
        for name in admitted:  # their pods come once they are admitted
            for at in range(7):
                key = ("Pod", f"ns/{name}-{at}")
                if key not in it.objects:
                    it.put(pod(f"{name}-{at}", name, cpu=1, selector={"zone": "later"}))
    assert it.running() == {"next": 4}


@pytest.mark.parametrize("quota", SHARING)
def test_a_gang_that_waits_for_other_nodes_keeps_none_like_it_in_size_from_its_own(quota: str) -> None:
    """Controllers say what the pods of a gang will ask for, so it is known before there are any."""
    nodes = [node("h", cpu=8, labels={"card": "h100"}), node("a", cpu=8, labels={"card": "a100"})]
    rest = group("rest", 2, phase="Inqueue", resources={"cpu": 16})
    jobs = [
        gang(f"h{n}", 4, phase="Pending", cpu=1, min_resources=True, selector={"card": "h100"}, created=n)
        for n in range(4)
    ]
    jobs.append(gang("a0", 4, phase="Pending", cpu=1, min_resources=True, selector={"card": "a100"}, created=9))
    for objects in jobs:
        objects[0].metadata.annotations = {GANG_PARTS: objects[0].metadata.name[0]}
    pods = [pod(f"rest-{at}", "rest", cpu=1, selector={"card": "none"}) for at in range(2)]
    configured = settings("enqueue, allocate, backfill", quota=quota)
    it = Plane(configured, *nodes, gang("old", 6, cpu=1, node="h"), rest, pods, jobs)
    for _ in range(4):
        it.settle()
        it.now += 1.0
    assert it.running() == {"old": 6, "a0": 4}


def of_user(name: str, limits: str, *jobs: Any) -> Plane:
    """Jobs of one user in a queue with limits, on a node that has room for all of them."""
    configured = settings("enqueue, allocate, backfill", quota="proportion\n  - name: user-limits")
    for objects in jobs:
        objects[0].metadata.annotations = {USER: name}
    return Plane(configured, queue("q", annotations={USER_LIMITS: limits}), node("n1", cpu=32), jobs)


def test_no_two_jobs_of_a_user_are_admitted_that_go_beyond_a_limit_together() -> None:
    jobs = [gang(f"j{n}", 8, queue="q", phase="Pending", cpu=1, min_resources=True, created=n) for n in range(2)]
    it = of_user("ann", "cpu=12", *jobs)
    decisions = it.cycle()
    assert [one.name for one in decisions.pod_groups if one.phase in ("Inqueue", "Running")] == ["j0"]
    it.settle()
    assert it.running() == {"j0": 8}


def test_what_equal_jobs_of_two_users_were_promised_counts_for_each_of_them() -> None:
    admitted = [
        gang(f"{user}-1", 8, queue="q", cpu=1, min_resources=True, selector={"no": "x"}) for user in ("ann", "bob")
    ]
    more = [gang(f"{user}-2", 4, queue="q", phase="Pending", cpu=1, min_resources=True) for user in ("ann", "bob")]
    for objects in (*admitted, *more):
        objects[0].metadata.annotations = {USER: objects[0].metadata.name[:3]}
    configured = settings("enqueue, allocate, backfill", quota="proportion\n  - name: user-limits")
    it = Plane(configured, queue("q", annotations={USER_LIMITS: "cpu=8"}), node("n1", cpu=32), admitted, more)
    decisions = it.cycle()
    assert not [one.name for one in decisions.pod_groups if one.name in ("ann-2", "bob-2") and one.phase != "Pending"]


def test_pods_that_request_nothing_count_for_a_limit_on_pods() -> None:
    jobs = [gang(f"j{n}", 3, queue="q", cpu=0, created=n) for n in range(2)]
    it = of_user("ann", "pods=4", *jobs)
    it.settle()
    assert it.running() == {"j0": 3}


@pytest.mark.parametrize(
    ("plugin", "limit"),
    [
        ("resourcequota", quota("team", cpu=4)),
        ("resourcequota", quota("team", pods=4)),
        ("user-limits", queue("default", annotations={USER_LIMITS: "cpu=4"})),
        ("user-limits", queue("default", annotations={USER_LIMITS: "pods=4,cpu=4"})),
    ],
    ids=["quota of cpu", "quota of pods", "a user's cpu", "a user's cpu and pods"],
)
@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_room_that_is_kept_for_a_part_counts_once_and_never_against_the_part(
    plugin: str, limit: Any, phase: str
) -> None:
    """A hub has room kept for three pods: beside it the limit has room for one more, and the part itself gets in."""
    labels = {ORIGIN_UID: "u", DISPATCH: "1"}
    others = [group(name, 1, phase="Pending", resources={"cpu": 1}, created=at) for at, name in enumerate("ab")]
    part = group("part", 3, phase=phase, resources={"cpu": 3}, created=99)
    part.metadata.labels = labels
    for each in (part, *others):
        each.metadata.annotations = {USER: "ann"}
    state = cluster([node("n1", cpu=8), limit, *others, part])
    stands = [pod(f"part-{at} (held)", node="n1", phase="Pending", cpu=1, scheduler="unisono-hub") for at in range(3)]
    state.promise("u.1", owner_of("ns", labels), START + 9999, stands)
    decisions = schedule(state, config(("priority", "gang", plugin), ("predicates", "nodeorder")))
    admitted = {update.name for update in decisions.pod_groups if update.phase != "Pending"}
    assert admitted | {"part"} == {"a", "part"}
    assert phase == "Inqueue" or "part" in admitted
