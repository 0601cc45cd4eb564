"""Kinds and configurations of other projects: whose they are, with the way out, and the page has the same rows."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from support.shapes import SHAPES
from unisono.api.kinds import ALL_KINDS, find
from unisono.jobkinds.others_configurations import of_others
from unisono.jobkinds.others_kinds import GROUPS, way_out
from unisono.kube.discovery import Resource, ResourceMap, UnknownKind

PAGE = Path(__file__).parents[2] / "docs" / "words-of-others.md"
SERVED = ResourceMap(
    [Resource(one.group, one.version, one.kind, one.plural, one.kind.lower(), one.namespaced) for one in ALL_KINDS]
)
UNSERVED = [shape for shape in SHAPES if shape.get("refused") == "not served"]


@pytest.mark.parametrize("shape", UNSERVED, ids=lambda shape: shape["of"])
def test_each_public_kind_that_is_not_served_has_a_way_out(shape: dict[str, dict[str, str]]) -> None:
    version, kind = shape["object"]["apiVersion"], shape["object"]["kind"]
    with pytest.raises(UnknownKind) as told:
        SERVED.of(version, kind, "", way_out(version, kind))
    assert "install the CustomResourceDefinition" not in str(told.value)


def test_a_kind_in_another_version_is_told_the_one_that_is_served() -> None:
    with pytest.raises(UnknownKind, match=r"write apiVersion: resource\.k8s\.io/v1, in which it is served"):
        SERVED.of("resource.k8s.io/v1beta1", "ResourceClaim")


def test_the_page_has_the_same_rows() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for (project, instead), groups in itertools.groupby(GROUPS.items(), key=lambda item: item[1]):
        listed = ", ".join(f"`{group}`" for group, _ in groups)
        assert f"| {project} | {listed} | {instead} |\n" in text


def test_no_group_is_served_here() -> None:
    assert not [group for group in GROUPS if find(f"{group}/v1", "Job") is not None]


@pytest.mark.parametrize(
    ("name", "data", "whose"),
    [
        ("volcano-admission-configmap", {"volcano-admission.conf": "resourceGroups:\n- resourceGroup: a\n"}, "webhook"),
        ("volcano-admission-configmap", {"volcano-admission.conf": "#resourceGroups:\n#- resourceGroup: a\n"}, ""),
        ("volcano-sharding-configmap", {"sharding.yaml": "schedulerConfigs: []\n"}, "shards"),
        ("slo-controller-config", {"colocation-config": "{}"}, "Koordinator"),
        ("mine", {"config.yaml": "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"}, "Kueue"),
        ("mine", {"c.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\n"}, "Kubernetes' scheduler"),
        ("mine", {"job.yaml": "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\n"}, ""),
        ("mine", None, ""),
    ],
)
def test_configurations_of_others_are_known_by_name_and_by_what_they_hold(
    name: str, data: dict[str, str] | None, whose: str
) -> None:
    told = of_others(name, data)
    assert bool(told) is bool(whose)
    assert whose in told
