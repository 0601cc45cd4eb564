"""No field of a served kind is accepted, kept and read by nobody without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import unisono
from unisono.api import kind_families, kinds
from unisono.api.decode import Shape, decode, shape_of
from unisono.api.kind import Kind
from unisono.api.kind_families import RAY_CLUSTERS, RAY_JOBS
from unisono.jobkinds.idle_fields import ASK_FOR_NOTHING, WITHOUT_EFFECT, idle_fields

GROUPS = (
    "volcano.sh",
    "scheduling.k8s.io",
    "kubeflow.org",
    "ray.io",
    "jobset.x-k8s.io",
    "keda.sh",
    "fleet.kurator.dev",
    "karmada.io",
)
COPIED = {"RevisionSpec", "TrafficTarget"}  # what Knative adds to a pod's spec, which is copied whole


def served() -> Iterator[Kind[Any]]:
    found = {}
    for value in (*vars(kinds).values(), *vars(kind_families).values()):
        for each in value if isinstance(value, tuple) else (value,):
            # Topologies of nodes are written by agents.
            if isinstance(each, Kind) and each.group.endswith(GROUPS) and each.kind != "Numatopology":
                found[each.resource] = each
    yield from found.values()


@cache
def read() -> frozenset[str]:
    """Names of attributes, and words in texts, of all modules that are not the kinds' own."""
    words: set[str] = set()
    for path in Path(unisono.__file__).parent.rglob("*.py"):
        at = path.as_posix()
        if "/api/groups/" in at or "/api/core/" in at or path.name == "idle_fields.py":
            continue
        text = path.read_text(encoding="utf-8")
        words.update(re.findall(r"\.([a-z_0-9]+)\b", text))
        words.update(re.findall(r"\w+", " ".join(re.findall(r'"([^"\n]*)"', text))))
    return frozenset(words)


def fields(shape: Shape, path: str, deep: int = 14) -> Iterator[tuple[str, type, str, str]]:
    """Path, struct, wire name and attribute of every field below a shape that is not Kubernetes' own."""
    if not deep:
        return
    if shape.item is not None:
        yield from fields(shape.item, path, deep - 1)
    struct = shape.struct
    if struct is None or struct.__module__.startswith("unisono.api.core") or struct.__module__ == "unisono.api.base":
        return
    for field in shape.fields.values():
        below = f"{path}.{field.name}" if path else field.name
        if not path and field.name != "spec":
            continue
        yield below, struct, field.name, field.attribute
        yield from fields(field.shape, below, deep - 1)


@pytest.mark.parametrize("kind", list(served()), ids=lambda kind: kind.resource)
def test_every_field_is_read_or_told(kind: Kind[Any]) -> None:
    silent = {
        path
        for path, struct, name, attribute in fields(shape_of(kind.struct), "")
        if attribute not in read() and name not in read() and struct.__name__ not in COPIED
        if name not in WITHOUT_EFFECT.get(struct, {}) and name not in ASK_FOR_NOTHING.get(struct, ())
    }
    assert not silent


def test_the_page_has_every_field_without_effect() -> None:
    text = (Path(__file__).parents[2] / "docs" / "words-of-others.md").read_text(encoding="utf-8")
    for struct, rows in WITHOUT_EFFECT.items():
        for name, instead in rows.items():
            assert f"| {struct.__name__} | `{name}` | {instead} |" in text


def test_rows_are_of_fields_that_are_there() -> None:
    for struct, rows in (*WITHOUT_EFFECT.items(), *ASK_FOR_NOTHING.items()):
        assert set(rows) <= set(shape_of(struct).fields)


def test_each_field_that_is_set_is_told_with_its_place() -> None:
    pod = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    groups = [{"groupName": name, "idleTimeoutSeconds": 60, "template": pod} for name in ("a", "b")]
    spec = {
        "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
        "headGroupSpec": {"enableIngress": False, "template": pod},
        "workerGroupSpecs": groups,
    }
    value = {"apiVersion": RAY_CLUSTERS.api_version, "kind": "RayCluster", "metadata": {"name": "r"}, "spec": spec}
    told = [each.partition(" ")[0] for each in idle_fields(RAY_CLUSTERS, decode(RAY_CLUSTERS, value).obj)]
    assert told == [
        "spec.gcsFaultToleranceOptions",
        "spec.workerGroupSpecs[0].idleTimeoutSeconds",
        "spec.workerGroupSpecs[1].idleTimeoutSeconds",
    ]
    assert told == [each.partition(" ")[0] for each in idle_fields(RAY_CLUSTERS, value)]


@pytest.mark.parametrize(("policy", "is_told"), [("Never", False), ("OnFailure", True), ("Always", True)])
def test_a_value_below_a_field_is_told_where_it_has_no_effect(policy: str, is_told: bool) -> None:
    pod = {"spec": {"restartPolicy": policy, "containers": [{"name": "submit", "image": "ray"}]}}
    value = {"apiVersion": RAY_JOBS.api_version, "kind": "RayJob", "metadata": {"name": "r"}}
    value["spec"] = {"entrypoint": "python a.py", "submitterPodTemplate": pod}
    told = [each.partition(" ")[0] for each in idle_fields(RAY_JOBS, value)]
    assert told == is_told * ["spec.submitterPodTemplate.spec.restartPolicy:"]
