"""Random outcomes, commands, evictions and crashes: what must hold whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_world import World, job, policy, task

from support.examples import examples
from unisono.api.kinds import CONFIG_MAPS, JOBS, POD_GROUPS, PODS, SERVICES
from unisono.errors import ApiError, Unavailable

ALLOWED = {
    "": {"Pending"},
    "Pending": {"Running", "Restarting", "Aborting", "Terminating", "Completing", "Failed"},
    "Running": {"Pending", "Restarting", "Aborting", "Terminating", "Completing", "Completed", "Failed"},
    "Restarting": {"Pending", "Failed", "Aborting", "Terminating", "Completing"},
    "Aborting": {"Aborted", "Restarting"},
    "Aborted": {"Restarting"},
    "Terminating": {"Terminated"},
    "Completing": {"Completed"},
    "Completed": set(),
    "Terminated": set(),
    "Failed": set(),
}
OVER = {"Completed", "Terminated", "Failed"}

ACTIONS = ["RestartJob", "RestartTask", "RestartPod", "AbortJob", "TerminateJob", "CompleteJob", "SyncJob"]
EVENTS = ["PodFailed", "PodEvicted", "TaskCompleted", "*", "Unknown"]
policies = st.lists(st.builds(policy, st.sampled_from(ACTIONS), st.sampled_from(EVENTS)), max_size=2)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 4), st.sampled_from(["Running", "Succeeded", "Failed"])),
        st.tuples(st.just("delete"), st.integers(0, 4), st.sampled_from([None, 0])),
        st.tuples(
            st.just("command"),
            st.sampled_from(["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob", "Nonsense"]),
        ),
        st.tuples(st.just("admit")),
        st.tuples(st.just("gone")),
        st.tuples(st.just("scale"), st.integers(0, 3)),
        st.tuples(st.just("restart")),
    ),
    max_size=12,
)


async def play(world: World, step: tuple[Any, ...]) -> None:
    match step:
        case ("pod", number, phase):
            living = [p for p in world.pods(deleting=False) if p.status.phase not in ("Succeeded", "Failed")]
            if number < len(living):
                world.set_pod(living[number], phase)
        case ("delete", number, grace):
            pods = world.pods(deleting=False)
            if number < len(pods):
                await world.client.delete(PODS, pods[number].metadata.name, "default", grace_seconds=grace)
        case ("command", action):
            await world.command(action)
        case ("admit",):
            if world.group() is not None:
                await world.admit()
        case ("gone",):
            await world.finish_deletions()
        case ("scale", replicas):
            # The API refuses a gang larger than the job.
            await world.change("job", tasks=[task("a", 2), task("b", replicas)], minAvailable=2)
        case ("restart",):
            await world.restart()
    await world.settle()


def check(world: World) -> None:
    job = world.job()
    path = ["", *world.history()]
    for before, after in itertools.pairwise(path):
        assert after in ALLOWED[before], path
    status, pods = job.status, world.pods()
    counted = [status.pending, status.running, status.succeeded, status.failed, status.unknown, status.terminating]
    assert sum(n or 0 for n in counted) == len(pods)
    kept = [pod for pod in pods if not pod.metadata.deletion_timestamp]
    for phase, count in (("Succeeded", status.succeeded), ("Failed", status.failed), ("Running", status.running)):
        assert (count or 0) == sum(1 for pod in kept if pod.status.phase == phase), (phase, job.status)
    by_task = sum(sum((state.phase or {}).values()) for state in (status.task_status_count or {}).values())
    assert by_task == sum(n or 0 for n in counted[:5])
    assert len(status.conditions or ()) == len({c.status for c in status.conditions or ()})
    assert (status.conditions or ())[-1].status == status.state.phase
    names = {f"job-{t.name}-{i}" for t in job.spec.tasks for i in range(t.replicas or 0)}
    if status.state.phase not in OVER | {"Aborted", "Aborting", "Terminating", "Completing"}:
        assert {pod.metadata.name for pod in kept} <= names
    if status.state.phase in OVER:
        assert not [pod for pod in kept if pod.status.phase not in ("Succeeded", "Failed")]
        assert world.group() is None
        assert world.client.objects(SERVICES) == [] or any(p.metadata.deletion_timestamp for p in pods)


@pytest.mark.more
@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job_policies=policies, task_policies=policies, script=steps, retries=st.integers(1, 3))
def test_invariants_hold(job_policies, task_policies, script, retries):
    asyncio.run(_invariants(job_policies, task_policies, script, retries))


async def _invariants(job_policies, task_policies, script, retries):
    async with World() as world:
        tasks = [task("a", 2), task("b", 2, policies=task_policies)]
        spec = {"policies": job_policies, "maxRetry": retries, "minAvailable": 2, "plugins": {"svc": []}}
        await world.submit(job(*tasks, **spec))
        over = False
        for step in script:
            created = len([w for w in world.client.writes if w.operation == "create" and w.resource == "pods"])
            await play(world, step)
            check(world)
            if over:
                after = [w for w in world.client.writes if w.operation == "create" and w.resource == "pods"]
                assert len(after) == created
            over = world.phase() in OVER
        await world.finish_deletions()
        check(world)
        if world.phase() in OVER:
            assert world.client.objects(SERVICES) == world.client.objects(CONFIG_MAPS) == []


class Dying:
    """Lets so many requests through and then kills every further one, as a process that dies in between."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, operation: str, resource: str, namespace: str, name: str) -> None:
        if operation in ("get", "list", "watch"):
            return
        self.left -= 1
        if self.left < 0:
            raise Unavailable("the process is dead")


@pytest.mark.more
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    deaths=st.lists(st.integers(0, 12), max_size=5),
    action=st.sampled_from(["RestartJob", "RestartTask", "RestartPod"]),
)
def test_a_crash_at_any_write_changes_nothing_in_the_end(deaths, action):
    ends = [asyncio.run(_story(action, lives)) for lives in ([], deaths)]
    assert ends[0] == ends[1]


async def _story(action: str, deaths: list[int]) -> Any:
    world = World()
    spec = {"policies": [policy(action, "PodFailed")], "maxRetry": 4, "plugins": {"svc": [], "env": []}}
    await world.client.create(JOBS, job(task("a", 2), task("b", 2), **spec))
    stages = [_admit, _run, _fail, _settled, _gone, _admit, _run, _succeed]
    lives = list(deaths)
    for stage in stages:
        if lives:
            # The controllers see this stage's change, die after some writes, and are started again.
            await world.start()
            await stage(world, Dying(lives.pop(0)))
            await world.stop()
            world.client.interceptor = None
        await world.start()
        await world.settle()
        await stage(world, None)
        await world.advance(120)
        await world.stop()
    status = world.job().status
    pods = [(p.metadata.name, p.status.phase, p.metadata.annotations["volcano.sh/job-version"]) for p in world.pods()]
    return status.state.phase, status.retry_count, status.version, status.succeeded, sorted(pods)


async def _hands(world: World, dying: Dying | None, work: Any) -> None:
    """Do the user's or node's part unhindered, then let the controllers react under the interceptor."""
    work()
    world.client.interceptor = dying
    with contextlib.suppress(ApiError):
        await world.settle()


async def _admit(world: World, dying: Dying | None) -> None:
    def work() -> None:
        group = world.group()
        if group is not None and group.status.phase == "Pending":
            group.status.phase = "Inqueue"
            world.client.put(POD_GROUPS, group)

    await _hands(world, dying, work)


def _set_all(world: World, phase: str) -> None:
    for pod in world.pods(deleting=False):
        if pod.status.phase != phase:
            world.set_pod(pod, phase)


async def _run(world: World, dying: Dying | None) -> None:
    await _hands(world, dying, lambda: _set_all(world, "Running"))


async def _succeed(world: World, dying: Dying | None) -> None:
    await _hands(world, dying, lambda: _set_all(world, "Succeeded"))


async def _fail(world: World, dying: Dying | None) -> None:
    def work() -> None:
        pod = world.client.find(PODS, "default/job-b-1")
        first = world.job().status.retry_count is None
        marked = pod is None or "volcano.sh/controller-out-of-sync" in (pod.metadata.annotations or {})
        if first and pod is not None and not marked and pod.status.phase == "Running":
            world.set_pod(pod, "Failed", 9)

    await _hands(world, dying, work)


async def _settled(world: World, dying: Dying | None) -> None:
    await _hands(world, dying, lambda: None)


async def _gone(world: World, dying: Dying | None) -> None:
    def work() -> None:
        for pod in world.pods():
            if pod.metadata.deletion_timestamp:
                world.client.remove(PODS, pod.key)

    await _hands(world, dying, work)
