"""Workloads and PodGroups of scheduling.k8s.io: what is wrong with them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kind_families import WORKLOAD_POD_GROUPS, WORKLOADS
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
    path = "spec.podGroupTemplates"
    assert messages(WORKLOADS, {}) == [f"{path}: Required value: must have at least one item"]
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
