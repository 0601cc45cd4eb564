"""What the page is told, from objects alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import Pod
from unisono.api.documents import merge_diff
from unisono.api.groups.batch import Job
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import JOBS
from unisono.api.verdict import Holder, Verdict, encode
from unisono.dashboard.views.explanation import event_rows, explanation_view, fix_id, verdict_view
from unisono.dashboard.views.overview import waiting_groups
from unisono.dashboard.views.rows import group_row, job_row, pod_row
from unisono.dashboard.views.table import MOST_ROWS, Query, jobs_view
from unisono.dashboard.views.wire import JobRow
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.reasons.explanation import Explanation
from unisono.sdk.state.dependents import Dependents


def test_a_difference_names_what_has_changed_and_nothing_else() -> None:
    old = {"order": ["a", "b"], "rows": {"a": {"x": 1, "y": 2}, "b": {"x": 1}}}
    new = {"order": ["a", "c"], "rows": {"a": {"x": 1, "y": 3}, "c": {"x": 5}}}
    expected = {"order": ["a", "c"], "rows": {"a": {"y": 3}, "b": None, "c": {"x": 5}}}
    assert merge_diff(old, new) == expected


def row(name: str, **fields: Any) -> JobRow:
    key = f"jobs.batch.volcano.sh/default/{name}"
    values = {"key": key, "api_version": "batch.volcano.sh/v1alpha1", "kind": "Job", "namespace": "default"}
    return JobRow(**{**values, "name": name, "queue": "q", **fields})


ROWS = [
    row("old", state="waiting", created=10.0, cause="NodesFull", waiting="0/3 nodes have a free card", gang=8),
    row("new", state="waiting", created=90.0, cause="NodesFull", gang=2),
    row("runs", state="running", created=50.0, queue="research", namespace="team"),
    row("done", state="succeeded", created=20.0),
    row("broken", state="failed", created=30.0, kind="PyTorchJob"),
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (Query(), ["old", "new", "runs", "broken", "done"]),
        (Query(state="live"), ["old", "new", "runs"]),
        (Query(state="failed"), ["broken"]),
        (Query(q="CARD free"), ["old"]),
        (Query(q="nothing"), []),
        (Query(queue="research"), ["runs"]),
        (Query(namespace="team", queue="q"), []),
        (Query(kind="PyTorchJob"), ["broken"]),
        (Query(cause="NodesFull", sort="-gang"), ["old", "new"]),
        (Query(sort="name"), ["broken", "done", "new", "old", "runs"]),
        (Query(sort="-name"), ["runs", "old", "new", "done", "broken"]),
        (Query(sort="__class__"), ["old", "new", "runs", "broken", "done"]),
        (Query(offset=1, limit=2), ["new", "runs"]),
        (Query(offset=4, limit=2), ["broken", "done"]),
        (Query(offset=-5, limit=-1), ["old"]),
    ],
)
def test_a_table_shows_what_a_query_asks_for(query: Query, names: list[str]) -> None:
    view = jobs_view(ROWS, query)
    assert [view.rows[key].name for key in view.order] == names
    assert view.total == len(ROWS)


def test_a_window_is_bounded_and_the_counts_are_of_all_rows() -> None:
    rows = [row(f"j{number}", state="waiting", queue=f"q{number % 300}") for number in range(2000)]
    view = jobs_view(rows, Query(limit=10**9))
    assert (len(view.order), view.matched) == (MOST_ROWS, 2000)
    assert len(view.queues) == 200
    assert view.states[0].count == 2000


@pytest.mark.parametrize("text", ["train-5", "Train-5", "default/train-5", " train-5 "])
def test_a_whole_name_comes_before_names_that_begin_with_it(text: str) -> None:
    rows = [row(f"train-{number}", state="waiting", created=float(-number)) for number in range(100)]
    view = jobs_view(rows, Query(q=text, limit=5))
    assert (view.order[0].rpartition("/")[2], view.matched) == ("train-5", 11)
    assert [key.rpartition("/")[2] for key in view.order[1:3]] == ["train-59", "train-58"]


def test_jobs_that_wait_for_the_same_are_told_together() -> None:
    groups = waiting_groups(ROWS)
    assert [(group.cause, group.jobs, group.pods) for group in groups] == [("NodesFull", 2, 10)]
    assert groups[0].example.name == "old"


# ---- rows


def a_job(**status: Any) -> Job:
    spec = {
        "minAvailable": 2,
        "queue": "research",
        "priorityClassName": "high",
        "tasks": [{"name": "w", "replicas": 2, "template": {}}],
    }
    meta = {"name": "train", "namespace": "team", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Job)


def a_group(verdict: Verdict | None = None, phase: str = "Inqueue") -> PodGroup:
    annotations = {"unisono.io/verdict": encode(verdict)} if verdict else {}
    return msgspec.convert(
        {
            "metadata": {"name": "train-u1", "namespace": "team", "annotations": annotations},
            "spec": {"minMember": 2, "queue": "research"},
            "status": {"phase": phase},
        },
        PodGroup,
    )


def a_pod(number: int, phase: str = "Pending", node: str | None = None, **status: Any) -> Pod:
    return msgspec.convert(
        {
            "metadata": {
                "name": f"train-w-{number}",
                "namespace": "team",
                "annotations": {"volcano.sh/task-spec": "w"},
                "creationTimestamp": "2026-01-01T00:00:10Z",
            },
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": 1}}}],
            },
            "status": {"phase": phase, **status},
        },
        Pod,
    )


FULL = Verdict(job="team/train-u1", cause="NodesFull", message="all cards are in use", need={"nvidia.com/gpu": 2000})


@pytest.mark.parametrize(
    ("status", "group", "pods", "expected"),
    [
        ({}, None, [], {"state": "waiting", "phase": "Pending", "waiting": "", "placed": 0}),
        (
            {"state": {"phase": "Pending"}},
            a_group(FULL),
            [],
            {"state": "waiting", "waiting": "all cards are in use", "cause": "NodesFull", "queue": "research"},
        ),
        (
            {"state": {"phase": "Running"}},
            a_group(phase="Running"),
            [a_pod(0, "Running", "n1"), a_pod(1, "Running", "n2")],
            {"state": "running", "placed": 2, "running": 2, "cause": ""},
        ),
        ({"state": {"phase": "Completed"}}, None, [], {"state": "succeeded"}),
        ({"state": {"phase": "Failed"}}, a_group(FULL), [], {"state": "failed", "waiting": "", "cause": ""}),
        ({"state": {"phase": "Aborted"}}, None, [], {"state": "suspended"}),
    ],
)
def test_the_row_of_a_job(
    status: dict[str, Any], group: PodGroup | None, pods: list[Pod], expected: dict[str, Any]
) -> None:
    found = job_row(JOBS, a_job(**status), Dependents(groups=[group] if group else [], pods=pods))
    assert {name: getattr(found, name) for name in expected} == expected
    assert (found.key, found.gang, found.priority) == (
        "jobs.batch.volcano.sh/team/train",
        2,
        "high",
    )


@pytest.mark.parametrize(
    ("phases", "nodes", "state"),
    [([], [], "waiting"), (["Pending"], [None], "waiting"), (["Running"] * 2, ["n1", "n1"], "running")],
)
def test_the_row_of_a_gang_without_a_job(phases: list[str], nodes: list[str | None], state: str) -> None:
    group = a_group()
    group.metadata = ObjectMeta(
        name="g",
        namespace="team",
        owner_references=[
            OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="u", controller=True)
        ],
    )
    pods = [a_pod(number, phase, node) for number, (phase, node) in enumerate(zip(phases, nodes, strict=True))]
    found = group_row(group, pods)
    assert (found.state, found.kind, found.name) == (state, "Deployment", "web")


def test_the_row_of_a_pod() -> None:
    ended = {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:02:00Z"}
    pod = a_pod(
        0,
        "Failed",
        "n1",
        startTime="2026-01-01T00:01:00Z",
        conditions=[{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:30Z"}],
        containerStatuses=[{"name": "main", "restartCount": 2, "state": {"terminated": ended}}],
    )
    found = pod_row(pod)
    assert (found.ending, found.restarts, found.task) == ("exit code 3 (Error)", 2, "w")
    assert found.requests == "1 GPU, 0.5 CPUs"
    assert [found.scheduled - found.created, found.started - found.created, found.finished - found.created] == [
        20,
        50,
        110,
    ]


@pytest.mark.parametrize("time", [None, "", "yesterday", "2026-13-45T99:99:99Z"])
def test_a_time_that_is_none_is_no_time(time: str | None) -> None:
    pod = a_pod(0)
    pod.metadata.creation_timestamp = time
    assert pod_row(pod).created == 0.0


# ---- explanations


def test_a_verdict_is_told_with_its_numbers() -> None:
    verdict = msgspec.structs.replace(
        FULL,
        have={"nvidia.com/gpu": 500, "memory": 2**31},
        need={"nvidia.com/gpu": 2000, "memory": 2**30},
        reasons={"Insufficient nvidia.com/gpu": 3, "cordoned": 5},
        holders=(Holder("Job", "team/other", {"nvidia.com/gpu": 4000, "cpu": 0}),),
        nodes=8,
        suggestion="end team/other",
    )
    view = verdict_view(verdict)
    assert [(each.name, each.need, each.have, each.short) for each in view.amounts] == [
        ("nvidia.com/gpu", "2", "0.5", True),
        ("memory", "1 GiB", "2 GiB", False),
    ]
    assert [each.value for each in view.reasons] == ["cordoned", "Insufficient nvidia.com/gpu"]
    assert view.holders[0].amounts == "4 GPUs"
    assert [(fact.name, fact.text) for fact in view.facts] == [("try", "end team/other")]


def test_a_fix_may_be_carried_out_by_those_alone_who_may_do_all_of_it() -> None:
    from unisono.api.kinds import NODES
    from unisono.sdk.fixes.fix import Operation

    twice = tuple(Operation("patch", NODES, name, body={"spec": {"unschedulable": None}}) for name in ("n1", "n2"))
    fix = Fix("uncordon n1 and n2", tried=True, change={"kind": "Uncordon"}, operations=twice)
    none = Fix("add nodes", tried=True, change={"kind": "AddNodes"}, why_not="the API cannot add nodes")
    told = Explanation("Job", "train", "job/train", "its phase is Pending", [FULL], fixes=[fix, none])
    for allowed, expected in (((True, True), True), ((True, False), False), ((), False)):
        view = explanation_view(told, {fix_id(fix): allowed})
        assert [each.allowed for each in view.fixes] == [expected, False]
    assert view.headline == "job/train waits: all cards are in use"
    assert "unschedulable: null" in view.fixes[0].operations[0].body
    assert fix_id(fix) != fix_id(shortened(fix))


def shortened(fix: Fix) -> Fix:
    return Fix(fix.text, fix.tried, fix.change, fix.operations[:1])


def test_events_are_those_of_the_objects_the_newest_first() -> None:
    def event(uid: str, time: str, **fields: Any) -> dict[str, Any]:
        return {
            "metadata": {"uid": uid + time},
            "involvedObject": {"uid": uid, "kind": "Pod", "name": uid},
            **fields,
        } | {"lastTimestamp": time}

    told = [
        event("a", "2026-01-01T00:00:01Z", reason="Old"),
        event("b", "2026-01-01T00:00:02Z", reason="Other"),
        event("a", "2026-01-01T00:00:03Z", reason="New", count=7, type="Warning"),
        {"involvedObject": {"uid": "a"}},
        {},
    ]
    rows = event_rows(told, {"a"})
    assert [each.reason for each in rows] == ["New", "Old", ""]
    assert (rows[0].count, rows[0].type, rows[0].about) == (7, "Warning", "pod/a")
