"""What is behind a refusal to create pods."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.jobkinds.registry import missing_pods
from unisono.sdk.reasons.refusal_causes import quota_verdict
from unisono.sdk.reasons.refusals import Refusal

FORBIDDEN = 'Error creating: pods "web-1" is forbidden: exceeded quota: '


@pytest.mark.parametrize(
    ("text", "missing", "amounts"),
    [
        ("team, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1", 2, {"requests.cpu": 3000}),
        ("team, requested: pods=1, used: pods=2, limited: pods=2", 3, {"pods": 3}),
        (
            "team, requested: requests.memory=2Gi,pods=1, used: requests.memory=3Gi,pods=1, "
            "limited: requests.memory=4Gi,pods=9",
            1,
            {"requests.memory": 1 << 30},
        ),
    ],
)
def test_the_quota_is_raised_by_what_all_missing_pods_lack(text: str, missing: int, amounts: dict[str, int]) -> None:
    verdict = quota_verdict(Refusal("job", "train", FORBIDDEN + text), "ns/train", missing)
    assert verdict is not None
    assert verdict.change == {"kind": "RaiseQuota", "quota": "team", "amounts": amounts, "tried": False}
    assert "resource quota team" in verdict.message and "not tried" in verdict.suggestion


@pytest.mark.parametrize(
    "text",
    [
        'pods "x" is forbidden: error looking up service account default/a: serviceaccount "a" not found',
        FORBIDDEN + "team, requested: cpu=wide, used: cpu=0, limited: cpu=1",
        FORBIDDEN + "team, requested: cpu=1, used: memory=0, limited: cpu=1",
        # There is room by now.
        FORBIDDEN + "team, requested: cpu=1, used: cpu=0, limited: cpu=1",
    ],
)
def test_other_refusals_are_no_quota(text: str) -> None:
    assert quota_verdict(Refusal("job", "train", text), "ns/train", 1) is None


def item(api_version: str, kind: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "spec": spec, **more}


@pytest.mark.parametrize(
    ("given", "there", "missing"),
    [
        (item("apps/v1", "Deployment", {"replicas": 3}), 1, 2),
        (item("apps/v1", "StatefulSet", {}), 0, 1),
        (item("batch/v1", "Job", {"parallelism": 4, "completions": 6}, status={"succeeded": 4}), 1, 1),
        (item("batch.volcano.sh/v1alpha1", "Job", {"tasks": []}), 0, 0),
        (item("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"replicas": 3}, {"replicas": 1}]}), 1, 3),
        (item("kubeflow.org/v1", "PyTorchJob", {}), 0, 0),
        (
            item("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Master": {}, "Worker": {"replicas": 2}}}),
            1,
            2,
        ),
        (item("ray.io/v1", "RayCluster", {"workerGroupSpecs": [{"groupName": "w", "replicas": 2}]}), 1, 2),
        (item("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"name": "a"}]}), 0, 0),
    ],
)
def test_pods_that_are_missing(given: dict[str, Any], there: int, missing: int) -> None:
    assert missing_pods(given, there) == missing
