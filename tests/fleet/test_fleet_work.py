"""Gangs that stand for jobs, copies of jobs, and translated objects of members."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.annotations import CHECKED, CLUSTER, DISPATCH, HUB, LAST_CLUSTER, ORIGIN_GROUP, ORIGIN_UID
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.keys import GROUP_NAME
from unisono.api.kind import Kind
from unisono.api.kind_families import (
    HYPER_JOBS,
    JOB_SETS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    RUN_KINDS,
    TRAIN_JOBS,
)
from unisono.api.kinds import HYPER_NODES, JOBS, NODES, PODS
from unisono.apiserver.admission.jobs import DISPATCHED
from unisono.controllers.training.registry import MADE_BY_MEMBERS
from unisono.fleet.jobs import translation
from unisono.fleet.jobs.copies import Placement, copy_of, copy_to_write, placement_of, status_patch
from unisono.fleet.jobs.translation import Origin
from unisono.fleet.jobs.work import KINDS, work_of
from unisono.jobkinds.registry import DIVIDED, foreign, has_ended

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
TORCH = {"spec": {"containers": [{"name": "pytorch", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}


def read(kind: Kind[Any], spec: dict[str, Any], **more: Any) -> Any:
    meta = {"name": "train", "namespace": "default", "uid": "u1", **more.pop("metadata", {})}
    obj = decode(kind, {"metadata": meta, "spec": spec, **more}).obj
    apply_defaults(kind, obj)
    return obj


def volcano(**spec: Any) -> Any:
    tasks = [{"name": "ps", "replicas": 1, "template": TEMPLATE}, {"name": "w", "replicas": 8, "template": TEMPLATE}]
    return read(JOBS, {"queue": "q", "minAvailable": 9, "tasks": tasks, **spec})


def test_members_make_the_pods_of_every_training_job_that_does_not_become_another_one() -> None:
    made = {kind.kind for kind in RUN_KINDS} - {kind.kind for kind in (TRAIN_JOBS, RAY_JOBS, RAY_SERVICES)}
    assert made == MADE_BY_MEMBERS
    assert made == {kind.kind for kind in KINDS} - {JOBS.kind}
    described = {kind.kind.resource for kind in foreign() if kind.fleet}
    assert {kind.resource for kind in (*KINDS, HYPER_JOBS, *DIVIDED)} | described == DISPATCHED


@pytest.mark.parametrize(
    ("kind", "job", "names", "members"),
    [
        (JOBS, volcano(), {"train-ps-0", *(f"train-w-{i}" for i in range(8))}, 9),
        (
            PYTORCH_JOBS,
            read(
                PYTORCH_JOBS,
                {
                    "pytorchReplicaSpecs": {
                        "Master": {"replicas": 1, "template": TORCH},
                        "Worker": {"replicas": 2, "template": TORCH},
                    }
                },
            ),
            {"train-master-0", "train-worker-0", "train-worker-1"},
            3,
        ),
        (
            JOB_SETS,
            read(
                JOB_SETS,
                {
                    "replicatedJobs": [
                        {
                            "name": "w",
                            "replicas": 2,
                            "template": {"spec": {"parallelism": 2, "completions": 2, "template": TEMPLATE}},
                        }
                    ]
                },
            ),
            4,
            4,
        ),
        (
            RAY_CLUSTERS,
            read(
                RAY_CLUSTERS,
                {
                    "headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE},
                    "workerGroupSpecs": [
                        {
                            "groupName": "g",
                            "replicas": 2,
                            "minReplicas": 2,
                            "maxReplicas": 2,
                            "rayStartParams": {},
                            "template": TEMPLATE,
                        }
                    ],
                },
            ),
            3,
            3,
        ),
    ],
)
def test_the_gang_of_a_job(kind, job, names, members):
    work = work_of(kind, job, 0.0)
    assert work is not None
    found = {pod.metadata.name for pod in work.pods}
    assert found == names if isinstance(names, set) else len(found) == names
    assert work.group.spec.min_member == members
    assert work.group.spec.network_topology.highest_tier_name == "cluster"
    assert {pod.metadata.annotations[GROUP_NAME] for pod in work.pods} == {work.group.metadata.name}
    assert all(not pod.spec.node_name for pod in work.pods)


def test_a_narrower_bound_is_kept_and_a_preference_is_not_enough():
    hard = work_of(JOBS, volcano(networkTopology={"mode": "hard", "highestTierAllowed": 1}), 0.0)
    assert hard.group.spec.network_topology.highest_tier_allowed == 1
    soft = work_of(JOBS, volcano(networkTopology={"mode": "soft", "highestTierAllowed": 1}), 0.0)
    assert (soft.group.spec.network_topology.mode, soft.group.spec.network_topology.highest_tier_allowed) == (
        "hard",
        None,
    )


@pytest.mark.parametrize(
    "given", [{"mode": "hard"}, {"highestTierName": "region"}, {"mode": "hard", "highestTierAllowed": 100000}]
)
def test_a_wider_bound_than_a_cluster_is_narrowed_to_one(given):
    bound = work_of(JOBS, volcano(networkTopology=given), 0.0).group.spec.network_topology
    assert (bound.mode, bound.highest_tier_name, bound.highest_tier_allowed) == ("hard", "cluster", None)


def test_nothing_stands_for_a_job_without_pods():
    assert work_of(JOBS, volcano(tasks=[]), 0.0) is None


@pytest.mark.parametrize(("phase", "ended"), [("Running", False), ("Completed", True), ("Aborted", True), ("", False)])
def test_ends_of_volcano_jobs(phase, ended):
    assert has_ended(read(JOBS, {}, status={"state": {"phase": phase}})) is ended


def test_ends_of_training_jobs():
    done = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    assert has_ended(read(PYTORCH_JOBS, {}, status=done))
    assert not has_ended(read(PYTORCH_JOBS, {}, status={"conditions": [{"type": "Running", "status": "True"}]}))


def test_a_copy_carries_its_origin_and_so_do_its_pods():
    job = volcano()
    job.metadata.resource_version, job.metadata.finalizers = "7", ["x/y"]
    job.metadata.annotations = {CLUSTER: "a", DISPATCH: "2", "mine": "kept"}
    copied = copy_to_write(JOBS, job, "hub", 2, "train-u1")
    meta = copied.metadata
    assert (meta.uid, meta.resource_version, meta.finalizers) == (None, None, None)
    assert meta.annotations == {"mine": "kept"}
    assert meta.labels == {HUB: "hub", ORIGIN_UID: "u1", DISPATCH: "2"}
    for task in copied.spec.tasks:
        assert task.template.metadata.labels == {HUB: "hub", ORIGIN_UID: "u1", DISPATCH: "2"}
        assert task.template.metadata.annotations == {ORIGIN_GROUP: "train-u1"}
    assert copied.spec.tasks[1].replicas == 8
    found = copy_of("a", JOBS, copied)
    assert (found.cluster, found.origin, found.generation) == ("a", "u1", 2)
    assert copy_of("a", JOBS, volcano()) is None


def test_a_member_checks_a_copy_itself():
    job = volcano()
    job.metadata.annotations = {CHECKED: "q |  | ann | 1,8", "mine": "stays"}
    assert copy_to_write(JOBS, job, "hub", 2, "train-u1").metadata.annotations == {"mine": "stays"}


def test_placements_are_written_and_read():
    job = volcano()
    assert placement_of(job) == Placement("", 0)
    patch = Placement("", 0).to("a").patch("5")["metadata"]
    assert patch == {"resourceVersion": "5", "annotations": {CLUSTER: "a", DISPATCH: "1"}}
    back = Placement("a", 1).back().patch("6")["metadata"]["annotations"]
    assert back == {CLUSTER: None, DISPATCH: "2", LAST_CLUSTER: "a"}
    job.metadata.annotations = {CLUSTER: "a", DISPATCH: "not a number"}
    assert placement_of(job) == Placement("a", 0)


def test_status_comes_back_and_what_is_gone_there_goes_here():
    job = read(JOBS, {}, status={"state": {"phase": "Pending"}, "pending": 3})
    copied = read(JOBS, {}, status={"state": {"phase": "Running"}, "running": 3})
    assert status_patch(job, copied) == {"state": {"phase": "Running"}, "pending": None, "running": 3}
    assert status_patch(copied, copied) == {}


def test_nodes_are_named_and_labelled_and_cordoned_in_a_closed_member():
    node = decode(NODES, {"metadata": {"name": "n1", "labels": {"zone": "z"}}}).obj
    origin = Origin("hub", "gpu1", {"zone": "other", "tier": "spot"})
    seen = translation.node(origin, node)
    assert seen.metadata.name == "gpu1:n1"
    assert seen.metadata.labels == {"zone": "z", "tier": "spot", CLUSTER: "gpu1"}
    assert not seen.spec.unschedulable
    assert translation.node(Origin("hub", "gpu1", {}, open=False), node).spec.unschedulable
    assert node.metadata.name == "n1"


def test_pods_of_copies_are_the_hubs_and_others_only_occupy():
    origin = Origin("hub", "gpu1")
    labels, marks = {HUB: "hub", ORIGIN_UID: "u1"}, {ORIGIN_GROUP: "train-u1", GROUP_NAME: "train-xyz"}
    pod = decode(
        PODS, {"metadata": {"name": "p", "namespace": "default", "labels": labels, "annotations": marks}, "spec": {}}
    ).obj
    waiting = translation.pod(origin, pod, "gpu1:n3")
    assert (waiting.key, waiting.spec.node_name) == ("default/p", "gpu1:n3")
    assert waiting.metadata.annotations[GROUP_NAME] == "train-u1"
    pod.spec.node_name = "n1"
    assert translation.pod(origin, pod, "gpu1:n3").spec.node_name == "gpu1:n1"
    other = translation.pod(Origin("another hub", "gpu1"), pod)
    assert (other.key, other.spec.node_name, other.spec.scheduler_name) == ("gpu1:default/p", "gpu1:n1", "member")
    assert GROUP_NAME not in other.metadata.annotations


def test_networks_of_members_hang_below_their_clusters():
    spec = {
        "tier": 1,
        "members": [
            {"type": "Node", "selector": {"regexMatch": {"pattern": "^n[0-9]"}}},
            {"type": "Node", "selector": {"exactMatch": {"name": "m"}}},
            {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r"}}}},
        ],
    }
    rack = decode(HYPER_NODES, {"metadata": {"name": "rack"}, "spec": spec}).obj
    seen = translation.hyper_node(Origin("hub", "gpu1"), rack)
    first, second, third = (member.selector for member in seen.spec.members)
    assert seen.metadata.name == "gpu1:rack"
    assert (first.regex_match.pattern, second.exact_match.name) == ("^gpu1:n[0-9]", "gpu1:m")
    assert third.label_match.match_labels == {"rack": "r", CLUSTER: "gpu1"}
    rack.spec.tier = 1000
    assert translation.hyper_node(Origin("hub", "gpu1"), rack) is None
