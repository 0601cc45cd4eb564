"""What a verdict suggests, done, starts the job in the next cycle: over random clusters."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from topology_world import TOPOLOGY, racks, spine, wish
from topology_world import job as job_with
from verdict_world import Objects

from support.build import GANG, START, config, flatten, gang, group, node, pod, priority_class, queue, quota, schedule
from support.examples import examples
from unisono import engine
from unisono.api.base import LabelSelector, Object
from unisono.api.core import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)
from unisono.api.times import rfc3339
from unisono.engine.changes import Change, EvictPods, RelaxRule
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.verdict import Cause, Verdict

TIERS = (("priority", "gang", "conformance"), ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"))
CONFIGS = {
    "gang": GANG,
    "shares": config(*TIERS),
    "capacity": config(("priority", "gang"), ("predicates", "capacity", "nodeorder")),
    "reserving": config(("priority", "gang", "reservation"), ("predicates", "nodeorder")),
    "evicting": config(*TIERS, actions="enqueue, allocate, preempt, reclaim, backfill"),
}

PROMISING = config(("gang",), ("predicates", "overcommit"))


def some(random: Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Nodes and jobs of a crowded small cluster, in which most jobs wait for one reason."""
    pick = random.choice
    nodes = [
        {
            "cpu": random.randint(1, 6),
            "gpu": pick([0, 0, 2]),
            "labels": pick([{"zone": "a"}, {"zone": "b"}, {}]),
            "unschedulable": random.random() < 0.15,
            "taints": [("t", "x", "NoSchedule")] if random.random() < 0.15 else [],
        }
        for _ in range(random.randint(0 if random.random() < 0.1 else 1, 5))
    ]
    jobs = []
    for _ in range(random.randint(1, 6)):
        size = random.randint(1, 5)
        jobs.append(
            {
                "size": 0 if random.random() < 0.05 else size,
                "minimum": size + 1 if random.random() < 0.1 else random.randint(1, size),
                "cpu": pick([1, 1, 2, 2, 3, 8]),
                "gpu": pick([0, 0, 0, 1]),
                "zone": pick(["", "", "", "", "a", "c"]),
                "port": 80 if random.random() < 0.15 else 0,
                "gates": ("wait",) if random.random() < 0.1 else (),
                "queue": pick(["q0"] * 6 + ["q1"] * 4 + ["shut", "nowhere"]),
                "phase": pick(["Pending", "Inqueue"]),
                "resources": random.random() < 0.5,
                "priority": pick(["", "high"]),
                "running": pick([0, 0, 2, 5]),
                "created": random.randint(0, 3),
            }
        )
    return nodes, jobs


HOST = "kubernetes.io/hostname"
deserved = st.sampled_from([None, {"cpu": 2}, {"cpu": 6}])


def build(nodes: list[dict[str, Any]], jobs: list[dict[str, Any]], share: dict[str, int] | None) -> list[Object]:
    objects: list[Any] = [
        priority_class("high", 100),
        queue("q0", 1, deserved=share),
        queue("q1", 2, capability={"cpu": 5}, deserved=share),
        queue("shut", state="Closed"),
    ]
    room = {}
    for number, facts in enumerate(nodes):
        objects.append(node(f"n{number}", **facts))
        room[f"n{number}"] = facts["cpu"]
    for number, job in enumerate(jobs):
        name, cpu = f"j{number}", job["cpu"]
        resources = {"cpu": cpu * job["minimum"]} if job["resources"] else None
        head = group(
            name,
            job["minimum"],
            queue=job["queue"],
            phase=job["phase"],
            resources=resources,
            priority_class=job["priority"],
            created=job["created"],
        )
        objects.append(head)
        options = {
            "cpu": cpu,
            **({"gpu": job["gpu"]} if job["gpu"] else {}),
            "selector": {"zone": job["zone"]} if job["zone"] else None,
            "ports": [job["port"]] if job["port"] else [],
        }
        running = job["running"]
        for index in range(job["size"]):
            at = next((n for n, free in room.items() if free >= cpu), "") if running and not job["port"] else ""
            if at and not job["gpu"] and not job["zone"]:
                room[at] -= cpu
                running -= 1
            else:
                at = ""
            gates = job["gates"] if not at else ()
            objects.append(pod(f"{name}-w-{index}", name, node=at, gates=gates, created=index, **options))
    return flatten(objects)


def starts_after(objects: Objects, key: str, change: Change, settings: SchedulerConfig) -> bool:
    """Make the change and run the next cycle; where that evicts pods for the job, another one once they have gone."""
    objects.make(change, key)
    decisions = schedule(objects.state(), settings)
    if any(eviction.beneficiary == key for eviction in decisions.evictions):
        objects.carry_out(decisions)
        objects.end_terminating()
        decisions = schedule(objects.state(), settings)
    if not objects.pods(key):
        return objects.group(key).status.phase != "Pending" or any(
            update.key == key and update.phase != "Pending" for update in decisions.pod_groups
        )
    return any(bind.job == key for bind in decisions.binds)


def check(objects: list[Object], settings: SchedulerConfig) -> list[Verdict]:
    world = Objects(objects)
    decisions = schedule(world.state(), settings)
    assert decisions.violations == []
    world.carry_out(decisions)
    for key, verdict in decisions.verdicts.items():
        offered = [*verdict.changes]
        if verdict.would_run_after:
            offered.append(EvictPods(verdict.would_run_after))
        for change in offered:
            assert starts_after(Objects(world.all.values()), key, change, settings), (key, verdict.cause, change)
        for change in verdict.changes:
            assert change.text() in verdict.suggestion
    return list(decisions.verdicts.values())


@pytest.mark.parametrize("name", sorted(CONFIGS))
@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 10**9), share=deserved)
@example(seed=10631926, share=None)
@example(seed=847, share=None)  # a higher priority evicts, and the place is free a cycle later
def test_what_is_suggested_starts_the_job(name: str, seed: int, share: dict[str, int] | None) -> None:
    nodes, jobs = some(Random(seed))
    check(build(nodes, jobs, share if name == "capacity" else None), CONFIGS[name])


def test_changes_are_offered_for_most_causes() -> None:
    """The property above would hold as well if nothing were ever offered."""
    seen: dict[Cause, str] = {}
    for cause, (things, chosen) in SCENARIOS.items():
        (verdict,) = [one for one in check(flatten(things), chosen) if one.job == "ns/j"]
        assert verdict.cause is cause
        assert verdict.changes, cause
        seen[cause] = type(verdict.changes[0]).__name__
    assert len(set(seen.values())) >= 9


def gang_of(size: int, minimum: int | None = None, **options: Any) -> list[Object]:
    from support.build import gang

    return gang("j", size, minimum, **options)


SHARES = CONFIGS["shares"]
SCENARIOS: dict[Cause, tuple[list[Any], SchedulerConfig]] = {
    Cause.TOO_LARGE: ([node("a", cpu=2), gang_of(4)], GANG),
    Cause.NODES_FULL: ([node("a", cpu=2), pod("x", node="a", cpu=2), gang_of(1)], GANG),
    Cause.FILTERS: ([node("a", taints=[("t", "", "NoSchedule")]), gang_of(1)], GANG),
    Cause.PORT_TAKEN: ([node("a"), pod("x", node="a", ports=[80]), gang_of(1, ports=[80])], GANG),
    Cause.QUEUE_MISSING: ([node("a"), gang_of(1, queue="new")], GANG),
    Cause.QUEUE_CLOSED: ([node("a"), queue("q", state="Closed"), gang_of(1, queue="q")], GANG),
    Cause.OVER_CAPABILITY: (
        [node("a", cpu=8), queue("q", capability={"cpu": 1}), gang_of(1, cpu=2, queue="q", min_resources=True)],
        SHARES,
    ),
    Cause.CLUSTER_OVERCOMMITTED: (
        [
            node("a", cpu=8),
            pod("x", node="a", cpu=8),
            gang_of(1, cpu=2, phase="Pending", min_resources=True),
        ],
        config(("gang",), ("predicates", "overcommit")),
    ),
    Cause.TOO_FEW_PODS: ([node("a"), gang_of(2, 4)], GANG),
    Cause.GATED: ([node("a"), gang_of(1, gates=["wait"])], GANG),
    Cause.QUOTA: (
        [node("a"), quota("team", cpu=1), group("j", 2, phase="Pending", resources={"cpu": 4})],
        config(("gang", "resourcequota"), ("predicates",)),
    ),
    Cause.TOPOLOGY: ([racks({"a": 1, "b": 1}), spine("top", "a", "b"), job_with("j", 2, wish(1))], TOPOLOGY),
}

APP = {"app": "j"}
TERM = PodAffinityTerm(label_selector=LabelSelector(match_labels=APP), topology_key=HOST)
EVENLY = TopologySpreadConstraint(
    max_skew=1, topology_key=HOST, when_unsatisfiable="DoNotSchedule", label_selector=TERM.label_selector
)


def related(objects: list[Any], **rules: Any) -> list[Object]:
    """Lets the pods of ``j`` require something of pods of their own app."""
    made = flatten(objects)
    for one in made:
        if isinstance(one, Pod) and one.metadata.name.startswith("j-"):
            one.metadata.labels = dict(APP)
            for name, value in rules.items():
                setattr(one.spec, name, deepcopy(value))
    return made


def required(term: PodAffinityTerm) -> dict[str, Any]:
    return {"required_during_scheduling_ignored_during_execution": [term]}


RULES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "podAntiAffinity": (  # apart, and there is one node
        [node("n0", labels={HOST: "n0"}), gang_of(2)],
        {"affinity": Affinity(pod_anti_affinity=PodAntiAffinity(**required(TERM)))},
    ),
    "podAffinity": (  # together, and no node is large enough
        [[node(name, cpu=2, labels={HOST: name}) for name in ("n0", "n1")], gang_of(3)],
        {"affinity": Affinity(pod_affinity=PodAffinity(**required(TERM)))},
    ),
    "topologySpreadConstraints": (  # evenly, and the node that has none of them is full
        [
            [node(name, cpu=2, labels={HOST: name}) for name in ("n0", "n1")],
            [pod("j-old", node="n0", cpu=1), pod("other", node="n1", cpu=2), gang_of(1)],
        ],
        {"topology_spread_constraints": [EVENLY]},
    ),
}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_rules_among_pods_are_relaxed_where_that_helps(rule: str) -> None:
    things, rules = RULES[rule]
    (verdict,) = check(related(things, **rules), GANG)
    assert RelaxRule(rule) in verdict.changes


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 1, 2, None]), st.sampled_from([2, 4])),
        min_size=1,
        max_size=3,
    ),
)
def test_what_is_suggested_starts_jobs_with_topology(sizes: list[int], jobs: list[Any]) -> None:
    things: list[Any] = [racks({f"r{at}": size for at, size in enumerate(sizes)})]
    things += [spine("s0", "r0", "r1"), spine("s1", "r2", "r3"), spine("top", "s0", "s1", tier=3)]
    for number, (size, minimum, tier, cpu) in enumerate(jobs):
        limit = None if tier is None else wish(tier)
        things.append(job_with(f"j{number}", size, limit, minimum=min(minimum, size), cpu=cpu, created=number))
    check(flatten(things), TOPOLOGY)


def test_nothing_is_tried_with_a_plugin_that_asks_outside_and_nothing_without_advice() -> None:
    from unisono import engine
    from unisono.engine.contract.plugin import Plugin

    asking: type[Plugin] = type("Asking", (Plugin,), {"name": "asking", "outside": True})
    things, _ = SCENARIOS[Cause.TOO_LARGE]
    state = Objects(flatten(things)).state()
    verdict = schedule(state, config(("gang", "asking"), ("predicates",)), plugins={"asking": asking}).verdicts["ns/j"]
    assert (verdict.changes, verdict.suggestion) == (
        (),
        "lower minAvailable to 2 (not tried), or add 1 node like a (not tried)",
    )
    quiet = engine.run(state.snapshot(), GANG, 0.0, advice=False).verdicts["ns/j"]
    assert (quiet.changes, quiet.suggestion) == ((), verdict.suggestion)


def test_a_step_that_is_needed_but_not_enough_says_so() -> None:
    things = [
        node("a", labels={"x": "y"}),
        queue("q", state="Closed"),
        gang_of(1, selector={"kubernetes.io/arch": "arm64"}, queue="q"),
    ]
    (verdict,) = check(flatten(things), GANG)
    assert verdict.changes == ()
    assert verdict.suggestion == "open queue q (not enough by itself), or submit to another one (not tried)"


def test_jobs_that_come_before_are_counted_in() -> None:
    from support.build import gang

    things = [node("a", cpu=2), [gang(name, 2, cpu=2, created=at) for at, name in enumerate("klj")]]
    verdicts = {one.job: one for one in check(flatten(things), GANG)}
    told = {key: [change.text() for change in one.changes][-1] for key, one in verdicts.items()}
    assert told == {
        "ns/k": "add 1 node like a",
        "ns/l": "add 3 nodes like a",
        "ns/j": "add 5 nodes like a",
    }


def _three_nodes() -> list[Any]:
    cordoned = node("c", labels={"pool": "general"}, unschedulable=True)
    infra = node("i", labels={"pool": "infra"}, taints=[("dedicated", "infra", "NoSchedule")])
    return [node("a", labels={"pool": "general"}), cordoned, infra]


@pytest.mark.parametrize(
    ("pool", "first"),
    [
        ("infra", "let its pods tolerate the taint dedicated=infra:NoSchedule"),
        ("genral", "select nodes by pool=general in place of pool=genral"),
    ],
)
def test_cordons_and_taints_of_nodes_that_pods_do_not_select_are_no_candidates(pool: str, first: str) -> None:
    objects = flatten([*_three_nodes(), gang_of(1, selector={"pool": pool})])
    (verdict,) = check(objects, GANG)
    assert [one.text() for one in verdict.changes][:1] == [first]
    untried = engine.run(Objects(objects).state().snapshot(), GANG, START, advice=False).verdicts["ns/j"]
    assert untried.candidates[0].text() == first


@pytest.mark.parametrize(("limit", "told"), [("1h", True), ("", False)])
def test_it_is_told_when_sla_will_act(limit: str, told: bool) -> None:
    settings = config(("gang", "sla"), ("predicates", "nodeorder"))
    notes = {"sla-waiting-time": limit} if limit else {}
    job = [group("j", annotations=notes, created=600.0), pod("j-0", "j", cpu=4)]
    (verdict,) = check(flatten([node("a", cpu=4), pod("x", node="a", cpu=4), *job]), settings)
    ends = f"its sla-waiting-time ends at {rfc3339(START + 4200.0)}: from then on it is admitted"
    assert (ends in verdict.message) is told


def test_room_is_counted_on_nodes_that_pods_may_use() -> None:
    tainted = node("t", cpu=32, taints=[("t", "", "NoSchedule")])
    nodes = [node("a", cpu=8, labels={"pool": "x"}), node("b", cpu=32), tainted]
    held = [pod(f"x{at}", node=name, cpu=amount) for at, (name, amount) in enumerate((("a", 6), ("b", 32), ("t", 32)))]
    asks = gang("j", 6, phase="Pending", cpu=4, selector={"pool": "x"}, min_resources=True)
    (verdict,) = check(flatten([*nodes, *held, asks]), PROMISING)
    assert verdict.cause is Cause.CLUSTER_OVERCOMMITTED
    assert verdict.message.endswith("cpu 24 is asked for, and they have cpu 8; its pods may use 1 of 3 nodes")


def test_a_port_is_the_cause_where_the_nodes_that_a_pod_selects_have_it_taken() -> None:
    nodes = [node("a", labels={"pool": "edge"}), *(node(f"n{at}") for at in range(5))]
    held = pod("x", node="a", ports=[80])
    (verdict,) = check(flatten([*nodes, held, gang_of(1, ports=[80], selector={"pool": "edge"})]), GANG)
    assert verdict.cause is Cause.PORT_TAKEN
    assert any("port 80 is taken on node a" in one.text() for one in verdict.changes)


def test_a_node_that_could_never_hold_the_pod_is_not_full() -> None:
    """Of the nodes that anti-affinity leaves, none is large enough: that is the cause, not what the small one lacks."""
    zones = {"n0": "a", "n1": "b", "full": "a"}
    things = [
        [node(name, cpu=8, labels={"zone": zone}) for name, zone in zones.items()],
        node("small", cpu=2, labels={"zone": "c"}),
        pod("other", node="full", cpu=8),
        [pod(f"j-{at}", "j", node=at, cpu=4) for at in ("n0", "n1")],
        [group("j", 1), pod("j-w-2", "j", cpu=4)],
    ]
    apart = structs.replace(TERM, topology_key="zone")
    rules = {"affinity": Affinity(pod_anti_affinity=PodAntiAffinity(**required(apart)))}
    (verdict,) = check(related(things, **rules), GANG)
    assert verdict.cause is Cause.FILTERS, verdict


def test_where_a_rule_is_the_cause_and_there_is_enough_nobody_holds_what_is_missing() -> None:
    """Two nodes have room, and affinity refuses them; that others are full or cordoned is not the cause."""
    things = [
        [node(name, cpu=8, labels={HOST: name}) for name in ("n0", "n1", "full")],
        node("away", cpu=8, unschedulable=True, labels={HOST: "away"}),
        pod("other", node="full", cpu=8),
        [group("j", 1), pod("j-w-0", "j", cpu=2)],
    ]
    cache = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "cache"}), topology_key=HOST)
    (verdict,) = check(related(things, affinity=Affinity(pod_affinity=PodAffinity(**required(cache)))), GANG)
    assert verdict.cause is Cause.FILTERS
    assert not (verdict.need or verdict.have or verdict.holders), verdict


@pytest.mark.parametrize(
    ("value", "meant"),
    [("H100", "NVIDIA-H100-80GB-HBM3"), ("a100", "NVIDIA-A100-SXM4-80GB"), ("80GB", ""), ("H200", ""), ("H1", "")],
)
def test_one_word_of_a_value_means_the_only_one_that_has_it(value: str, meant: str) -> None:
    things = [
        node("n0", labels={"product": "NVIDIA-A100-SXM4-80GB"}),
        node("n1", labels={"product": "NVIDIA-H100-80GB-HBM3"}),
        gang("j", 1, selector={"product": value}),
    ]
    (verdict,) = check(flatten(things), GANG)
    assert ("did you mean" in verdict.message) is bool(meant)
    if meant:
        assert f"did you mean {meant}?" in verdict.message
        assert meant in verdict.changes[0].text()
