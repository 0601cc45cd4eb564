"""Every field of Kubernetes' own groups: honoured, refused, or warned about, and none without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from support.backends import OPTIONS, opened, value
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod
from unisono.api.decode import Shape, decode, shape_of
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS, COMPOSITE_POD_GROUPS, WORKLOAD_POD_GROUPS, WORKLOADS
from unisono.api.kinds import PODS, PRIORITY_CLASSES
from unisono.api.selecting import pod_group_of
from unisono.api.validation import validate
from unisono.controllers.objects import to_json
from unisono.controllers.podgroup.kubernetes import mirror, told_conditions
from unisono.controllers.workloads.job import group_of
from unisono.errors import ApiError
from unisono.jobkinds.idle_fields import idle_fields
from unisono.jobkinds.kubernetes_groups import top_of, tree_of, wrong_layout


class Row(NamedTuple):
    """What becomes of a field.

    Attributes:
        verdict: ``honoured``: the scheduler is told otherwise with ``value`` than with ``other``; ``refused``: the
            server refuses ``value``; ``warned``: a warning names it; ``written``: the controllers write it;
            ``record``: it says where an object came from, for people and tools, and asks for nothing.
        value: what is set.
        other: what is set in its place, for comparison; None: nothing.
        why: of what is not honoured.

    """

    verdict: str
    value: Any = None
    other: Any = None
    why: str = ""


TEMPLATE = "templates are read by who makes groups after them; Kubernetes' scheduler does not read them either"
CLAIM = "each pod brings its own claims"
WAS = "where the group came from"
RACK = {"topology": [{"key": "example.com/rack"}]}
CONDITION = {
    f"status.conditions[*].{name}": Row("written")
    for name in ("type", "status", "observedGeneration", "lastTransitionTime", "reason", "message")
}
CLAIMS = [{"name": "net", "resourceClaimName": "fabric"}]
COMMON = {
    "spec.schedulingConstraints.topology[*].key": Row("honoured", RACK),
    "spec.disruptionMode": Row("honoured", {"all": {}}),
    "spec.priorityClassName": Row("honoured", "high"),
    "spec.priority": Row("refused", 5, why="it is that of the class, as Kubernetes' admission says"),
    "spec.preemptionPolicy": Row("warned", "Never", why="that of the pods counts"),
    "spec.schedulingPolicy.basic": Row("honoured", {"basic": {}}, {"gang": {"minCount": 2, "minGroupCount": 2}}),
    "spec.parentCompositePodGroupName": Row("honoured", "job"),
    "spec.workloadRef.workloadName": Row("honoured", "other", "train"),
    "spec.workloadRef.templateName": Row("record", "t", why=WAS),
    **CONDITION,
}
TABLE: dict[Kind[Any], dict[str, Row]] = {
    WORKLOAD_POD_GROUPS: {
        **COMMON,
        "spec.schedulingPolicy.gang.minCount": Row("honoured", {"gang": {"minCount": 2}}, {"gang": {"minCount": 1}}),
        **{
            f"spec.resourceClaims[*].{name}": Row("warned", CLAIMS, why=CLAIM)
            for name in ("name", "resourceClaimName", "resourceClaimTemplateName")
        },
        **{
            f"spec.podGroupTemplateRef.workload.{name}": Row("record", "t", why=WAS)
            for name in ("workloadName", "podGroupTemplateName")
        },
        **{
            f"status.resourceClaimStatuses[*].{name}": Row("record", why="no claim is made for a group, which is told")
            for name in ("name", "resourceClaimName")
        },
    },
    COMPOSITE_POD_GROUPS: {
        **COMMON,
        "spec.schedulingPolicy.gang.minGroupCount": Row(
            "honoured", {"gang": {"minGroupCount": 2}}, {"gang": {"minGroupCount": 1}}
        ),
    },
    WORKLOADS: {
        **{f"spec.controllerRef.{name}": Row("record", "x", why=WAS) for name in ("apiGroup", "kind", "name")},
        **{
            f"spec.{part}[*].{name}": Row("record", why=TEMPLATE)
            for part, own in (
                ("podGroupTemplates", ("schedulingPolicy.gang.minCount",)),
                ("compositePodGroupTemplates", ("schedulingPolicy.gang.minGroupCount",)),
            )
            for name in (
                *own,
                "name",
                "schedulingConstraints.topology[*].key",
                "disruptionMode",
                "priorityClassName",
                "priority",
                "preemptionPolicy",
                "schedulingPolicy.basic",
            )
        },
        **{
            f"spec.podGroupTemplates[*].resourceClaims[*].{name}": Row("record", why=TEMPLATE)
            for name in ("name", "resourceClaimName", "resourceClaimTemplateName")
        },
        "spec.compositePodGroupTemplates[*]": Row("refused", why="a tree has four levels"),
    },
    BATCH_JOBS: {
        "spec.scheduling.schedulingPolicy.basic": Row("honoured", {"basic": {}}, {"gang": {}}),
        "spec.scheduling.schedulingPolicy.gang.minCount": Row("honoured", {"gang": {"minCount": 2}}, {"gang": {}}),
        "spec.scheduling.schedulingConstraints.topology[*].key": Row("honoured", RACK),
        "spec.scheduling.disruptionMode": Row("honoured", {"all": {}}),
        **{
            f"spec.scheduling.resourceClaims[*].{name}": Row("warned", CLAIMS, why=CLAIM)
            for name in ("name", "resourceClaimName", "resourceClaimTemplateName")
        },
    },
    PODS: {
        "spec.schedulingGroup.podGroupName": Row("honoured", {"podGroupName": "g"}),
        **{
            f"spec.workloadRef.{name}": Row(
                "warned", {"name": "w", "podGroup": "g"}, why="schedulingGroup took its place in Kubernetes 1.36"
            )
            for name in ("name", "podGroup", "podGroupReplicaKey")
        },
    },
}
OWN = {BATCH_JOBS: "spec.scheduling.", PODS: ("spec.schedulingGroup.", "spec.workloadRef.")}


def leaves(shape: Shape, path: str) -> Iterator[str]:
    """Paths of all fields that have no fields themselves."""
    if shape.item is not None:
        yield from leaves(shape.item, f"{path}[*]")
    elif shape.fields:
        for field in shape.fields.values():
            yield from leaves(field.shape, f"{path}.{field.name}" if path else field.name)
    else:
        yield path


def fields(kind: Kind[Any]) -> set[str]:
    """Those of a kind that are Kubernetes' groups' own; templates within templates are as those of the first level."""
    found = {path for path in leaves(shape_of(kind.struct), "") if path.startswith(OWN.get(kind, ("spec.", "status.")))}
    found = {
        re.sub(r"(compositePodGroupTemplates\[\*\]\.?)+", "compositePodGroupTemplates[*].", path) for path in found
    }
    return {path.replace("compositePodGroupTemplates[*].podGroup", "podGroup").rstrip(".") for path in found}


@pytest.mark.parametrize("kind", list(TABLE), ids=lambda kind: kind.kind)
def test_the_table_has_every_field(kind: Kind[Any]) -> None:
    assert fields(kind) == set(TABLE[kind])
    assert all(row.why for row in TABLE[kind].values() if row.verdict not in ("honoured", "written"))


ROWS = [(kind, path, row) for kind, rows in TABLE.items() for path, row in rows.items()]


def rows(verdict: str) -> Any:
    chosen = [each for each in ROWS if each[2].verdict == verdict]
    ids = [f"{kind.kind}-{path}" for kind, path, _ in chosen]
    return pytest.mark.parametrize(("kind", "path", "row"), chosen, ids=ids)


def built(kind: Kind[Any], name: str, spec: dict[str, Any]) -> Any:
    value = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": spec,
    }
    decoded = decode(kind, value)
    assert not decoded.unknown_fields and not decoded.type_errors
    return decoded.obj


def given(kind: Kind[Any], path: str, value: Any) -> dict[str, Any]:
    """A spec in which the first part of a path, or for a reference its one field, is the value."""
    first, *rest = re.sub(r"\[\*\]", "", path).split(".")[1:]
    if kind is BATCH_JOBS:
        base: dict[str, Any] = {"template": {"spec": {"containers": []}}, "parallelism": 3, "completions": 3}
        base["scheduling"] = {} if value is None else {rest[0]: value}
        return base
    if kind is PODS:
        return {"containers": [], **({} if value is None else {first: value})}
    least = {"minCount": 1} if kind is WORKLOAD_POD_GROUPS else {"minGroupCount": 1}
    base = {"schedulingPolicy": {"gang": least}, "workloadRef": {"workloadName": "train", "templateName": "x"}}
    if first in ("workloadRef", "podGroupTemplateRef"):
        if first == "workloadRef":
            base["parentCompositePodGroupName"] = "job"
            base[first] = {**base[first], rest[0]: value}
        return base
    if first == "schedulingPolicy":
        own = "minCount" if kind is WORKLOAD_POD_GROUPS else "minGroupCount"
        gang = value.get("gang")
        value = {"gang": {own: gang[own]}} if gang else value
    return {**base, **({} if value is None else {first: value})}


def effect(kind: Kind[Any], spec: dict[str, Any]) -> Any:
    """What the scheduler is told of it."""
    if kind is BATCH_JOBS:
        return to_json(group_of(built(kind, "g", spec)).spec)
    if kind is PODS:
        return pod_group_of(built(kind, "p", spec))
    job = built(COMPOSITE_POD_GROUPS, "job", given(COMPOSITE_POD_GROUPS, "spec.none", None))
    group = built(kind, "g", spec)
    done = {"type": "PodGroupInitiallyScheduled", "status": "True"}
    decoded = decode(kind, {"status": {"conditions": [done | {"type": f"Composite{done['type']}"}, done]}}).obj
    group.status.conditions = decoded.status.conditions
    pods = [Pod(metadata=ObjectMeta(name=f"p{at}", namespace="default")) for at in range(2)]
    for pod in pods:
        pod.spec.node_name = "n"
    below = {}
    if kind is COMPOSITE_POD_GROUPS:
        leaf = given(WORKLOAD_POD_GROUPS, "spec.none", None)
        below["default/g"] = [built(WORKLOAD_POD_GROUPS, f"x{at}", leaf) for at in range(2)]
    if group.spec.parent_composite_pod_group_name:
        below["default/job"] = [group]
    composites = {"default/job": job, **({"default/g": group} if kind is COMPOSITE_POD_GROUPS else {})}
    top = top_of(group, composites.get)
    tree = tree_of(job if top == "default/job" else group, lambda key: below.get(key, ()), lambda _: pods)
    return top, wrong_layout(tree), to_json(mirror(tree, pods, "").spec)


@rows("honoured")
def test_what_is_honoured_changes_what_the_scheduler_is_told(kind: Kind[Any], path: str, row: Row) -> None:
    assert effect(kind, given(kind, path, row.value)) != effect(kind, given(kind, path, row.other))


@rows("warned")
def test_what_has_no_effect_is_warned_about(kind: Kind[Any], path: str, row: Row) -> None:
    obj = built(kind, "g", given(kind, path, row.value))
    place = ".".join(re.sub(r"\[\*\]", "", path).split(".")[: 3 if kind is BATCH_JOBS else 2])
    assert [told for told in idle_fields(kind, obj) if told.startswith(f"{place} has no effect")]
    assert idle_fields(kind, built(kind, "g", given(kind, path, None))) == []


@pytest.mark.parametrize("kind", [WORKLOAD_POD_GROUPS, COMPOSITE_POD_GROUPS], ids=lambda kind: kind.kind)
def test_what_is_written(kind: Kind[Any]) -> None:
    group = built(kind, "g", given(kind, "spec.none", None))
    group.metadata.generation = 3
    tree = tree_of(group, lambda _: (), lambda _: ())
    conditions = [to_json(each) for each in told_conditions(tree, None, "no room", 0.0, invalid=False)]
    written = {path.rpartition(".")[2] for path, row in TABLE[kind].items() if row.verdict == "written"}
    assert conditions and all(set(each) == written and None not in each.values() for each in conditions)


async def test_a_priority_is_that_of_its_class() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    async with opened() as backend:
        await backend.service.create(PRIORITY_CLASSES, None, high, OPTIONS)
        for kind in (WORKLOAD_POD_GROUPS, COMPOSITE_POD_GROUPS):
            for number, (own, wanted) in enumerate(
                (
                    ({"priorityClassName": "high"}, 7),
                    ({"priorityClassName": "high", "priority": 7}, 7),
                    ({"priorityClassName": "high", "priority": 5}, "priority admission controller computed 7"),
                    ({"priority": 5}, "priority admission controller computed 0"),
                    ({"priorityClassName": "absent"}, "no PriorityClass with name absent was found"),
                    ({}, None),
                )
            ):
                body = {
                    "apiVersion": kind.api_version,
                    "kind": kind.kind,
                    "metadata": {"name": f"g{number}", "namespace": "default"},
                    "spec": {**given(kind, "spec.none", None), **own},
                }
                try:
                    made = value((await backend.service.create(kind, "default", body, OPTIONS)).object)
                except ApiError as error:
                    assert isinstance(wanted, str) and wanted in error.message
                else:
                    assert made["spec"].get("priority") == wanted


def test_a_tree_that_is_too_deep_is_refused() -> None:
    gang = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    leaf = {"name": "w", "schedulingPolicy": {"gang": {"minCount": 1}}}
    below: dict[str, Any] = {"podGroupTemplates": [leaf]}
    for level in range(4):
        below = {"compositePodGroupTemplates": [{"name": f"g{level}", **gang, **below}]}
    assert any(
        "maximum template hierarchy depth" in each.message()
        for each in validate(WORKLOADS, built(WORKLOADS, "w", below))
    )
