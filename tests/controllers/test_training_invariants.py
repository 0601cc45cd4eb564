"""Random outcomes of pods, evictions, scaling, suspension and crashes: what must hold for every training job."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from training_world import TrainingWorld, manifest, pytorch, roles

from support.examples import examples
from unisono.api.kinds import PODS
from unisono.errors import Unavailable

POLICIES = ("Never", "OnFailure", "Always", "ExitCode")
JOBS = st.sampled_from(
    [
        ("PyTorchJob", "pytorchReplicaSpecs", "pytorch", {"Master": 1, "Worker": 2}),
        ("PyTorchJob", "pytorchReplicaSpecs", "pytorch", {"Worker": 2}),
        ("TFJob", "tfReplicaSpecs", "tensorflow", {"PS": 1, "Worker": 2}),
        ("TFJob", "tfReplicaSpecs", "tensorflow", {"Chief": 1, "Worker": 1}),
        ("XGBoostJob", "xgbReplicaSpecs", "xgboost", {"Master": 1, "Worker": 1}),
        ("PaddleJob", "paddleReplicaSpecs", "paddle", {"Worker": 2}),
        ("JAXJob", "jaxReplicaSpecs", "jax", {"Worker": 2}),
        ("MPIJob", "mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 2}),
    ]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("pod"),
            st.integers(0, 4),
            st.sampled_from(["Running", "Running", "Succeeded", "Failed"]),
            st.sampled_from([1, 137]),
        ),
        st.tuples(st.just("all"), st.sampled_from(["Running", "Succeeded"])),
        st.tuples(st.just("evict"), st.integers(0, 4)),
        st.tuples(st.just("gone")),
        st.tuples(st.just("suspend"), st.booleans()),
        st.tuples(st.just("scale"), st.integers(1, 3)),
        st.tuples(st.just("wait"), st.sampled_from([1, 40])),
        st.tuples(st.just("admit")),
        st.tuples(st.just("restart")),
    ),
    max_size=12,
)


async def play(world: TrainingWorld, step: tuple[Any, ...], field: str) -> None:
    living = [p for p in world.pods() if not p.metadata.deletion_timestamp and p.status.phase not in OVER_PHASES]
    match step:
        case ("pod", number, phase, code):
            if number < len(living):
                world.set_pod(living[number], phase, 0 if phase == "Succeeded" else code)
        case ("all", phase):
            for pod in living:
                world.set_pod(pod, phase)
        case ("evict", number):
            if number < len(living):
                await world.client.delete(PODS, living[number].metadata.name, "ns")
        case ("gone",):
            await world.finish_deletions()
        case ("suspend", value):
            await world.change(runPolicy={"suspend": value})
        case ("scale", count):
            await world.change(**{field: {"Worker": {"replicas": count}}})
        case ("wait", seconds):
            await world.advance(seconds)
        case ("admit",):
            await world.admit()
        case ("restart",):
            await world.restart()
    await world.settle()


OVER_PHASES = ("Succeeded", "Failed")
OVER = {"Succeeded", "Failed"}


def check(world: TrainingWorld, path: list[str]) -> None:
    status = world.job.status
    conditions = status.conditions
    types = [each.type for each in conditions]
    assert len(types) == len(set(types)), "one condition per type"
    holding = world.holding()
    assert not {"Running", "Restarting"} <= holding
    assert not {"Succeeded", "Failed"} <= holding
    assert all(each.message and each.reason.startswith(type(world.job).__name__) for each in conditions)
    if holding & OVER:
        assert types[-1] in OVER, "the end is what the column State shows"
        assert "Running" not in holding
        assert status.completion_time
        assert world.group() is None
    else:
        assert not status.completion_time
    for before, after in itertools.pairwise(path):
        assert before not in OVER or after == before, path
    names = [pod.metadata.name for pod in world.pods()]
    assert len(names) == len(set(names))
    if world.job.spec.run_policy and world.job.spec.run_policy.suspend and not holding & OVER:
        assert world.names() == []
        assert world.state() == "Suspended"


@pytest.mark.more
@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    job=JOBS,
    policy=st.sampled_from(POLICIES),
    clean=st.sampled_from(["None", "Running", "All"]),
    limit=st.sampled_from([None, 0, 2]),
    deadline=st.sampled_from([None, 60]),
    script=STEPS,
)
def test_invariants_of_training_jobs(job, policy, clean, limit, deadline, script):
    asyncio.run(_invariants(job, policy, clean, limit, deadline, script))


async def _invariants(job, policy, clean, limit, deadline, script):
    kind, field, container, counts = job
    specs = roles(container, **{name: (count, policy) for name, count in counts.items()})
    run: dict[str, Any] = {"cleanPodPolicy": clean}
    if limit is not None:
        run["backoffLimit"] = limit
    if deadline is not None:
        run["activeDeadlineSeconds"] = deadline
    async with TrainingWorld() as world:
        await world.submit(manifest(kind, runPolicy=run, **{field: specs}))
        path: list[str] = []
        for step in script:
            created = world.created_pods()
            was_over = bool(world.holding() & OVER)
            await play(world, step, field)
            path.append(world.state())
            check(world, path)
            if was_over:
                assert world.created_pods() == created, "nothing is made again after the end"
        if world.holding() & OVER:
            await world.finish_deletions()
            phases = {pod.status.phase for pod in world.pods()}
            if clean == "All":
                assert world.pods() == []
            if clean == "Running":
                assert phases <= set(OVER_PHASES)


class Dying:
    """Lets so many writes through and then refuses every further one, as a process that dies in between."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, operation: str, resource: str, namespace: str, name: str) -> None:
        if operation in ("get", "list", "watch"):
            return
        self.left -= 1
        if self.left < 0:
            raise Unavailable("the process is dead")


async def _story(deaths: list[int]) -> tuple[Any, ...]:
    """A job with one failing pod, whose controllers die after so many writes each."""
    async with TrainingWorld() as world:

        async def live() -> None:
            if deaths:
                await world.stop()
                world.client.interceptor = Dying(deaths.pop())
                await world.start()
            await world.stop()
            world.client.interceptor = None
            await world.start()

        await world.submit(pytorch((2, "ExitCode"), runPolicy={"backoffLimit": 5}), admit=False)
        await live()
        await world.admit()
        await live()
        await world.all_pods("Running")
        failing = world.find_pod("j-worker-1")
        await world.stop()
        world.set_pod(failing, "Failed", 137)
        world.client.interceptor = Dying(deaths.pop()) if deaths else None
        await world.start()
        await live()
        await world.all_pods("Running")
        await live()
        annotations = world.job.metadata.annotations
        return world.names(), world.services(), world.state(), annotations["unisono.io/restarts"]


@pytest.mark.more
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(deaths=st.lists(st.integers(0, 10), max_size=5))
def test_a_crash_at_any_write_changes_nothing_in_the_end(deaths):
    assert asyncio.run(_story(list(deaths))) == asyncio.run(_story([]))
