"""What run tells of a job, from objects alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from unisono.api.base import ObjectMeta
from unisono.api.core import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from unisono.api.groups.batch import Job, JobCondition, JobSpec, JobState, JobStatus, TaskSpec
from unisono.api.groups.scheduling import PodGroup, PodGroupStatus
from unisono.api.kind_families import PYTORCH_JOBS
from unisono.api.pod_states import pod_end
from unisono.api.verdict import Verdict
from unisono.cli.running.report import changes
from unisono.sdk.overview.queues import QueueView
from unisono.sdk.state.observing import workload_view
from unisono.sdk.state.views import JobView, end_text, job_view, pod_view, says_steps_alone


def job(phase: str = "Pending", *, message: str = "", tasks: dict[str, int] | None = None) -> Job:
    specs = [TaskSpec(name=name, replicas=count) for name, count in (tasks or {"worker": 2}).items()]
    return Job(
        metadata=ObjectMeta(name="train", namespace="ns", uid="j"),
        spec=JobSpec(min_available=2, queue="research", tasks=specs),
        status=JobStatus(state=JobState(phase=phase, message=message)),
    )


def group(phase: str) -> PodGroup:
    return PodGroup(metadata=ObjectMeta(name="train-j", namespace="ns"), status=PodGroupStatus(phase=phase))


def pod(name: str, phase: str = "Pending", node: str | None = None, code: int | None = None, **status: str) -> Pod:
    statuses = None
    if code is not None:
        end = ContainerStateTerminated(exit_code=code, reason="Error" if code else "Completed")
        statuses = [ContainerStatus(name="c", state=ContainerState(terminated=end))]
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", annotations={"volcano.sh/task-spec": "worker"}),
        spec=PodSpec(node_name=node, containers=[Container(name="c")]),
        status=PodStatus(phase=phase, container_statuses=statuses, **status),
    )


def test_a_waiting_job_shows_its_verdict() -> None:
    view = job_view(job(), group("Pending"), [], "queue research is full")
    assert (view.phase, view.admitted, view.placed, view.gang, view.waiting) == (
        "Pending",
        False,
        0,
        2,
        "queue research is full",
    )


def test_a_running_job_counts_its_pods_by_task() -> None:
    pods = [pod("train-worker-0", "Running", "n1"), pod("train-worker-1", "Succeeded", "n2", code=0)]
    view = job_view(job("Running"), group("Running"), pods, "stale verdict")
    assert view.waiting == ""
    assert view.nodes == ("n1", "n2")
    assert (view.tasks[0].count("Running"), view.tasks[0].count("Succeeded"), view.tasks[0].wanted) == (
        1,
        1,
        2,
    )


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (pod("p", "Failed", "n", code=3), "exit code 3 (Error)"),
        (pod("p", "Failed", "n", reason="Evicted", message="node is full"), "Evicted: node is full"),
        (pod("p", "Failed", "n"), "Failed"),
    ],
)
def test_how_a_pod_failed_is_said_in_one_line(built: Pod, text: str) -> None:
    assert end_text(pod_end(built)) == text


def test_the_story_of_a_job_is_told_once_and_in_order() -> None:
    steps = [
        job_view(job(), group("Pending"), [], ""),
        job_view(job(), group("Inqueue"), [], "0/1 nodes are unavailable: 1 Insufficient cpu."),
        job_view(job(), group("Inqueue"), [], "0/1 nodes are unavailable: 1 Insufficient cpu."),
        job_view(job(), group("Inqueue"), [pod("train-worker-0", "Pending", "n1"), pod("x")], ""),
        job_view(
            job("Running"),
            group("Running"),
            [pod("train-worker-0", "Running", "n1"), pod("x", "Running", "n1")],
        ),
        job_view(
            job("Failed", message="exhausted retries"),
            group("Running"),
            [pod("train-worker-0", "Failed", "n1", code=1), pod("x", "Running", "n1")],
        ),
    ]
    told: list[str] = []
    old: JobView | None = None
    for view in steps:
        told += changes(old, view)
        old = view
    assert told == [
        "submitted to queue research: 2 pods, 2 of them start together or not at all",
        "admitted by queue research",
        "waiting: 0/1 nodes are unavailable: 1 Insufficient cpu.",
        "gang placed: 2/2 pods on n1",
        "Running",
        "Failed: exhausted retries",
        "pod train-worker-0 failed: exit code 1 (Error)",
    ]


def test_plain_pods_are_told_in_a_jobs_words() -> None:
    assert pod_view(pod("p", "Succeeded", "n", code=0)).phase == "Completed"
    assert pod_view(pod("p", "Failed", "n", code=1)).ended
    assert not pod_view(pod("p"), "no node").ended


def test_many_nodes_are_not_all_named() -> None:
    old = JobView("a", "ns", "Job")
    new = replace(old, placed=5, nodes=tuple(f"n{i}" for i in range(5)))
    assert changes(old, new) == ["gang placed: 5/0 pods on n0, n1, n2 and 2 more nodes"]


def test_a_job_that_ran_was_admitted_also_when_its_group_has_gone() -> None:
    assert job_view(job("Completed"), None, []).admitted
    assert not job_view(job(), None, []).admitted
    for phase in ("Failed", "Terminated", "Aborted"):
        ended = job(phase)
        assert not job_view(ended, None, []).admitted
        ended.status.conditions = [JobCondition(status="Running"), JobCondition(status=phase)]
        assert job_view(ended, None, []).admitted


def test_a_job_of_another_kind_that_ran_was_admitted_too() -> None:
    status: dict[str, Any] = {"conditions": [{"type": "Failed", "status": "True"}]}
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {},
        "status": status,
    }

    def admitted() -> bool:
        return workload_view(msgspec.convert(manifest, PYTORCH_JOBS.struct), (), (), ()).admitted

    assert not admitted()
    status["conditions"].insert(0, {"type": "Running", "status": "False"})
    assert admitted()


def test_a_notebook_shows_a_table_of_the_job() -> None:
    shown = job_view(job(), group("Pending"), [], "queue <research> is full")._repr_html_()
    assert shown.startswith("<table>")
    assert "queue &lt;research&gt; is full" in shown


def test_a_notebook_shows_verdicts_and_queues() -> None:
    verdict = Verdict(job="ns/a", message="too <large>", position=2, queue="q", ahead=("b",), suggestion="less")
    shown = verdict._repr_html_()
    assert "ns/a waits: too &lt;large&gt;" in shown
    assert "<th>place</th><td>2 in queue q</td>" in shown
    assert "held by" not in shown
    queue = QueueView("<q>", state="Open", groups={"Running": 3, "Pending": 0}, allocated={"cpu": "4"})
    assert "&lt;q&gt;, Open: 3 Running" in queue._repr_html_()
    assert "<td>cpu</td><td>4</td><td></td>" in queue._repr_html_()


@pytest.mark.parametrize(
    ("line", "alone"), [("progress: 3/10", True), (" Progress: 3/10 ", True), ("loss 1 progress: 3/10", False)]
)
def test_lines_that_the_bar_shows_are_left_out_beside_it(line: str, alone: bool) -> None:
    assert says_steps_alone(line) is alone
