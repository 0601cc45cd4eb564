"""One object at which a controller fails is set aside by name; all others go on, and so does it when it changes."""

from __future__ import annotations

from typing import Any

import pytest
from job_world import World, job, task
from prometheus_client import CollectorRegistry
from workload_world import WorkloadWorld, workload

from unisono.api.kind_families import DAEMON_SETS, REPLICA_SETS
from unisono.api.kinds import JOBS, PODS
from unisono.controllers.job import controller as job_controller
from unisono.controllers.keeper import ObjectKeeper
from unisono.controllers.workloads import deployment
from unisono.errors import ApiError
from unisono.kube.controller import Context

BAD = "bad"


@pytest.fixture
def broken_for(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a function of ``module`` raise for objects of the name ``bad`` until the answer's ``off`` is called."""

    def breaking(module: Any, error: Exception, name: str = "decide_replicas") -> None:
        whole = getattr(module, name)

        def decide(first: Any, *rest: Any, **named: Any) -> Any:
            obj = getattr(first, "job", first)
            if obj.metadata.name == BAD and not (obj.metadata.labels or {}).get("repaired"):
                raise error
            return whole(first, *rest, **named)

        monkeypatch.setattr(module, name, decide)

    return breaking


@pytest.mark.parametrize(
    "error", [OverflowError("too large"), RecursionError("too deep"), KeyError("x"), MemoryError()]
)
async def test_a_job_at_which_the_controller_fails_is_told_and_others_run(broken_for: Any, error: Exception) -> None:
    broken_for(job_controller, error, "decide")
    async with World() as world:
        await world.submit(job(task("work", 1), name=BAD))
        await world.submit(job(task("work", 1), name="good"))
        await world.admit("good")
        assert [pod.metadata.name for pod in world.pods()] == ["good-work-0"]
        state = world.job(BAD).status.state
        assert (state.phase, state.reason) == ("Pending", "ReconcileFailed")
        assert type(error).__name__ in (state.message or "")
        assert len(world.recorder.of("ReconcileFailed")) == 1


async def test_it_is_tried_again_when_it_changes_and_takes_its_condition_back(broken_for: Any) -> None:
    broken_for(deployment, OverflowError("too large"))
    async with WorkloadWorld() as world:
        await world.make(REPLICA_SETS, workload(REPLICA_SETS, BAD, replicas=2))
        found = world.one(REPLICA_SETS, BAD).status.conditions
        assert [(each.type, each.status, each.reason) for each in found] == [
            ("ReconcileFailed", "True", "ReconcileFailed")
        ]
        assert "OverflowError: too large" in found[0].message
        patch = {"metadata": {"labels": {"repaired": "yes"}}}
        await world.client.patch(REPLICA_SETS, BAD, patch, namespace="default")
        await world.settle()
        assert len(world.pods()) == 2
        await world.settle()
        assert not world.one(REPLICA_SETS, BAD).status.conditions


async def test_it_is_tried_again_with_growing_pauses_and_told_once(broken_for: Any) -> None:
    broken_for(deployment, OverflowError("too large"))
    async with WorkloadWorld() as world:
        await world.make(REPLICA_SETS, workload(REPLICA_SETS, BAD, replicas=2))
        await world.advance(3600.0)
        assert world.manager is not None
        # 60 s apart at the end, and not one for each second.
        assert world.manager.statistics()["replicaset-controller"].failures < 200
        assert len(world.recorder.of("ReconcileFailed")) == 1
        assert len(world.client.applied) < 20


async def test_what_the_server_refuses_is_not_the_objects_fault(broken_for: Any) -> None:
    broken_for(deployment, ApiError("the server is ill"))
    async with WorkloadWorld() as world:
        await world.make(REPLICA_SETS, workload(REPLICA_SETS, BAD, replicas=2))
        assert not world.recorder.of("ReconcileFailed")
        assert not world.one(REPLICA_SETS, BAD).status.conditions


async def test_tries_are_counted_by_controller() -> None:
    registry = CollectorRegistry()
    async with WorkloadWorld() as world:
        keeper = ObjectKeeper(world.client, world.recorder, registry=registry, clock=world.clock)
        made = await world.make(DAEMON_SETS, workload(DAEMON_SETS))
        for _ in range(3):
            await keeper.set_aside("daemonset-controller", DAEMON_SETS, made, ValueError("x"))
        labels = {"controller": "daemonset-controller"}
        assert registry.get_sample_value("unisono_controller_set_aside_total", labels) == 3.0


async def test_an_index_or_a_handler_that_fails_at_one_object_does_not_hide_the_others() -> None:
    def index_of(obj: Any) -> list[str]:
        if obj.metadata.name.startswith(BAD):
            raise ValueError("no index for this one")
        return ["all"]

    seen: list[str] = []

    async with World() as world:
        assert world.manager is not None
        informer = world.manager.informers.of(JOBS)
        informer.add_index("test", index_of)
        context = Context(world.manager.informers, world.manager._runs[0].queue)
        context.watch(JOBS, lambda obj: seen.extend(index_of(obj)) or [])  # type: ignore[func-returns-value]
        await world.submit(job(task("work", 1), name=BAD))
        await world.submit(job(task("work", 1), name="good"))
        await world.admit("good")
        assert [each.metadata.name for each in informer.by_index("test", "all")] == ["good"]
        assert seen
        assert world.client.find(PODS, "default/good-work-0") is not None
        with world.client.hands():
            await world.client.delete(JOBS, BAD, "default")
        await world.settle()
        assert informer.get(f"default/{BAD}") is None
