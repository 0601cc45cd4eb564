"""When pending jobs start: futures of a live cluster."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from simulator.worlds import FIFO
from unisono.api.annotations import RUN_SECONDS
from unisono.api.base import ObjectMeta
from unisono.api.core import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ResourceRequirements,
)
from unisono.api.groups.batch import Job, JobSpec, TaskSpec
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import JOBS, NODES, POD_GROUPS, PODS, QUEUES
from unisono.api.times import rfc3339
from unisono.api.yaml import load_all
from unisono.cli.main import cli
from unisono.controllers.job.view import JobView
from unisono.engine.config_file.reader import load_config
from unisono.errors import UnisonoError
from unisono.simulator.clusters import make_node, make_queue
from unisono.simulator.forecast.forecast import Forecast, forecast
from unisono.simulator.forecast.live import FALLBACK, LiveObjects, pods_of_job
from unisono.simulator.forecast.past import Past, Ran, as_guessed, past_of, to_earlier
from unisono.simulator.forecast.whatif import apply_changes, what_if

NOW = 1_750_000_000.0


def group(name: str, created: float, *, running: bool, stated: float | None = None, **spec: Any) -> PodGroup:
    notes = {RUN_SECONDS: str(stated)} if stated else None
    meta = ObjectMeta(name=name, namespace="ns", uid=name, creation_timestamp=rfc3339(NOW + created), annotations=notes)
    spec = {"min_member": 1, "queue": "default", **spec}
    return PodGroup(
        metadata=meta, spec=PodGroupSpec(**spec), status=PodGroupStatus(phase="Running" if running else "Pending")
    )


def pod(job: str, gpus: int, created: float, node: str = "", number: int = 0) -> Pod:
    meta = ObjectMeta(
        name=f"{job}-worker-{number}",
        namespace="ns",
        uid=f"{job}-{number}",
        creation_timestamp=rfc3339(NOW + created),
        annotations={GROUP_NAME: job},
    )
    requests = ResourceRequirements(requests={"nvidia.com/gpu": gpus})
    spec = PodSpec(
        scheduler_name="volcano", node_name=node or None, containers=[Container(name="main", resources=requests)]
    )
    status = PodStatus(phase="Running" if node else "Pending", start_time=rfc3339(NOW + created) if node else None)
    return Pod(metadata=meta, spec=spec, status=status)


def live(*extra: Any) -> LiveObjects:
    """A node of 4 GPUs: ``a`` runs on all of them since 400 s, ``b`` and then ``c`` wait."""
    objects = LiveObjects()
    objects.add(NODES, [make_node("n1", cpu=16, memory="64Gi", gpus=4)])
    objects.add(QUEUES, [make_queue("default")])
    objects.add(
        POD_GROUPS,
        [
            group("a", -400, running=True, stated=1000),
            group("b", -300, running=False, stated=500),
            group("c", -200, running=False),
            *(each for each in extra if isinstance(each, PodGroup)),
        ],
    )
    objects.add(PODS, [pod("a", 4, -400, "n1"), pod("b", 3, -300), pod("c", 2, -200)])
    return objects


def told(found: Forecast) -> dict[str, float | None]:
    return {start.key: start.median for start in found.starts}


def test_by_limits_a_job_starts_when_those_before_it_have_reached_theirs() -> None:
    found = forecast(live(), load_config(FIFO), NOW, futures=1)
    # a ends at 1000 - 400; c does not fit beside b.
    assert told(found) == {"ns/b": 600, "ns/c": 1100}
    assert [start.known for start in found.starts] == [True, False]


def test_possible_futures_give_an_interval_and_depend_on_the_seed_alone() -> None:
    found = forecast(live(), load_config(FIFO), NOW, futures=30, seed=4)
    first = next(start for start in found.starts if start.key == "ns/b")
    assert first.low is not None and first.median is not None and first.high is not None
    assert 0 < first.low < first.median < first.high <= 600
    assert first.chance == 1
    again = forecast(live(), load_config(FIFO), NOW, futures=30, seed=4)
    assert again.starts == found.starts
    assert forecast(live(), load_config(FIFO), NOW, futures=30, seed=5).starts != found.starts


def test_what_does_not_start_before_the_end_of_the_forecast_says_so() -> None:
    found = forecast(live(), load_config(FIFO), NOW, futures=1, until=700)
    late = next(start for start in found.starts if start.key == "ns/c")
    assert (late.median, late.chance) == (None, 0)


def test_a_gang_whose_pods_are_not_made_yet_waits_too() -> None:
    gang = group("d", -100, running=False, min_member=2, min_resources={"nvidia.com/gpu": "4", "cpu": "2"})
    found = forecast(live(gang), load_config(FIFO), NOW, futures=1)
    assert told(found)["ns/d"] is not None
    assert next(start for start in found.starts if start.key == "ns/d").gpus == 4


def changed(objects: LiveObjects, text: str) -> Any:
    return apply_changes(objects, [(each.value, f"change:{each.line}") for each in load_all(text)], NOW)


def later(found: Any) -> dict[str, float | None]:
    return {each.key: each.later for each in found.moved}


def test_more_nodes_let_jobs_start_earlier() -> None:
    objects = live()
    change = changed(objects, "nodes: [{name: new, cpu: 16, memory: 64Gi, gpus: 8}]")
    found = what_if(objects, load_config(FIFO), NOW, change, futures=1)
    assert later(found) == {"ns/b": -600, "ns/c": -1100}
    figures = {each.name: each for each in found.figures}
    assert figures["waitingJobs"].difference.mean < 0
    assert len(objects.of("Node")) == 1


def test_a_node_that_goes_makes_its_jobs_wait_and_others_later() -> None:
    objects = live()
    objects.add(NODES, [make_node("n2", cpu=16, memory="64Gi", gpus=2)])
    gone = "$patch: delete\napiVersion: v1\nkind: Node\nmetadata: {name: n2}"
    found = what_if(objects, load_config(FIFO), NOW, changed(objects, gone), futures=1)
    assert later(found)["ns/c"] == 1100
    gone = gone.replace("n2", "n1")
    found = what_if(objects, load_config(FIFO), NOW, changed(objects, gone), futures=1)
    a = next(each for each in found.moved if each.key == "ns/a")
    assert a.before is None
    assert a.after is not None and a.after.median is None


def test_a_priority_is_merged_into_what_is_there_and_a_configuration_replaces_the_other() -> None:
    objects = live()
    first = (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 100\n---\n"
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: c, namespace: ns}\n"
        "spec: {priorityClassName: high}\n---\n"
        "actions: allocate\ntiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]\n"
    )
    change = changed(objects, first)
    assert change.told == (
        "PriorityClass high added", "PodGroup ns/c changed", "another configuration of the scheduler",
    )  # fmt: skip
    found = what_if(objects, load_config(FIFO), NOW, change, futures=1)
    assert later(found) == {"ns/b": FALLBACK, "ns/c": -500}


@pytest.mark.parametrize(
    ("text", "told_"),
    [
        ("a: 1", "change:1: give an object with a kind"),
        ("apiVersion: v1\nkind: Nod\nmetadata: {name: x}", "there is no kind Nod"),
        ("$patch: delete\napiVersion: v1\nkind: Node\nmetadata: {name: x}", "there is no Node x to delete"),
        ("$patch: drop\napiVersion: v1\nkind: Node\nmetadata: {name: n1}", "'drop' is neither delete nor merge"),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nspec: {colour: red}", "there is no field spec.colour"),
    ],
)
def test_what_is_no_change_is_named(text: str, told_: str) -> None:
    with pytest.raises(UnisonoError) as caught:
        changed(live(), text)
    assert told_ in str(caught.value)


def test_on_the_command_line(tmp_path: Path) -> None:
    dump, change = tmp_path / "dump.json", tmp_path / "change.yaml"
    objects = live()
    items = [
        {**msgspec.to_builtins(item), "apiVersion": kind.api_version, "kind": kind.kind}
        for kind, found in objects.by_kind.values()
        for item in found
    ]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    change.write_text("nodes: [{name: new, cpu: 16, memory: 64Gi, gpus: 8}]")
    words = ["whatif", "-f", str(dump), "--now", rfc3339(NOW), "--futures", "3"]
    answer = CliRunner().invoke(cli, [*words, "-o", "json"], catch_exceptions=False)
    starts = {each["podGroup"]: each for each in json.loads(answer.stdout)["jobs"]}
    assert starts["ns/b"]["low"] <= starts["ns/b"]["median"] <= starts["ns/b"]["high"]
    assert "ns/b" in CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    words += ["--change", str(change)]
    assert "wins" in CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    answer = CliRunner().invoke(cli, [*words, "-o", "json"], catch_exceptions=False)
    assert json.loads(answer.stdout)["changes"] == ["1 nodes and 0 queues added"]


def test_a_job_that_waits_for_admission_gets_the_pods_of_its_template() -> None:
    resources = ResourceRequirements(requests={"nvidia.com/gpu": 2})
    template = PodTemplateSpec(
        metadata=ObjectMeta(annotations={RUN_SECONDS: "50"}),
        spec=PodSpec(containers=[Container(name="main", resources=resources)]),
    )
    waiting = Job(
        metadata=ObjectMeta(name="d", namespace="ns", uid="uid"),
        spec=JobSpec(min_available=2, tasks=[TaskSpec(name="w", replicas=2, template=template)]),
    )
    objects = live(group("d-uid", -100, running=False, min_member=2))
    objects.add(JOBS, [waiting])
    found = forecast(objects, load_config(FIFO), NOW, futures=1)
    start = next(start for start in found.starts if start.key == "ns/d-uid")
    assert (start.gpus, start.known) == (4, True)


def test_the_pod_group_of_a_changed_job_follows_it_and_is_not_changed_by_itself() -> None:
    job = Job(metadata=ObjectMeta(name="d", namespace="ns", uid="uid"), spec=JobSpec(min_available=1, tasks=[]))
    objects = live(group("d-uid", -100, running=False))
    objects.add(JOBS, [job])
    head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: d, namespace: ns}\n"
    after = changed(objects, head + "spec: {priorityClassName: high, queue: research}\n").objects
    specs = {each.metadata.name: each.spec for each in after.of("PodGroup")}
    assert (specs["d-uid"].priority_class_name, specs["d-uid"].queue) == ("high", "research")
    assert objects.of("PodGroup")[-1].spec.priority_class_name is None
    with pytest.raises(UnisonoError, match="belongs to Job ns/d, whose controller writes its spec: change the Job"):
        changed(
            objects,
            "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
            "metadata: {name: d-uid, namespace: ns}\nspec: {priorityClassName: high}\n",
        )


@pytest.mark.parametrize(
    ("spec", "told", "gpus"),
    [
        ("minAvailable: 3, tasks: [{name: w, replicas: 3}]", "with 1 pod more", 6),
        ("minAvailable: 1, tasks: [{name: w, replicas: 1}]", "with 1 pod fewer", 2),
        (
            "tasks: [{name: w, template: {spec: {containers: [{name: main, "
            "resources: {requests: {nvidia.com/gpu: 3}}}]}}}]",
            "with 2 pods that start anew",
            6,
        ),
        ("priorityClassName: high", "", 4),
    ],
)
def test_the_pods_of_a_changed_job_follow_it(spec: str, told: str, gpus: int) -> None:
    resources = ResourceRequirements(requests={"nvidia.com/gpu": 2})
    template = PodTemplateSpec(spec=PodSpec(containers=[Container(name="main", resources=resources)]))
    job = Job(
        metadata=ObjectMeta(name="d", namespace="ns", uid="uid"),
        spec=JobSpec(min_available=2, tasks=[TaskSpec(name="w", replicas=2, template=template)]),
    )
    objects = live(group("d-uid", -100, running=False, min_member=2))
    objects.add(JOBS, [job])
    objects.add(PODS, pods_of_job(JobView(job), NOW))
    head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: d, namespace: ns}\n"
    after = changed(objects, f"{head}spec: {{{spec}}}\n")
    assert after.told == (f"Job ns/d changed{', ' if told else ''}{told}",)
    found = forecast(after.objects, load_config(FIFO), NOW, futures=1)
    assert next(start.gpus for start in found.starts if start.key == "ns/d-uid") == gpus


def test_jobs_that_have_ended_show_how_far_limits_are_used() -> None:
    objects = live()
    for number in range(25):
        objects.add(POD_GROUPS, [group(f"old-{number}", -500.0, running=True)])
        objects.add(PODS, [done(f"old-{number}", -500.0, -440.0)])
    past = past_of(objects, NOW)
    assert list(past.spread.ran) == [Ran(60.0, 600.0, 0.0, 1.0), *[Ran(60.0, 600.0, 60.0, 1.0)] * 24]
    # b states 500 s: from such ratios it is known to run for 50 s, and c comes right behind it.
    found = forecast(objects, load_config(FIFO), NOW, futures=9, past=Past(past.spread))
    by_key = {start.key: start for start in found.starts}
    assert by_key["ns/b"].median is not None and by_key["ns/c"].median is not None
    assert by_key["ns/c"].median - by_key["ns/b"].median == pytest.approx(50, abs=2)


def done(name: str, begun: float, ended: float) -> Pod:
    """The pod of a job that has succeeded, of a tenth of the 600 s that it stated."""
    found = pod(name, 1, begun, "n1")
    found.metadata.annotations = {GROUP_NAME: name, RUN_SECONDS: "600"}
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=0, finished_at=rfc3339(NOW + ended)))
    found.status = PodStatus(
        phase="Succeeded",
        start_time=rfc3339(NOW + begun),
        container_statuses=[ContainerStatus(name="main", state=state)],
    )
    return found


def test_jobs_come_as_they_have_come() -> None:
    """One a minute for an hour, of one minute each: of those that will come as many, in an order of their own."""
    objects = live()
    for number in range(60):
        objects.add(PODS, [done(f"old-{number}", number * 60.0 - 3600, number * 60.0 - 3540)])
    past = past_of(objects, NOW)
    assert past.since == 3540
    coming = [past.arrivals(random.Random(seed), 7200.0, as_guessed) for seed in range(20)]  # nosec B311
    assert sum(map(len, coming)) / 20 == pytest.approx(120, abs=12)
    assert len({tuple(job.submit for job in jobs) for jobs in coming}) == 20
    jobs = coming[0]
    assert [job.submit for job in jobs] == sorted(job.submit for job in jobs)
    assert all(0 <= job.submit < 7200 for job in jobs)
    assert {(job.user, job.run_seconds, job.estimate, job.gpu_demand) for job in jobs[4:]} >= {
        ("ns", 60.0, 600.0, 1000)
    }
    assert len({job.name for job in jobs}) == len(jobs)


def test_a_rush_of_a_moment_does_not_go_on() -> None:
    objects = live()
    for number in range(60):
        objects.add(PODS, [done(f"old-{number}", number * 2.0 - 300, number * 2.0 - 240)])
    past = past_of(objects, NOW)
    assert len(past.came) > 60 and past.since == 240
    assert past.arrivals(random.Random(0), 1e5, as_guessed) == []  # nosec B311


def test_without_jobs_that_have_ended_nothing_is_known_of_those_that_will_come() -> None:
    assert past_of(live(), NOW).arrivals(random.Random(0), 1e5, as_guessed) == []  # nosec B311


@pytest.mark.parametrize(("futures", "low", "high"), [(9, 1, 9), (10, 1, 10), (19, 2, 18), (20, 2, 19), (39, 4, 36)])
def test_the_interval_takes_the_ranks_between_which_one_more_draw_falls_in_80_percent(
    futures: int, low: int, high: int
) -> None:
    found = forecast(live(), load_config(FIFO), NOW, futures=futures, seed=4)
    times = sorted(run.outcomes[1].started or 0.0 for run in found.runs)
    start = next(each for each in found.starts if each.key == "ns/b")
    assert (start.low, start.high) == (times[low - 1], times[high - 1])


def test_runs_are_told_with_the_mean_of_the_last_two_of_their_kind() -> None:
    runs = [("a", 10.0), ("b", 7.0), ("a", 20.0), ("a", 30.0), ("a", 50.0)]
    assert to_earlier(runs) == [0.0, 0.0, 10.0, 15.0, 25.0]


POD = "{restartPolicy: Never, containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: GPUS}}}]}"
SUBMITTED = {
    "Job": "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: new, namespace: ns}\n"
    "spec: {minAvailable: 2, tasks: [{name: t, replicas: 2, template: {spec: POD}}]}",
    "PyTorchJob": "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: new, namespace: ns}\n"
    "spec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: {spec: POD}},"
    " Worker: {replicas: 1, template: {spec: POD}}}}",
    "JobSet": "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: new, namespace: ns}\n"
    "spec: {replicatedJobs: [{name: w, replicas: 1,"
    " template: {spec: {parallelism: 2, completions: 2, template: {spec: POD}}}}]}",
    "Deployment": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: new, namespace: ns,"
    " annotations: {scheduling.volcano.sh/group-min-member: '2'}}\n"
    "spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: POD}}",
    "RayJob": "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: new, namespace: ns}\nspec: {rayClusterSpec: {"
    "headGroupSpec: {template: {spec: POD}}, workerGroupSpecs: [{groupName: w, replicas: 1, template: {spec: POD}}]}}",
}


@pytest.mark.parametrize("kind", SUBMITTED)
def test_a_new_job_of_any_kind_waits_with_its_pods(kind: str) -> None:
    for gpus, starts in ((1, True), (3, False)):
        text = SUBMITTED[kind].replace(
            "POD", POD.replace("restartPolicy: Never, ", "") if kind == "Deployment" else POD
        )
        objects = live()
        change = changed(objects, text.replace("GPUS", str(gpus)))
        assert change.told[0].startswith(f"{kind} ns/new added, with ")
        # a and then b end at 600 and 1100 s, c an hour later; a gang of two pods of 3 GPUs never fits 4.
        moved = what_if(objects, load_config(FIFO), NOW, change, futures=1, until=20_000).moved
        (new,) = (each for each in moved if each.before is None)
        assert new.after is not None
        assert (new.after.median is not None) is starts, new
        assert new.after.gpus == 2 * gpus


def test_what_is_deleted_or_changed_takes_its_pods_with_it() -> None:
    text = SUBMITTED["PyTorchJob"].replace("POD", POD).replace("GPUS", "1")
    objects = changed(live(), text).objects
    more = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: new, namespace: ns}\n"
    grown = changed(objects, f"{more}spec: {{pytorchReplicaSpecs: {{Worker: {{replicas: 3}}}}}}")
    assert grown.told == ("PyTorchJob ns/new changed, with 4 pods that start anew",)
    assert len([each for each in grown.objects.of("Pod") if each.metadata.name.startswith("new-")]) == 4
    gone = changed(grown.objects, f"$patch: delete\n{more}")
    assert gone.told == ("PyTorchJob ns/new deleted, with 4 pods",)
    assert {each.metadata.name for each in gone.objects.of("PodGroup")} == {"a", "b", "c"}
    assert len(gone.objects.of("Pod")) == 3
