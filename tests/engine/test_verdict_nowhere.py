"""What a verdict offers for labels and resources that no node has."""

from __future__ import annotations

from typing import Any

import pytest
from test_verdict_changes import CONFIGS, check

from support.build import GANG, config, flatten, gang, group, node
from unisono.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from unisono.engine.changes import AddLabels, RelaxRule, RequestAtMost, Together, UseLabel
from unisono.engine.verdict import Cause, Verdict

Wish = tuple[str, str, list[str]]
GPU = "nvidia.com/gpu"


def nodes_like(*terms: list[Wish]) -> Affinity:
    """Required node affinity of these terms."""
    made = [
        NodeSelectorTerm(
            match_expressions=[
                NodeSelectorRequirement(key=key, operator=operator, values=values or None)
                for key, operator, values in term
            ]
        )
        for term in terms
    ]
    return Affinity(
        node_affinity=NodeAffinity(
            required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=made)
        )
    )


def verdict_of(*things: Any, settings: Any = GANG) -> Verdict:
    """The verdict of ``j``; what it offers has been done, and started the job."""
    (verdict,) = [one for one in check(flatten(things), settings) if one.job == "ns/j"]
    return verdict


LABELS: dict[str, tuple[list[Any], dict[str, Any], AddLabels]] = {
    "selector": ([node("a"), node("b")], {"selector": {"disk": "ssd"}}, AddLabels(("a",), {"disk": "ssd"})),
    "one of several values": (
        [node("a")],
        {"affinity": nodes_like([("disk", "In", ["ssd", "nvme"])])},
        AddLabels(("a",), {"disk": "ssd"}),
    ),
    "any value": (
        [node("a")],
        {"affinity": nodes_like([("disk", "Exists", [])])},
        AddLabels(("a",), {"disk": "true"}),
    ),
    "not a number, which tells what a node is": (
        [node("a", labels={"generation": "3"})],
        {"affinity": nodes_like([("disk", "Exists", []), ("generation", "Gt", ["4"])])},
        RelaxRule("nodeAffinity"),
    ),
    "selector and affinity agree": (
        [node("a")],
        {"selector": {"disk": "nvme"}, "affinity": nodes_like([("disk", "In", ["ssd", "nvme"])])},
        AddLabels(("a",), {"disk": "nvme"}),
    ),
    "nodes that the rest of the term refuses": (
        [node("a", labels={"old": "yes"}), node("b")],
        {"affinity": nodes_like([("disk", "Exists", []), ("old", "DoesNotExist", [])])},
        AddLabels(("b",), {"disk": "true"}),
    ),
    "a term that no label can meet": (
        [node("a", labels={"old": "yes"})],
        {"affinity": nodes_like([("disk", "Exists", []), ("old", "NotIn", ["yes"])], [("zone", "In", ["x"])])},
        AddLabels(("a",), {"zone": "x"}),
    ),
    "tainted nodes are left alone": (
        [node("a", taints=[("t", "", "NoSchedule")]), node("b")],
        {"selector": {"disk": "ssd"}},
        AddLabels(("b",), {"disk": "ssd"}),
    ),
    "as many nodes as the gang needs": (
        [node(name, cpu=1) for name in "abc"],
        {"selector": {"disk": "ssd"}, "minimum": 2},
        AddLabels(("a", "b"), {"disk": "ssd"}),
    ),
}


@pytest.mark.parametrize("name", sorted(LABELS))
def test_a_label_that_is_missing_is_offered_with_nodes(name: str) -> None:
    things, options, change = LABELS[name]
    verdict = verdict_of(*things, gang("j", 2, **{"minimum": 2, **options}))
    assert verdict.cause is Cause.FILTERS
    assert change in verdict.changes


@pytest.mark.parametrize(
    ("things", "options", "told"),
    [
        pytest.param(
            [node("a", cpu=1)],
            {"selector": {"disk": "ssd"}},
            "label nodes with room, or add nodes, with disk=ssd, which no node has, or change the node selector of its "
            "pods",
            id="too few nodes have room",
        ),
        pytest.param(
            [node("a")],
            {"selector": {"kubernetes.io/arch": "arm64"}},
            "add nodes with kubernetes.io/arch=arm64, which no node has, or change the node selector of its pods",
            id="what a node is cannot be labelled",
        ),
        pytest.param(
            [node("a", labels={"old": "yes"})],
            {"affinity": nodes_like([("old", "DoesNotExist", [])])},
            "change the node affinity that its pods require: no node matches it",
            id="no label would help",
        ),
    ],
)
def test_where_no_label_is_enough_words_say_what_is_missing(
    things: list[Any], options: dict[str, Any], told: str
) -> None:
    verdict = verdict_of(*things, gang("j", 2, **options))
    if verdict.changes:  # only where the label tells nothing about what a machine can run
        assert {type(change) for change in verdict.changes} <= {RelaxRule, Together}
    else:
        assert verdict.suggestion == f"{told} (not tried)"


PROMISING = config(("gang",), ("predicates", "overcommit"))


@pytest.mark.parametrize(
    ("settings", "job", "cause"),
    [
        pytest.param(
            PROMISING,
            group("j", 2, phase="Pending", resources={"cpu": 2, GPU: 2}),
            Cause.CLUSTER_OVERCOMMITTED,
            id="before its pods exist",
        ),
        pytest.param(PROMISING, gang("j", 2, gpu=1), Cause.TOO_LARGE, id="nodes"),
        pytest.param(CONFIGS["shares"], gang("j", 2, gpu=1), Cause.TOO_LARGE, id="share"),
        pytest.param(
            CONFIGS["capacity"],
            gang("j", 2, gpu=1, phase="Pending", min_resources=True),
            Cause.CLUSTER_OVERCOMMITTED,
            id="capacity",
        ),
    ],
)
def test_a_resource_that_no_node_has_is_named(settings: Any, job: Any, cause: Cause) -> None:
    verdict = verdict_of(node("a"), job, settings=settings)
    assert verdict.cause is cause
    assert f"o node offers {GPU}" in verdict.message
    assert not any(isinstance(change, RequestAtMost) for change in verdict.changes)
    assert verdict.suggestion == f"add a node that has {GPU} (not tried)"


def test_a_resource_that_is_in_use_is_not_called_missing() -> None:
    verdict = verdict_of(node("a", gpu=1), [group("x"), gang("y", 1, gpu=1)], gang("j", 1, gpu=1, created=5.0))
    assert "offers" not in verdict.message + verdict.suggestion
    assert verdict.suggestion.startswith("add 1 node like a")


def test_both_resources_that_are_in_use_are_named_with_who_holds_them() -> None:
    asking = gang("j", 1, cpu=2, gpu=2, created=5.0)
    held = [gang("x", 1, cpu=1, gpu=3), gang("y", 1, cpu=19, created=1.0)]
    verdict = verdict_of(node("a", cpu=20, gpu=4), held, asking, settings=PROMISING)
    assert "cpu 0 of 20" in verdict.message
    assert f"{GPU} 1 of 4" in verdict.message
    assert f"ns/x holds {GPU} 3" in verdict.message
    assert {holder.name: dict(holder.amounts) for holder in verdict.holders} == {
        "ns/x": {"cpu": 1000, GPU: 3000},
        "ns/y": {"cpu": 19000},
    }


def test_labels_that_no_node_has_together_are_told_with_those_of_the_nodes_that_have_the_rest() -> None:
    things = [node("a", labels={"pool": "gpu", "zone": "x"}), node("b", labels={"pool": "cpu", "zone": "y"})]
    verdict = verdict_of(*things, gang("j", 1, selector={"pool": "gpu", "zone": "y"}))
    assert "nodes with pool=gpu have zone=x" in verdict.message
    assert "nodes with zone=y have pool=cpu" in verdict.message
    assert UseLabel("zone", "x", "zone", "y") in verdict.changes
    assert UseLabel("pool", "cpu", "pool", "gpu") in verdict.changes
