"""Cron jobs, job flows, job templates and hyper jobs: defaults, columns, schemas and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.crds import columns, structural_schema
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kind import Kind
from unisono.api.kind_families import CRON_JOBS, FLOW_KINDS, HYPER_JOBS, JOB_FLOWS, JOB_TEMPLATES
from unisono.api.kinds import find
from unisono.api.validation import validate

TASK = {"name": "a", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
JOB = {"tasks": [TASK]}


def read(kind: Kind[Any], spec: dict[str, Any], name: str = "it") -> Any:
    decoded = decode(kind, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    apply_defaults(kind, decoded.obj)
    return decoded.obj


def messages(kind: Kind[Any], spec: dict[str, Any], name: str = "it", old: Any = None) -> list[str]:
    return [error.message() for error in validate(kind, read(kind, spec, name), old)]


def cron(**fields: Any) -> dict[str, Any]:
    return {"schedule": "*/5 * * * *", "jobTemplate": {"spec": JOB}} | fields


def flow(name: str, *targets: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **({"dependsOn": {"targets": list(targets)}} if targets else {}), **fields}


def probed(**probe: Any) -> dict[str, Any]:
    return {"flows": [flow("a"), {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}]}


def test_names_on_the_wire():
    assert find("batch.volcano.sh/v1alpha1", "CronJob") is CRON_JOBS
    assert find("flow.volcano.sh/v1alpha1", "JobFlow") is JOB_FLOWS
    assert find("flow.volcano.sh/v1alpha1", "JobTemplate") is JOB_TEMPLATES
    assert find("training.volcano.sh/v1alpha1", "HyperJob") is HYPER_JOBS
    assert [kind.short_names for kind in FLOW_KINDS] == [("cronvcjob", "cronvj"), ("jf",), ("jt",), ("hj",)]
    assert all(kind.status_subresource and kind.namespaced for kind in FLOW_KINDS)
    assert [column.name for column in columns(JOB_FLOWS)] == ["Status", "Age"]


def test_defaults():
    spec = read(CRON_JOBS, cron()).spec
    kept = (spec.successful_jobs_history_limit, spec.failed_jobs_history_limit)
    assert (spec.concurrency_policy, spec.suspend, *kept) == ("Allow", False, 3, 1)
    assert read(CRON_JOBS, cron(failedJobsHistoryLimit=0)).spec.failed_jobs_history_limit == 0
    assert read(JOB_FLOWS, {"flows": []}).spec.job_retain_policy == "retain"
    hyper = read(HYPER_JOBS, {"replicatedJobs": [{"name": "a", "templateSpec": JOB}]})
    assert hyper.spec.replicated_jobs[0].replicas == 1


def test_a_template_keeps_what_its_user_wrote():
    assert read(JOB_TEMPLATES, JOB).spec.queue is None


def test_an_absent_field_of_a_patch_gets_no_default_from_the_schema():
    flows = structural_schema(JOB_FLOWS)["properties"]["spec"]["properties"]["flows"]["items"]["properties"]
    patch = flows["patch"]["properties"]["jobSpec"]["properties"]
    assert "default" not in patch["queue"]
    assert "default" not in patch["maxRetry"]
    assert "default" not in patch["networkTopology"]["properties"]["mode"]
    template = structural_schema(JOB_TEMPLATES)["properties"]["spec"]["properties"]
    assert template["queue"]["default"] == "default"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (CRON_JOBS, cron(timeZone="Europe/Berlin", startingDeadlineSeconds=0, concurrencyPolicy="Replace")),
        (CRON_JOBS, cron(schedule="@every 90m")),
        (JOB_FLOWS, {"flows": []}),
        (JOB_FLOWS, {"flows": [flow("a"), flow("b", "a"), flow("c", "a"), flow("d", "b", "c")]}),
        (JOB_FLOWS, {"flows": [flow("a"), flow("a")]}),
        (JOB_FLOWS, {"flows": [flow("a", patch={"jobSpec": {"queue": "q", "tasks": [{"name": "x", "replicas": 2}]}})]}),
        (JOB_FLOWS, probed(httpGetList=[{"taskName": "t", "path": "/ok", "port": 80}])),
        (JOB_FLOWS, probed(tcpSocketList=[{"taskName": "t", "port": 80}])),
        (JOB_FLOWS, probed(taskStatusList=[{"taskName": "t", "phase": "Completed"}])),
        (JOB_TEMPLATES, JOB),
        (HYPER_JOBS, {"replicatedJobs": [{"name": "a", "templateSpec": JOB}, {"name": "b", "templateSpec": JOB}]}),
    ],
)
def test_what_is_accepted(kind, spec):
    assert messages(kind, spec) == []


@pytest.mark.parametrize(
    ("kind", "spec", "name", "message"),
    [
        (CRON_JOBS, cron(schedule=""), "it", "spec.schedule: Required value"),
        (
            CRON_JOBS,
            cron(schedule="TZ=UTC 0 0 * * *"),
            "it",
            "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
        ),
        (CRON_JOBS, cron(schedule="0 0 * *"), "it", "schedule is not a valid cron expression: expected exactly 5"),
        (CRON_JOBS, cron(timeZone=""), "it", "timeZone must be nil or non-empty string, got empty string"),
        (CRON_JOBS, cron(timeZone="Local"), "it", "timeZone can't be Local, and must be defined in https://www.iana"),
        (CRON_JOBS, cron(timeZone="Mars/Base"), "it", 'spec.timeZone: Invalid value: "Mars/Base": unknown timeZone'),
        (CRON_JOBS, cron(concurrencyPolicy="Queue"), "it", 'spec.concurrencyPolicy: Unsupported value: "Queue"'),
        (CRON_JOBS, cron(startingDeadlineSeconds=-1), "it", "should be greater than or equal to 0"),
        (CRON_JOBS, cron(), "n" * 53, "cronJob name must be no more than 52 characters"),
        (
            CRON_JOBS,
            cron(jobTemplate={"spec": {"tasks": [TASK, TASK]}}),
            "it",
            "spec.jobTemplate.spec.tasks[1].name: Duplicate value",
        ),
        (CRON_JOBS, cron(jobTemplate={}), "it", "spec.jobTemplate.spec.tasks: Required value: No task specified"),
        (JOB_TEMPLATES, JOB | {"plugins": {"x": []}}, "it", "unable to find job plugin: x"),
        (JOB_FLOWS, {"flows": [flow("a", "b")]}, "it", "jobflow Flow is not DAG: vertex is not defined: b"),
        (JOB_FLOWS, {"flows": [flow("a", "a")]}, "it", "jobflow Flow is not DAG"),
        (JOB_FLOWS, {"flows": [flow("a", "b"), flow("b", "a")]}, "it", "spec.flows: Invalid value"),
        (JOB_FLOWS, {"flows": [flow("")]}, "it", "spec.flows[0].name: Required value"),
        (JOB_FLOWS, {"jobRetainPolicy": "keep"}, "it", 'spec.jobRetainPolicy: Unsupported value: "keep"'),
        (JOB_FLOWS, probed(httpGetList=[{"taskName": "t", "path": "x", "port": 1}]), "it", "must start with /"),
        (JOB_FLOWS, probed(httpGetList=[{"taskName": "t"}]), "it", "httpGetList[0].port: Required value"),
        (JOB_FLOWS, probed(tcpSocketList=[{"port": 1}]), "it", "tcpSocketList[0].taskName: Required value"),
        (JOB_FLOWS, probed(tcpSocketList=[{"taskName": "t", "port": 70000}]), "it", "less than or equal to 65535"),
        (JOB_FLOWS, probed(taskStatusList=[{"taskName": "t", "phase": "Up"}]), "it", 'Unsupported value: "Up"'),
        (
            JOB_FLOWS,
            {"flows": [flow("a", patch={"jobSpec": {"tasks": [{"replicas": 2}]}})]},
            "it",
            "spec.flows[0].patch.jobSpec.tasks[0].name: Required value: tasks are merged by name",
        ),
        (
            HYPER_JOBS,
            {"replicatedJobs": [{"name": "a", "templateSpec": JOB}, {"name": "a", "templateSpec": JOB}]},
            "it",
            "spec.replicatedJobs[1].name: Duplicate value",
        ),
        (HYPER_JOBS, {"replicatedJobs": [{"name": "A", "templateSpec": JOB}]}, "it", "replicatedJobs[0].name: Invalid"),
        (
            HYPER_JOBS,
            {"replicatedJobs": [{"name": "a", "templateSpec": {"tasks": []}}]},
            "it",
            "spec.replicatedJobs[0].templateSpec.tasks: Required value",
        ),
    ],
)
def test_what_is_refused(kind, spec, name, message):
    found = messages(kind, spec, name)
    assert any(message in one for one in found), found


def test_a_template_that_was_accepted_once_does_not_block_other_changes():
    broken = cron(jobTemplate={"spec": JOB | {"plugins": {"gone": []}}})
    assert messages(CRON_JOBS, broken)
    assert messages(CRON_JOBS, broken | {"suspend": True}, old=read(CRON_JOBS, broken)) == []
