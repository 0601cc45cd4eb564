"""Ways out beside the cause that a verdict names: other limits, queues that give back, who comes first."""

from __future__ import annotations

from typing import Any

import pytest
from topology_world import TOPOLOGY, policy, racks, spine, wish
from topology_world import job as job_with
from verdict_world import Objects

from support.build import GANG, config, flatten, gang, group, node, pod, priority_class, queue, schedule
from unisono.api.annotations import USER_LIMITS
from unisono.engine import changes as c
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.verdict import Cause, Verdict

CAPACITY = config(("priority", "gang"), ("predicates", "capacity", "nodeorder"))
USERS = config(("priority", "gang", "user-limits"), ("predicates", "nodeorder"), actions="enqueue, allocate, backfill")
RECLAIMING = config(
    ("priority", "gang"), ("predicates", "capacity", "nodeorder"), actions="enqueue, allocate, reclaim, backfill"
)
PREEMPTING = config(
    ("priority", "gang", "conformance"), ("predicates", "nodeorder"), actions="enqueue, allocate, preempt, backfill"
)
TAINT = [("team", "a", "NoSchedule")]


def explained(job: str, settings: SchedulerConfig, *things: Any) -> Verdict:
    """The verdict; every change that it offers starts the job in the next cycles."""
    objects = flatten(things)
    decisions = schedule(Objects(objects).state(), settings)
    verdict = decisions.verdicts[job]
    for change in verdict.changes:
        world = Objects(objects)
        world.carry_out(decisions)
        world.make(change, job)
        assert any(_bound(world, job, settings) for _ in range(3)), change
    return verdict


def chain(job: str, settings: SchedulerConfig, *things: Any) -> list[c.Change]:
    """The first chain of offered changes after which the job starts: one is made, then the verdict is asked again."""
    todo: list[list[c.Change]] = [[]]
    while todo:
        done = todo.pop()
        world = Objects(flatten(things))
        for change in done:
            world.make(change, job)
        decisions = schedule(world.state(), settings)
        if any(_bound(world, job, settings) for _ in range(3)):
            return done
        verdict = decisions.verdicts[job]
        offered = [*verdict.changes, *verdict.candidates] if len(done) < 3 else []
        offered.sort(key=lambda one: isinstance(one, c.LowerMinAvailable))
        todo += [[*done, one] for one in reversed(offered)]
    return []


def _bound(world: Objects, job: str, settings: SchedulerConfig) -> bool:
    decisions = schedule(world.state(), settings)
    world.carry_out(decisions)
    for one in [key for key, each in world.all.items() if key[0] == "Pod" and each.metadata.deletion_timestamp]:
        del world.all[one]
    own = {each.key for each in world.pods(job)}
    return any(f"{bind.namespace}/{bind.pod}" in own for bind in decisions.binds)


def test_a_capability_above_the_queue_and_a_taint_are_overcome_together() -> None:
    queues = [queue("org", capability={"cpu": 4}), queue("lab", parent="org")]
    job = gang("j", 2, queue="lab", cpu=4)
    things = (node("a", cpu=8, taints=TAINT), queues, job)
    assert "taint team=a" in explained("ns/j", CAPACITY, *things).message
    both = [c.AddToleration("team", "a", "NoSchedule"), c.RaiseCapability("org", {"cpu": 4000})]
    assert chain("ns/j", CAPACITY, *things) == both


def test_a_closed_queue_with_too_small_a_capability_is_opened_and_raised() -> None:
    closed = queue("q", state="Closed", capability={"cpu": 1})
    things = (node("a", cpu=8), closed, gang("j", 2, queue="q", cpu=2))
    assert chain("ns/j", CAPACITY, *things) == [c.OpenQueue("q"), c.RaiseCapability("q", {"cpu": 3000})]


def test_a_bound_of_the_topology_and_a_capability_are_overcome_together() -> None:
    limited = queue("q", capability={"cpu": 4})
    hard = job_with("j", 3, wish(1))
    hard[0].spec.queue = "q"
    things = (racks({"r": 2, "s": 2}), spine("all", "r", "s"), limited, hard)
    assert chain("ns/j", TOPOLOGY, *things) == [c.AllowTier(2), c.RaiseCapability("q", {"cpu": 8000})]


def test_pods_of_a_capability_are_counted() -> None:
    limited = queue("q", capability={"pods": 2})
    verdict = explained("ns/j", GANG, node("a", cpu=8), limited, gang("j", 4, queue="q"))
    assert verdict.message == "queue q has capability pods 2, none of it is in use; pods 4 is asked for"
    assert verdict.changes[-1] == c.RaiseCapability("q", {"pods": 2})


def test_a_capability_counts_no_places_that_the_gang_gave_up() -> None:
    limited = queue("q", capability={"cpu": 3})
    verdict = explained("ns/j", GANG, node("a", cpu=8), limited, gang("j", 4, queue="q", cpu=1))
    assert "none of it is in use; cpu 4 is asked for" in verdict.message
    assert (verdict.need, verdict.have) == ({"cpu": 4000}, {"cpu": 3000})


def test_the_limits_of_a_user_are_raised_for_all() -> None:
    lab = queue("lab", annotations={USER_LIMITS: "jobs=9,cpu=2"})
    alice = {"unisono.io/user": "alice"}
    head = group("j", 3, queue="lab", annotations=alice)
    verdict = explained("ns/j", USERS, node("a", cpu=8), lab, head, [pod(f"j-{at}", "j", cpu=1) for at in range(3)])
    assert verdict.message.startswith("user alice may have 2 cpu in queue lab")
    assert c.RaiseUserLimits("lab", {"cpu": 1000}) in verdict.changes
    assert not any(isinstance(one, c.RaiseCapability) for one in verdict.changes)


def test_one_more_job_of_a_user() -> None:
    lab = queue("lab", annotations={USER_LIMITS: "jobs=1"})
    alice = {"unisono.io/user": "alice"}
    jobs = [
        [
            group(name, queue="lab", phase="Pending", created=at, annotations=alice, resources={"cpu": 1}),
            pod(f"{name}-0", name, cpu=1),
        ]
        for at, name in enumerate("ij")
    ]
    verdict = explained("ns/j", USERS, node("a", cpu=8), lab, jobs)
    assert verdict.message.startswith("user alice may have 1 job in queue lab and has 1")
    assert verdict.changes == (c.RaiseUserLimits("lab", {"jobs": 1}),)


def test_a_queue_lets_others_pass_its_first_job() -> None:
    line = queue("line", fifo=True)
    jobs = [gang("big", 4, queue="line", cpu=4), gang("small", 1, queue="line", created=5.0)]
    verdict = explained("ns/small", GANG, node("a", cpu=4), line, jobs)
    assert verdict.changes == (c.PassOver("line"),)


def test_a_queue_gives_back_what_it_borrowed() -> None:
    queues = [queue("greedy", reclaimable=False, deserved={"cpu": 2}), queue("mine", deserved={"cpu": 4})]
    held = [group("h", 1, queue="greedy", phase="Running")]
    held += [pod(f"h-{at}", "h", node="a", phase="Running", cpu=2) for at in range(4)]
    verdict = explained("ns/j", RECLAIMING, node("a", cpu=8), queues, held, gang("j", 1, queue="mine", cpu=4))
    assert "no reclaim: queue greedy is not reclaimable" in verdict.message
    assert c.AllowReclaim("greedy") in verdict.changes


def test_minresources_that_no_pod_asks_for_are_corrected() -> None:
    capped = queue("q", capability={"cpu": 8})
    head = group("j", 2, queue="q", phase="Pending", resources={"cpu": 64})
    pods = [pod(f"j-{at}", "j", cpu=1) for at in range(2)]
    verdict = explained("ns/j", CAPACITY, node("a", cpu=8), capped, head, pods)
    assert verdict.message == "minResources (cpu 64) ask for more than all its 2 pods do (cpu 2)"
    assert verdict.changes == (c.SetMinResources({"cpu": 2000}),)
    assert verdict.have == {"cpu": 8000}


def test_a_cordoned_node_of_another_rack_is_found() -> None:
    world = [*racks({"r": 2, "s": 2}), spine("all", "r", "s")]
    named = {one.metadata.name: one for one in flatten(world) if type(one).__name__ == "Node"}
    first, *_, last = sorted(named)
    named[first].status.conditions[0].status = "False"
    named[last].spec.unschedulable = True
    verdict = explained("ns/j", TOPOLOGY, world, job_with("j", 2, wish(1), cpu=4))
    assert f"{last} is cordoned" in verdict.message
    assert c.Uncordon((last,)) in verdict.changes


# ---- why no pod is evicted


def held(marks: dict[str, str] | None = None, *, minimum: int = 1, namespace: str = "ns", name: str = "low") -> Any:
    head = group("h", minimum, namespace=namespace, phase="Running", priority_class=name)
    options: dict[str, Any] = {"namespace": namespace, "node": "a", "phase": "Running", "annotations": marks}
    return [head, [pod(f"h-{at}", "h", cpu=2, priority=1, priority_class=name, **options) for at in range(2)]]


@pytest.mark.parametrize(
    ("holder", "reason"),
    [
        (held({"volcano.sh/preemptable": "false"}), "ns/h is marked volcano.sh/preemptable: false"),
        (held(minimum=2), "ns/h has no pods beyond its minimum, 2"),
        (held(namespace="kube-system"), "pods of kube-system/h are critical for the system"),
    ],
    ids=["marked", "minimum", "system"],
)
def test_why_nobody_is_evicted(holder: Any, reason: str) -> None:
    classes = [priority_class("low", 1), priority_class("high", 100)]
    job = gang("j", 1, cpu=4, priority=100, priority_class="high")
    verdict = explained("ns/j", PREEMPTING, node("a", cpu=4), classes, holder, job)
    assert f"no preemption: {reason}" in verdict.message


def test_a_pod_that_never_preempts() -> None:
    classes = [priority_class("low", 1), priority_class("high", 100)]
    job = flatten(gang("j", 1, cpu=4, priority=100, priority_class="high"))
    job[-1].spec.preemption_policy = "Never"  # type: ignore[attr-defined]
    verdict = explained("ns/j", PREEMPTING, node("a", cpu=4), classes, held(), job)
    assert "no preemption: its own pods have preemptionPolicy: Never" in verdict.message


def test_a_sub_group_that_lacks_a_pod_is_named() -> None:
    head, *pods = job_with("j", 3, parts=2, policies=[policy(2, minimum=2)])
    verdict = explained("ns/j", TOPOLOGY, racks({"r": 2}), [head, *pods])
    assert "1 of 2 sub-groups of tp have all their pods" in verdict.message
    assert verdict.cause is Cause.TOO_FEW_PODS


def test_capabilities_of_a_chain_are_raised_together_the_uppermost_first() -> None:
    queues = [queue("org", capability={"cpu": 6}), queue("lab", parent="org", capability={"cpu": 4})]
    verdict = explained("ns/j", CAPACITY, node("a", cpu=16), queues, gang("j", 2, queue="lab", cpu=4))
    both = c.Together((c.RaiseCapability("org", {"cpu": 2000}), c.RaiseCapability("lab", {"cpu": 4000})))
    assert both in verdict.changes


def test_a_cordoned_node_and_a_taint_of_another_one() -> None:
    job = [group("j", 2), *(pod(f"j-{at}", "j", cpu=2, selector={"pool": at}) for at in "ab")]
    nodes = [node("a", labels={"pool": "a"}, unschedulable=True), node("b", labels={"pool": "b"}, taints=TAINT)]
    assert set(chain("ns/j", GANG, nodes, job)) == {c.Uncordon(("a",)), c.AddToleration("team", "a", "NoSchedule")}


def test_what_is_wrong_with_a_job_itself_comes_before_its_place_in_line() -> None:
    line = queue("line", fifo=True)
    big = gang("big", 4, queue="line", cpu=4)
    short = [group("j", 3, queue="line", created=5.0), pod("j-0", "j", cpu=1), pod("j-1", "j", cpu=1)]
    verdict = explained("ns/j", GANG, node("a", cpu=4), line, big, short)
    assert verdict.cause is Cause.TOO_FEW_PODS
    assert chain("ns/j", GANG, node("a", cpu=4), line, big, short) == [c.CreatePods(1), c.PassOver("line")]
    lost = [group("j", 1, queue="line", created=5.0), pod("j-0", "j", cpu=1, selector={"zone": "x"})]
    verdict = explained("ns/j", GANG, node("a", cpu=4), line, big, lost)
    assert "zone=x" in verdict.message


def test_all_limits_of_a_user_are_named_and_raised() -> None:
    lab = queue("lab", annotations={USER_LIMITS: "jobs=1,cpu=2"})
    alice = {"unisono.io/user": "alice"}
    first = [group("i", queue="lab", phase="Running", annotations=alice), pod("i-0", "i", node="a", cpu=1)]
    second = group("j", queue="lab", phase="Pending", created=5.0, annotations=alice, resources={"cpu": 2})
    verdict = explained("ns/j", USERS, node("a", cpu=8), lab, first, second, pod("j-0", "j", cpu=2))
    assert "1 job in queue lab and has 1; user alice may have 2 cpu in queue lab and has 1" in verdict.message
    assert verdict.changes == (c.RaiseUserLimits("lab", {"jobs": 1, "cpu": 1000}),)


def test_what_kind_of_thing_would_help_is_said_where_nothing_is_known_to() -> None:
    large = gang("j", 3, cpu=16)
    verdict = explained("ns/j", GANG, [node(name, cpu=8) for name in "ab"], large)
    assert verdict.suggestion
