"""The commands with vcctl's verbs: what flags mean, what tables show, what is refused."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.groups.batch import Job
from unisono.api.kinds import JOBS, POD_GROUPS, QUEUES
from unisono.api.validation import validate
from unisono.cli.commands.job import flag_job
from unisono.cli.commands.pod import selected
from unisono.cli.commands.queue import queue_spec
from unisono.cli.main import cli
from unisono.cli.vcctl import amounts, flow_lines, job_lines, pod_lines, queue_lines
from unisono.sdk.overview.queues import queue_views

FLAGS: dict[str, Any] = {
    "image": "busybox",
    "command": (),
    "replicas": 2,
    "minimum": None,
    "requests": {"cpu": "1000m"},
    "limits": {"cpu": "1000m"},
    "scheduler": "volcano",
    "queue": None,
}


def job(name: str, namespace: str = "default", **status: Any) -> Job:
    value = {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-03-04T05:06:07Z"},
        "spec": {"minAvailable": 2, "tasks": [{"replicas": 2}, {"replicas": 1}]},
        "status": status,
    }
    return decode(JOBS, value).obj


def test_a_job_of_flags_is_vcctls() -> None:
    value = flag_job("demo", **{**FLAGS, "queue": "gold", "command": ("sleep", "1")})
    task = value["spec"]["tasks"][0]
    assert value["spec"]["minAvailable"] == 1
    assert value["spec"]["queue"] == "gold"
    assert task["template"]["metadata"]["labels"] == {"job.volcano.sh": "demo"}
    assert task["template"]["spec"]["restartPolicy"] == "Never"
    container = task["template"]["spec"]["containers"][0]
    assert (container["name"], container["imagePullPolicy"], container["command"]) == (
        "demo",
        "IfNotPresent",
        ["sleep", "1"],
    )
    decoded = decode(JOBS, value)
    assert not decoded.unknown_fields
    apply_defaults(JOBS, decoded.obj)
    assert not validate(JOBS, decoded.obj)


def test_the_table_of_jobs_has_vcctls_columns_and_widths() -> None:
    running = job("train", state={"phase": "Running"}, running=2, pending=1, retryCount=4)
    lines = job_lines([running, job("a")], namespaces=False)
    assert lines[0].split() == [
        "Name", "Creation", "Phase", "JobType", "Replicas", "Min", "Pending", "Running", "Succeeded", "Failed",
        "Unknown", "RetryCount",
    ]  # fmt: skip
    assert lines[1].split() == ["a", "2026-03-04", "Batch", "3", "2", "0", "0", "0", "0", "0", "0"]
    assert lines[2].split() == ["train", "2026-03-04", "Running", "Batch", "3", "2", "1", "2", "0", "0", "0", "4"]
    assert lines[0].index("Creation") == len("train") + 3
    assert lines[0].index("Phase") == lines[0].index("Creation") + 15


def test_all_namespaces_lead_with_theirs_in_order() -> None:
    lines = job_lines([job("b", "two"), job("z", "one"), job("a", "two")], namespaces=True)
    assert [line.split()[:2] for line in lines[1:]] == [["one", "z"], ["two", "a"], ["two", "b"]]


def test_a_long_value_never_runs_into_the_next_column() -> None:
    views = queue_views([decode(QUEUES, {"metadata": {"name": "q" * 30}, "spec": {"weight": 2}}).obj], [])
    line = queue_lines(views)[1]
    assert line.split() == ["q" * 30, "2", "Unknown", "root", "0", "0", "0", "0", "0"]


def test_queues_count_pod_groups_and_not_the_fields_that_nobody_writes() -> None:
    queue = decode(
        QUEUES, {"metadata": {"name": "gold"}, "spec": {"parent": "team"}, "status": {"state": "Open", "pending": 9}}
    ).obj
    phases = ["Running", "Running", "Inqueue", None]
    groups = [
        decode(POD_GROUPS, {"metadata": {"name": f"g{i}"}, "spec": {"queue": "gold"}, "status": {"phase": phase}}).obj
        for i, phase in enumerate(phases)
    ]
    line = queue_lines(queue_views([queue], groups))[1]
    assert line.split() == ["gold", "1", "Open", "team", "1", "1", "2", "0", "0"]


def test_flows_and_templates() -> None:
    flow = {
        "metadata": {"name": "f", "namespace": "n", "creationTimestamp": "1970-01-01T00:00:00Z"},
        "status": {"state": {"phase": "Running"}},
    }
    assert [line.split() for line in flow_lines([flow], phases=True, now=90)] == [
        ["Name", "Namespace", "Phase", "Age"],
        ["f", "n", "Running", "90s"],
    ]
    assert [line.split() for line in flow_lines([flow], phases=False)] == [["Name", "Namespace"], ["f", "n"]]


def test_the_table_of_pods_takes_the_servers_words() -> None:
    names = ("Name", "Ready", "Status", "Restarts", "Age", "IP")
    table = {"columnDefinitions": [{"name": name} for name in names]}
    row = {"cells": ["p", "0/1", "Pending", 3, "5s", "x"], "object": {"metadata": {"namespace": "n"}}}
    assert [line.split() for line in pod_lines(table, [row], namespaces=True)] == [
        ["Namespace", "Name", "Ready", "Status", "Restart", "Age"],
        ["n", "p", "0/1", "Pending", "3", "5s"],
    ]


JOB_POD = {"labels": {"volcano.sh/job-name": "a", "volcano.sh/queue-name": "gold"}}
PLAIN_POD = {"annotations": {"scheduling.volcano.sh/queue-name": "gold"}}


@pytest.mark.parametrize(
    ("metadata", "job_name", "queue", "expected"),
    [
        (JOB_POD, "", "", True),
        (JOB_POD, "a", "", True),
        (JOB_POD, "b", "", False),
        (JOB_POD, "a", "silver", False),
        (JOB_POD, "", "gold", True),
        (PLAIN_POD, "", "", False),
        (PLAIN_POD, "", "gold", True),
        ({}, "", "gold", False),
    ],
)
def test_which_pods_are_listed(metadata: dict[str, Any], job_name: str, queue: str, expected: bool) -> None:
    assert selected(metadata, job_name, queue) is expected


def test_amounts_of_flags() -> None:
    context, parameter = click.Context(cli), click.Option(["--requests"])
    assert amounts(context, parameter, "cpu=1000m, memory=100Mi") == {"cpu": "1000m", "memory": "100Mi"}
    assert amounts(context, parameter, None) == {}
    for wrong in ("cpu", "cpu=", "=1", "cpu=lots", "cpu=1,cpu=2"):
        with pytest.raises(click.BadParameter, match="RESOURCE=AMOUNT"):
            amounts(context, parameter, wrong)


def test_a_queue_of_flags_says_only_what_was_given() -> None:
    nothing: dict[str, Any] = {"weight": None, "parent": None, "priority": None, "reclaimable": None}
    none: dict[str, Any] = {"capability": {}, "deserved": {}, "guarantee": {}}
    assert queue_spec(**nothing, **none) == {}
    assert queue_spec(**{**nothing, "reclaimable": False}, **{**none, "guarantee": {"cpu": "2"}}) == {
        "reclaimable": False,
        "guarantee": {"resource": {"cpu": "2"}},
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["job", "run"], "job name cannot be left blank"),
        (["job", "run", "-N", "a", "-f", "b"], "job name cannot be left blank"),
        (["job", "run", "-N", "a", "-c", "x", "--", "y"], "give one of them"),
        (["job", "view"], "Say once which job"),
        (["job", "view", "a", "-N", "b"], "Say once which job"),
        (["job", "list", "-k", "a", "--data-dir", "b"], "two different control planes"),
        (["jobflow", "delete", "a", "-f", "b"], "Say once which job flow"),
        (["queue", "create", "a", "-w", "0"], "0 is not in the range"),
        (["queue", "create", "a", "--capability", "cpu"], "RESOURCE=AMOUNT"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], told: str) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert told in done.output
