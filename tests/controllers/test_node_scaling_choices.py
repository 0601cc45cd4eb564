"""Pools are chosen by cost and by what a gang needs; machines without use go, and nothing that is needed does."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_node_scaling_controller import SPOT, deployment, pod, pool

from support.examples import examples
from unisono.api.annotations import GOT, ONE_OF
from unisono.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Toleration
from unisono.api.groups.autoscaling import CAPACITY, GPU_COUNT, NODE_POOL, MachineDeployment, NodePool
from unisono.api.times import rfc3339
from unisono.controllers.node_scaling.decide import Demand, Pool, Room, demand_of, growth, remainders, wanted
from unisono.controllers.node_scaling.provisioning import overdue, pool_of, pool_of_node_pool
from unisono.controllers.node_scaling.shrink import Held, Shrinking, shrinking

ENDURES = (Toleration(key="spot", operator="Exists"),)
ZONE_1 = NodeSelector(
    node_selector_terms=[
        NodeSelectorTerm(match_expressions=[NodeSelectorRequirement(key="zone", operator="In", values=["1"])])
    ]
)


@pytest.mark.parametrize(
    ("what", "gang", "pools", "expected"),
    [
        ("the cheaper of two alike", [pod(4)], [pool("a", price=2.0), pool("b", price=1.0)], {"b": 1}),
        (
            "one large is cheaper than four small",
            [pod(4)] * 4,
            [pool("a", price=1), pool("b", cpu=16, price=3)],
            {"b": 1},
        ),
        (
            "four small are cheaper than one large",
            [pod(4)] * 4,
            [pool("a", price=1), pool("b", cpu=16, price=5)],
            {"a": 4},
        ),
        (
            "cheap for one pod and dear for the gang",
            [pod(3)] * 4,
            [pool("a", price=1), pool("b", cpu=12, price=3.5)],
            {"b": 1},
        ),
        (
            "spot where the pods endure it",
            [pod(tolerations=ENDURES)],
            [pool("a", price=1), pool("s", price=0.3, spot=True, taints=(SPOT,))],
            {"s": 1},
        ),
        (
            "no spot where they do not",
            [pod()],
            [pool("a", price=1), pool("s", price=0.3, spot=True, taints=(SPOT,))],
            {"a": 1},
        ),
        (
            "on-demand while spot machines do not come",
            [pod(tolerations=ENDURES)],
            [pool("a", price=1), pool("s", price=0.3, spot=True, failing=True)],
            {"a": 1},
        ),
        (
            "what boots in a failing pool does not count",
            [pod()],
            [pool("a", price=1), pool("s", replicas=1, booting=1, failing=True)],
            {"a": 1},
        ),
        (
            "a cheap pool that cannot hold the whole gang is filled up by others",
            [pod(4)] * 3,
            [pool("a", price=5), pool("b", price=1, most=2)],
            {"a": 1, "b": 2},
        ),
        (
            "a driver and its workers on what each needs",
            [pod(2), *[pod(4, 8)] * 2],
            [pool("c", price=0.2), pool("g", cpu=64, gpu=8, price=20)],
            {"g": 2},
        ),
        (
            "the first of its kinds that can hold all of it",
            [Demand({"cpu": 1000}, count=9, kinds=({"gpu": "fast"}, {"gpu": "slow"}))],
            [pool("a"), pool("b", labels={"gpu": "fast"}, most=2), pool("c", labels={"gpu": "slow"})],
            {"c": 3},
        ),
        (
            "the first of its kinds, though another is cheaper",
            [Demand({"cpu": 1000}, count=4, kinds=({"gpu": "fast"}, {"gpu": "slow"}))],
            [pool("a"), pool("b", labels={"gpu": "fast"}, price=9.0), pool("c", labels={"gpu": "slow"}, price=1.0)],
            {"b": 1},
        ),
        ("affinity", [Demand({"cpu": 1000}, affinity=ZONE_1)], [pool("a"), pool("b", labels={"zone": "1"})], {"b": 1}),
        ("a price of nothing", [pod(4)], [pool("a"), pool("b", price=0.0)], {"b": 1}),
    ],
)
def test_the_cheapest_way_that_serves_the_gang(
    what: str, gang: list[Demand], pools: list[Pool], expected: dict[str, int]
) -> None:
    assert wanted([gang], pools) == expected, what


def test_the_reason_names_price_kind_and_pools_that_were_passed_by() -> None:
    pools = [pool("a", price=1.5), pool("s", price=0.3, spot=True, failing=True)]
    assert growth([[pod()]], pools).reasons == {
        "a": "1 on-demand machine at 1.5 an hour each, the cheapest way to serve the whole gang"
        "; passed by, for their machines did not come: s"
    }


# ---- fewer machines


def node(name: str, of: str = "a", cpu: int = 4, free: int | None = None, **more: Any) -> Held:
    room = Pool(name, 1, 0, 1, {"cpu": (cpu if free is None else free) * 1000}, more.pop("labels", {}))
    return Held(name, of, room, **more)


def shrunk(nodes: list[Held], pools: list[Pool], gangs: list[list[Demand]], **more: Any) -> Shrinking:
    since = {each.name: 0.0 for each in nodes}
    return shrinking(nodes, pools, gangs, more.pop("since", since), more.pop("now", 600.0), **more)


TWO = pool("a", replicas=2, least=0)


@pytest.mark.parametrize(
    ("what", "nodes", "pools", "gangs", "marked"),
    [
        ("empty", [node("n1"), node("n2")], [TWO], [], ("n1", "n2")),
        ("never below the minimum", [node("n1"), node("n2")], [replace(TWO, least=1)], [], ("n2",)),
        ("without a minimum none goes", [node("n1")], [replace(TWO, least=None)], [], ()),
        ("what is in no pool stays", [node("n1", of="")], [TWO], [], ()),
        ("a pod that stays keeps its machine", [node("n1", stays="x"), node("n2")], [TWO], [], ("n2",)),
        (
            "pods that may move go where there is room",
            [node("n1", free=3, stays="x"), node("n2", free=2, movable=(pod(2),))],
            [TWO],
            [],
            ("n2",),
        ),
        (
            "and stay where there is none",
            [node("n1", free=1, stays="x"), node("n2", free=2, movable=(pod(2),))],
            [TWO],
            [],
            (),
        ),
        (
            "two half-empty machines become one",
            [node("n1", free=2, movable=(pod(2),)), node("n2", free=2, movable=(pod(2),))],
            [TWO],
            [],
            ("n2",),
        ),
        ("a gang's machines are promised", [node("n1"), node("n2")], [replace(TWO, most=2)], [[pod(4)] * 2], ()),
        (
            "also while the rest still boots",
            [node("n1")],
            [replace(TWO, replicas=2, booting=1, most=2)],
            [[pod(4)] * 2],
            (),
        ),
        (
            "a gang that is served never keeps nothing",
            [node("n1"), node("n2")],
            [replace(TWO, most=2)],
            [[pod(4)] * 3],
            ("n1", "n2"),
        ),
        ("a gang takes what must stay anyway", [node("n1"), node("n2", stays="x", free=4)], [TWO], [[pod(4)]], ("n1",)),
        (
            "the dearest goes",
            [node("n1"), node("n2", of="b")],
            [replace(TWO, price=9, replicas=1), pool("b", replicas=1, least=0, price=1)],
            [[pod(4)]],
            ("n1",),
        ),
    ],
)
def test_machines_without_use(
    what: str, nodes: list[Held], pools: list[Pool], gangs: list[list[Demand]], marked: tuple[str, ...]
) -> None:
    assert tuple(sorted(shrunk(nodes, pools, gangs).mark)) == marked, what


def test_a_machine_goes_only_after_its_time_and_a_pod_starts_it_again() -> None:
    one = pool("a", replicas=1, least=0)
    first = shrinking([node("n")], [one], [], {}, 1000.0)
    assert (dict(first.since), first.mark) == ({"n": 1000.0}, ())
    assert shrinking([node("n")], [one], [], first.since, 1599.0).mark == ()
    assert shrinking([node("n")], [one], [], first.since, 1600.0).mark == ("n",)
    assert dict(shrinking([node("n", stays="x")], [one], [], first.since, 1600.0).since) == {}


def test_a_marked_machine_is_drained_then_removed_and_cleared_when_a_gang_wants_it() -> None:
    one, room = pool("a", replicas=1, least=0, most=1), node("other", of="", free=4)
    full = node("n", free=3, movable=(pod(1),), marked=True)
    assert shrunk([full, room], [one], []).drain == ("n",)
    assert shrunk([node("n", marked=True)], [one], []).remove == ("n",)
    assert shrunk([node("n", marked=True)], [one], [[pod(4)]]).clear == ("n",)


def test_a_pool_that_rests_counts_on_and_gives_nothing() -> None:
    answer = shrunk([node("n"), node("m", marked=True)], [TWO], [], settled=frozenset())
    assert (set(answer.since), answer.mark, answer.clear, answer.remove) == ({"n", "m"}, (), (), ())


# ---- machines that do not come


def asked(replicas: int = 3, ready: int = 1, **notes: str) -> MachineDeployment:
    made = deployment(replicas=replicas, ready=ready)
    made.metadata.annotations = {
        **(made.metadata.annotations or {}),
        **{f"unisono.io/{k.replace('_', '-')}": v for k, v in notes.items()},
    }
    return made


def test_machines_that_do_not_come_are_given_up_after_their_time() -> None:
    made = asked(scaled_at=rfc3339(1000))
    assert overdue(made, 1899) is None
    found = overdue(made, 1900)
    assert found is not None
    assert (found.replicas, found.annotations["unisono.io/backoff-until"]) == (1, rfc3339(2200))
    assert "2 machines have not come within 900 s" in found.text


def test_a_machine_that_vanished_gets_its_time_to_be_replaced() -> None:
    made = asked(scaled_at=rfc3339(1000))
    assert overdue(made, 2500, since=2000) is None
    assert overdue(made, 2900, since=2000) is not None
    # Asked for after that: the later moment counts.
    assert overdue(asked(scaled_at=rfc3339(2400)), 2950, since=2000) is None
    # Who was never scaled from here is not looked after.
    assert overdue(asked(), 1e9, since=2000) is None


def test_retries_come_before_the_fallback_and_the_back_off_grows() -> None:
    first = overdue(asked(scaled_at=rfc3339(0), provision_retries="2"), 900)
    assert first is not None
    assert (first.replicas, first.annotations["unisono.io/provision-failures"]) == (3, "1")
    third = overdue(asked(scaled_at=rfc3339(0), provision_retries="2", provision_failures="2"), 900)
    assert third is not None
    assert third.replicas == 1
    late = overdue(asked(scaled_at=rfc3339(0), provision_failures="90"), 900)
    assert late is not None
    assert late.annotations["unisono.io/backoff-until"] == rfc3339(900 + 1800)


def test_a_pool_whose_machines_come_again_is_as_good_as_new() -> None:
    notes = {"provision_failures": "2", "backoff_until": rfc3339(500)}
    assert overdue(asked(ready=3, scaled_at=rfc3339(100), **notes), 900) is None
    healed = overdue(asked(ready=3, scaled_at=rfc3339(600), **notes), 900)
    assert healed is not None
    assert healed.annotations == {"unisono.io/provision-failures": None, "unisono.io/backoff-until": None}


@pytest.mark.parametrize("bad", ["", "x", "-1", "nan", "inf", "1e999"])
def test_bad_annotations_count_as_absent(bad: str) -> None:
    key = "cluster.x-k8s.io/autoscaling-options-"
    made = asked(price=bad, backoff_until=bad, provision_failures=bad, scaled_at=bad)
    assert made.metadata.annotations is not None
    made.metadata.annotations |= {f"{key}scaledownunneededtime": bad, f"{key}maxnodeprovisiontime": bad}
    found = pool_of(made, 10.0)
    assert found is not None
    assert (found.price, found.failing, found.unneeded_seconds) == (None, False, 600.0)
    assert overdue(made, 1e9) is None


def test_spot_is_known_by_the_labels_of_clouds_and_autoscalers() -> None:
    key = "capacity.cluster-autoscaler.kubernetes.io/labels"
    for label in (
        "karpenter.sh/capacity-type=spot",
        "cloud.google.com/gke-spot=true",
        "eks.amazonaws.com/capacityType=SPOT",
        "kubernetes.azure.com/scalesetpriority=spot",
    ):
        found = pool_of(deployment(**{key: label}))
        assert found is not None
        assert found.spot, label
    found = pool_of(deployment(**{key: "karpenter.sh/capacity-type=on-demand"}))
    assert found is not None
    assert not found.spot


# ---- the whole, over time


class Cloud:
    """Machines that come a round after they are asked for; gangs that start whole, run for some rounds and end."""

    def __init__(self, pools: list[Pool], gangs: list[tuple[int, list[Demand]]]) -> None:
        self.pools, self.waiting = pools, [(number, *gang) for number, gang in enumerate(gangs)]
        self.nodes: dict[str, Pool] = {}
        self.marked: set[str] = set()
        self.running: dict[int, tuple[int, list[tuple[str, Demand]]]] = {}
        self.since: dict[str, float] = {}
        self.sizes: list[dict[str, int]] = []
        self.made, self.cost, self.served = 0, 0.0, set[int]()

    def round(self, now: float) -> None:
        for each in self.pools:
            for _ in range(each.booting):
                self.made += 1
                self.nodes[f"{each.name}-{self.made:04}"] = each
        self.pools = [replace(each, booting=0) for each in self.pools]
        self.running = {number: (left - 1, places) for number, (left, places) in self.running.items() if left > 1}
        self.start()
        gangs = [gang for _, _, gang in self.waiting]
        free = self.free()
        rooms = [Room(each, free[name]) for name, each in self.nodes.items()]
        grown = wanted([gang for gang in remainders(gangs, rooms) if gang], self.pools)
        self.pools = [
            replace(each, replicas=size, booting=size - each.replicas)
            if (size := grown.get(each.name, each.replicas)) != each.replicas
            else each
            for each in self.pools
        ]
        self.shrink(gangs, now)
        self.sizes.append({each.name: each.replicas for each in self.pools})
        for each in self.pools:
            assert (each.least or 0) <= each.replicas <= each.most

    def free(self) -> dict[str, dict[str, int]]:
        found = {name: dict(each.offers) for name, each in self.nodes.items()}
        for _, places in self.running.values():
            for name, one in places:
                for resource, amount in one.requests.items():
                    found[name][resource] = found[name].get(resource, 0) - amount
        return found

    def start(self) -> None:
        for number, rounds, gang in list(self.waiting):
            free, places = self.free(), list[tuple[str, Demand]]()
            for one in sorted(gang, key=lambda each: -each.requests["cpu"]):
                for name, room in free.items():
                    if name not in self.marked and all(room.get(k, 0) >= v for k, v in one.requests.items()):
                        places.append((name, one))
                        for resource, amount in one.requests.items():
                            room[resource] -= amount
                        break
            if len(places) == len(gang):
                self.running[number] = (rounds, places)
                self.waiting = [each for each in self.waiting if each[0] != number]
                self.served.add(number)

    def shrink(self, gangs: list[list[Demand]], now: float) -> None:
        free = self.free()
        held = [
            Held(
                name,
                each.name,
                Pool(name, 1, 0, 1, free[name]),
                stays="busy" if free[name] != dict(each.offers) else "",
                marked=name in self.marked,
            )
            for name, each in self.nodes.items()
        ]
        answer = shrinking(held, self.pools, gangs, self.since, now)
        self.since = dict(answer.since)
        self.marked = (self.marked | set(answer.mark)) - set(answer.clear)
        for name in answer.remove:
            assert free[name] == dict(self.nodes[name].offers)
            owner = self.nodes.pop(name).name
            self.marked.discard(name)
            self.pools = [replace(e, replicas=e.replicas - 1) if e.name == owner else e for e in self.pools]


shapes = st.tuples(st.integers(0, 1), st.integers(1, 5), st.integers(1, 8), st.integers(0, 3), st.booleans())
equal_gangs = st.tuples(st.integers(1, 4), st.integers(1, 8), st.integers(1, 6), st.integers(0, 1))


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(shapes, min_size=1, max_size=3), st.lists(equal_gangs, max_size=5))
def test_bounds_hold_nothing_flaps_all_are_served_and_everything_ends(
    kinds: list[tuple[int, int, int, int, bool]], equal: list[tuple[int, int, int, int]]
) -> None:
    pools = [
        pool(
            f"p{n}",
            0,
            most,
            cpu,
            gpu,
            least=0,
            price=float(cpu + 3 * gpu) / (3 if spot else 1),
            spot=spot,
            unneeded_seconds=25.0,
        )
        for n, (_, most, cpu, gpu, spot) in enumerate(kinds)
    ]
    gangs = [(rounds, [pod(cpu, gpu)] * count) for rounds, count, cpu, gpu in equal]
    cloud = Cloud(pools, gangs)
    for step in range(90):
        cloud.round(10.0 * step)
    for number, (_, gang) in enumerate(gangs):
        one = gang[0]
        most = sum(
            each.most * min(each.offers[k] // v for k, v in one.requests.items()) for each in pools if each.takes(one)
        )
        assert (number in cloud.served) == (most >= len(gang)), "served exactly when its pods fit into all machines"
    assert all(each.replicas == 0 for each in cloud.pools), "all machines are given back"
    for name in cloud.sizes[0]:
        sizes = [each[name] for each in cloud.sizes]
        grows = sum(after > before for before, after in pairwise(sizes)) + (sizes[0] > 0)
        assert grows <= len(gangs), "a pool grows at most once for each gang"
    assert len(cloud.sizes) == 90


def test_objects_of_cluster_api_are_read_as_the_cluster_autoscaler_reads_them() -> None:
    text = b"""{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineDeployment",
      "metadata":{"name":"md","namespace":"capi",
      "annotations":{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size":"1",
      "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":"7",
      "capacity.cluster-autoscaler.kubernetes.io/cpu":"8","capacity.cluster-autoscaler.kubernetes.io/memory":"32Gi",
      "cluster.x-k8s.io/autoscaling-options-scaledownunneededtime":"3m","unisono.io/price":"0.31"}},
      "spec":{"replicas":2},"status":{"readyReplicas":1}}"""
    found = pool_of(msgspec.json.decode(text, type=MachineDeployment))
    assert found is not None
    assert (found.least, found.most, found.booting, found.unneeded_seconds, found.price) == (1, 7, 1, 180.0, 0.31)


# Karpenter's NodePools.

SAID = {f"{CAPACITY}cpu": "8", f"{CAPACITY}memory": "32Gi", GPU_COUNT: "4"}


def node_pool(limits: dict[str, str] | None, notes: dict[str, str], used: dict[str, str] | None = None) -> NodePool:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
    ]
    template = {
        "metadata": {"labels": {"tier": "gold"}},
        "spec": {"requirements": requirements, "taints": [{"key": "spot", "effect": "NoSchedule"}]},
    }
    value = {
        "metadata": {"name": "gpu", "annotations": notes},
        "spec": {"template": template, "limits": limits},
        "status": {"resources": used},
    }
    return msgspec.convert(value, NodePool)


def of_pool(name: str, cpu: str) -> Node:
    value = {"metadata": {"name": name, "labels": {NODE_POOL: "gpu"}}, "status": {"allocatable": {"cpu": cpu}}}
    return msgspec.convert(value, Node)


@pytest.mark.parametrize(
    ("given_pool", "nodes", "expected"),
    [
        # Without limits, or without anybody who knows the shape, there is nothing to count on.
        (node_pool(None, SAID), [], None),
        (node_pool({"memory": "1Ti"}, {}), [], None),
        (node_pool({"example.com/other": "3"}, SAID), [], None),
        (node_pool({"cpu": "many"}, SAID), [], None),
        # The tightest of the limits, less what there is already.
        (node_pool({"cpu": "80", "nvidia.com/gpu": "12"}, SAID), [], (0, 0, 3)),
        (node_pool({"nodes": "2"}, SAID), [], (0, 0, 2)),
        (node_pool({"cpu": "80"}, SAID, {"nodes": "4", "cpu": "32"}), [of_pool("n", "8")], (4, 3, 10)),
        (node_pool({"cpu": "16"}, SAID, {"nodes": "4", "cpu": "32"}), [], (4, 4, 4)),
        # As the smallest of its nodes, where nobody says it.
        (node_pool({"cpu": "40"}, {}, {"nodes": "2", "cpu": "24"}), [of_pool("n", "16"), of_pool("m", "8")], (2, 0, 4)),
    ],
)
def test_how_far_a_node_pool_may_grow(given_pool, nodes, expected):
    found = pool_of_node_pool(given_pool, nodes)
    assert (None if found is None else (found.replicas, found.booting, found.most)) == expected
    if found is not None:
        assert found.spot
        assert dict(found.labels) == {NODE_POOL: "gpu", "tier": "gold", "karpenter.sh/capacity-type": "spot"}


def test_pods_say_which_kinds_of_nodes_they_take_as_they_are() -> None:
    text = "gpu=fast, gpu=slow*2, gpu=old"
    for got, expected in (
        ("", ["fast", "old"]),
        ("gpu=old", ["old", "fast"]),
        ("gpu=slow*2", ["slow"]),
    ):
        found = demand_of(PodSpec(), notes={ONE_OF: text, GOT: got}).kinds
        assert [kind["gpu"] for kind in found] == expected
