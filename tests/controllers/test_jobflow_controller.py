"""Job flows: order of jobs, probes, patches, ends and beginnings, whatever happens in between."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_world import World, job, task

from support.examples import examples
from unisono.api.groups.flow import Flow, JobFlow, JobTemplate
from unisono.api.kind_families import JOB_FLOWS, JOB_TEMPLATES
from unisono.api.kinds import JOBS, PODS
from unisono.controllers.jobflow.decide import job_spec, label_value, made_for, template_keys
from unisono.controllers.metrics import Probe
from unisono.controllers.objects import to_json
from unisono.errors import ApiError, Unavailable


def flow(name: str, *targets: str, probe: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    depends = {**({"targets": list(targets)} if targets else {}), **({"probe": probe} if probe else {})}
    return {"name": name, **({"dependsOn": depends} if depends else {}), **fields}


def job_flow(*flows: dict[str, Any], name: str = "f", **spec: Any) -> JobFlow:
    meta = {"name": name, "namespace": "default"}
    return msgspec.convert({"metadata": meta, "spec": {"flows": list(flows), **spec}}, JobFlow)


def template(name: str, *tasks: dict[str, Any], **spec: Any) -> JobTemplate:
    meta = {"name": name, "namespace": "default"}
    return msgspec.convert({"metadata": meta, "spec": {"tasks": list(tasks) or [task("t")], **spec}}, JobTemplate)


async def start(world: World, *flows: dict[str, Any], templates: tuple[JobTemplate, ...] = (), **spec: Any) -> None:
    given = {each.metadata.name: each for each in templates}
    for each in flows:
        await world.client.create(JOB_TEMPLATES, given.get(each["name"]) or template(each["name"]))
    await world.client.create(JOB_FLOWS, job_flow(*flows, **spec))
    await world.settle()


def status(world: World) -> Any:
    return world.client.find(JOB_FLOWS, "default/f").status


def phase(world: World) -> str | None:
    return status(world).state.phase


def jobs(world: World) -> list[str]:
    return [each.metadata.name.removeprefix("f-") for each in world.client.objects(JOBS)]


async def end(world: World, name: str, outcome: str = "Succeeded") -> None:
    """Run the job of a flow to its end."""
    await run(world, name)
    for pod in world.pods(deleting=False):
        if pod.metadata.name.startswith(f"f-{name}-"):
            world.set_pod(pod, outcome)
    await world.settle()


async def run(world: World, name: str) -> None:
    if world.group(f"f-{name}") is not None and world.group(f"f-{name}").status.phase == "Pending":
        await world.admit(f"f-{name}")
    for number, pod in enumerate(world.pods(deleting=False)):
        if pod.metadata.name.startswith(f"f-{name}-") and pod.status.phase not in ("Succeeded", "Failed"):
            pod.status.pod_ip = f"10.0.0.{number}"
            world.set_pod(pod, "Running")
    await world.settle()


async def test_jobs_follow_each_other():
    async with World() as world:
        await start(world, flow("a"), flow("b", "a"), flow("c", "a"), flow("d", "b", "c"))
        assert (jobs(world), phase(world)) == (["a"], "Pending")
        await run(world, "a")
        assert (jobs(world), phase(world)) == (["a"], "Running")
        assert status(world).running_jobs == ["f-a"]
        await end(world, "a")
        assert jobs(world) == ["a", "b", "c"]
        await end(world, "b")
        assert jobs(world) == ["a", "b", "c"]
        await end(world, "c")
        await end(world, "d")
        assert phase(world) == "Succeed"
        assert status(world).completed_jobs == ["f-a", "f-b", "f-c", "f-d"]
        assert world.recorder.of("Created") == [f"create a job named f-{name}!" for name in "abcd"]


async def test_the_job_of_a_flow():
    async with World() as world:
        await start(world, flow("a.b"), templates=(template("a.b", task("t", 2), queue="q"),))
        (made,) = world.client.objects(JOBS)
        meta = made.metadata
        notes = {
            "volcano.sh/createdByJobTemplate": "default.a.b",
            "volcano.sh/createdByJobFlow": "default.f",
        }
        assert (meta.name, meta.labels, meta.annotations) == ("f-a.b", notes, notes)
        assert [(o.kind, o.name, o.controller) for o in meta.owner_references] == [("JobFlow", "f", True)]
        assert to_json(made.spec) == to_json(template("a.b", task("t", 2), queue="q").spec)
        assert world.client.find(JOB_TEMPLATES, "default/a.b").status.job_depends_on_list == ["f-a.b"]
        await world.client.delete(JOBS, "f-a.b", "default")
        await world.client.delete(JOB_FLOWS, "f", "default")
        await world.settle()
        world.client.collect_garbage()
        await world.settle()
        assert world.client.find(JOB_TEMPLATES, "default/a.b").status.job_depends_on_list is None


async def test_the_history_of_a_job():
    async with World() as world:
        await start(world, flow("a"))
        begun = world.job("f-a").metadata.creation_timestamp
        await run(world, "a")
        await world.advance(90)
        await end(world, "a")
        (entry,) = status(world).job_status_list
        assert (entry.name, entry.state, entry.start_timestamp) == ("f-a", "Completed", begun)
        assert [h.state for h in entry.running_histories] == ["Pending", "Running", "Completed"]
        first, second, last = entry.running_histories
        assert (first.end_timestamp, second.end_timestamp) == (second.start_timestamp, last.start_timestamp)
        condition = status(world).conditions["f-a"]
        assert (condition.phase, condition.running_duration) == ("Completed", "1m30s")
        assert condition.task_status_count["t"].phase == {"Succeeded": 1}


# --- trouble --------------------------------------------------------------------------------------------------------


async def test_a_failure_holds_up_only_what_depends_on_it():
    async with World() as world:
        await start(world, flow("a"), flow("b", "a"), flow("x"), flow("y", "x"))
        await end(world, "a", "Failed")
        assert phase(world) == "Failed"
        assert status(world).failed_jobs == ["f-a"]
        await end(world, "x")
        assert jobs(world) == ["a", "x", "y"]
        await end(world, "y")
        assert status(world).completed_jobs == ["f-x", "f-y"]
        assert phase(world) == "Failed"


async def test_a_failed_job_that_is_deleted_is_done_again():
    async with World() as world:
        await start(world, flow("a"), flow("b", "a"))
        await end(world, "a", "Failed")
        await world.client.delete(JOBS, "f-a", "default")
        world.client.collect_garbage()
        await world.settle()
        assert (jobs(world), phase(world)) == (["a"], "Pending")
        await end(world, "a")
        await end(world, "b")
        assert phase(world) == "Succeed"


@pytest.mark.parametrize(("outcome", "end_phase"), [("Succeeded", "Running"), ("Failed", "Failed")])
async def test_a_job_that_its_time_to_live_takes_away_is_not_done_again(outcome, end_phase):
    async with World() as world:
        await start(world, flow("a"), flow("b"), templates=(template("a", ttlSecondsAfterFinished=10),))
        await end(world, "a", outcome)
        await run(world, "b")
        await world.advance(11)
        world.client.collect_garbage()
        await world.advance(60)
        assert (jobs(world), phase(world)) == (["b"], end_phase)
        assert status(world).conditions["f-a"].phase == ("Completed" if outcome == "Succeeded" else "Failed")
        if outcome == "Succeeded":
            await end(world, "b")
            assert phase(world) == "Succeed"


@pytest.mark.parametrize("state", ["Pending", "Running"])
async def test_a_job_that_is_deleted_before_its_end_is_made_again(state):
    async with World() as world:
        await start(world, flow("a"))
        first = world.job("f-a").metadata.uid
        if state == "Running":
            await run(world, "a")
        await world.client.delete(JOBS, "f-a", "default")
        world.client.collect_garbage()
        await world.finish_deletions()
        assert world.job("f-a").metadata.uid != first


async def test_a_completed_job_that_is_deleted_is_not_done_again():
    async with World() as world:
        await start(world, flow("a"), flow("b", "a"))
        await end(world, "a")
        await world.client.delete(JOBS, "f-a", "default")
        await world.settle()
        await world.restart()
        assert jobs(world) == ["b"]
        await end(world, "b")
        assert (phase(world), status(world).completed_jobs) == ("Succeed", ["f-a", "f-b"])


async def test_a_suspended_job_holds_the_flow_and_does_not_fail_it():
    async with World() as world:
        await start(world, flow("a"), flow("b", "a"))
        await run(world, "a")
        await world.command("AbortJob", "f-a")
        await world.finish_deletions()
        assert (phase(world), status(world).un_know_jobs) == ("Running", ["f-a"])
        await world.command("ResumeJob", "f-a")
        await end(world, "a")
        assert jobs(world) == ["a", "b"]


async def test_a_template_that_comes_later():
    async with World() as world:
        await world.client.create(JOB_FLOWS, job_flow(flow("a")))
        await world.settle()
        assert world.recorder.of("MissingTemplate") == [
            "job template default/a is not there; job f-a is made as soon as it is"
        ]
        await world.client.create(JOB_TEMPLATES, template("a"))
        await world.settle()
        assert jobs(world) == ["a"]


async def test_a_flow_that_is_added_later_is_done():
    async with World() as world:
        await start(world, flow("a"))
        await end(world, "a")
        await world.client.create(JOB_TEMPLATES, template("b"))
        added = [flow("a"), flow("b", "a")]
        await world.client.patch(JOB_FLOWS, "f", {"spec": {"flows": added}}, namespace="default")
        await world.settle()
        assert (jobs(world), phase(world)) == (["a", "b"], "Running")


async def test_a_refused_job_does_not_keep_the_others_back():
    async with World() as world:

        def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource, name) == ("create", "jobs", "f-a"):
                raise ApiError("queue is closed", code=422, reason="Invalid")

        world.client.interceptor = refuse
        await start(world, flow("a"), flow("b"))
        assert jobs(world) == ["b"]
        assert world.recorder.of("FailedCreate") == ["Error creating job f-a: queue is closed"]
        world.client.interceptor = None
        await world.advance(120)
        assert jobs(world) == ["a", "b"]


async def test_a_strangers_job_is_left_alone():
    async with World() as world:
        await world.client.create(JOBS, job(task("a"), name="f-a"))
        await start(world, flow("a"), flow("b"))
        assert "belongs to something else" in world.recorder.of("ForeignJob")[0]
        assert world.job("f-a").metadata.owner_references is None
        assert phase(world) == "Pending"
        assert jobs(world) == ["a", "b"]


@pytest.mark.parametrize(("policy", "left"), [("retain", ["a", "b"]), ("delete", []), (None, ["a", "b"])])
async def test_what_is_kept_in_the_end(policy, left):
    async with World() as world:
        await start(world, flow("a"), flow("b", "a"), **({"jobRetainPolicy": policy} if policy else {}))
        await end(world, "a")
        assert jobs(world) == ["a", "b"]
        await end(world, "b")
        world.client.collect_garbage()
        await world.restart()
        assert jobs(world) == left
        assert (phase(world), status(world).completed_jobs) == ("Succeed", ["f-a", "f-b"])
        assert [entry.state for entry in status(world).job_status_list] == ["Completed", "Completed"]
        assert bool(world.client.objects(PODS)) == bool(left)


async def test_an_empty_flow_has_nothing_to_do():
    async with World() as world:
        await start(world)
        assert phase(world) == "Succeed"


# --- patches --------------------------------------------------------------------------------------------------------


def test_a_patch_changes_what_it_names_and_nothing_else():
    container = {"name": "main", "image": "old", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    base = template(
        "a",
        task("x", 1, template={"spec": {"containers": [container, {"name": "side", "image": "s"}]}}),
        task("y", 2),
        queue="q",
        maxRetry=5,
        plugins={"svc": [], "env": []},
        volumes=[{"mountPath": "/data", "volumeClaimName": "old"}],
    )
    changed = {"name": "main", "image": "new", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}
    patch = {
        "minAvailable": 2,
        "plugins": {"svc": ["--publish-not-ready-addresses=true"]},
        "volumes": [{"mountPath": "/data", "volumeClaimName": "new"}],
        "tasks": [
            {"name": "x", "replicas": 4, "template": {"spec": {"containers": [changed]}}},
            task("z", 1),
        ],
    }
    spec = job_spec(base.spec, msgspec.convert(flow("a", patch={"jobSpec": patch}), Flow))
    assert (spec.queue, spec.max_retry, spec.min_available) == ("q", 5, 2)
    assert spec.plugins == {"svc": ["--publish-not-ready-addresses=true"], "env": []}
    assert [volume.volume_claim_name for volume in spec.volumes] == ["new"]
    assert [(each.name, each.replicas) for each in spec.tasks] == [("x", 4), ("y", 2), ("z", 1)]
    main, side = spec.tasks[0].template.spec.containers
    assert (main.image, side.image) == ("new", "s")
    assert {env.name: env.value for env in main.env} == {"A": "1", "B": "3", "C": "4"}


def test_without_a_patch_the_template_is_what_it_is():
    spec = template("a", task("x", 2)).spec
    assert job_spec(spec, Flow(name="a")) == spec


async def test_one_template_serves_flows_with_different_patches():
    async with World() as world:
        one = flow("a", patch={"jobSpec": {"queue": "fast", "tasks": [{"name": "t", "replicas": 3}]}})
        await start(world, one)
        assert world.job("f-a").spec.queue == "fast"
        assert world.job("f-a").spec.tasks[0].replicas == 3
        assert world.client.find(JOB_TEMPLATES, "default/a").spec.tasks[0].replicas == 1


# --- probes ---------------------------------------------------------------------------------------------------------

HTTP = {"httpGetList": [{"taskName": "t", "path": "/ok", "port": 80, "httpHeader": {"name": "X", "value": "y"}}]}
TCP = {"tcpSocketList": [{"taskName": "t", "port": 81}]}


@pytest.mark.parametrize("probe", [HTTP, TCP])
async def test_a_probe_starts_the_next_job_while_its_target_runs(probe):
    async with World() as world:
        two = template("a", task("t", 2), task("other"))
        await start(world, flow("a"), flow("b", "a", probe=probe), templates=(two,))
        assert world.prober.asked == []
        await run(world, "a")
        path, header = ("/ok", ("X", "y")) if probe is HTTP else ("", None)
        pods = [pod for pod in world.pods() if "-t-" in pod.metadata.name]
        wanted = {Probe(pod.status.pod_ip, 80 if probe is HTTP else 81, path, header) for pod in pods}
        assert (set(world.prober.asked), len(wanted)) == (wanted, 2)
        world.prober.answering = set(list(wanted)[:1])
        await world.advance(6)
        assert jobs(world) == ["a"]
        world.prober.answering = wanted
        await world.advance(6)
        assert jobs(world) == ["a", "b"]
        asked = len(world.prober.asked)
        await world.advance(60)
        assert len(world.prober.asked) == asked


@pytest.mark.parametrize(
    ("wanted", "pods", "starts"),
    [
        ("Running", ["Running", "Pending"], False),
        ("Running", ["Running", "Succeeded"], True),
        ("Succeeded", ["Running", "Succeeded"], False),
        ("Pending", ["Pending", "Pending"], True),
        ("Failed", ["Running", "Failed"], False),
    ],
)
async def test_a_task_status_starts_the_next_job(wanted, pods, starts):
    probe = {"taskStatusList": [{"taskName": "t", "phase": wanted}]}
    async with World() as world:
        two = template("a", task("t", 2), task("other", 1), minAvailable=1)
        await start(world, flow("a"), flow("b", "a", probe=probe), templates=(two,))
        await world.admit("f-a")
        for number, state in enumerate(pods):
            await world.pod(f"f-a-t-{number}", state)
        assert jobs(world) == (["a", "b"] if starts else ["a"])


async def test_a_target_that_has_completed_needs_no_answer():
    async with World() as world:
        await start(world, flow("a"), flow("b", "a", probe=TCP))
        await end(world, "a")
        assert jobs(world) == ["a", "b"]


async def test_a_probe_of_a_task_that_nobody_has_is_told():
    probe = {"tcpSocketList": [{"taskName": "nobody", "port": 1}]}
    async with World() as world:
        await start(world, flow("a"), flow("b", "a", probe=probe))
        await run(world, "a")
        assert world.recorder.of("ProbeWithoutTask") == [
            "flow b waits for its targets to complete: none of them has a task nobody"
        ]
        await end(world, "a")
        assert jobs(world) == ["a", "b"]


# --- whatever happens -----------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Of each flow the earlier ones on which it depends."""
    size = draw(st.integers(1, 5))
    return [sorted(draw(st.sets(st.integers(0, number - 1), max_size=2))) if number else [] for number in range(size)]


@pytest.mark.more
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), st.lists(st.sampled_from(["Succeeded", "Succeeded", "Failed"]), min_size=5, max_size=5), st.booleans())
def test_every_flow_that_can_be_done_is_done(graph, outcomes, restarts):
    asyncio.run(_whole_flow(graph, outcomes, restarts))


async def _whole_flow(graph: list[list[int]], outcomes: list[str], restarts: bool) -> None:
    names = [f"n{number}" for number in range(len(graph))]
    done: set[int] = set()
    failed: set[int] = set()
    async with World() as world:
        await start(world, *[flow(names[i], *[names[t] for t in targets]) for i, targets in enumerate(graph)])
        while True:
            ready = [i for i, targets in enumerate(graph) if set(targets) <= done and i not in done | failed]
            assert set(jobs(world)) == {names[i] for i in {*ready, *done, *failed}}
            if not ready:
                break
            await end(world, names[ready[0]], outcomes[ready[0]])
            (done if outcomes[ready[0]] == "Succeeded" else failed).add(ready[0])
            if restarts:
                await world.restart()
        assert phase(world) == ("Failed" if failed else "Succeed")
        assert set(status(world).completed_jobs or ()) == {f"f-{names[i]}" for i in done}
        assert set(status(world).failed_jobs or ()) == {f"f-{names[i]}" for i in failed}


@given(
    st.from_regex(r"[a-z]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True),
    st.from_regex(r"[a-z]([-.a-z]{0,250}[a-z])?", fullmatch=True),
)
def test_labels_have_room_for_every_name(namespace, name):
    labels, annotations = made_for(namespace, "f", name)
    assert all(len(value) <= 63 and value[-1].isalnum() for value in labels.values())
    given = job(task("a"))
    given.metadata.namespace, given.metadata.annotations = namespace, annotations
    assert template_keys(given) == [f"{namespace}/{name}"]
    assert label_value("x" * 63) == "x" * 63


# --- a process that dies --------------------------------------------------------------------------------------------


@pytest.mark.more
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 6), max_size=4), st.sampled_from(["retain", "delete"]))
def test_a_flow_that_is_interrupted_anywhere_ends_the_same(deaths, retain):
    assert asyncio.run(_interrupted(deaths, retain)) == asyncio.run(_interrupted([], retain))


async def _interrupted(deaths: list[int], retain: str) -> Any:
    lives = list(deaths)
    async with World() as world:

        async def through(step: Any) -> None:
            """Let the controllers see a step, die after some writes, and start again."""
            if lives:
                world.client.interceptor = dying(lives.pop(0))
            await step()
            world.client.interceptor = None
            await world.restart()
            await world.advance(60)

        await world.stop()
        for name in "ab":
            await world.client.create(JOB_TEMPLATES, template(name))
        await world.client.create(JOB_FLOWS, job_flow(flow("a"), flow("b", "a"), jobRetainPolicy=retain))
        await through(world.start)
        for name in "ab":
            await end(world, name)
            await through(world.settle)
        world.client.collect_garbage()
        return phase(world), status(world).completed_jobs, jobs(world), world.recorder.of("Created")


def dying(left: int) -> Any:
    """Lets so many writes through and refuses the rest."""
    remaining = [left]

    def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
        if operation not in ("get", "list", "watch"):
            remaining[0] -= 1
            if remaining[0] < 0:
                raise Unavailable("the process is dead")

    return refuse
