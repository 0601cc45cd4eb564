"""What ``unisono logs KIND/NAME`` says where no pod has a log, and how kinds are named in what it says."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.annotations import CLUSTER
from unisono.api.core import Pod
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kind_families import JOB_SETS
from unisono.api.kinds import JOBS, PODS
from unisono.cli.targets import in_member, lacking
from unisono.kube.discovery import Resource, ResourceMap
from unisono.sdk.follow.log_lines import LogSelection


def pod(phase: str, *containers: str, init: str = "") -> Pod:
    spec: dict[str, Any] = {"containers": [{"name": name} for name in containers or ("main",)]}
    if init:
        spec["initContainers"] = [{"name": init}]
    return decode(PODS, {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}).obj


@pytest.mark.parametrize(
    ("pods", "container", "told"),
    [
        ([], "", "has no pods now: 'unisono explain jobset/tune' says why"),
        ([pod("Pending")], "", "has one pod, which has not started: 'unisono explain jobset/tune'"),
        ([pod("Pending"), pod("")], "", "has 2 pods, and none has started"),
        ([pod("Running", "a", init="fetch"), pod("Running", "b")], "c", "their containers are fetch, a, b"),
        ([pod("Pending"), pod("Running")], "", ""),
        ([pod("Failed", "a"), pod("Running", "b")], "b", ""),
        ([pod("Succeeded", init="fetch")], "fetch", ""),
    ],
)
def test_where_there_is_no_line_it_says_why(pods: list[Pod], container: str, told: str) -> None:
    problem = lacking(pods, "jobset/tune", LogSelection(container=container))
    assert told in problem
    assert bool(problem) is bool(told)


@pytest.mark.parametrize(
    ("kind", "marks", "told"),
    [
        (JOBS, {CLUSTER: "gpu1"}, "runs in cluster gpu1: 'unisono fleet logs train' prints its logs."),
        (JOB_SETS, {CLUSTER: "gpu1"}, "runs in cluster gpu1: 'unisono fleet logs jobset/train' prints its logs."),
        (JOBS, {}, ""),
    ],
)
def test_a_job_of_a_hub_has_its_logs_in_its_member(kind: Kind[Any], marks: dict[str, str], told: str) -> None:
    job = decode(kind, {"metadata": {"name": "train", "annotations": marks}, "spec": {}}).obj
    assert in_member(job, kind.kind) == told


def test_only_pods_that_have_started_and_the_container_are_read() -> None:
    wanted = LogSelection(container="b", params={"tailLines": "3"})
    assert [wanted.is_ready(each) for each in (pod("Running", "a", "b"), pod("Running", "a"), pod("Pending", "b"))] == [
        True,
        False,
        False,
    ]
    assert wanted.query(pod("Running", "a", "b"), "b") == {"container": "b", "tailLines": "3", "uid": ""}
    assert LogSelection().containers(pod("Running", "a", "b", init="fetch")) == ["a"]


def test_a_kind_is_named_so_that_it_is_found_again() -> None:
    ours = Resource("batch.volcano.sh", "v1alpha1", "Job", "jobs", "job", True)
    plain = Resource("batch", "v1", "Job", "jobs", "job", True)
    found = ResourceMap([plain, ours])
    assert (found.typed(ours), found.typed(plain)) == ("job", "job.batch")
    assert found.named(found.typed(plain)) == plain
