"""Objects that have neither pods nor PodGroups: which of their fields, or whose silence, is the reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from unisono.sdk.fixes.of_objects import for_fields
from unisono.sdk.fixes.pod_specs import pod_specs
from unisono.sdk.reasons.not_begun import empty_by, next_run, paused_by, suspended_part, unattended

JOBS = "jobs.batch.volcano.sh"
MADE = "2026-01-01T00:00:00Z"
MADE_AT = 1767225600.0


def item(spec: dict[str, Any] | None = None, status: Any = None, kind: str = "Job") -> dict[str, Any]:
    meta = {"name": "x", "namespace": "ns", "creationTimestamp": MADE}
    api = {"TrainJob": "trainer.kubeflow.org/v1alpha1", "JobFlow": "flow.volcano.sh/v1alpha1"}
    api |= {"Deployment": "apps/v1", "PyTorchJob": "kubeflow.org/v1"}
    version = api.get(kind, "batch.volcano.sh/v1alpha1")
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec or {}, "status": status}


@pytest.mark.parametrize(
    ("spec", "paused", "empty"),
    [
        ({}, "", ""),
        ({"paused": True, "replicas": 2}, "spec.paused", ""),
        ({"replicas": 0}, "", "spec.replicas"),
        ({"parallelism": 0}, "", "spec.parallelism"),
    ],
)
def test_fields_that_keep_it_from_having_pods(spec: dict[str, Any], paused: str, empty: str) -> None:
    one = item(spec)
    assert (paused_by(one), empty_by(one)) == (paused, empty)


@pytest.mark.parametrize(
    ("resource", "status", "age", "told"),
    [
        (JOBS, None, 70.0, "no controller has acted on it in 70 s"),
        (JOBS, {"state": {}}, 70.0, "no controller has acted on it in 70 s"),
        (JOBS, {"state": {"phase": "Pending"}}, 70.0, ""),
        (JOBS, None, 3.0, ""),
        ("cronjobs.batch", None, 70.0, ""),
    ],
)
def test_an_object_that_no_controller_has_seen(resource: str, status: Any, age: float, told: str) -> None:
    assert unattended(resource, item(status=status), MADE_AT + age).startswith(told or "")
    assert bool(unattended(resource, item(status=status), MADE_AT + age)) == bool(told)


CLAIMS = {
    "spec": {"containers": [{"name": "m"}], "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "one"}]}
}
CHANGES: list[tuple[dict[str, Any], str, list[dict[str, Any]]]] = [
    (
        item({"runtimeRef": {"name": "torch-distribute"}}, kind="TrainJob"),
        "ClusterTrainingRuntime torch-distribute does not exist (did you mean torch-distributed?); create it",
        [{"op": "replace", "path": "/spec/runtimeRef/name", "value": "torch-distributed"}],
    ),
    (
        item({"flows": [{"name": "prepar"}, {"name": "t", "dependsOn": {"targets": ["prepar"]}}]}, kind="JobFlow"),
        "job template ns/prepar is not there (did you mean prepare?); job x-prepar is made as soon as it is",
        [
            {"op": "replace", "path": "/spec/flows/0/name", "value": "prepare"},
            {"op": "replace", "path": "/spec/flows/1/dependsOn/targets/0", "value": "prepare"},
        ],
    ),
    (
        item({"tasks": [{"name": "w", "template": CLAIMS}]}),
        "No claim has been made yet from ResourceClaimTemplate one, which does not exist (did you mean one-gpu?).",
        [
            {
                "op": "replace",
                "path": "/spec/tasks/0/template/spec/resourceClaims/0/resourceClaimTemplateName",
                "value": "one-gpu",
            }
        ],
    ),
    (
        item({"volumes": [{"mountPath": "/d", "volumeClaimName": "dat"}]}),
        "Failed to create PVC, err: pvc dat is not found (did you mean data?), the job will be in the Pending state",
        [{"op": "replace", "path": "/spec/volumes/0/volumeClaimName", "value": "data"}],
    ),
]


@pytest.mark.parametrize(("root", "message", "patch"), CHANGES)
def test_the_name_that_was_meant_is_put_in(root: dict[str, Any], message: str, patch: list[dict[str, Any]]) -> None:
    (fix,) = for_fields(root, "", "", [message])
    (operation,) = fix.operations
    assert not fix.tried and operation.body == patch


def test_a_claim_without_a_near_name_is_created() -> None:
    (fix,) = for_fields(item(), "", "", ["Failed to create PVC, err: pvc data is not found, the job waits"])
    (operation,) = fix.operations
    assert (operation.verb, operation.kind.kind, operation.name) == ("create", "PersistentVolumeClaim", "data")


def test_a_deployment_of_no_pods_gets_one() -> None:
    (fix,) = for_fields(item({"replicas": 0}, kind="Deployment"), "spec.replicas", "", [])
    assert fix.operations[0].body == [{"op": "replace", "path": "/spec/replicas", "value": 1}]


def test_other_messages_change_nothing() -> None:
    assert not list(for_fields(item(), "", "", ["node n is full", "queue q is closed"]))
    assert list(pod_specs(item())) == []


@pytest.mark.parametrize(
    ("spec", "status", "told"),
    [
        ({"schedule": "0 0 2 1 *"}, None, "0 0 2 1 *, the next one at 2026-01-02T00:00:00Z"),
        ({"schedule": "0 0 2 1 *", "timeZone": "Asia/Tokyo"}, None, "0 0 2 1 *, the next one at 2026-01-01T15:00:00Z"),
        (
            {"schedule": "@every 1h"},
            {"lastScheduleTime": "2026-01-01T00:30:00Z"},
            "the next one at 2026-01-01T01:30:00Z",
        ),
        ({"schedule": "0 0 31 2 *"}, None, ""),
        ({"schedule": "often"}, None, ""),
        ({"schedule": "0 0 2 1 *", "timeZone": "Moon/Base"}, None, ""),
        ({}, None, ""),
    ],
)
def test_when_the_next_run_comes(spec: dict[str, Any], status: Any, told: str) -> None:
    said = next_run("cronjobs.batch", item(spec, status, "CronJob"), MADE_AT + 3600)
    assert told in said if told else not said
    assert not next_run(JOBS, item(spec, status), MADE_AT + 3600)


def test_what_an_object_has_made_is_suspended() -> None:
    parts = [
        SimpleNamespace(spec=SimpleNamespace(suspend=suspend), metadata=SimpleNamespace(name=f"x-{at}"))
        for at, suspend in enumerate((None, True))
    ]
    assert suspended_part(parts) == "what it has made, x-1, is suspended (spec.suspend)"
    assert not suspended_part(parts[:1])
