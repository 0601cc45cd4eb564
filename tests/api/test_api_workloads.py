"""``apps/v1`` and ``batch/v1``: what is refused, in Kubernetes' words, and what is filled in."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.base import LabelSelector, LabelSelectorRequirement
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.defaulting.workloads import generate_selector
from unisono.api.kind import Kind
from unisono.api.kind_families import (
    BATCH_CRON_JOBS,
    BATCH_JOBS,
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from unisono.api.selecting import selector_text, selects
from unisono.api.validation import validate

LABELS = {"app": "x"}
POD = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ONCE = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
OWNER = {"selector": {"matchLabels": LABELS}, "template": POD}
CLAIMS = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
MOUNTED = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]},
}


def made(kind: Kind[Any], spec: dict[str, Any], name: str = "x") -> Any:
    metadata = {"name": name, "namespace": "default", "uid": "u"}
    obj = decode(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}).obj
    if kind is BATCH_JOBS:
        generate_selector(obj)
    apply_defaults(kind, obj)
    return obj


def messages(kind: Kind[Any], spec: dict[str, Any], old: dict[str, Any] | None = None, name: str = "x") -> list[str]:
    before = made(kind, old, name) if old is not None else None
    return [each.message() for each in validate(kind, made(kind, spec, name), before)]


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (DEPLOYMENTS, OWNER),
        (DEPLOYMENTS, OWNER | {"strategy": {"type": "Recreate"}}),
        (REPLICA_SETS, OWNER),
        (STATEFUL_SETS, OWNER | {"template": MOUNTED, "volumeClaimTemplates": CLAIMS}),
        (DAEMON_SETS, OWNER),
        (BATCH_JOBS, {"template": ONCE}),
        (BATCH_JOBS, {"template": ONCE, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}),
        (BATCH_CRON_JOBS, {"schedule": "@daily", "jobTemplate": {"spec": {"template": ONCE}}}),
    ],
)
def test_accepted(kind, spec):
    assert messages(kind, spec) == []
    assert messages(kind, spec, spec) == []


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        (DEPLOYMENTS, {"template": POD}, "spec.selector: Required value"),
        (DEPLOYMENTS, OWNER | {"selector": {}}, "empty selector is invalid for deployment"),
        (DEPLOYMENTS, OWNER | {"selector": {"matchLabels": {"a": "b"}}}, "`selector` does not match template `labels`"),
        (DEPLOYMENTS, OWNER | {"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            DEPLOYMENTS,
            OWNER | {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
            "may not be 0 when `maxSurge` is 0",
        ),
        (
            DEPLOYMENTS,
            OWNER | {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (DEPLOYMENTS, OWNER | {"strategy": {"rollingUpdate": {"maxSurge": "x"}}}, "a valid percent string"),
        (
            DEPLOYMENTS,
            OWNER | {"progressDeadlineSeconds": 5, "minReadySeconds": 5},
            "must be greater than minReadySeconds",
        ),
        (DEPLOYMENTS, OWNER | {"template": ONCE | {"metadata": POD["metadata"]}}, 'supported values: "Always"'),
        (STATEFUL_SETS, OWNER | {"template": MOUNTED}, 'volumeMounts[0].name: Not found: "data"'),
        (STATEFUL_SETS, OWNER | {"podManagementPolicy": "x"}, "must be 'OrderedReady' or 'Parallel'"),
        (
            DAEMON_SETS,
            OWNER | {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
            "may not be set when maxUnavailable is non-zero",
        ),
        (
            REPLICA_SETS,
            OWNER | {"template": POD | {"spec": POD["spec"] | {"ephemeralContainers": [{"name": "e"}]}}},
            "spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
        ),
        (BATCH_JOBS, {"template": POD}, 'restartPolicy: Required value: valid values: "OnFailure", "Never"'),
        (
            BATCH_JOBS,
            {"template": ONCE, "completionMode": "Indexed", "parallelism": 1},
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (BATCH_JOBS, {"template": ONCE, "backoffLimitPerIndex": 1}, "requires indexed completion mode"),
        (BATCH_JOBS, {"template": ONCE, "managedBy": "me"}, "spec.managedBy: Invalid value"),
        (
            BATCH_JOBS,
            {"template": ONCE, "selector": {"matchLabels": {"a": "b"}}},
            "`selector` does not match template `labels`",
        ),
        (
            BATCH_JOBS,
            {"template": ONCE, "podFailurePolicy": {"rules": [{"action": "FailJob"}]}},
            "specifying one of OnExitCodes and OnPodConditions is required",
        ),
        (
            BATCH_JOBS,
            {
                "template": ONCE,
                "podFailurePolicy": {
                    "rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [0, 1]}}]
                },
            },
            "must not be 0 for the In operator",
        ),
        (
            BATCH_CRON_JOBS,
            {"schedule": "TZ=UTC * * * * *", "jobTemplate": {"spec": {"template": ONCE}}},
            "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        ),
        (
            BATCH_CRON_JOBS,
            {"schedule": "@daily", "timeZone": "Nowhere/X", "jobTemplate": {"spec": {"template": ONCE}}},
            "unknown time zone Nowhere/X",
        ),
        (BATCH_CRON_JOBS, {"jobTemplate": {"spec": {"template": ONCE}}}, "spec.schedule: Required value"),
    ],
)
def test_refused(kind, spec, expected):
    found = messages(kind, spec)
    assert any(expected in message for message in found), found


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        (DEPLOYMENTS, OWNER, {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}, "immutable"),
        (STATEFUL_SETS, OWNER, {"serviceName": "other"}, "updates to statefulset spec for fields other than"),
        (STATEFUL_SETS, OWNER, {"replicas": 5}, None),
        (BATCH_JOBS, {"template": ONCE}, {"completions": 5}, "spec.completions: Invalid value: 5: field is immutable"),
        (BATCH_JOBS, {"template": ONCE, "completions": 4}, {"parallelism": 3, "suspend": True}, None),
        (BATCH_JOBS, {"template": ONCE}, {"completionMode": "Indexed"}, "spec.completionMode: Invalid value"),
    ],
)
def test_what_an_update_may_change(kind, old, new, expected):
    found = messages(kind, old | new, old)
    assert found == [] if expected is None else any(expected in message for message in found), found


def test_a_suspended_job_may_be_told_where_to_run():
    placed = {"spec": ONCE["spec"] | {"nodeSelector": {"a": "b"}}}
    assert messages(BATCH_JOBS, {"template": placed, "suspend": True}, {"template": ONCE, "suspend": True}) == []
    refused = messages(BATCH_JOBS, {"template": placed}, {"template": ONCE})
    assert any("spec.template" in message and "immutable" in message for message in refused)


def test_a_revision_never_changes():
    old = decode(CONTROLLER_REVISIONS, {"metadata": {"name": "a", "namespace": "d"}, "data": {}, "revision": 1}).obj
    new = decode(
        CONTROLLER_REVISIONS, {"metadata": {"name": "a", "namespace": "d"}, "data": {"x": 1}, "revision": 2}
    ).obj
    assert [each.message() for each in validate(CONTROLLER_REVISIONS, new, old)] == [
        'data: Invalid value: "": field is immutable'
    ]


def test_selectors_as_text_and_applied():
    selector = LabelSelector(
        match_labels={"b": "1"},
        match_expressions=[
            LabelSelectorRequirement(key="a", operator="In", values=["y", "x"]),
            LabelSelectorRequirement(key="c", operator="DoesNotExist"),
            LabelSelectorRequirement(key="d", operator="NotIn", values=["z"]),
        ],
    )
    assert selector_text(selector) == "a in (x,y),b=1,!c,d notin (z)"
    assert selects(selector, {"a": "x", "b": "1"})
    assert not selects(selector, {"a": "x", "b": "1", "c": ""})
    assert not selects(selector, {"a": "x", "b": "1", "d": "z"})
    assert not selects(None, {"a": "x"})
