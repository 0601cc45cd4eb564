"""Workloads and PodGroups of scheduling.k8s.io: what is wrong with them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kind_families import COMPOSITE_POD_GROUPS, WORKLOAD_POD_GROUPS, WORKLOADS
from unisono.api.kinds import POD_GROUPS, find
from unisono.api.validation import validate

GANG = {"schedulingPolicy": {"gang": {"minCount": 4}}}
RACK = {"topology": [{"key": "topology.kubernetes.io/rack"}]}
TEMPLATE = {"name": "workers", **GANG}


def made(kind: Kind[Any], spec: dict[str, Any]) -> Any:
    value = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "one", "namespace": "default"},
        "spec": spec,
    }
    decoded = decode(kind, value)
    assert decoded.unknown_fields == [] and decoded.type_errors == []
    return decoded.obj


def messages(kind: Kind[Any], spec: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    before = made(kind, old) if old is not None else None
    return [error.message() for error in validate(kind, made(kind, spec), before)]


@pytest.mark.parametrize(
    "spec",
    [
        GANG,
        {"schedulingPolicy": {"basic": {}}},
        {**GANG, "schedulingConstraints": RACK, "disruptionMode": "PodGroup", "priorityClassName": "high"},
        {
            **GANG,
            "podGroupTemplateRef": {"workload": {"workloadName": "train", "podGroupTemplateName": "workers"}},
            "resourceClaims": [{"name": "net", "resourceClaimTemplateName": "nics"}],
        },
        {**GANG, "disruptionMode": {"all": {}}, "preemptionPolicy": "Never"},
        {**GANG, "disruptionMode": {"single": {}}, "workloadRef": {"workloadName": "train", "templateName": "workers"}},
    ],
)
def test_good_groups(spec: dict[str, Any]) -> None:
    assert messages(WORKLOAD_POD_GROUPS, spec) == []
    template = {key: value for key, value in spec.items() if key not in ("podGroupTemplateRef", "workloadRef")}
    assert messages(WORKLOADS, {"podGroupTemplates": [{"name": "one", **template}]}) == []


ONE_POLICY = "must specify one of: `basic`, `gang`"


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, [f"spec.schedulingPolicy: Required value: {ONE_POLICY}"]),
        (
            {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
            [f'spec.schedulingPolicy: Invalid value: "{{basic, gang}}": {ONE_POLICY}'],
        ),
        ({"schedulingPolicy": {"gang": {}}}, ["spec.schedulingPolicy.gang.minCount: Required value"]),
        (
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            ["spec.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1"],
        ),
        ({**GANG, "disruptionMode": "All"}, ["spec.disruptionMode: Unsupported value"]),
        (
            {**GANG, "schedulingConstraints": {"topology": [{"key": ""}]}},
            ["spec.schedulingConstraints.topology[0].key: Required value"],
        ),
        (
            {**GANG, "schedulingConstraints": {"topology": RACK["topology"] * 2}},
            ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 items"],
        ),
        ({**GANG, "disruptionMode": {}}, ["spec.disruptionMode: Invalid value"]),
        ({**GANG, "disruptionMode": {"single": {}, "all": {}}}, ["spec.disruptionMode: Invalid value"]),
        ({**GANG, "preemptionPolicy": "Sometimes"}, ["spec.preemptionPolicy: Unsupported value"]),
        (
            {**GANG, "workloadRef": {"workloadName": ""}},
            ["spec.workloadRef.workloadName: Required value", "spec.workloadRef.templateName: Required value"],
        ),
        ({**GANG, "podGroupTemplateRef": {}}, ["spec.podGroupTemplateRef: Required value"]),
        ({**GANG, "resourceClaims": [{"name": "net"}]}, ["spec.resourceClaims[0]: Invalid value"]),
    ],
)
def test_what_is_wrong_with_a_group(spec: dict[str, Any], wrong: list[str]) -> None:
    found = messages(WORKLOAD_POD_GROUPS, spec)
    assert len(found) == len(wrong) and all(one.startswith(start) for one, start in zip(found, wrong, strict=True))


def test_a_workload_needs_one_to_eight_templates_of_different_names() -> None:
    path, one_of = "spec.podGroupTemplates", "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"
    assert messages(WORKLOADS, {}) == [f"spec: Required value: {one_of}"]
    nine = [{**TEMPLATE, "name": f"t{index}"} for index in range(9)]
    assert messages(WORKLOADS, {"podGroupTemplates": nine}) == [f"{path}: Too many: 9: must have at most 8 items"]
    twice = {"podGroupTemplates": [TEMPLATE, TEMPLATE]}
    assert messages(WORKLOADS, twice) == [f'{path}[1].name: Duplicate value: "workers"']


def test_the_minimum_of_a_gang_may_change_and_nothing_else() -> None:
    larger = {"schedulingPolicy": {"gang": {"minCount": 5}}}
    assert messages(WORKLOAD_POD_GROUPS, larger, GANG) == []
    assert messages(WORKLOAD_POD_GROUPS, {**larger, "priorityClassName": "high"}, GANG)[0].startswith("spec: Invalid")
    assert messages(WORKLOAD_POD_GROUPS, {"schedulingPolicy": {"basic": {}}}, GANG)[0].startswith("spec: Invalid value")
    old = {"podGroupTemplates": [TEMPLATE]}
    new = copy.deepcopy(old)
    new["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] = 5  # type: ignore[index]
    assert messages(WORKLOADS, new, old) == []
    new["podGroupTemplates"][0]["priority"] = 5
    assert [each.split(":")[0] for each in messages(WORKLOADS, new, old)] == ["spec.podGroupTemplates"]
    owner = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    assert messages(WORKLOADS, {**old, "controllerRef": owner}, old) == []
    assert [each.split(":")[0] for each in messages(WORKLOADS, old, {**old, "controllerRef": owner})] == [
        "spec.controllerRef"
    ]


def test_two_kinds_are_called_podgroup() -> None:
    for version in ("v1beta1", "v1alpha3", "v1alpha2"):
        assert find(f"scheduling.k8s.io/{version}", "PodGroup") is WORKLOAD_POD_GROUPS
    assert find("scheduling.volcano.sh/v1beta1", "PodGroup") is POD_GROUPS


ORIGIN = {"workloadRef": {"workloadName": "train", "templateName": "workers"}}
PAIR = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({**PAIR, **ORIGIN}, []),
        ({"schedulingPolicy": {"basic": {}}, **ORIGIN, "parentCompositePodGroupName": "job"}, []),
        ({**PAIR, **ORIGIN, "schedulingConstraints": RACK, "disruptionMode": {"all": {}}}, []),
        (PAIR, ["spec.workloadRef: Required value"]),
        ({**ORIGIN, "schedulingPolicy": {}}, [f"spec.schedulingPolicy: Required value: {ONE_POLICY}"]),
        (
            {**ORIGIN, "schedulingPolicy": {"gang": {}}},
            ["spec.schedulingPolicy.gang.minGroupCount: Required value"],
        ),
        (
            {**ORIGIN, "schedulingPolicy": {"gang": {"minGroupCount": 0}}},
            ["spec.schedulingPolicy.gang.minGroupCount: Invalid value: 0: must be greater than or equal to 1"],
        ),
        ({**PAIR, **ORIGIN, "parentCompositePodGroupName": ""}, ["spec.parentCompositePodGroupName: Required value"]),
        (
            {**PAIR, **ORIGIN, "schedulingConstraints": {"topology": RACK["topology"] * 2}},
            ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 items"],
        ),
        ({**PAIR, **ORIGIN, "priority": 1_000_000_001}, ["spec.priority: Invalid value"]),
        ({**PAIR, **ORIGIN, "disruptionMode": {"single": {}, "all": {}}}, ["spec.disruptionMode: Invalid value"]),
    ],
)
def test_what_is_wrong_with_a_group_of_groups(spec: dict[str, Any], wrong: list[str]) -> None:
    found = messages(COMPOSITE_POD_GROUPS, spec)
    assert len(found) == len(wrong) and all(one.startswith(start) for one, start in zip(found, wrong, strict=True))


def test_a_group_of_groups_is_fixed() -> None:
    larger = {**ORIGIN, "schedulingPolicy": {"gang": {"minGroupCount": 3}}}
    assert messages(COMPOSITE_POD_GROUPS, {**PAIR, **ORIGIN}, {**PAIR, **ORIGIN}) == []
    assert [each.split(":")[0] for each in messages(COMPOSITE_POD_GROUPS, larger, {**PAIR, **ORIGIN})] == ["spec"]


def tree(depth: int) -> dict[str, Any]:
    """Templates of so many levels, the last of which is a PodGroup."""
    below: dict[str, Any] = {"podGroupTemplates": [TEMPLATE]}
    for level in range(depth - 1):
        below = {"compositePodGroupTemplates": [{"name": f"g{level}", **PAIR, **below}]}
    return below


def test_the_templates_of_a_workload_are_a_tree_of_at_most_four_levels() -> None:
    for depth in (1, 2, 3, 4):
        assert messages(WORKLOADS, tree(depth)) == []
    at = "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].compositePodGroupTemplates[0]"
    assert messages(WORKLOADS, tree(5)) == [
        f"{at}.compositePodGroupTemplates: Invalid value: null: maximum template hierarchy depth is 4"
    ]
    both = {**tree(1), **tree(2)}
    assert "must specify one of" in messages(WORKLOADS, both)[0]
    childless = {"compositePodGroupTemplates": [{"name": "g", **PAIR}]}
    assert "must have at least one child" in messages(WORKLOADS, childless)[0]
    mixed = copy.deepcopy(tree(2))
    mixed["compositePodGroupTemplates"][0]["priorityClassName"] = "high"
    assert "must be identical" in messages(WORKLOADS, mixed)[0]
    twice = {"compositePodGroupTemplates": [{"name": "workers", **PAIR, "podGroupTemplates": [TEMPLATE]}]}
    assert "Duplicate value" in messages(WORKLOADS, twice)[0]


def test_the_minimums_of_a_tree_of_templates_may_change_and_nothing_else() -> None:
    old, new = tree(3), copy.deepcopy(tree(3))
    outer = new["compositePodGroupTemplates"][0]
    outer["schedulingPolicy"]["gang"]["minGroupCount"] = 1
    outer["compositePodGroupTemplates"][0]["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] = 5
    assert messages(WORKLOADS, new, old) == []
    outer["schedulingPolicy"] = {"basic": {}}
    assert [each.split(":")[0] for each in messages(WORKLOADS, new, old)] == ["spec.compositePodGroupTemplates"]


@pytest.mark.parametrize(
    ("policies", "wrong"),
    [
        ([{"name": "a", "minSubGroups": 1}, {"name": "b", "parent": "a", "podGroupName": "b"}], []),
        ([{"name": "b", "parent": "a"}], ["spec.subGroupPolicy[0].parent: Invalid value"]),
        (
            [{"name": "p0"}, *({"name": f"p{n}", "parent": f"p{n - 1}"} for n in range(1, 9))],
            ['spec.subGroupPolicy[8].parent: Invalid value: "p7": policies may be nested 8 levels deep at most'],
        ),
        (
            [{"name": "a", "matchLabelKeys": ["x"]}, {"name": "b", "parent": "a", "matchLabelKeys": ["y"]}],
            ["spec.subGroupPolicy[0]: Forbidden"],
        ),
        ([{"name": "a", "subGroupSize": 1}, {"name": "b", "parent": "a", "podGroupName": "b"}], []),
        (
            [{"name": "a", "subGroupSize": 2}, {"name": "b", "parent": "a", "podGroupName": "b"}],
            ["spec.subGroupPolicy[0]: Forbidden"],
        ),
        (
            [{"name": "a"}, {"name": "b", "parent": "a", "matchLabelKeys": ["y"], "minSubGroups": 2}],
            ["spec.subGroupPolicy[1].minSubGroups: Forbidden"],
        ),
        (
            [{"name": "a", "podGroupName": "x", "labelSelector": {"matchLabels": {"y": "z"}}}],
            ["spec.subGroupPolicy[0].podGroupName: Forbidden"],
        ),
        (
            [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}],
            ["spec.subGroupPolicy[0].parent: Invalid value", "spec.subGroupPolicy[1].parent: Invalid value"],
        ),
    ],
)
def test_policies_that_are_part_of_others(policies: list[dict[str, Any]], wrong: list[str]) -> None:
    found = messages(POD_GROUPS, {"minMember": 1, "subGroupPolicy": policies})
    assert len(found) == len(wrong) and all(one.startswith(start) for one, start in zip(found, wrong, strict=True))
