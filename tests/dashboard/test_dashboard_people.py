"""Whose jobs are which: the viewer's own first, who holds most, who lets cards lie idle, and what would start a job."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from support.dashboards import Setting
from support.plane import REPOSITORY
from unisono.api.annotations import USER, VERDICT
from unisono.api.core import Node, Pod
from unisono.api.groups.batch import Job
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import JOBS
from unisono.api.verdict import Cause, Holder, Verdict, encode
from unisono.dashboard.live.measuring import Holding, Measured, card_use, holding
from unisono.dashboard.live.searching import Found, Searches
from unisono.dashboard.views.explanation import explanation_view, verdict_view, with_people
from unisono.dashboard.views.nodes import NodeQuery, Usage, node_cells, nodes_view
from unisono.dashboard.views.overview import IDLE_SECONDS, holders, idle_lines, news, own_jobs, user_lines
from unisono.dashboard.views.rows import group_row, job_row
from unisono.dashboard.views.table import Query, jobs_view
from unisono.dashboard.views.why import ExplanationView
from unisono.dashboard.views.wire import JobRow
from unisono.sdk.reasons.explanation import Explanation
from unisono.sdk.state.dependents import Dependents

NOW = 1_000_000.0
USE = "DCGM_FI_DEV_GPU_UTIL"
START = "2026-01-01T00:00:00Z"
START_SECONDS = 1_767_225_600.0


def row(name: str, state: str = "running", **fields: Any) -> JobRow:
    key = f"jobs.batch.volcano.sh/default/{name}"
    given = {"api_version": "batch.volcano.sh/v1alpha1", "kind": "Job", "namespace": "default", "state": state}
    return JobRow(key=key, name=name, **{**given, **fields})


def pod(name: str, *, node: str = "n1", gpus: int = 1, phase: str = "Running", **more: Any) -> Pod:
    amounts = {"cpu": "4", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    placed = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": START}] if node else []
    value = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"scheduling.k8s.io/group-name": "train", **more.get("annotations", {})},
        },
        "spec": {
            "containers": [{"name": "main", "image": "i", "resources": {"requests": amounts}}],
            **({"nodeName": node} if node else {}),
            **more.get("spec", {}),
        },
        "status": {"phase": phase, "conditions": placed, **more.get("status", {})},
    }
    return msgspec.convert(value, Pod)


def node(name: str, model: str, *, cordoned: bool = False) -> Node:
    labels = {"nvidia.com/gpu.product": model}
    amounts = {"cpu": "16", "pods": "110", "nvidia.com/gpu": "8"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": amounts, "conditions": ready}
    value = {"metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": cordoned}, "status": status}
    return msgspec.convert(value, Node)


def test_a_row_knows_its_user_what_it_holds_and_when_it_ends() -> None:
    group = msgspec.convert({"metadata": {"name": "train", "namespace": "default"}, "spec": {"minMember": 2}}, PodGroup)
    job = msgspec.convert(
        {
            "metadata": {"name": "train", "namespace": "default", "annotations": {USER: "ada"}},
            "spec": {"minAvailable": 2, "tasks": [{"name": "w", "replicas": 2, "template": {"spec": {}}}]},
        },
        Job,
    )
    says = {"annotations": {"unisono.io/run-seconds": "600"}}
    pods = [pod("train-w-0", **says), pod("train-w-1", gpus=3, spec={"activeDeadlineSeconds": 900})]
    told = job_row(JOBS, job, Dependents(groups=[group], pods=pods))
    assert (told.user, told.held, told.held_cpus) == ("ada", 4.0, 8.0)
    assert (told.started, told.ends, told.ended) == (START_SECONDS, START_SECONDS + 900, 0.0)
    waits = group_row(group, [pod("train-w-0"), pod("train-w-1", node="", phase="Pending")], "the-owner")
    # One pod of the gang has a node and holds it, but the job has not begun.
    assert (waits.state, waits.user, waits.held, waits.started, waits.ends) == ("waiting", "the-owner", 1.0, 0.0, 0.0)
    ended = {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": START}}}]}
    over = group_row(group, [pod(f"train-w-{index}", phase="Succeeded", status=ended) for index in range(2)])
    assert (over.state, over.user, over.held, over.ended) == ("succeeded", "", 0.0, START_SECONDS)


def test_of_ones_own_jobs_those_that_want_something_come_first_and_none_hides_all_others() -> None:
    rows = [
        *(row(f"waits-{number}", "waiting", created=NOW - number) for number in range(20)),
        row("failed", "failed", ended=NOW - 60),
        row("failed-long-ago", "failed", ended=NOW - 90 * 3600),
        row("runs", started=NOW - 10),
        row("ran-longer", started=NOW - 1000),
        row("done", "succeeded", ended=NOW - 5),
    ]
    told = [each.name for each in news(rows, NOW)]
    assert told[0] == "waits-19"
    assert len(told) == 8
    assert {"failed", "runs", "ran-longer", "done"} < set(told)
    assert "failed-long-ago" not in told
    assert told.index("failed") < told.index("runs") < told.index("ran-longer") < told.index("done")
    assert news([], NOW) == []
    assert own_jobs([row("a", user="ada"), row("b", user=""), row("c", user="grace")], "ada")[0].name == "a"
    assert own_jobs([row("b", user="")], "") == []


def test_users_are_told_by_what_they_hold() -> None:
    rows = [
        row("a", user="ada", held=6.0, held_cpus=60.0),
        row("b", "waiting", user="ada", cards=8.0),
        row("half", "waiting", user="grace", cards=4.0, held=2.0),
        row("c", user="", held_cpus=100.0),
        row("over", "succeeded", user="linus"),
    ]
    told = user_lines(rows)
    assert [line.user for line in told] == ["ada", "grace", ""]
    assert (told[0].held, told[0].running, told[0].waiting, told[0].wanted, told[0].share) == (6.0, 1, 1, 8.0, 0.75)
    assert (told[1].wanted, told[1].share) == (2.0, 0.25)
    assert [each.name for each in holders(rows)] == ["a", "half", "c"]
    # Without cards processors are what is shared.
    without = user_lines([row("a", user="ada", held_cpus=1.0), row("b", user="bea", held_cpus=3.0)])
    assert [(line.user, line.share) for line in without] == [("bea", 0.75), ("ada", 0.25)]


def test_the_table_is_filtered_and_sorted_by_user() -> None:
    rows = [row("a", user="grace"), row("b", user="ada"), row("c")]
    assert [rows[0].key] == jobs_view(rows, Query(user="grace")).order
    assert jobs_view(rows, Query(q="ADA")).order == [rows[1].key]
    assert jobs_view(rows, Query(sort="user")).order == [rows[1].key, rows[0].key, rows[2].key]
    assert [choice.value for choice in jobs_view(rows, Query()).users] == ["ada", "grace"]


# ---- cards that lie idle


def test_a_job_is_idle_once_all_its_pods_with_cards_have_done_nothing_for_a_while() -> None:
    clock = [NOW]
    measured = Measured(None, lambda: clock[0])  # type: ignore[arg-type]
    pods = [
        Holding("default/a-0", "default/a"),
        Holding("default/a-1", "default/a"),
        Holding("default/b-0", "default/b"),
    ]
    measured.note(pods, {"default/a-0": 1, "default/a-1": 2, "default/b-0": 900})
    clock[0] += IDLE_SECONDS
    measured.note(pods, {"default/a-0": 0, "default/a-1": 0, "default/b-0": 10})
    assert measured.quiet == {"default/a": NOW, "default/b": clock[0]}
    rows = [row("a", held=8.0), row("b", held=8.0)]
    assert [(line.row.name, line.since) for line in idle_lines(rows, measured.quiet, clock[0])] == [("a", NOW)]
    # One of its pods works, or is not measured any more: it is not idle, and begins anew later.
    measured.note(pods, {"default/a-0": 0, "default/b-0": 10})
    assert set(measured.quiet) == {"default/b"}
    measured.note([], {})
    assert measured.quiet == {}


def test_pods_that_run_with_cards_are_looked_at() -> None:
    pods = [
        pod("train-0"),
        pod("cpu", gpus=0),
        pod("waits", node="", phase="Pending"),
        pod("over", phase="Succeeded"),
    ]
    assert holding(pods) == [Holding("default/train-0", "default/train")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", {}),
        (
            'DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 30\nDCGM_FI_DEV_GPU_UTIL{gpu="1",Hostname="n1"} 10\n',
            {"n1": 0.2},
        ),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 30\n', {}),
        ("DCGM_FI_DEV_GPU_UTIL{gpu= 30\n", {}),
        ('other{Hostname="n1"} 3\n', {}),
    ],
)
def test_use_of_cards_is_read_from_metrics(text: str, told: dict[str, float]) -> None:
    assert card_use(text) == told


# ---- why, and what would help


def test_a_verdict_is_told_as_root_numbers_holders_and_place_in_line() -> None:
    verdict = Verdict(
        job="default/train-00000000-0000-4000-8000-000000000001",
        cause="NodesFull",
        message="cpu 8 is asked for, and cpu 0 of 64 is free; no preemption: it is off",
        queue="batch",
        need={"cpu": 8000},
        holders=(Holder("Job", "default/other", {"cpu": 64_000}), Holder("Queue", "llm", {"cpu": 1000})),
        position=64,
        ahead=("a/b",),
    )
    told = verdict_view(verdict)
    assert told.root == "cpu 8 is asked for, and cpu 0 of 64 is free"
    assert told.more == ["no preemption: it is off"]
    assert (told.position, told.ahead) == (64, ["a/b"])
    view = ExplanationView(known=True, verdicts=[told])
    with_people(view, [row("other", user="ada", ends=NOW), row("another", user="grace")])
    assert [(holder.name, holder.user, holder.ends) for holder in told.holders] == [
        ("default/other", "ada", NOW),
        ("llm", "", 0.0),
    ]
    assert explanation_view(Explanation("Job", "a", "job/a", ""), {}).verdicts == []


def test_every_cause_has_words() -> None:
    page = REPOSITORY / "src/unisono/dashboard/page/src/components/causes.ts"
    assert set(re.findall(r'^  (\w+): "', page.read_text(), re.M)) == {cause.value for cause in Cause}


def test_nodes_are_chosen_by_model_free_cards_and_who_holds_them() -> None:
    usage = Usage()
    for number, gpus in enumerate((8, 5, 1)):
        usage.note("ADDED", pod(f"p{number}", node=f"n{number}", gpus=gpus))
    nodes = [node("n0", "H100"), node("n1", "H100"), node("n2", "A100"), node("n3", "A100", cordoned=True)]
    jobs = {"default/train": row("train", user="ada", started=NOW - 60, ends=NOW + 60)}
    cells = node_cells(nodes, usage.snapshot(), [], jobs, {"default/train": NOW - 30}, {"n0": 0.5})

    def found(**query: Any) -> list[str]:
        return nodes_view(cells, NodeQuery(**query), cordons=False).order

    # The cordoned node has eight free cards, and nobody may have them.
    assert (found(free=1), found(free=7), found(free=8)) == (["n1", "n2"], ["n2"], [])
    assert found(model=cells[0].model) == ["n0", "n1"]
    assert found(q="ada train") == ["n0", "n1", "n2"]
    view = nodes_view(cells, NodeQuery(), cordons=False)
    assert [(choice.value, choice.count) for choice in view.free] == [("7", 1), ("3", 2)]
    assert {choice.count for choice in view.models} == {2}
    held = view.rows["n0"].held[0]
    assert (held.user, held.since, held.ends, held.idle) == ("ada", NOW - 60, NOW + 60, NOW - 30)
    assert (view.rows["n0"].use, view.rows["n1"].use) == (0.5, -1.0)


# ---- through the dashboard


async def test_me_is_who_has_signed_in(two_teams: Setting) -> None:
    """The owner of a machine's control plane submits without being written down; others are known by name."""
    owner, viewer = two_teams.browser(), two_teams.browser()
    await owner.sign_in(code=two_teams.dashboard.sessions.code_for(two_teams.admin.config))
    await viewer.sign_in(token=await two_teams.account("team-a", "ada", ["*"]))
    mine = await owner.view("/api/views/jobs?user=me")
    assert mine["matched"] == 2
    overview = await owner.view("/api/views/overview")
    assert len(overview["mine"]) == 2
    assert overview["users"][0]["user"] == "unisono-admin"
    assert (await viewer.view("/api/views/jobs?user=me"))["matched"] == 0
    rows = await viewer.view("/api/views/jobs")
    assert {each["user"] for each in rows["rows"].values()} == {""}


async def test_a_search_answers_as_explain_does_and_its_fix_can_be_carried_out(two_teams: Setting) -> None:
    browser = two_teams.browser()
    await browser.sign_in(code=two_teams.dashboard.sessions.code_for(two_teams.admin.config))
    groups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team-a/podgroups"
    status, _, body = await two_teams.admin.request("GET", groups)
    group = msgspec.json.decode(body)["items"][0]["metadata"]["name"]
    verdict = Verdict(
        job=f"team-a/{group}",
        cause="OverCapability",
        message="queue team has capability cpu 0",
        queue="team",
        change={"kind": "RaiseCapability", "queue": "team", "amounts": {"cpu": 1000}},
    )
    assert status == 200
    told = {"metadata": {"annotations": {VERDICT: encode(verdict)}}, "status": {"phase": "Pending"}}
    await two_teams.patch(f"{groups}/{group}", told)
    ref = {"apiVersion": JOBS.api_version, "kind": "Job", "namespace": "team-a", "name": "only-team-a"}
    reply = await browser.call("POST", "/api/search", ref)
    assert reply.status == 200, reply.text
    answer = reply.json()
    assert answer["known"]
    assert not answer["problem"]
    again = await browser.call("POST", "/api/search", ref)
    assert again.json() == answer  # and costs nothing
    for fix in answer["fixes"]:
        if fix["operations"]:
            done = await browser.call("POST", "/api/fix", {**ref, "id": fix["id"], "dryRun": True})
            assert done.status == 200, done.text
    unknown = await browser.call("POST", "/api/fix", {**ref, "id": "x"})
    assert unknown.status == 409
    gone = await browser.call("POST", "/api/search", {**ref, "name": "gone"})
    assert gone.status == 404
    assert "not found" in gone.text


def test_what_was_found_is_given_again_for_a_short_time_and_bounded() -> None:
    searches = Searches()
    view = ExplanationView(known=True)
    searches.keep(JOBS, "a", "b", Found(NOW, view))
    assert searches.fresh(JOBS, "a", "b", NOW + 59) is view
    assert searches.fresh(JOBS, "a", "b", NOW + 61) is None
    assert searches.fresh(JOBS, "a", "c", NOW) is None
    assert searches.fix(JOBS, "a", "b", "id", NOW) is None
    for number in range(200):
        searches.keep(JOBS, "a", str(number), Found(NOW, view))
    assert searches.fresh(JOBS, "a", "b", NOW) is None
    assert searches.fresh(JOBS, "a", "199", NOW) is view
