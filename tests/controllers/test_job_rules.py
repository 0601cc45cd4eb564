"""The rules of jobs as tables: who waits for whom, which action leads where, when a job is over, and what follows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_pods import view_of
from job_world import World, job, policy, task

from unisono.api.base import ObjectMeta
from unisono.api.core import PriorityClass
from unisono.api.kinds import JOBS, PODS, PRIORITY_CLASSES
from unisono.controllers.job import view as phases
from unisono.controllers.job.observed import Tally
from unisono.controllers.job.pods import pod_group_spec
from unisono.controllers.job.status import pending_rule, running_rule
from unisono.controllers.objects import to_json


async def bring_to(world: World, phase: str) -> None:
    """Lead the only pod's job to a phase."""
    if phase == "Pending":
        return
    await world.admit()
    await world.all_pods("Running")
    match phase:
        case "Restarting" | "Aborting" | "Terminating" | "Completing":
            action = {"Restarting": "RestartJob", "Aborting": "AbortJob", "Terminating": "TerminateJob"}
            await world.command(action.get(phase, "CompleteJob"))
        case "Aborted" | "Terminated":
            await world.command("AbortJob" if phase == "Aborted" else "TerminateJob")
            await world.finish_deletions()
        case "Completed" | "Failed":
            await world.all_pods("Succeeded" if phase == "Completed" else "Failed")


RUN = {
    "RestartJob": "Restarting",
    "AbortJob": "Aborting",
    "TerminateJob": "Terminating",
    "CompleteJob": "Completing",
}
TABLE: dict[str, dict[str, str]] = {
    # Without a pod to wait for, the phases of a kill are over in the same moment.
    "Pending": {
        "RestartJob": "Pending",
        "AbortJob": "Aborted",
        "TerminateJob": "Terminated",
        "CompleteJob": "Completed",
    },
    "Running": RUN,
    "Restarting": RUN,
    "Aborting": {"ResumeJob": "Restarting"},
    "Aborted": {"ResumeJob": "Pending"},
    "Terminating": {},
    "Completing": {},
    "Completed": {},
    "Failed": {},
    "Terminated": {},
}


@pytest.mark.parametrize("action", ["RestartJob", "AbortJob", "TerminateJob", "CompleteJob", "ResumeJob", "SyncJob"])
@pytest.mark.parametrize("phase", TABLE)
async def test_where_a_command_leads(phase, action):
    async with World() as world:
        await world.submit(job(task("a")))
        await bring_to(world, phase)
        assert world.phase() == phase
        retries = world.job().status.retry_count or 0
        await world.command(action)
        assert world.phase() == TABLE[phase].get(action, phase)
        counts = action == "RestartJob" and phase in ("Pending", "Running")
        assert (world.job().status.retry_count or 0) == retries + counts


# --- dependsOn ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("iteration", "states", "starts"),
    [
        (None, {"a": "Running", "b": "Pending"}, False),
        (None, {"a": "Running", "b": "Running"}, True),
        (None, {"a": "Succeeded", "b": "Running"}, True),
        ("all", {"a": "Running", "b": "Pending"}, False),
        ("all", {"a": "Running", "b": "Succeeded"}, True),
        ("any", {"a": "Pending", "b": "Pending"}, False),
        ("any", {"a": "Pending", "b": "Running"}, True),
        ("any", {"a": "Failed", "b": "Running"}, True),
        ("any", {"a": "Failed", "b": "Pending"}, False),
    ],
)
async def test_all_or_any_of_several_dependencies(iteration, states, starts):
    depends = {"name": ["a", "b"], **({"iteration": iteration} if iteration else {})}
    async with World() as world:
        await world.submit(job(task("a"), task("b"), task("c", dependsOn=depends), minAvailable=1))
        await world.admit()
        for name, state in states.items():
            if state != "Pending":
                await world.pod(f"job-{name}-0", state)
        assert ("job-c-0" in world.names()) is starts


@pytest.mark.parametrize(
    ("minimum", "running", "starts"), [(None, 1, False), (None, 2, True), (1, 1, True), (0, 0, True)]
)
async def test_a_dependency_is_ready_with_as_many_pods_as_it_needs(minimum, running, starts):
    first = task("a", 2, **({} if minimum is None else {"minAvailable": minimum}))
    async with World() as world:
        await world.submit(job(first, task("b", dependsOn={"name": ["a"]}), minAvailable=1))
        await world.admit()
        for number in range(running):
            await world.pod(f"job-a-{number}", "Running")
        assert ("job-b-0" in world.names()) is starts


async def test_the_gang_is_made_of_the_tasks_whose_time_has_come():
    tasks = [
        task("master"),
        task("worker", 2, dependsOn={"name": ["master"]}),
        task("last", dependsOn={"name": ["worker"]}),
    ]
    async with World() as world:
        await world.submit(job(*tasks, minAvailable=4))
        assert (world.group().spec.min_member, world.group().spec.min_task_member) == (1, {"master": 1})
        await world.admit()
        assert world.names() == ["job-master-0"]
        await world.pod("job-master-0", "Running")
        assert (world.group().spec.min_member, world.group().spec.min_task_member) == (3, {"master": 1, "worker": 2})
        assert world.group().spec.min_resources["count/pods"] == "3"
        await world.admit()
        for number in range(2):
            await world.pod(f"job-worker-{number}", "Running")
        assert world.phase() == "Pending"
        assert world.group().spec.min_member == 4
        await world.admit()
        await world.pod("job-last-0", "Running")
        assert world.phase() == "Running"


async def test_a_gang_does_not_shrink_when_a_dependency_is_not_ready_any_more():
    async with World() as world:
        await world.submit(job(task("a"), task("b", dependsOn={"name": ["a"]})))
        await world.admit()
        await world.pod("job-a-0", "Running")
        await world.pod("job-b-0", "Running")
        await world.pod("job-a-0", "Failed")
        assert world.group().spec.min_member == 2


async def test_a_gang_that_waits_for_its_later_tasks_has_lost_nothing():
    """The scheduler calls a PodGroup Unknown of which a part runs while the rest finds no place."""
    tasks = [task("a"), task("b", dependsOn={"name": ["a"]})]
    async with World() as world:
        await world.submit(job(*tasks, policies=[policy("AbortJob", "Unknown")]))
        await world.admit()
        await world.pod("job-a-0", "Running")
        await world.group_phase("Unknown")
        assert world.phase() == "Pending"
        await world.pod("job-b-0", "Running")
        assert world.phase() == "Running"
        await world.pod("job-b-0", "Pending")
        assert world.phase() in ("Aborting", "Aborted")


async def test_a_running_dependency_with_a_container_that_is_not_ready():
    async with World() as world:
        await world.submit(job(task("a"), task("b", dependsOn={"name": ["a"]}), minAvailable=1))
        await world.admit()
        pod = world.client.find(PODS, "default/job-a-0")
        world.set_pod(pod, "Running")
        pod.status.container_statuses[0].ready = False
        world.client.put(PODS, pod)
        await world.settle()
        assert world.names() == ["job-a-0"]


# --- the end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "ttl", "left"),
    [
        ("Completed", 0, False),
        ("Failed", 5, False),
        ("Terminated", 5, False),
        ("Aborted", 5, True),
        ("Running", 5, True),
        ("Completed", None, True),
    ],
)
async def test_time_to_live(phase, ttl, left):
    async with World() as world:
        await world.submit(job(task("a"), **({} if ttl is None else {"ttlSecondsAfterFinished": ttl})))
        await bring_to(world, phase)
        await world.advance((ttl or 0) + 1)
        assert bool(world.client.objects(JOBS)) is left


counts = st.fixed_dictionaries({name: st.integers(0, 4) for name in ("Pending", "Running", "Succeeded", "Failed")})


@given(st.lists(st.tuples(counts, st.integers(0, 16)), min_size=1, max_size=3), st.integers(0, 12), st.integers(0, 12))
def test_when_a_job_is_over(tasks, minimum, wanted):
    """The completion rules of the reference, written once more from its text; without pods nothing runs."""
    given_tasks = []
    for number, (pods, least) in enumerate(tasks):
        replicas = sum(pods.values())
        given_tasks.append(task(f"t{number}", replicas, minAvailable=min(least, replicas)))
    total = sum(each["replicas"] for each in given_tasks)
    # A minimum of 0 counts as none, which means what the tasks need together.
    given = min(minimum, total)
    minimum = given or sum(each["minAvailable"] for each in given_tasks)
    view = view_of(*given_tasks, minAvailable=given, **({"minSuccess": wanted} if wanted else {}))
    sums = {state: sum(pods[state] for pods, _ in tasks) for state in tasks[0][0]}
    by_task = {each["name"]: dict(pods) for each, (pods, _) in zip(given_tasks, tasks, strict=True)}
    tally = Tally(sums["Pending"], sums["Running"], sums["Succeeded"], sums["Failed"], tasks=by_task)

    phase, why = running_rule(view, tally)
    assert phase == expected(given_tasks, by_task, sums, minimum, wanted)
    assert (why == "") == (phase == "Running")
    arrived = sums["Running"] + sums["Succeeded"] + sums["Failed"]
    assert pending_rule(view, tally)[0] == ("Running" if total and arrived >= minimum else "Pending")


def expected(tasks: list[Any], by_task: Any, sums: dict[str, int], minimum: int, wanted: int) -> str:
    total = sum(each["replicas"] for each in tasks)
    if total == 0:
        return "Running"
    if wanted and sums["Succeeded"] >= wanted:
        return "Completed"
    if sums["Succeeded"] + sums["Failed"] == total:
        everybody = minimum >= sum(each["minAvailable"] for each in tasks)
        if everybody and any(by_task[each["name"]]["Succeeded"] < each["minAvailable"] for each in tasks):
            return "Failed"
        if wanted:
            return "Failed"
        return "Completed" if sums["Succeeded"] >= minimum else "Failed"
    return "Pending" if sums["Pending"] > total - minimum else "Running"


# --- the pod group --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "seen"),
    [
        ({"mode": "hard", "highestTierAllowed": 0}, {"mode": "hard", "highestTierAllowed": 0}),
        ({"mode": "soft"}, {"mode": "soft"}),
        ({"highestTierName": "rack"}, {"mode": "hard", "highestTierName": "rack"}),
        (None, None),
    ],
)
def test_topology_reaches_the_pod_group_and_its_sub_groups(topology, seen):
    partition = {"totalPartitions": 2, "partitionSize": 1, **({"networkTopology": topology} if topology else {})}
    given = task("a", 2, partitionPolicy=partition)
    spec = to_json(pod_group_spec(view_of(given, **({"networkTopology": topology} if topology else {})), lambda _: 0))
    assert spec.get("networkTopology") == seen
    assert spec["subGroupPolicy"][0].get("networkTopology") == seen


async def test_a_new_priority_reaches_the_gang_and_later_pods():
    async with World() as world:
        world.client.put(PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name="high"), value=7))
        await world.submit(job(task("a", 1), minAvailable=1))
        await world.admit()
        await world.change("job", priorityClassName="high", tasks=[task("a", 2)])
        assert world.group().spec.priority_class_name == "high"
        assert [pod.spec.priority_class_name for pod in world.pods()] == [None, "high"]


@pytest.mark.parametrize("plugins", [{}, {"svc": [], "ssh": [], "env": []}])
async def test_a_partition_restarts_alone(plugins):
    partition = {"totalPartitions": 2, "partitionSize": 2}
    rule = policy("RestartPartition", "PodFailed")
    async with World() as world:
        await world.submit(job(task("a", 4, partitionPolicy=partition, policies=[rule]), plugins=plugins))
        await world.admit()
        await world.all_pods("Running")
        before = {pod.metadata.name: pod.metadata.uid for pod in world.pods()}
        await world.pod("job-a-3", "Failed")
        await world.finish_deletions()
        after = {pod.metadata.name: pod.metadata.uid for pod in world.pods()}
        assert {name for name in before if before[name] == after.get(name)} == {"job-a-0", "job-a-1"}
        assert set(after) == set(before)


def test_phases_are_those_of_the_table():
    assert set(TABLE) == set(phases.TRANSITIONS)
