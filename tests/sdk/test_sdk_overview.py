"""The overview of a control plane, and its lines."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.annotations import CLUSTER, ORIGIN_GROUP, QUARANTINE, VERDICT
from unisono.api.core import Taint
from unisono.api.decode import decode
from unisono.api.kind_families import ATTACHED_CLUSTERS
from unisono.api.kinds import LEASES, NODES, POD_GROUPS, PODS, QUEUES, RESERVATIONS, TEMPORARY_QUOTAS
from unisono.api.node_checks import BY_HAND
from unisono.api.times import parse_time
from unisono.api.verdict import Cause, Verdict, encode
from unisono.cli.overview_lines import overview_lines, queue_table, short_amounts
from unisono.dashboard.views.overview import _facts
from unisono.sdk.overview.components import Component
from unisono.sdk.overview.overview import Answers, Overview, overview

NOW = parse_time("2026-01-01T01:00:00Z")
GPU = "nvidia.com/gpu"


def node(name: str, ready: bool = True, cordoned: bool = False, **amounts: str) -> Any:
    allocatable = {"cpu": "16", "memory": "64Gi", GPU: "8", "pods": "110", **amounts}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]}
    return decode(NODES, {"metadata": {"name": name}, "spec": {"unschedulable": cordoned}, "status": status}).obj


def pod(name: str, on: str | None, group: str, gpus: int, phase: str = "Running", minute: int = 59) -> Any:
    meta = {"name": name, "namespace": "default", "annotations": {"scheduling.k8s.io/group-name": group}}
    requests = {"cpu": "2", GPU: str(gpus)}
    spec = {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": requests}}]}
    status = {"phase": phase, "startTime": f"2026-01-01T00:{minute}:00Z"}
    return decode(PODS, {"metadata": meta, "spec": spec, "status": status}).obj


def group(name: str, phase: str, **annotations: str) -> Any:
    owner = {"apiVersion": "v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
    meta = {
        "name": f"{name}-1",
        "namespace": "default",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [owner],
        "annotations": {key.replace("_", "/"): value for key, value in annotations.items()},
    }
    spec = {"minMember": 2, "queue": "research"}
    return decode(POD_GROUPS, {"metadata": meta, "spec": spec, "status": {"phase": phase}}).obj


def queue(name: str, **spec: Any) -> Any:
    status = {"state": "Open", "allocated": {"cpu": "4", GPU: "6", "pods": "2"}}
    return decode(QUEUES, {"metadata": {"name": name}, "spec": spec, "status": status}).obj


def lease(
    name: str, holder: str, renewed: str, scheduler: bool = False, error: str = "", namespace: str = "kube-system"
) -> Any:
    meta: dict[str, Any] = {"name": name, "namespace": namespace}
    if scheduler:
        meta["labels"] = {"unisono.io/scheduler-cycles": "true"}
        meta["annotations"] = {"unisono.io/scheduler-names": "volcano,unisono"}
        if error:
            meta["annotations"]["unisono.io/configuration-error"] = error
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return decode(LEASES, {"metadata": meta, "spec": spec}).obj


def look(**parts: Any) -> Overview:
    empty: dict[str, Any] = {"problem": "", "nodes": [], "pods": [], "queues": [], "groups": [], "leases": []}
    return overview(Answers(**{**empty, **parts}), NOW)


def test_nodes_and_their_holes() -> None:
    nodes = [node("a"), node("b"), node("c"), node("lost", ready=False), node("off", cordoned=True)]
    pods = [pod("p", "a", "g", 5), pod("q", "lost", "g", 8), pod("r", "b", "g", 8, "Succeeded"), pod("s", None, "g", 8)]
    found = look(nodes=nodes, pods=pods)
    assert (found.ready, found.not_ready, found.cordoned) == (["a", "b", "c"], ["lost"], ["off"])
    by_name = {each.name: each for each in found.resources}
    gpu = by_name[GPU]
    assert (gpu.used, gpu.total, gpu.largest, gpu.holes) == ("5", "24", "8", {8: 2, 3: 1})
    assert (by_name["cpu"].used, by_name["cpu"].total, by_name["memory"].total) == ("2", "48", "192Gi")
    assert [(each.name, each.state) for each in found.nodes] == [
        ("a", "mix"),
        ("b", "idle"),
        ("c", "idle"),
        ("lost", "down"),
        ("off", "drain"),
    ]
    text = "\n".join(overview_lines(found))
    assert "3 ready, 1 not ready (lost), 1 cordoned (off)" in text
    assert "8 on 2 nodes, 3 on 1" in text


def test_what_is_left_of_a_shared_card_is_no_hole() -> None:
    found = look(nodes=[node("a"), node("b")], pods=[pod("p", "a", "g", 7.5), pod("q", "b", "g", 1.5)])
    (gpu,) = (each for each in found.resources if each.name == GPU)
    assert (gpu.used, gpu.largest, gpu.holes) == ("9", "6.5", {6: 1})


def test_a_node_without_a_free_card_is_allocated() -> None:
    assert look(nodes=[node("a")], pods=[pod("p", "a", "g", 8)]).nodes[0].state == "alloc"


def test_jobs_that_wait_and_run() -> None:
    verdict = encode(Verdict(job="default/w", cause=Cause.NODES_FULL, message="no room for 2 pods"))
    groups = [group("w", "Pending", unisono_io="x"), group("r", "Running"), group("old", "Completed")]
    groups[0].metadata.annotations["unisono.io/verdict"] = verdict
    found = look(groups=groups, pods=[pod("p", "a", "r-1", 1), pod("q", "a", "r-1", 1, "Pending")])
    (waiting,), (running,) = found.waiting, found.running
    assert (waiting.title, waiting.queue, waiting.seconds) == ("job/w", "research", 3600)
    assert "no room for 2 pods" in waiting.waiting
    assert (running.title, running.pods, running.gang, running.seconds) == ("job/r", 1, 2, 60)
    lines = overview_lines(found)
    assert "  job/w in queue research, for 1 h" in lines
    assert any(line.split() == ["job/r", "research", "1", "pod", "60", "s", "1", "of", "2", "run"] for line in lines)


@pytest.mark.parametrize(("owned", "told"), [(True, ""), (False, "the PodGroup has no pods yet")])
def test_pods_that_no_controller_will_make_are_missed(owned: bool, told: str) -> None:
    verdict = encode(Verdict(job="default/w-1", cause=Cause.NO_PODS, message="the PodGroup has no pods yet"))
    mine = group("w", "Inqueue", unisono_io="x")
    mine.metadata.annotations["unisono.io/verdict"] = verdict
    if not owned:
        mine.metadata.owner_references = None
    (waiting,) = look(groups=[mine]).waiting
    assert waiting.waiting == told


def test_which_parts_are_alive() -> None:
    fresh, stale = "2026-01-01T00:59:55.000000Z", "2026-01-01T00:50:00.000000Z"
    found = look(
        problem="[-]background failed",
        leases=[
            lease("unisono-scheduler-cycles", "s", fresh, scheduler=True),
            lease("unisono-controllers", "c", stale),
            lease("unisono-webhook", "", stale),
            lease("other", "x", fresh),
        ],
    )
    assert found.components == [
        Component("api server", "[-]background failed"),
        Component("scheduler", "", "for volcano, unisono"),
        Component("controllers", "c has not answered for 600 s"),
        Component("webhook", "no process of it is running"),
    ]


def test_a_scheduler_that_is_silent_or_refuses_its_configuration() -> None:
    stale = lease("x", "s", "2026-01-01T00:50:00.000000Z", scheduler=True)
    assert "no cycle has ended for 600 s" in look(leases=[stale]).components[1].problem
    refused = lease("x", "s", "2026-01-01T00:59:59.000000Z", scheduler=True, error="line 3: no plug-in gangg")
    assert look(leases=[refused]).components[1].problem.endswith("no plug-in gangg")
    assert "no scheduler has ever told" in look().components[1].problem


def test_queues_with_what_they_use() -> None:
    found = look(queues=[queue("research", weight=3, deserved={GPU: "8"}, capability={"cpu": "64"})])
    heading, row = queue_table(found.queues, wide=True)
    assert heading.split() == ["NAME", "STATE", "WEIGHT", "WAITING", "RUNNING", "USED", "DESERVED", "CAP"]
    assert row.split() == ["research", "Open", "3", "0", "0", "cpu=4,gpu=6", "gpu=8", "cpu=64"]
    assert queue_table(found.queues, wide=False)[0].split() == ["NAME", "STATE", "WEIGHT"]
    assert short_amounts({"cpu": "0", "pods": "3"}) == ""
    assert short_amounts({GPU: "739142m", "cpu": "1500m"}) == "gpu=739,cpu=1.5"


def test_lines_fit_and_long_lists_are_cut() -> None:
    groups = [group(f"job-{number}", "Pending") for number in range(30)]
    lines = overview_lines(look(groups=groups), width=40, most=5, colour=True)
    assert "  and 25 more" in lines
    assert all(len(line) <= 40 or "\x1b" in line for line in lines)


def test_many_jobs_that_wait_for_the_same_are_told_as_one() -> None:
    def waits(number: int, cause: str) -> Any:
        verdict = Verdict(job=f"default/job-{number}", cause=cause, message=f"{cause} {number}")
        made = group(f"job-{number}", "Pending")
        made.metadata.annotations = {VERDICT: encode(verdict)}
        return made

    groups = [waits(number, "NodesFull" if number % 3 else "OverShare") for number in range(9)]
    few = overview_lines(look(groups=groups), most=9)
    assert sum(" in queue " in line for line in few) == 9
    many = overview_lines(look(groups=groups), most=8)
    assert "Waiting  9 jobs" in many
    told = [line for line in many if " in queue " in line]
    assert sorted(line.split(" in queue ")[0] for line in told) == ["  3 jobs", "  6 jobs"]
    assert any(line.endswith(" and 3 more") for line in many)
    assert not any(line.startswith("  and ") for line in many)


def test_jobs_of_one_cause_that_lack_other_things_are_told_apart() -> None:
    def waits(number: int) -> Any:
        need, kind = ({"cpu": 1}, "AddNodes") if number % 2 else ({"nvidia.com/gpu": 1}, "Uncordon")
        verdict = Verdict(f"default/job-{number}", "Filters", "no node", need=need, change={"kind": kind})
        made = group(f"job-{number}", "Pending")
        made.metadata.annotations = {VERDICT: encode(verdict)}
        return made

    lines = overview_lines(look(groups=[waits(number) for number in range(9)]), most=8)
    told = [line.split(" in queue ")[0] for line in lines if " in queue " in line]
    assert sorted(told) == ["  4 jobs", "  5 jobs"]


def test_what_the_calendar_has_for_now_and_the_next_day_is_shown() -> None:
    def made(kind: Any, name: str, start: str, **spec: Any) -> Any:
        meta = {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        return decode(kind, {"metadata": meta, "spec": {"start": start, "duration": "2h", **spec}}).obj

    reservations = [
        made(RESERVATIONS, "exam", "2026-01-01T08:00:00Z", nodes=["n1"], users=["ann"]),
        made(RESERVATIONS, "later", "2026-01-03T08:00:00Z", nodes=["n1"], users=["ann"]),
        made(RESERVATIONS, "wrong", "2026-01-01T08:00:00Z", nodes=["n1"]),
    ]
    reservations[0].status.node_count = 1
    quotas = [made(TEMPORARY_QUOTAS, "night", "2026-01-01T00:00:00Z", queue="q", capability={"cpu": "4"}, weight=3)]
    found = look(reservations=reservations, quotas=quotas)
    assert [line.title for line in found.calendar] == ["temporaryquota/night", "reservation/exam"]
    text = "\n".join(" ".join(line.split()) for line in overview_lines(found, width=200))
    assert "temporaryquota/night until 2026-01-01T02:00:00Z queue q: capability cpu 4, weight 3" in text
    assert "reservation/exam from 2026-01-01T08:00:00Z 1 node, for ann" in text
    assert "later" not in text and "wrong" not in text
    assert "Calendar" not in "\n".join(overview_lines(look(), width=200))


def test_nodes_in_quarantine_are_named_with_their_reason_and_take_no_jobs() -> None:
    def out(number: int, by: str, why: str) -> Any:
        there = node(f"gpu-{number}")
        there.spec.taints = [Taint(key=QUARANTINE, value=by, effect="NoSchedule")]
        there.metadata.annotations = {QUARANTINE: why} if why else None
        return there

    nodes = [node("n1"), out(1, "gpus", "NodeCheck gpus failed: \x1b[31mexit code 7"), out(2, BY_HAND, "")]
    found = look(nodes=nodes, pods=[])
    assert found.ready == ["n1"]
    assert [each.total for each in found.resources if each.name == GPU] == ["8"]
    lines = overview_lines(found, width=200)
    (first,) = [line for line in lines if line.startswith("Nodes")]
    assert first == "Nodes  1 ready, 2 in quarantine"
    assert r"  gpu-1 is in quarantine (gpus): NodeCheck gpus failed: \x1b[31mexit code 7" in lines
    assert "  gpu-2 is in quarantine (by-hand)" in lines
    many = overview_lines(look(nodes=[out(at, "gpus", "") for at in range(9)]), width=200)
    assert sum("is in quarantine" in line for line in many) == 5
    assert "  and 4 more: unisono node list" in many
    assert not any("quarantine" in line for line in overview_lines(look(), width=200))


def test_the_overview_as_json_is_made_of_plain_values() -> None:
    import json

    found = look(nodes=[node("a")], queues=[queue("q")], groups=[group("w", "Inqueue")])
    assert set(json.loads(json.dumps(found.json()))) >= {"components", "nodes", "resources", "queues", "waiting"}


def test_a_job_runs_since_its_first_pod_even_if_that_has_ended() -> None:
    pods = [pod("p", "a", "train-1", 1, "Succeeded", 30), pod("q", "a", "train-1", 1)]
    (line,) = look(nodes=[node("a")], pods=pods, groups=[group("train", "Running")]).running
    assert (line.pods, line.seconds) == (1, 1800.0)


def restarted(name: str, group: str, restarts: int, waiting: str) -> Any:
    meta = {"name": name, "namespace": "default", "annotations": {"scheduling.k8s.io/group-name": group}}
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    statuses = [{"name": "c", "restartCount": restarts, "state": state}]
    status = {"phase": "Running", "containerStatuses": statuses}
    spec = {"nodeName": "n", "containers": [{"name": "c"}]}
    return decode(PODS, {"metadata": meta, "spec": spec, "status": status}).obj


def trouble(*pods: Any, phase: str = "Running") -> str:
    found = overview(Answers("", [], pods, [], [group("a", phase)], []), NOW)
    [job] = [*found.running, *found.waiting]
    return job.trouble


def test_what_is_wrong_with_a_job_that_runs() -> None:
    well, other = pod("a-0", "n", "a-1", 1), pod("a-1", "n", "a-1", 1)
    assert trouble(well, other) == ""
    assert trouble(well) == "1 of 2 run"
    assert trouble(well, pod("a-1", "n", "a-1", 1, phase="Failed")) == "1 pod failed, 1 of 2 run"
    assert trouble(well, restarted("a-1", "a-1", 4, "CrashLoopBackOff")) == "4 restarts, CrashLoopBackOff"
    assert trouble(well, restarted("a-1", "a-1", 1, "ContainerCreating")) == "1 restart"
    assert trouble(phase="Pending") == ""


def test_trouble_has_a_column_where_there_is_any() -> None:
    lines = overview_lines(overview(Answers("", [], [pod("a-0", "n", "a-1", 1)], [], [group("a", "Running")], []), NOW))
    [header, row] = [line.split() for line in lines[-2:]]
    assert header == ["JOB", "QUEUE", "RUNNING", "AGE", "TROUBLE"]
    assert row[-4:] == ["1", "of", "2", "run"]


def test_counts_of_a_queue_stand_where_80_columns_show_them() -> None:
    queues = [queue("research", weight=3, deserved={GPU: "8"}, capability={"cpu": "100", "memory": "512Gi", GPU: "16"})]
    lines = overview_lines(overview(Answers("", [], [], queues, [group("a", "Running")], []), NOW), width=80)
    [header] = [line for line in lines if "WEIGHT" in line]
    assert header.split()[:5] == ["NAME", "STATE", "WEIGHT", "WAITING", "RUNNING"]


def test_leases_in_namespaces_of_users_say_nothing_of_components() -> None:
    fresh = "2026-01-01T00:59:59.000000Z"
    own = [lease("unisono-scheduler-cycles", "s", fresh, scheduler=True), lease("unisono-controllers", "c", fresh)]
    forged = [
        lease("unisono-a", "m", fresh, scheduler=True, error="obey me", namespace="mallory"),
        lease("unisono-webhook", "", "2026-01-01T00:00:00.000000Z", namespace="mallory"),
    ]
    assert look(leases=[*own, *forged]).components == look(leases=own).components
    other = forged[0]
    other.metadata.annotations["unisono.io/scheduler-names"] = "theirs"
    assert look(leases=[*own, *forged]).components == look(leases=own).components
    told = [fact.text for fact in _facts([*own, *forged])]
    assert "obey me" not in told


def member(name: str, ready: bool = True) -> Any:
    said = {"type": "Ready", "status": "True" if ready else "False", "message": "" if ready else "it does not answer"}
    status = {
        "ready": ready,
        "conditions": [said],
        "nodeSummary": {"readyNum": 2, "totalNum": 2},
        "resourceSummary": {"allocatable": {"cpu": "64", GPU: "16"}, "allocated": {"cpu": "4", GPU: "4"}},
    }
    return decode(ATTACHED_CLUSTERS, {"metadata": {"name": name, "namespace": "fleets"}, "status": status}).obj


def remote(name: str, cluster: str, group: str, phase: str = "Running") -> Any:
    found = pod(name, "n1", "of-the-member", 1, phase)
    found.metadata.labels = {CLUSTER: cluster}
    found.metadata.annotations[ORIGIN_GROUP] = group
    return found


def test_a_hub_shows_its_members_and_the_pods_of_its_jobs() -> None:
    pods = [
        remote("llm-0", "gpu2", "llm-1"),
        remote("llm-1", "gpu2", "llm-1"),
        remote("llm-2", "gpu1", "llm-1", "Failed"),
    ]
    clusters = [member("gpu2"), member("gpu1", ready=False)]
    found = overview(Answers("", [], pods, [], [group("llm", "Running")], [], clusters), NOW)
    assert [(each.name, each.problem, each.nodes, each.pods) for each in found.members] == [
        ("gpu1", "it does not answer", 2, 0),
        ("gpu2", "", 2, 2),
    ]
    assert found.running[0].pods == 2
    lines = overview_lines(found)
    assert "Members  1 of 2 ready" in lines
    assert [line.split() for line in lines if "gpu2" in line] == [["gpu2", "ok", "2", "4/64", "4/16", "2"]]
    assert not any(line.startswith("Nodes") for line in lines)


def test_members_that_no_hub_looks_at_do_not_hide_the_nodes() -> None:
    nowhere = decode(ATTACHED_CLUSTERS, {"metadata": {"name": "gpu1", "namespace": "fleets"}}).obj
    found = overview(Answers("", [node("n1")], [], [], [], [], [nowhere]), NOW)
    assert {"Members  0 of 1 ready", "Nodes  1 ready"} <= set(overview_lines(found))
    assert found.members[0].problem == "the hub has not looked at it: does 'unisono up --fleet' run?"
