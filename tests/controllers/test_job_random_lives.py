"""Random lives of Volcano Jobs and of what makes them: what pods and users do, and writes that fail at any moment."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_world import World, policy, task
from unreliable import Fault, Faults, every_write_once, some_writes, writes_of

from support.examples import examples
from unisono.api.base import Object
from unisono.api.groups.batch import CronJob, Job
from unisono.api.groups.flow import JobFlow, JobTemplate
from unisono.api.kind import Kind
from unisono.api.kind_families import CRON_JOBS, HYPER_JOBS, JOB_FLOWS, JOB_TEMPLATES
from unisono.api.kinds import COMMANDS, CONFIG_MAPS, JOBS, POD_GROUPS, PODS, SERVICES

MAKERS = (JOBS, PODS, POD_GROUPS, SERVICES, CONFIG_MAPS, COMMANDS)
OVER = {"Completed", "Terminated", "Failed"}
# Where the phase of a job may go from each; that a new job is pending goes without saying.
EDGES = {
    "": {"Pending", "Running", "Restarting", "Aborting", "Terminating", "Completing", "Failed"},
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
# The same for a flow: a job of its own that failed is made again when it is deleted.
FLOW_EDGES = {
    "": {"Pending"},
    "Pending": {"Running", "Failed", "Succeed"},
    "Running": {"Pending", "Failed", "Succeed"},
    "Failed": {"Pending", "Running", "Succeed"},
    "Succeed": set(),
}


@dataclass(frozen=True)
class Story:
    """What these lives begin with.

    Attributes:
        kind: of the object that lives.
        spec: its spec on the wire.
        changes: what a user may change in the spec meanwhile.
        templates: job templates beside it.

    """

    kind: Kind[Any]
    spec: dict[str, Any]
    changes: tuple[dict[str, Any], ...] = ()
    templates: tuple[str, ...] = ()

    def objects(self) -> list[tuple[Kind[Any], Object]]:
        templates = [_object(JobTemplate, name, {"tasks": [task("t", 2)]}) for name in self.templates]
        return [
            *((JOB_TEMPLATES, each) for each in templates),
            (self.kind, _object(self.kind.struct, "job", self.spec)),
        ]


def _object(struct: type[Object], name: str, spec: dict[str, Any]) -> Object:
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, struct)


def volcano(*tasks: dict[str, Any], changes: Sequence[Sequence[dict[str, Any]]] = (), **spec: Any) -> Story:
    # What the API fills in, and what a change of sizes must keep to.
    changed = tuple({"tasks": list(each), "minAvailable": 1} for each in changes)
    return Story(JOBS, {"tasks": list(tasks), "maxRetry": 3, **spec}, changed)


def flow(retain: str) -> Story:
    steps = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    steps.append({"name": "c", "dependsOn": {"targets": ["a", "b"]}})
    return Story(JOB_FLOWS, {"flows": steps, "jobRetainPolicy": retain}, templates=("a", "b", "c"))


def several() -> Story:
    jobs = [{"name": name, "replicas": 2, "templateSpec": {"tasks": [task("t")], "minAvailable": 1}} for name in "ab"]
    more = [jobs[0], {**jobs[1], "replicas": 3}]
    return Story(HYPER_JOBS, {"replicatedJobs": jobs}, ({"replicatedJobs": more},))


def cron(policy: str, **spec: Any) -> Story:
    template = {"spec": {"tasks": [task("a")], "minAvailable": 1}}
    given = {"schedule": "*/5 * * * *", "concurrencyPolicy": policy, "jobTemplate": template, **spec}
    return Story(CRON_JOBS, given, ({"suspend": True}, {"suspend": False}))


ANY_END = [policy("RestartTask", "PodFailed"), policy("RestartPod", "PodEvicted"), policy("RestartJob", "Unknown")]
STORIES = {
    "restarts of parts": volcano(
        task("a", 2),
        task("b", 2, policies=[policy("CompleteJob", "TaskCompleted")]),
        policies=ANY_END,
        plugins={"svc": [], "env": []},
        changes=([task("a", 1), task("b", 3)], [task("a", 2), task("b", 0)]),
    ),
    "restarts of all": volcano(
        task("a", 2),
        task("b", 1),
        policies=[policy("RestartJob", "PodFailed", "PodEvicted"), policy("TerminateJob", exitCode=3)],
        plugins={"svc": [], "ssh": []},
        changes=([task("a", 4), task("b", 1)], [task("a", 1), task("b", 1)]),
    ),
    "dependencies": volcano(
        task("a", 1),
        task("b", 2, dependsOn={"name": ["a"]}),
        task("c", 1, dependsOn={"name": ["a", "b"], "iteration": "any"}),
        minAvailable=1,
        policies=[policy("RestartPod", "PodFailed", timeout="20s"), policy("AbortJob", "PodEvicted")],
    ),
    "a part is enough": volcano(
        task("a", 3),
        minAvailable=2,
        minSuccess=2,
        volumes=[{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}],
        changes=([task("a", 2)], [task("a", 5)]),
    ),
    "flow, jobs kept": flow("retain"),
    "flow, jobs deleted": flow("delete"),
    "several jobs": several(),
    "cron, side by side": cron("Allow", successfulJobsHistoryLimit=0, failedJobsHistoryLimit=0),
    "cron, one at a time": cron("Forbid"),
    "cron, the newest": cron("Replace", successfulJobsHistoryLimit=1),
}
ACTIONS = ["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 5), st.sampled_from(["Running", "Succeeded", "Failed"]),
                  st.sampled_from([1, 3])),
        st.tuples(st.just("all"), st.sampled_from(["Running", "Succeeded", "Failed"])),
        st.tuples(st.just("evict"), st.integers(0, 5), st.sampled_from([None, 0])),
        st.tuples(st.just("gone")),
        st.tuples(st.just("command"), st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=2)),
        st.tuples(st.just("change"), st.integers(0, 1)),
        st.tuples(st.just("delete"), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.sampled_from([1, 30, 310])),
        st.tuples(st.just("admit")),
        st.tuples(st.just("restart")),
        st.tuples(st.just("faults"), st.integers(0, 6), st.sampled_from(list(Fault))),
    ),
    min_size=3,
    max_size=16,
)  # fmt: skip


class Life:
    """What one story begins with, its controllers, and everybody who acts on it."""

    def __init__(self, world: World, story: Story) -> None:
        self.world, self.story = world, story
        # UIDs of jobs that were over at some moment, with the pods that they had then.
        self.over: dict[str, set[str]] = {}
        self.deleted: Counter[str] = Counter()

    async def begin(self) -> None:
        # To the next full ten minutes and a second: no time of a schedule is near.
        await self.world.clock.advance(600 - self.world.clock.time() % 600)
        with self.world.client.hands():
            for kind, obj in self.story.objects():
                await self.world.client.create(kind, obj)
        await self.world.advance(1)

    def jobs(self) -> list[Job]:
        return self.world.client.objects(JOBS)

    def whole(self) -> Any:
        return self.world.client.find(self.story.kind, "default/job")

    def made(self) -> Counter[str]:
        """How often a job of each name was made."""
        creations = [write for write, _ in self.world.client.applied if write.operation == "create"]
        return Counter(write.key.partition("/")[2] for write in creations if write.resource == "jobs")

    def living(self) -> list[Any]:
        return [pod for pod in self.world.pods(deleting=False) if pod.status.phase not in ("Succeeded", "Failed")]

    async def admit(self) -> None:
        for group in self.world.client.objects(POD_GROUPS):
            if (group.status.phase or "Pending") == "Pending":
                await self.world.set_group_phase(group, "Inqueue")

    async def play(self, step: tuple[Any, ...]) -> None:
        world, living, jobs = self.world, self.living(), self.jobs()
        match step:
            case ("pod", number, phase, code) if number < len(living):
                world.set_pod(living[number], phase, 0 if phase == "Succeeded" else code)
            case ("all", phase):
                for pod in living:
                    world.set_pod(pod, phase)
            case ("evict", number, grace) if number < len(living):
                with world.client.hands():
                    await world.client.delete(PODS, living[number].metadata.name, "default", grace_seconds=grace)
            case ("gone",):
                await world.finish_deletions()
            case ("command", actions) if jobs:
                for action in actions:
                    # The first of two may have ended it, and a history without room for it.
                    if world.client.find(JOBS, jobs[-1].key) is not None:
                        await world.command(action, jobs[-1].metadata.name)
                        await world.clock.advance(1)
            case ("change", number) if number < len(self.story.changes):
                with world.client.hands():
                    patch = {"spec": self.story.changes[number]}
                    await world.client.patch(self.story.kind, "job", patch, namespace="default")
            case ("delete", number) if self.story.kind is not JOBS and number < len(jobs):
                self.deleted[jobs[number].metadata.name] += 1
                with world.client.hands():
                    await world.client.delete(JOBS, jobs[number].metadata.name, "default")
            case ("wait", seconds):
                await world.advance(seconds)
            case ("admit",):
                await self.admit()
            case ("restart",):
                await world.restart()
            case ("faults", count, fault):
                world.client.faults = some_writes(count, fault)
        await world.settle()
        world.client.collect_garbage()
        await world.settle()

    async def rest(self) -> None:
        """All is well again: nothing is refused, what was deleted is gone, and time passes."""
        self.world.client.faults = None
        for _ in range(6):
            await self.world.finish_deletions()
            self.world.client.collect_garbage()
            await self.admit()
            await self.world.advance(100)
        self.world.client.collect_garbage()
        await self.world.finish_deletions()

    def paths(self, kind: Kind[Any]) -> dict[str, list[str]]:
        """The phases of each object of a kind that there ever was, by UID."""
        found: dict[str, list[str]] = {}
        for write, uid in self.world.client.applied:
            if (write.resource, write.subresource) == (kind.plural, "status"):
                phase = (write.body["status"].get("state") or {}).get("phase")
                found.setdefault(uid, [""]).extend([phase] if phase else [])
        return {uid: [phase for phase, _ in itertools.groupby(path)] for uid, path in found.items()}


def pods_of(world: World, job: Job) -> list[Any]:
    return [
        pod
        for pod in world.pods()
        if any(owner.uid == job.metadata.uid for owner in pod.metadata.owner_references or ())
    ]


def check(life: Life) -> None:
    """What holds at every moment."""
    world = life.world
    uids = {obj.metadata.uid for kind in (*MAKERS, life.story.kind) for obj in world.client.objects(kind)}
    for pod in world.pods(deleting=False):
        assert {owner.uid for owner in pod.metadata.owner_references} <= uids, "no pod without its owner"
    for kind, edges in ((JOBS, EDGES), (JOB_FLOWS, FLOW_EDGES)):
        for path in life.paths(kind).values():
            for before, after in itertools.pairwise(path):
                assert after in edges[before], path
    for job in life.jobs():
        uid, there = job.metadata.uid or "", {pod.metadata.uid for pod in pods_of(world, job)}
        assert there <= life.over.get(uid, there), "nothing is made again after the end"
        if job.status.state.phase in OVER:
            life.over[uid] = there
        assert (job.status.retry_count or 0) <= 3
        told = [condition.status for condition in job.status.conditions or ()]
        assert len(told) == len(set(told))
        assert not told or told[-1] == job.status.state.phase
    check_order(life)


def check_order(life: Life) -> None:
    """Jobs of flows follow each other, jobs of cron jobs are as many side by side as their policy says."""
    whole, jobs = life.whole(), {job.metadata.name: job for job in life.jobs()}
    for name, count in life.made().items():
        assert count <= 1 + life.deleted[name], f"{name} is made once, and again only when a user has deleted it"
    if isinstance(whole, JobFlow):
        done = {name for name, job in jobs.items() if job.status.state.phase == "Completed"}
        done |= set(whole.status.completed_jobs or ())
        for each in whole.spec.flows:
            targets = {f"job-{target}" for target in (each.depends_on.targets if each.depends_on else ())}
            assert f"job-{each.name}" not in jobs or targets <= done | {name for name in targets if life.deleted[name]}
    if isinstance(whole, CronJob) and whole.spec.concurrency_policy != "Allow":
        active = [job for job in jobs.values() if job.status.state.phase not in OVER]
        assert len([job for job in active if not job.metadata.deletion_timestamp]) <= 1


def check_rest(life: Life) -> None:
    """What holds when nobody does anything any more."""
    world, whole = life.world, life.whole()
    assert world.client.objects(COMMANDS) == [], "every command was taken away"
    for job in life.jobs():
        status, pods, phase = job.status, pods_of(world, job), job.status.state.phase
        counted = [status.pending, status.running, status.succeeded, status.failed, status.unknown]
        words = Counter(pod.status.phase or "Pending" for pod in pods)
        assert [n or 0 for n in counted] == [words[w] for w in ("Pending", "Running", "Succeeded", "Failed", "Unknown")]
        assert not status.terminating
        by_task = [count for each in (status.task_status_count or {}).values() for count in (each.phase or {}).values()]
        assert sum(by_task) == len(pods)
        group = world.group(job.metadata.name)
        if phase in OVER | {"Aborted"}:
            assert words["Pending"] == words["Running"] == 0, "a job that is over holds nothing"
            assert group is None
            for kind in (SERVICES, CONFIG_MAPS):
                mine = [o for o in world.client.objects(kind) if o.metadata.owner_references[0].uid == job.metadata.uid]
                assert mine == []
        else:
            assert phase in ("Pending", "Running")
            assert group is not None
            places = {f"{job.metadata.name}-{t.name}-{i}" for t in job.spec.tasks for i in range(t.replicas or 0)}
            names = {pod.metadata.name for pod in pods}
            assert names <= places
            assert names == places or any(each.depends_on for each in job.spec.tasks)
    if (
        isinstance(whole, JobFlow)
        and whole.status.state.phase == "Succeed"
        and whole.spec.job_retain_policy == "delete"
    ):
        assert life.jobs() == []
    if isinstance(whole, CronJob):
        active = {job.metadata.name for job in life.jobs() if job.status.state.phase not in OVER}
        assert {each.name for each in whole.status.active or ()} == active


@pytest.mark.more
@pytest.mark.parametrize("name", STORIES)
@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck))
@given(script=STEPS)
def test_whatever_happens_to_jobs(name, script):
    asyncio.run(_live(STORIES[name], script))


async def _live(story: Story, script: list[tuple[Any, ...]]) -> None:
    async with World() as world:
        life = Life(world, story)
        await life.begin()
        for step in script:
            await life.play(step)
            check(life)
        await life.rest()
        check(life)
        if story.kind is CRON_JOBS:
            # Time starts no further job while we look.
            with world.client.hands():
                await world.client.patch(CRON_JOBS, "job", {"spec": {"suspend": True}}, namespace="default")
            await life.rest()
        check_rest(life)
        await quiet(world)
        world.client.remove(story.kind, "default/job")
        await life.rest()
        for each in MAKERS:
            assert world.client.objects(each) == [], "everything goes with what it was made for"


async def quiet(world: World) -> None:
    """Controllers that start again find all as it should be: they try to make what is there, and change nothing."""
    before = len(world.client.writes)
    await world.restart()
    changed = [write for write in world.client.writes[before:] if write.operation != "create"]
    assert [(write.operation, write.resource, write.body) for write in changed] == []


# --- every write fails once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("name", STORIES)
def test_every_write_of_a_job_may_fail_once(name, fault):
    assert asyncio.run(_story(STORIES[name], every_write_once(fault))) == asyncio.run(_story(STORIES[name], None))


async def _story(story: Story, faults: Faults | None) -> list[Any]:
    """Pods run, one is lost, a job is suspended and resumed, changed, and succeeds; answers what it was on its way."""
    seen: list[Any] = []
    async with World() as world:
        life = Life(world, story)
        world.client.faults = faults
        await life.begin()
        for step in (
            ("wait", 310),
            ("all", "Running"),
            ("pod", 0, "Failed", 1),
            ("all", "Running"),
            ("command", ["AbortJob"]),
            ("command", ["ResumeJob"]),
            ("change", 0),
            ("all", "Running"),
            ("all", "Succeeded"),
            ("wait", 1),
        ):
            await life.play(step)
            for _ in range(3):
                await world.finish_deletions()
                world.client.collect_garbage()
                await life.admit()
                await world.advance(20)
            check(life)
            phases = [(job.metadata.name, job.status.state.phase, job.status.retry_count) for job in life.jobs()]
            seen.append((phases, [(pod.metadata.name, pod.status.phase) for pod in world.pods()]))
    return seen


# --- what goes wrong at one point ------------------------------------------------------------------------------------


async def test_a_command_that_cannot_be_taken_away_is_not_carried_out_again():
    async with World() as world:
        life = Life(world, STORIES["a part is enough"])
        await life.begin()
        world.client.faults = writes_of("delete", "commands")
        for action in ("AbortJob", "ResumeJob"):
            await world.command(action)
            await world.advance(30)
        world.client.faults = None
        await life.rest()
        assert world.history() == ["Pending", "Aborting", "Aborted", "Restarting", "Pending"]
        assert world.client.objects(COMMANDS) == []


async def test_a_start_that_could_not_be_recorded_is_not_made_up_for_when_its_job_has_ended():
    async with World() as world:
        life = Life(world, STORIES["cron, side by side"])
        await life.begin()
        world.client.faults = writes_of("patch status", "cronjobs")
        await world.advance(300)
        await life.admit()
        await world.all_pods("Succeeded")
        await world.advance(100)
        world.client.faults = None
        await world.restart()
        await world.advance(100)
        assert list(life.made().values()) == [1]
        assert life.jobs() == []
        assert life.whole().status.last_schedule_time
        assert life.whole().status.last_successful_time


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("name", ["flow, jobs kept", "cron, one at a time", "several jobs"])
async def test_a_job_that_is_gone_at_its_end_is_not_made_again(name, refused):
    async with World() as world:
        life = Life(world, STORIES[name])
        await life.begin()
        await world.advance(300)
        plural = life.story.kind.plural
        for job in life.jobs():
            with world.client.hands():
                patch = {"spec": {"ttlSecondsAfterFinished": 0}}
                await world.client.patch(JOBS, job.metadata.name, patch, namespace="default")
        world.client.faults = writes_of("patch status", plural) if refused else None
        await life.admit()
        await world.all_pods("Succeeded")
        await world.advance(5)
        world.client.collect_garbage()
        world.client.faults = None
        await world.advance(100)
        assert set(life.made().values()) == {1}
