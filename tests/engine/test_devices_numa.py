"""numa-aware: CPUs by topology, policies, books from cycle to cycle."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import build
from support.examples import examples
from unisono.api import kinds
from unisono.api.core import Container, Pod, ResourceRequirements
from unisono.api.groups.topology import Numatopology
from unisono.api.numa import (
    BEST_EFFORT,
    NONE,
    RESTRICTED,
    SINGLE,
    CpuTopology,
    assign,
    bits,
    numa_nodes,
    parse_cpus,
    take,
)
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import Decisions
from unisono.engine.plugins.numa_aware import decision_of, read

POLICY, DECISION = "volcano.sh/numa-topology-policy", "volcano.sh/topology-decision"
REFUSED = "containers cannot be assigned by numa"


def machine(numa: int = 2, cores: int = 4, threads: int = 1) -> CpuTopology:
    """One socket per NUMA node; CPU numbers go through the machine."""
    detail = {}
    for cpu in range(numa * cores * threads):
        node, core = divmod(cpu // threads, cores)
        detail[cpu] = (node, node, core)
    return CpuTopology.of(detail)


def mask(*cpus: int) -> int:
    return sum(1 << cpu for cpu in cpus)


# ---- sets of CPUs


@pytest.mark.parametrize(("text", "cpus"), [("", []), ("0-3", [0, 1, 2, 3]), ("0,2-3, 8", [0, 2, 3, 8]), ("5-5", [5])])
def test_lists_of_cpus(text: str, cpus: list[int]) -> None:
    assert list(bits(parse_cpus(text))) == cpus


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "1-2-3", "1;2", "999999"])
def test_broken_lists_of_cpus(text: str) -> None:
    with pytest.raises(ValueError, match="not a list of CPUs"):
        parse_cpus(text)


@pytest.mark.parametrize(
    ("topology", "free", "wanted", "cpus"),
    [
        (machine(), mask(*range(8)), 4, mask(0, 1, 2, 3)),
        (machine(), mask(1, *range(4, 8)), 4, mask(4, 5, 6, 7)),  # the socket that is wholly free
        (machine(), mask(0, *range(4, 8)), 1, mask(0)),  # the fuller socket first
        (machine(2, 2, 2), mask(0, 2, 3, 4, 5, 6, 7), 2, mask(2, 3)),  # whole cores, of the fuller socket
        (machine(2, 2, 2), mask(0, 2, 3), 1, mask(0)),  # a thread whose sibling is busy
        (machine(2, 2, 2), mask(*range(8)), 3, mask(0, 1, 2)),
        (machine(), mask(0, 1), 3, None),
        (machine(), mask(0, 1), 0, 0),
    ],
)
def test_which_cpus_are_taken(topology: CpuTopology, free: int, wanted: int, cpus: int | None) -> None:
    assert take(topology, free, wanted) == cpus


# ---- policies


@pytest.mark.parametrize(
    ("policy", "free", "wanted", "nodes"),
    [
        (SINGLE, range(8), (4,), 1),
        (SINGLE, range(8), (5,), None),
        (SINGLE, (0, 1, 4, 5), (3,), None),
        (SINGLE, range(8), (3, 3), 2),  # each container within one
        (SINGLE, range(8), (3, 3, 2), None),
        (RESTRICTED, range(8), (5,), 2),  # two are needed even on an idle machine
        (RESTRICTED, (0, 1, 4, 5), (3,), None),  # one would do on an idle machine
        (RESTRICTED, (0, 1, 2, 4), (3,), 1),
        (BEST_EFFORT, (0, 1, 4, 5), (3,), 2),
        (BEST_EFFORT, (0, 1), (3,), 0),
        (NONE, (0, 1, 4, 5), (3,), 2),
        (SINGLE, (), (0,), 0),
    ],
)
def test_policies_admit_as_the_kubelet_does(policy: str, free: Any, wanted: tuple[int, ...], nodes: int | None) -> None:
    topology = machine()
    given = assign(topology, mask(*free), wanted, policy)
    assert (None if given is None else numa_nodes(topology, given)) == nodes


@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from((machine(), machine(4, 2), machine(2, 2, 2), machine(1, 4))),
    st.integers(0, 255),
    st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple),
    st.sampled_from((NONE, BEST_EFFORT, RESTRICTED, SINGLE)),
)
def test_given_cpus_are_free_and_nobody_elses(
    topology: CpuTopology, free: int, wanted: tuple[int, ...], policy: str
) -> None:
    free &= topology.all
    given = assign(topology, free, wanted, policy)
    if given is None:
        assert policy in (RESTRICTED, SINGLE)
        return
    taken = 0
    for request, cpus in zip(wanted, given, strict=True):
        assert cpus & ~free == 0
        assert cpus & taken == 0
        assert cpus.bit_count() in ((request,) if policy in (RESTRICTED, SINGLE) else (request, 0))
        if policy == SINGLE and cpus:
            assert numa_nodes(topology, (cpus,)) == 1
        if policy == RESTRICTED and cpus:
            per_node = topology.numa[0][1].bit_count()
            assert numa_nodes(topology, (cpus,)) == -(-request // per_node)
        taken |= cpus


# ---- objects


def numa(name: str, free: str = "0-7", policy: str = SINGLE, **spec: Any) -> Numatopology:
    """Two NUMA nodes of four CPUs."""
    given = {
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": policy},
        "numares": {"cpu": {"allocatable": free, "capacity": 8}},
        "cpuDetail": {str(cpu): {"numa": cpu // 4, "socket": cpu // 4, "core": cpu} for cpu in range(8)},
        **spec,
    }
    return msgspec.convert({"metadata": {"name": name, "uid": name}, "spec": given}, Numatopology)


def guaranteed(pod: Pod, *cpus: str) -> Pod:
    pod.spec.containers = [
        Container(name=f"c{i}", resources=ResourceRequirements(limits={"cpu": cpu, "memory": "1Gi"}))
        for i, cpu in enumerate(cpus)
    ]
    return pod


def single(name: str, *cpus: str, policy: str = "", **parts: Any) -> list[Any]:
    notes = {**parts.pop("annotations", {}), **({POLICY: policy} if policy else {})}
    return [build.group(name, 1), guaranteed(build.pod(f"{name}-0", name, annotations=notes, **parts), *cpus)]


def world(*things: Any, topologies: list[Numatopology]) -> ClusterState:
    state = build.cluster(*things)
    for obj in topologies:
        state.apply("ADDED", kinds.NUMATOPOLOGIES, obj)
    return state


def config(**arguments: Any) -> SchedulerConfig:
    return build.config(
        ("gang",), ("predicates", "numa-aware"), actions="allocate", arguments={"numa-aware": arguments}
    )


def run(state: ClusterState, **arguments: Any) -> Decisions:
    decisions = build.schedule(state, config(**arguments))
    assert decisions.violations == []
    return decisions


def told(decisions: Decisions) -> dict[str, Any]:
    return {
        bind.pod: json.loads(bind.annotations[DECISION])["numa"] if DECISION in bind.annotations else None
        for bind in decisions.binds
    }


def test_a_pod_is_told_its_numa_nodes() -> None:
    state = world(build.nodes(1), single("a", "3", policy=SINGLE), topologies=[numa("n000")])
    assert told(run(state)) == {"a-0": {"0": {"cpu": "3"}}}


def test_pods_of_one_cycle_share_the_books() -> None:
    state = world(build.nodes(1), *(single(name, "3", policy=SINGLE) for name in "abc"), topologies=[numa("n000")])
    decisions = run(state)
    assert told(decisions) == {"a-0": {"0": {"cpu": "3"}}, "b-0": {"1": {"cpu": "3"}}}
    assert decisions.verdicts["ns/c"].reasons == {"Insufficient cpu": 1}
    state = world(build.nodes(1, cpu=20), *(single(n, "3", policy=SINGLE) for n in "abc"), topologies=[numa("n000")])
    assert run(state).verdicts["ns/c"].reasons == {REFUSED: 1}


def test_half_a_gang_gives_its_cpus_back() -> None:
    notes = {POLICY: SINGLE}
    pods = [guaranteed(build.pod(f"g-{i}", "g", annotations=notes), "3") for i in range(3)]
    state = world(
        build.nodes(1, cpu=20),
        build.group("g", 3),
        pods,
        single("later", "4", policy=SINGLE, created=9),
        topologies=[numa("n000")],
    )
    assert told(run(state)) == {"later-0": {"0": {"cpu": "4"}}}


@pytest.mark.parametrize(
    ("topology", "reason"),
    [
        (None, "numa info is empty"),
        (numa("n000", policies={"TopologyManagerPolicy": SINGLE}), "cpu manager policy isn't static"),
        (
            numa("n000", policy=RESTRICTED),
            "task topology policy[single-numa-node] is different with node[restricted]",
        ),
        (numa("n000", cpuDetail={}), "no topo information"),
        (numa("n000", free=""), "cpu allocatable map is empty"),
        (numa("n000", free="1;2"), "cpu allocatable map is empty"),
        (numa("n000", free="0,1,4,5"), REFUSED),
        (numa("n000", resReserved={"cpu": "1500m"}, free="0-3"), REFUSED),
    ],
)
def test_why_a_node_is_refused(topology: Numatopology | None, reason: str) -> None:
    state = world(build.nodes(1), single("a", "3", policy=SINGLE), topologies=[topology] if topology else [])
    assert run(state).verdicts["ns/a"].reasons == {reason: 1}


@pytest.mark.parametrize(
    ("free", "policy", "cpus", "placed"),
    [
        ("0,1,4,5", SINGLE, "3", False),  # the node's own policy counts
        ("0,1,4,5", RESTRICTED, "3", False),
        ("0,1,4,5", BEST_EFFORT, "3", True),
        ("0,1,4,5", NONE, "3", True),
        ("0,1,4,5", "", "3", True),
        ("0,1,4,5", SINGLE, "2500m", True),  # a fraction shares what is left
    ],
)
def test_pods_without_a_policy_meet_the_nodes(free: str, policy: str, cpus: str, placed: bool) -> None:
    state = world(build.nodes(1), single("a", cpus), topologies=[numa("n000", free, policy)])
    assert bool(run(state).binds) is placed


def test_pods_that_are_not_guaranteed_go_anywhere() -> None:
    state = world(build.nodes(1), build.gang("a", 1, cpu=3), topologies=[numa("n000", "0,1,4,5")])
    assert told(run(state)) == {"a-w-0": None}


@pytest.mark.parametrize(("weight", "node"), [(1, "n001"), (0, "n000")])
def test_the_node_that_needs_fewest_numa_nodes_wins(weight: int, node: str) -> None:
    topologies = [numa("n000", "0,1,4,5", BEST_EFFORT), numa("n001", "0-2,4", BEST_EFFORT)]
    state = world(build.nodes(2), single("a", "3", policy=BEST_EFFORT), topologies=topologies)
    assert [bind.node for bind in run(state, weight=weight).binds] == [node]


# ---- from cycle to cycle


def test_decided_pods_hold_their_cpus_until_the_exporter_has_seen_them() -> None:
    state = world(build.nodes(1, cpu=20), single("a", "3", policy=SINGLE), topologies=[numa("n000")])
    for bind in run(state).binds:
        state.assume(f"{bind.namespace}/{bind.pod}", bind.node, bind.annotations)
    for thing in build.flatten([single(name, "4", policy=SINGLE) for name in "bc"]):
        state.apply("ADDED", build.kind_of(thing), thing)
    assert told(run(state)) == {"b-0": {"1": {"cpu": "4"}}}
    seen = numa("n000", "3-7", podAllocations=[{"name": "a-0", "namespace": "ns"}])
    state.apply("MODIFIED", kinds.NUMATOPOLOGIES, seen)
    assert told(run(state)) == {"b-0": {"1": {"cpu": "4"}}}
    state.apply("MODIFIED", kinds.NUMATOPOLOGIES, numa("n000", "0-7", podAllocations=[{"uid": "uid-ns-a-0"}]))
    assert len(run(state).binds) == 2


def test_an_exporter_that_lists_no_pods_is_believed_once_they_run() -> None:
    notes = {POLICY: SINGLE, DECISION: '{"numa":{"0":{"cpu":"3"}}}'}

    def placed(phase: str) -> bool:
        pod = guaranteed(build.pod("x", node="n000", phase=phase, annotations=notes), "3")
        state = world(build.nodes(1, cpu=20), pod, single("a", "4", "4", policy=SINGLE), topologies=[numa("n000")])
        return bool(run(state).binds)

    assert (placed("Pending"), placed("Running")) == (False, True)


def test_a_topology_that_goes_away_takes_its_rules_along() -> None:
    topology = numa("n000", "0,1,4,5")
    state = world(build.nodes(1), single("a", "3"), topologies=[topology])
    assert run(state).binds == []
    state.replace(kinds.NUMATOPOLOGIES, [])
    assert len(run(state).binds) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"numa": 3}', '{"numa": {"x": {"cpu": "1"}}}', '{"numa": {"0": {}}}'])
def test_broken_decisions_count_as_none(text: str) -> None:
    assert decision_of({DECISION: text}) == {}


def test_broken_objects_count_as_little_as_they_say() -> None:
    found = read(numa("n", resReserved={"cpu": "lots"}, cpuDetail={"x": {}, "0": {}}, free="0-3"))
    assert (found.reported, found.policy) == (1, SINGLE)
