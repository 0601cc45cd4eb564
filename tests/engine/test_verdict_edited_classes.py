"""Classes of pods in a trial: what filters hold by base and what ties pods to objects are of the changed spec."""

from __future__ import annotations

import pytest
from msgspec import convert, to_builtins

from support.build import cluster, gang, group, node, pod
from unisono.api.annotations import GANG_PARTS
from unisono.api.base import LabelSelector
from unisono.api.core import (
    Affinity,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    Volume,
)
from unisono.api.gang_parts import Part, encode_parts
from unisono.cluster.interning import class_of
from unisono.cluster.podclass import UNTIED, PodClass
from unisono.engine.changes import KINDS, AddToleration, Change, OfPods, RelaxRule, RequestAtMost, UseLabel, UseResource
from unisono.engine.verdicts.edit import Edit
from unisono.engine.verdicts.effects import apply
from unisono.engine.verdicts.unmade_pods import unmade_pods
from unisono.sdk.fixes.pod_specs import each_pod

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
    (unmade,) = unmade_pods(snapshot, snapshot.jobs["ns/j"])
    is_sound(unmade.pod_class)
    assert bool(unmade.pod_class.volumes) == bool(volumes)


TAINTED = AddToleration("dedicated", "ml", "NoSchedule")
KEEPS_APART = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "j"}), topology_key="zone")
APART = Affinity(
    pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=[KEEPS_APART]),
    pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=[KEEPS_APART]),
)
CHANGES = (
    *(
        RequestAtMost({"cpu": 500}),
        RequestAtMost({"nvidia.com/gpu": 1000}),
        UseResource("nvidia.com/gpu", "amd.com/gpu"),
    ),
    *(TAINTED, UseLabel("disk", "nvme", "disk", "ssd"), UseLabel("zone", "a"), RelaxRule("nodeSelector")),
    *(RelaxRule("podAffinity"), RelaxRule("podAntiAffinity")),
)


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_trial_makes_of_a_pod_what_the_sdk_makes_of_its_manifest(change: OfPods) -> None:
    """One edit of the spec for both: the class of a trial is that of the pod that the change leads to."""
    options = {"cpu": 2, "gpu": 4, "selector": {"disk": "ssd"}, "affinity": APART, "labels": {"app": "j"}}
    state = cluster([node("n", cpu=8, gpu=8), node("m", **{"amd.com/gpu": 4}), *gang("j", 1, **options)])
    edit = Edit(state.snapshot())
    apply(change, edit, "ns/j")
    (task,) = edit.snapshot().jobs["ns/j"].tasks.values()
    is_sound(task.pod_class)

    manifest = to_builtins(pod("j-w-0", "j", **options))
    each_pod(change.edit)(manifest)
    wanted = class_of(convert(manifest, Pod), state.classes)
    assert wanted is not class_of(pod("j-w-0", "j", **options), state.classes)
    for name in ("requests", "node_selector", "affinity", "tolerations", "ties", "containers", "weight", "best_effort"):
        assert getattr(task.pod_class, name) == getattr(wanted, name), name
    assert task.pod_class.vector.tolist() == wanted.vector.tolist()
    assert task.pod_class.nonzero.tolist() == wanted.nonzero.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_every_change_can_be_tried(kind: type[Change]) -> None:
    assert apply.dispatch(kind) is not apply.dispatch(object)
