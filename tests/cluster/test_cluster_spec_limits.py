"""A pod that asks the scheduler to look at too much is set aside with a text that says what, and nobody else waits."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import cluster, gang, group, kind_of, node, nodes, placed, pod, schedule
from unisono.api.base import LabelSelector, LabelSelectorRequirement
from unisono.api.core import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from unisono.cluster.podclass import MOST_PORTS, MOST_TERMS, MOST_TOLERATIONS, MOST_VALUES, MOST_VOLUMES, weight_of
from unisono.engine.verdicts import trial


def term(values: int = 0, namespaces: int = 0) -> PodAffinityTerm:
    some = [LabelSelectorRequirement(key="k", operator="In", values=[f"v{n}" for n in range(values)])]
    names = [f"n{n}" for n in range(namespaces)]
    selector = LabelSelector(match_expressions=some if values else None)
    return PodAffinityTerm(label_selector=selector, namespaces=names, topology_key="zone")


def to_pods(required: int = 0, preferred: int = 0, **more: int) -> dict[str, Any]:
    near = PodAffinity(
        required_during_scheduling_ignored_during_execution=[term(**more) for _ in range(required)],
        preferred_during_scheduling_ignored_during_execution=[
            WeightedPodAffinityTerm(weight=1, pod_affinity_term=term(**more)) for _ in range(preferred)
        ],
    )
    return {"affinity": Affinity(pod_affinity=near)}


def to_nodes(required: int, preferred: int, values: int = 1) -> dict[str, Any]:
    one = NodeSelectorTerm(
        match_expressions=[
            NodeSelectorRequirement(key="k", operator="In", values=[f"v{n}" for n in range(values)]),
        ]
    )
    side = NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=[one] * required),
        preferred_during_scheduling_ignored_during_execution=[PreferredSchedulingTerm(weight=1, preference=one)]
        * preferred,
    )
    return {"affinity": Affinity(node_affinity=side)}


def spread(number: int) -> dict[str, Any]:
    one = TopologySpreadConstraint(max_skew=1, topology_key="zone", when_unsatisfiable="ScheduleAnyway")
    return {"topology_spread_constraints": [one] * number}


def tolerations(number: int) -> dict[str, Any]:
    return {"tolerations": [Toleration(key=f"k{n}", operator="Exists") for n in range(number)]}


def ports(number: int) -> dict[str, Any]:
    each = [ContainerPort(container_port=n + 1, host_port=n + 1) for n in range(number)]
    return {"containers": [Container(name="c", ports=each)]}


def volumes(number: int) -> dict[str, Any]:
    return {"volumes": [Volume(name=f"v{n}") for n in range(number)]}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "terms about pods": (
        to_pods(MOST_TERMS // 2, MOST_TERMS // 2),
        to_pods(MOST_TERMS // 2, MOST_TERMS // 2 + 1),
        f"{MOST_TERMS + 1} terms about other pods",
    ),
    "spread": (spread(MOST_TERMS), spread(MOST_TERMS + 1), "spec.topologySpreadConstraints"),
    "terms about nodes": (to_nodes(1, MOST_TERMS - 1), to_nodes(1, MOST_TERMS), "spec.affinity.nodeAffinity"),
    "values": (to_pods(1, values=MOST_VALUES - 1), to_pods(1, values=MOST_VALUES), "namespaces, labels and values"),
    "namespaces": (
        to_pods(1, namespaces=MOST_VALUES),
        to_pods(1, namespaces=MOST_VALUES + 1),
        "namespaces, labels and values",
    ),
    "values of nodes": (
        to_nodes(1, 0, MOST_VALUES - 1),
        to_nodes(1, 0, MOST_VALUES),
        "give what is meant a label of its own",
    ),
    "tolerations": (tolerations(MOST_TOLERATIONS), tolerations(MOST_TOLERATIONS + 1), "spec.tolerations"),
    "ports": (ports(MOST_PORTS), ports(MOST_PORTS + 1), "ports with hostPort"),
    "volumes": (volumes(MOST_VOLUMES), volumes(MOST_VOLUMES + 1), "spec.volumes"),
}


def with_spec(name: str, **given: Any) -> Pod:
    found = pod(name, "x")
    for key, value in given.items():
        setattr(found.spec, key, value)
    return found


@pytest.mark.parametrize(("fitting", "too_much", "text"), CASES.values(), ids=CASES.keys())
def test_a_pod_beyond_a_bound_is_set_aside_and_told_which(
    fitting: dict[str, Any], too_much: dict[str, Any], text: str
) -> None:
    state = cluster(nodes(2), group("x"), gang("other", 2))
    inside, beyond = with_spec("inside", **fitting), with_spec("beyond", **too_much)
    for each in (inside, beyond):
        state.apply("ADDED", kind_of(each), each)
    assert "ns/inside" in state.tasks
    assert "ns/beyond" not in state.tasks
    (rejected,) = state.rejected.all()
    assert (rejected.key, text in rejected.message) == ("ns/beyond", True)
    assert {"other-w-0", "other-w-1"} <= set(placed(schedule(state)))
    cured = with_spec("beyond")
    state.apply("MODIFIED", kind_of(cured), cured)
    assert not state.rejected.all()


def test_what_is_looked_at_is_counted() -> None:
    assert weight_of(PodSpec()) == 0
    assert weight_of(PodSpec(**tolerations(7), **spread(3), **volumes(2))) == 10
    assert weight_of(PodSpec(**to_pods(2, 1, values=4, namespaces=5))) == 3 + 3 * (1 + 4 + 5)


def test_changes_are_tried_as_seldom_as_heavy_pods_make_a_trial_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = []
    for number in range(30):
        heavy = with_spec(f"p{number}", **tolerations(MOST_TOLERATIONS - number))
        heavy.metadata.annotations = {"scheduling.k8s.io/group-name": f"g{number}"}
        heavy.spec.node_selector = {"nowhere": "x"}
        waiting += [group(f"g{number}"), heavy]
    tries = [0]
    real = trial.Trials._carried_out

    def counted(self: Any, *given: Any, **more: Any) -> bool:
        tries[-1] += 1
        return real(self, *given, **more)

    monkeypatch.setattr(trial.Trials, "_carried_out", counted)
    assert len(schedule(cluster(node("a", cpu=64), waiting)).verdicts) == 30
    tries.append(0)
    monkeypatch.setattr(trial, "LIGHT", 10 * MOST_TOLERATIONS)
    schedule(cluster(node("a", cpu=64), waiting))
    dear, cheap = tries
    assert 0 < dear < cheap
