"""Shares are of what pods in queues can use: not of what others hold, nor of nodes that no pod of ours tolerates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from eviction_world import OFF, RECLAIM, Plane, running_pods, settings
from plugins_world import World, a_pod

from support.build import cluster, floating, gang, group, node, pod, priority_class, queue, quota
from support.examples import examples
from unisono.api.annotations import USER, USER_LIMITS
from unisono.api.core import Toleration
from unisono.engine.config_file.reader import default_config, load_config

OTHER = "somebody-else"
CAPACITY = load_config(
    """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: predicates}, {name: capacity}, {name: nodeorder}]
"""
)
TREE = settings("enqueue, allocate, reclaim, backfill", quota="capacity\n    enableHierarchy: true")
PREEMPT_WITHIN = settings("enqueue, allocate, preempt, backfill", gang=OFF, drf=OFF, more="\n  - name: user-limits")
DEDICATED = ("dedicated", "infra", "NoSchedule")
TOLERATES = (Toleration(key="dedicated", operator="Exists"),)


def foreign(name: str, where: str, cpu: int, **more: Any) -> Any:
    """A pod of another scheduler, and of no PodGroup that exists."""
    return pod(name, "foreign", node=where, cpu=cpu, scheduler=OTHER, **more)


def busy(**spec: Any) -> list[Any]:
    """Four nodes of which others hold three quarters; two queues hold the rest, and a third asks for one cpu."""
    shares = {name: {"deserved": {"cpu": amount}} if spec else {} for name, amount in spec.items()}
    things: list[Any] = [queue(name, **shares.get(name, {})) for name in ("q1", "q2", "q3")]
    for at in range(4):
        things += [node(f"n{at}", cpu=4), foreign(f"f{at}", f"n{at}", 3)]
        things += [group(f"j{at}", queue="q1" if at < 2 else "q2", phase="Running")]
        things += running_pods(f"j{at}", [f"n{at}"])
    return [*things, *gang("late", 1, queue="q3", phase="Pending", min_resources=True)]


@pytest.mark.parametrize(
    ("config", "spec"),
    [
        pytest.param(RECLAIM, {}, id="proportion"),
        pytest.param(CAPACITY, {"q1": 8, "q2": 4, "q3": 4}, id="capacity"),
        pytest.param(TREE, {"q1": 8, "q2": 4, "q3": 4}, id="hierarchy"),
    ],
)
def test_a_queue_takes_back_its_share_of_what_others_leave(config: Any, spec: Any) -> None:
    plane = Plane(config, *busy(**spec), grace=0)
    plane.settle()
    assert plane.running()["late"] == 1
    assert [len(jobs) for jobs in plane.evicted if jobs] == [1]


def test_a_queue_that_takes_nothing_back_is_told_which_plug_in_keeps_the_pods() -> None:
    things = [node("n", cpu=2), queue("q1", deserved={"cpu": 2}), queue("q3", deserved={"cpu": 1})]
    things += [group("j", queue="q1", phase="Running"), *running_pods("j", ["n", "n"])]
    plane = Plane(CAPACITY, *things, *gang("late", 1, queue="q3", phase="Pending", min_resources=True))
    verdict = plane.cycle().verdicts["ns/late"]
    assert "no reclaim: queue q1 is within its deserved share of cpu 2 (plug-in capacity)" in verdict.message


def shares(world: World, name: str = "proportion") -> dict[str, list[int]]:
    _, plugin = world.open(name)
    return {queue: plugin.deserved[queue][0] for queue in plugin.deserved}


def test_what_pods_of_other_schedulers_hold_is_nobodys_share() -> None:
    world = World().node("n1").node("n2", unschedulable=True).queue("q")
    world.pod("f1", **a_pod("4", node="n1") | {"schedulerName": OTHER})
    world.pod("f2", **a_pod("4", node="n2") | {"schedulerName": OTHER})
    world.job("j", a_pod("3", node="n2"), *[a_pod("5")] * 9)
    assert shares(world) == {"q": 6_000 + 3_000}


@pytest.mark.parametrize(
    ("effect", "tolerant", "left"),
    [
        ("NoSchedule", "", 10_000),
        ("NoExecute", "", 10_000),
        ("PreferNoSchedule", "", 20_000),
        ("NoSchedule", "waits", 20_000),
        ("NoSchedule", "runs", 20_000),
        ("NoSchedule", "other", 10_000),
        ("NoSchedule", "over", 10_000),
    ],
)
def test_nodes_that_no_pod_of_ours_tolerates_are_not_shared(effect: str, tolerant: str, left: int) -> None:
    world = World().node("n1").node("n2", taints=[{"key": "a", "value": "b", "effect": effect}]).queue("q")
    world.job("j", *[a_pod("5")] * 9)
    spec = a_pod("0") | {"tolerations": [{"key": "a", "operator": "Exists"}]}
    if tolerant == "other":
        world.pod("f", **spec | {"schedulerName": OTHER, "nodeName": "n1", "phase": "Running"})
    elif tolerant:
        phase = {"waits": "Pending", "runs": "Running", "over": "Succeeded"}[tolerant]
        world.job("k", spec | {"phase": phase} | ({} if tolerant == "waits" else {"nodeName": "n1"}))
    assert shares(world) == {"q": left}


@pytest.mark.parametrize("before", range(4))
def test_sums_of_a_variant_are_taken_with_its_own_tolerations(before: int) -> None:
    """However often the tolerations of the table that it was made from have changed."""
    things = [node("n1", cpu=10), node("n2", cpu=10, taints=[DEDICATED]), queue("q"), group("j")]
    others = [pod(f"p-{number}", "j", tolerations=[Toleration(key=f"k{number}")]) for number in range(before)]
    state = cluster([*things, *others, pod("j-0", "j", tolerations=TOLERATES)])
    snapshot, cpu = state.snapshot(), state.registry.find("cpu")
    tolerant = snapshot.tasks["ns/j-0"].pod_class
    plain = cluster([*things, *others]).snapshot().nodes
    assert plain.sums().sharable[cpu] == 10_000
    variant = plain.variant()
    variant.tolerance = plain.tolerance.beside([tolerant])
    assert variant.sums().sharable[cpu] == 20_000


@pytest.mark.parametrize(("deleting", "left"), [(False, 10_000 + 3_000), (True, 10_000)])
def test_what_terminates_on_a_cordoned_node_is_nobodys_share(deleting: bool, left: int) -> None:
    things = [node("n1", cpu=10), node("n2", cpu=10, unschedulable=True), queue("q"), group("j", phase="Running")]
    state = cluster([*things, pod("j-0", "j", node="n2", cpu=3, deleting=deleting)])
    sums = state.snapshot().nodes.sums()
    assert sums.sharable[state.registry.find("cpu")] == left


def test_a_resource_that_only_tainted_nodes_have_is_shared_all_the_same() -> None:
    """So that a pod that lacks the toleration is told of the taint, and not of its queue."""
    taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
    world = World().node("n1").node("n2", has={"nvidia.com/gpu": "8"}, taints=taints).queue("q")
    world.job("j", a_pod(has={"nvidia.com/gpu": "4"}))
    session, plugin = world.open("proportion")
    assert plugin.deserved["q"][session.registry.rows({"nvidia.com/gpu": None})[0]] == 4_000


@pytest.mark.parametrize("config", [RECLAIM, CAPACITY, TREE])
def test_a_job_whose_pods_are_not_made_yet_is_admitted_to_tainted_nodes(config: Any) -> None:
    """Nobody knows yet what they will tolerate."""
    nodes = [node("n1", cpu=2), node("n2", cpu=8, taints=[DEDICATED])]
    plane = Plane(config, *nodes, queue("q"), group("j", queue="q", phase="Pending", resources={"cpu": 6}))
    assert [update.phase for update in plane.cycle().pod_groups] == ["Inqueue"]
    plane.put(pod("j-0", "j", cpu=6, tolerations=TOLERATES))
    assert plane.cycle().binds


@pytest.mark.parametrize(("state", "share"), [("Open", 2), ("Closing", 6), ("Closed", 6)])
def test_what_waits_in_a_closed_queue_is_no_claim_on_a_share(state: str, share: int) -> None:
    """It holds one cpu, and its jobs ask for as much as the cluster has."""
    world = World().node("n1", has={"cpu": "8"}).queue("old", state=state, weight=3).queue("new")
    world.job("runs", a_pod("1", node="n1"), queue="old", phase="Running").job("waits", *[a_pod("1")] * 8, queue="old")
    world.job("comes", *[a_pod("1")] * 6, queue="new")
    assert shares(world)["new"] == share * 1000


def asks(name: str, size: int, pods: bool = True, **more: Any) -> list[Any]:
    """A job of Ann's in the queue with limits, with pods or none yet."""
    things = gang(name, size, queue="limited", **({"cpu": 1, "min_resources": True} | more))
    things[0].metadata.annotations = {**(things[0].metadata.annotations or {}), USER: "ann"}
    return things if pods else things[:1]


def beside(*things: Any, **limits: Any) -> int:
    """How many pods of one cpu start in a queue beside one of the same weight, where eight could."""
    own = [node("n1", cpu=8, mem="8Gi"), queue("limited", **limits), queue("other")]
    runs = group("runs", 2, queue="limited", phase="Running", annotations={USER: "ann"})
    own += [runs, *running_pods("runs", ["n1", "n1"])]
    own += [gang(f"o{at}", 1, queue="other", cpu=1, mem="1Gi", created=-10.0, min_resources=True) for at in range(8)]
    plane = Plane(default_config(), *own, *things)
    plane.settle()
    return sum(number for name, number in plane.running().items() if name.startswith("o"))


def of_users(text: str) -> dict[str, Any]:
    return {"annotations": {USER_LIMITS: text}}


SINGLE = [asks(f"w{at}", 1) for at in range(8)]
UNMADE = [asks(f"w{at}", 1, pods=False, phase="Pending") for at in range(8)]


@pytest.mark.parametrize(
    ("waiting", "limits", "starts"),
    [
        pytest.param(SINGLE, {}, 4, id="no limit"),
        pytest.param(SINGLE, of_users("cpu=2"), 6, id="user holds all"),
        pytest.param(SINGLE, of_users("cpu=3"), 5, id="user may have one more"),
        pytest.param(SINGLE, of_users("pods=3"), 5, id="pods of a user"),
        pytest.param(SINGLE, of_users("cpu=100,pods=2"), 6, id="narrowest limit of a user"),
        pytest.param(SINGLE, of_users("jobs=100"), 4, id="jobs of a user"),
        pytest.param(UNMADE, of_users("cpu=2"), 6, id="unmade: user holds all"),
        pytest.param(UNMADE, of_users("cpu=3"), 5, id="unmade: user may have one more"),
        pytest.param(UNMADE, of_users("jobs=1"), 6, id="unmade: no more jobs"),
        pytest.param(UNMADE, of_users("jobs=2"), 5, id="unmade: one more job"),
        pytest.param([asks("gang", 5)], of_users("cpu=4"), 6, id="gang above the limit"),
        pytest.param([asks("gang", 9, pods=False, phase="Pending"), *SINGLE], of_users("cpu=4"), 4, id="seed 1000"),
        pytest.param([asks("gang", 3, cpu=1), *SINGLE], of_users("cpu=3"), 5, id="gang above what is left"),
        pytest.param([asks(f"w{at}", 1, mem="4Gi") for at in range(4)], of_users("cpu=2"), 6, id="all its resources"),
        pytest.param([asks(f"w{at}", 1, mem="4Gi") for at in range(4)], {"capability": {"cpu": 2}}, 6, id="capability"),
    ],
)
def test_what_limits_keep_from_a_queue_is_no_claim_on_a_share(waiting: Any, limits: Any, starts: int) -> None:
    """A queue of whose jobs two pods run; what it may not hold is left to the other one."""
    assert beside(*waiting, **limits) == starts


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (of_users("cpu=2"), "user ann may have 2 cpu in queue limited and has 2"),
        ({"capability": {"cpu": 2}}, "queue limited has capability cpu 2, cpu 2 of it is in use or promised"),
    ],
)
@pytest.mark.parametrize("others", [True, False])
def test_what_claims_no_share_is_told_of_its_limit(limits: Any, text: str, others: bool) -> None:
    """And not of the share that its queue has because of it."""
    things: list[Any] = [node("n1", cpu=8), queue("limited", **limits), queue("other")]
    things += [group("runs", 2, queue="limited", phase="Running", annotations={USER: "ann"})]
    things += [running_pods("runs", ["n1", "n1"]), SINGLE]
    things += [gang(f"o{at}", 1, queue="other", min_resources=True) for at in range(8 if others else 0)]
    plane = Plane(default_config(), *things)
    told = [plane.settle().verdicts[f"ns/w{at}"].message for at in range(8)]
    assert [one for one in told if text not in one] == []


@pytest.mark.parametrize(("most", "starts"), [(10, 4), (5, 4), (3, 5), (2, 6)])
def test_pods_that_a_quota_will_refuse_are_no_claim_on_a_share(most: int, starts: int) -> None:
    """Two pods of the queue run; the others are not made yet, and a quota leaves one more, or none."""
    config = settings("enqueue, allocate, backfill", more="\n  - name: resourcequota")
    things: list[Any] = [node("n1", cpu=8), queue("limited"), queue("other"), quota("q", namespace="few", cpu=most)]
    things += [group("runs", 2, namespace="few", queue="limited", phase="Running")]
    things += running_pods("runs", ["n1", "n1"], namespace="few")
    for at in range(8):
        things += gang(f"w{at}", 1, namespace="few", queue="limited", phase="Pending", min_resources=True)[:1]
        things += gang(f"o{at}", 1, queue="other", created=-10.0, min_resources=True)
    plane = Plane(config, *things)
    plane.settle()
    assert sum(number for name, number in plane.running().items() if name.startswith("o")) == starts


@pytest.mark.parametrize(("licences", "starts"), [(9, 4), (3, 5), (2, 6)])
def test_pods_for_which_there_are_no_licences_are_no_claim_on_a_share(licences: int, starts: int) -> None:
    things = [asks(f"w{at}", 1, matlab=1) for at in range(8)] + [floating("matlab", licences)]
    things += [group("more", 2, queue="limited", phase="Running"), *running_pods("more", ["n1", "n1"], cpu=0, matlab=1)]
    assert beside(*things) == starts


@pytest.mark.parametrize("limits", [of_users("cpu=4"), {"capability": {"cpu": 4}}, {}], ids=["user", "queue", "none"])
@pytest.mark.parametrize(("size", "mem"), [(4, "1Gi"), (2, "2Gi"), (1, "4Gi")])
def test_what_may_take_the_place_of_its_own_is_claimed(size: int, mem: str, limits: Any) -> None:
    """A gang of Ann's of high priority takes the place of her own pods, and asks for more memory than these."""
    things: list[Any] = [node("n1", cpu=8, mem="8Gi"), queue("limited", **limits), queue("other")]
    things += [priority_class("high", 10), group("o", 4, queue="other", phase="Running")]
    things += [group("runs", 1, queue="limited", phase="Running", annotations={USER: "ann"})]
    things += [running_pods("o", ["n1"] * 4), running_pods("runs", ["n1"] * 4)]
    things += asks("gang", size, mem=mem, priority_class="high")
    plane = Plane(PREEMPT_WITHIN, *things)
    plane.settle()
    assert plane.running()["gang"] == size


def test_a_driver_is_let_in_though_others_that_never_fit_claim_all_the_rest() -> None:
    """What it makes later is in no request yet, and its queue would get a share of it."""
    things = [node(f"n{at}", cpu=2) for at in range(4)] + [queue("wide"), queue("small")]
    things += [group("podless", 5, queue="wide", phase="Inqueue", resources={"cpu": 6})]
    things += [group("never", 3, queue="wide", phase="Inqueue", resources={"cpu": 1})]
    things += [pod(f"never-{at}", "never", cpu=3) for at in range(3)]
    plane = Plane(RECLAIM, *things)
    plane.cycle()
    plane.now += 60.0
    plane.cycle()
    plane.put(group("driver", 2, queue="small", phase="Pending", resources={"cpu": 4}))
    for at in range(2):
        plane.put(pod(f"driver-{at}", "driver", cpu=1))
    plane.settle()
    assert plane.running() == {"driver": 2}


def test_pods_that_another_scheduler_placed_in_our_group_are_in_no_queue() -> None:
    world = World().node("n1").queue("q").job("j", a_pod("2", node="n1"), minResources={"cpu": "6"})
    world.pod("j-foreign", "j", **a_pod("4", node="n1") | {"schedulerName": OTHER})
    session, _ = world.open()
    record = session.queues["q"].record
    assert [int(sums[0]) for sums in (record.allocated, record.request, record.inqueue)] == [2_000, 2_000, 0]
    assert session.sharable_total[0] == 6_000
    world.state.apply("DELETED", *_object(world, "j-foreign"))
    session, _ = world.open()
    assert session.sharable_total[0] == 10_000
    assert int(session.queues["q"].record.inqueue[0]) == 4_000


def _object(world: World, name: str) -> Any:
    from unisono.api.kinds import PODS

    return PODS, pod(name)


# ---- a search; its rules know nothing of the engine


class Drawn:
    """A cluster of one resource that is full or nearly so, and jobs of one pod that come to it."""

    def __init__(self, seed: int, plugin: str) -> None:
        rng = Random(f"{seed}/{plugin}")
        self.plugin = plugin
        self.cpus = {f"n{at}": rng.randint(2, 8) for at in range(rng.randint(2, 6))}
        self.tainted = {name for name in self.cpus if rng.random() < 0.2}
        self.tolerant = rng.random() < 0.2
        part = rng.uniform(0.0, 0.9)
        self.foreign = {name: min(int(cpu * part + rng.random()), int(cpu * 0.9)) for name, cpu in self.cpus.items()}
        self.weights = {f"q{at}": rng.randint(1, 4) for at in range(rng.randint(2, 4))}
        things: list[Any] = []
        for name, cpu in self.cpus.items():
            things.append(node(name, cpu=cpu, taints=[DEDICATED] if name in self.tainted else ()))
            if self.foreign[name]:
                things.append(foreign(f"f-{name}", name, self.foreign[name], tolerations=TOLERATES))
        whole, weight = sum(self.cpus.values()), sum(self.weights.values())
        self.deserved = {name: whole * each // weight for name, each in self.weights.items()}
        for name, each in self.weights.items():
            things.append(queue(name, each, deserved={"cpu": self.deserved[name]} if plugin == "capacity" else None))
        names, favourite = [*self.weights], rng.choice([*self.weights])
        number = 0
        for where, cpu in self.cpus.items():
            room = cpu - self.foreign[where]
            while room and (where not in self.tainted or self.tolerant) and rng.random() < 0.95:
                size = rng.randint(1, min(room, 2))
                mine = favourite if rng.random() < 0.5 else rng.choice(names)
                things += self.job(f"r{number}", mine, size, where)
                room, number = room - size, number + 1
        for late in range(rng.randint(1, 5)):
            things += self.job(f"w{late}", rng.choice(names), rng.randint(1, 2), "")
        self.things = things

    def job(self, name: str, where: str, size: int, on: str) -> list[Any]:
        head = group(name, 1, queue=where, phase="Running" if on else "Pending", resources={"cpu": size})
        return [head, pod(f"{name}-0", name, node=on, cpu=size, tolerations=TOLERATES if self.tolerant else ())]


def fair(total: int, wanted: Mapping[str, int], weights: Mapping[str, int]) -> dict[str, Fraction]:
    """Weighted max-min fairness by the level that fills the total."""
    left, level, thirsty = Fraction(total), Fraction(0), {name for name in wanted if wanted[name]}
    while thirsty and left > 0:
        step = min(Fraction(wanted[name], weights[name]) - level for name in thirsty)
        weight = sum(weights[name] for name in thirsty)
        step = min(step, left / weight)
        left, level = left - step * weight, level + step
        thirsty = {name for name in thirsty if Fraction(wanted[name], weights[name]) > level}
    return {name: min(Fraction(wanted[name]), level * weights[name]) for name in wanted}


def queue_of(plane: Plane, name: str) -> str:
    """Of a pod."""
    group: Any = plane.objects["PodGroup", f"ns/{name.removesuffix('-0')}"]
    return str(group.spec.queue)


def admitted_to_wait(plane: Plane, pod: Any) -> bool:
    group: Any = plane.objects.get(("PodGroup", f"ns/{pod.metadata.name.removesuffix('-0')}"))
    return group is not None and not pod.spec.node_name and group.status.phase == "Inqueue"


def starved(drawn: Drawn, plane: Plane) -> dict[str, str]:
    """Queues below their share with a pod that waits for which pods of queues above theirs could go, with why.

    Where a queue has admitted jobs that wait, those behind them are not looked at: what was promised to the first one
    may be more than the queue's share.
    """
    held, wanted = Counter[str](), Counter[str]()
    free = {name: cpu - drawn.foreign[name] for name, cpu in drawn.cpus.items()}
    usable = [name for name in drawn.cpus if name not in drawn.tainted or drawn.tolerant]
    on: dict[str, list[tuple[str, int]]] = {name: [] for name in usable}
    waiting: list[tuple[str, int]] = []
    admitted = {queue_of(plane, obj.metadata.name) for obj in plane.pods() if admitted_to_wait(plane, obj)}
    for obj in plane.pods():
        if obj.spec.scheduler_name == OTHER:
            continue
        name = queue_of(plane, obj.metadata.name)
        size = int(obj.spec.containers[0].resources.requests["cpu"])
        wanted[name] += size
        if obj.spec.node_name:
            held[name] += size
            free[obj.spec.node_name] -= size
            on[obj.spec.node_name].append((name, size))
        elif admitted_to_wait(plane, obj) or name not in admitted:
            waiting.append((name, size))
    room = sum(drawn.cpus[name] - drawn.foreign[name] for name in usable)
    if drawn.plugin == "capacity":
        asked = {name: min(wanted[name], drawn.deserved[name]) for name in drawn.weights}
        share = fair(room, asked, {name: amount or 1 for name, amount in drawn.deserved.items()})
    else:
        share = fair(room, {name: wanted[name] for name in drawn.weights}, drawn.weights)
    found: dict[str, str] = {}
    for mine, size in waiting:
        if held[mine] + size > share[mine]:
            continue
        for where in usable:
            gone, left = free[where], Counter(held)
            for theirs, amount in sorted(on[where], key=lambda each: -each[1]):
                if gone < size and left[theirs] - amount >= share[theirs]:
                    gone, left[theirs] = gone + amount, left[theirs] - amount
            if gone >= size:
                found[mine] = f"holds {held[mine]} of {share[mine]} and could have {size} on {where}; {dict(held)}"
    return found


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_nobody_waits_below_its_share_beside_pods_that_could_go(plugin: str) -> None:
    for seed in range(examples(150)):
        drawn = Drawn(seed, plugin)
        plane = Plane(RECLAIM if plugin == "proportion" else CAPACITY, *drawn.things, grace=0)
        waited: Counter[str] = Counter()
        for _ in range(8):
            before = starved(drawn, plane)
            decisions = plane.cycle()
            moved = {queue_of(plane, each.pod) for each in (*decisions.binds, *decisions.pipelined)}
            waiting = {name for name in before if name not in moved}
            waited = Counter({name: waited[name] + 1 for name in waiting})
            assert not [name for name in waiting if waited[name] > 2], (seed, before)
