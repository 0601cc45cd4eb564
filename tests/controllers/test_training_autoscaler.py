"""The autoscaler of an elastic PyTorchJob: made of its policy, kept as the policy says, gone with it."""

from __future__ import annotations

from typing import Any

import pytest
from training_world import TrainingWorld, pytorch

from unisono.api.base import ObjectMeta
from unisono.api.groups.autoscaling import HorizontalPodAutoscaler
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS as AUTOSCALERS
from unisono.controllers.objects import to_json

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


def elastic(**policy: Any) -> dict[str, Any]:
    return pytorch(workers=2, master=None, elasticPolicy={"minReplicas": 1, "maxReplicas": 4, **policy})


def autoscaler(world: TrainingWorld) -> HorizontalPodAutoscaler | None:
    return world.client.find(AUTOSCALERS, "ns/j")


async def test_metrics_make_an_autoscaler_of_the_jobs_name():
    async with TrainingWorld() as world:
        await world.submit(elastic(metrics=[CPU]))
        found = autoscaler(world)
        assert to_json(found.spec) == {
            "scaleTargetRef": {"kind": "PyTorchJob", "name": "j", "apiVersion": "kubeflow.org/v1"},
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [CPU],
        }
        (owner,) = found.metadata.owner_references
        assert (owner.kind, owner.name, owner.controller) == ("PyTorchJob", "j", True)


@pytest.mark.parametrize(
    ("policy", "limits"),
    [({"minReplicas": None}, (4, 4)), ({"maxReplicas": None}, (1, 1)), ({"maxReplicas": 9}, (1, 9))],
)
async def test_one_limit_counts_for_both(policy, limits):
    async with TrainingWorld() as world:
        await world.submit(elastic(metrics=[CPU], **policy))
        spec = autoscaler(world).spec
        assert (spec.min_replicas, spec.max_replicas) == limits


@pytest.mark.parametrize("job", [elastic(), pytorch()])
async def test_without_metrics_there_is_none(job):
    async with TrainingWorld() as world:
        await world.submit(job)
        assert autoscaler(world) is None
        assert world.names()


async def test_it_follows_the_policy_and_comes_back():
    async with TrainingWorld() as world:
        await world.submit(elastic(metrics=[CPU]))
        await world.change(elasticPolicy={"maxReplicas": 8})
        assert autoscaler(world).spec.max_replicas == 8
        await world.client.patch(AUTOSCALERS, "j", {"spec": {"maxReplicas": 2}}, namespace="ns")
        await world.settle()
        assert autoscaler(world).spec.max_replicas == 8, "the job's author says how many"
        world.client.remove(AUTOSCALERS, "ns/j")
        await world.settle()
        assert autoscaler(world) is not None
        await world.change(elasticPolicy={"metrics": None})
        assert autoscaler(world) is None


async def test_a_suspended_job_has_none():
    async with TrainingWorld() as world:
        await world.submit(elastic(metrics=[CPU]))
        await world.change(runPolicy={"suspend": True})
        assert autoscaler(world) is None
        await world.change(runPolicy={"suspend": False})
        await world.admit()
        assert autoscaler(world) is not None


async def test_the_autoscaler_of_somebody_else_is_left_alone():
    async with TrainingWorld() as world:
        world.client.put(AUTOSCALERS, HorizontalPodAutoscaler(metadata=ObjectMeta(name="j", namespace="ns", uid="x")))
        await world.submit(elastic(metrics=[CPU]))
        assert autoscaler(world).spec.max_replicas == 0
        assert world.recorder.of("FailedCreateHPA") == [
            "horizontalpodautoscaler ns/j belongs to something else; delete or rename it."
        ]
        assert world.names() == ["j-worker-0", "j-worker-1"], "the job runs all the same"


async def test_what_is_no_metric_is_told():
    async with TrainingWorld() as world:
        await world.submit(elastic(metrics=[{"type": 3}]))
        assert autoscaler(world) is None
        (told,) = world.recorder.of("PyTorchJobFailedValidation")
        assert "spec.elasticPolicy.metrics[0]" in told and "no metric of autoscaling/v2" in told
