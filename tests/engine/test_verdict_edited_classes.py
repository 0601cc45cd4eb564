"""Classes of pods in a trial: what filters hold by base and what ties pods to objects are of the changed spec."""

from __future__ import annotations

import pytest

from support.build import cluster, gang, group, node
from unisono.api.annotations import GANG_PARTS
from unisono.api.core import PersistentVolumeClaimVolumeSource, PodSpec, Volume
from unisono.api.gang_parts import Part, encode_parts
from unisono.cluster.podclass import UNTIED, PodClass
from unisono.engine.verdicts.edit import Edit
from unisono.engine.verdicts.unmade_pods import unmade_in

VOLUMES = [Volume(name="data", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="data"))]


def is_sound(one: PodClass) -> None:
    """As of the cluster: a class is its own base exactly where nothing ties its pods."""
    assert one.base.base is one.base
    assert one.base.ties == UNTIED
    assert (one.base is one) == (one.ties == UNTIED)
    assert one.base.node_selector == one.node_selector
    assert one.base.requests == one.requests


@pytest.mark.parametrize("before", [{}, {"volumes": ("ns/data",)}, {"devices": ("ns/card",)}])
@pytest.mark.parametrize("change", [{}, {"node_selector": {}}, {"volumes": ()}, {"volumes": ("ns/other",)}])
def test_an_edited_class_is_as_one_of_the_cluster(before: dict[str, object], change: dict[str, object]) -> None:
    edit = Edit(cluster([node("n"), *gang("j", 1, selector={"disk": "ssd"})]).snapshot())
    (old,) = {task.pod_class.id: task.pod_class for task in edit.origin.tasks.values()}.values()
    tied = edit.pod_class(old, "before", **before)
    changed = edit.pod_class(tied, "after", **change)
    is_sound(tied)
    is_sound(changed)
    ids = [each.id for one in (old, tied, changed) for each in {one.id: one, one.base.id: one.base}.values()]
    assert len(set(ids)) == len(ids) or changed is tied
    assert min(ids[1:]) >= edit.origin.next_class or not before


@pytest.mark.parametrize("volumes", [None, VOLUMES])
def test_a_class_of_pods_that_do_not_exist_has_its_claims(volumes: list[Volume] | None) -> None:
    wanted = group("j", 1)
    wanted.metadata.annotations = {GANG_PARTS: encode_parts((Part("w", 1, spec=PodSpec(volumes=volumes)),))}
    snapshot = cluster([node("n"), wanted]).snapshot()
    (unmade,) = unmade_in(snapshot, snapshot.jobs["ns/j"])
    is_sound(unmade.pod_class)
    assert bool(unmade.pod_class.volumes) == bool(volumes)
