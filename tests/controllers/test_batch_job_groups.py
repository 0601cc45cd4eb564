"""``spec.scheduling`` of ``batch/v1`` Jobs: the PodGroup that is made of it, and what the scheduler makes of that."""

from __future__ import annotations

from typing import Any

import pytest
from workload_world import WorkloadWorld, build

from support.build import cluster, config, node, schedule
from unisono.api.groups.workload import WorkloadPodGroup
from unisono.api.kind_families import BATCH_JOBS, WORKLOAD_POD_GROUPS, WORKLOADS
from unisono.api.kinds import POD_GROUPS
from unisono.api.validation import validate
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.nodes import NodeLifecycleController
from unisono.controllers.podgroup.controller import PodGroupController
from unisono.controllers.podgroup.kubernetes import KubernetesGroupController
from unisono.jobkinds.registry import ALL

NAMES = ("volcano", "unisono")
LABELS = {"job-name": "work"}
GANGS = config(("priority", "gang"), ("predicates",))


def _controllers(recorder: Any) -> list[Any]:
    plain = [each for each in builtin_controllers(recorder) if not isinstance(each, NodeLifecycleController)]
    return [*plain, PodGroupController(recorder, NAMES), KubernetesGroupController(NAMES)]


def job(pods: int = 3, *, notes: dict[str, str] | None = None, **spec: Any) -> Any:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "4"}}}
    inner = {"containers": [container], "restartPolicy": "Never", "schedulerName": "unisono"}
    given: dict[str, Any] = {
        "template": {"metadata": {"labels": LABELS}, "spec": inner},
        "selector": {"matchLabels": LABELS},
        "manualSelector": True,
        "completions": pods,
        "parallelism": pods,
    }
    return build(BATCH_JOBS, "work", metadata={"annotations": notes}, **{**given, **spec})


def gang(least: int | None = None) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {} if least is None else {"minCount": least}}}


class JobWorld(WorkloadWorld):
    controllers = staticmethod(_controllers)

    def group(self) -> WorkloadPodGroup:
        (found,) = self.client.objects(WORKLOAD_POD_GROUPS)
        return found

    def least(self) -> int | None:
        policy = self.group().spec.scheduling_policy
        return policy.gang.min_count if policy.gang is not None else None

    def bound(self, nodes: int) -> int:
        (ours,) = self.client.objects(POD_GROUPS)
        ours.status.phase = "Inqueue"
        state = cluster([*(node(f"n{index}", cpu=4) for index in range(nodes)), ours, *self.pods()])
        return len(schedule(state, GANGS).binds)


@pytest.mark.parametrize(
    ("pods", "scheduling", "more", "least", "starts"),
    [
        (3, gang(), {}, 3, {2: 0, 3: 3}),
        (3, gang(2), {}, 2, {1: 0, 2: 2}),
        (6, gang(), {"parallelism": 2}, 2, {1: 0, 2: 2}),
        (2, gang(), {"parallelism": 5}, 2, {1: 0, 2: 2}),
        (3, {"schedulingPolicy": {"basic": {}}}, {}, None, {2: 2}),
        (3, {}, {}, None, {2: 2}),
    ],
    ids=["all", "some", "as many as run at a time", "as many as there are", "each on its own", "so it is by default"],
)
async def test_the_gang_of_a_job(
    pods: int, scheduling: dict[str, Any], more: dict[str, Any], least: int | None, starts: dict[int, int]
) -> None:
    async with JobWorld() as world:
        await world.make(BATCH_JOBS, job(pods, scheduling=scheduling, **more))
        group = world.group()
        assert world.least() == least
        assert {pod.spec.scheduling_group.pod_group_name for pod in world.pods() if pod.spec.scheduling_group} == {
            group.metadata.name
        }
        (workload,) = world.client.objects(WORKLOADS)
        (template,) = workload.spec.pod_group_templates or ()
        assert template.scheduling_policy == group.spec.scheduling_policy
        assert group.spec.workload_ref is not None
        assert (group.spec.workload_ref.workload_name, group.spec.workload_ref.template_name) == (
            workload.metadata.name,
            template.name,
        )
        assert workload.spec.controller_ref is not None and workload.spec.controller_ref.name == "work"
        assert {nodes: world.bound(nodes) for nodes in starts} == starts


async def test_what_else_is_said_of_the_group() -> None:
    rest = {
        "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
        "disruptionMode": {"all": {}},
        "resourceClaims": [{"name": "net", "resourceClaimName": "fabric"}],
    }
    async with JobWorld() as world:
        notes = {"volcano.sh/preemptable": "true", "other": "x"}
        await world.make(BATCH_JOBS, job(scheduling={**gang(), **rest}, notes=notes))
        spec = world.group().spec
        assert spec.topology_key == "example.com/rack" and spec.is_disrupted_whole
        assert [each.name for each in spec.resource_claims or ()] == ["net"]
        assert world.group().metadata.annotations == {"volcano.sh/preemptable": "true"}


async def test_the_minimum_follows_the_job() -> None:
    async with JobWorld() as world:
        await world.make(BATCH_JOBS, job(4, scheduling=gang(3)))
        await world.edit(BATCH_JOBS, "work", scheduling=gang(2))
        assert world.least() == 2
        await world.edit(BATCH_JOBS, "work", scheduling=gang(), parallelism=1)
        assert world.least() == 1
        (workload,) = world.client.objects(WORKLOADS)
        (template,) = workload.spec.pod_group_templates or ()
        assert template.scheduling_policy == world.group().spec.scheduling_policy


async def test_a_suspended_job_has_no_group_until_it_is_resumed() -> None:
    async with JobWorld() as world:
        await world.make(BATCH_JOBS, job(suspend=True, scheduling=gang()))
        assert world.client.objects(WORKLOAD_POD_GROUPS) == []
        await world.edit(BATCH_JOBS, "work", suspend=False)
        assert world.least() == 3 and world.bound(3) == 3


async def test_a_group_that_was_deleted_is_made_again() -> None:
    async with JobWorld() as world:
        await world.make(BATCH_JOBS, job(scheduling=gang()))
        world.client.remove(WORKLOAD_POD_GROUPS, world.group().key)
        await world.settle()
        assert world.least() == 3


def _messages(new: Any, old: Any = None) -> list[str]:
    return [error.message() for error in validate(BATCH_JOBS, new, old)]


@pytest.mark.parametrize(
    ("scheduling", "wrong"),
    [
        (gang(), []),
        ({"schedulingPolicy": {}}, ["spec.scheduling.schedulingPolicy: Required value"]),
        (gang(0), ["spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 0"]),
        (gang(4), ["spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 4"]),
        ({"disruptionMode": {}}, ["spec.scheduling.disruptionMode: Invalid value"]),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            ["spec.scheduling.schedulingConstraints.topology: Too many"],
        ),
        ({"resourceClaims": [{"name": "net"}]}, ["spec.scheduling.resourceClaims[0]: Invalid value"]),
    ],
)
def test_what_is_wrong_with_it(scheduling: dict[str, Any], wrong: list[str]) -> None:
    found = _messages(job(3, scheduling=scheduling))
    assert len(found) == len(wrong) and all(one.startswith(start) for one, start in zip(found, wrong, strict=True))


def test_only_the_minimum_may_change() -> None:
    assert _messages(job(scheduling=gang(2)), job(scheduling=gang(3))) == []
    for other in (None, {"schedulingPolicy": {"basic": {}}}, {**gang(3), "disruptionMode": {"all": {}}}):
        assert [each.split(":")[0] for each in _messages(job(scheduling=other), job(scheduling=gang(3)))] == [
            "spec.scheduling"
        ]


def test_a_group_of_the_template_would_be_a_second_one() -> None:
    both = job(scheduling=gang())
    both.spec.template.spec.scheduling_group = build(
        BATCH_JOBS, "x", template={"spec": {"schedulingGroup": {"podGroupName": "other"}}}
    ).spec.template.spec.scheduling_group
    assert [each.split(":")[0] for each in _messages(both)] == ["spec.template.spec.schedulingGroup"]


def test_a_smaller_gang_is_a_smaller_minimum() -> None:
    (kind,) = (each for each in ALL if each.kind is BATCH_JOBS)
    manifest: dict[str, Any] = {"kind": "Job", "metadata": {}, "spec": {"scheduling": gang()}}
    kind.fewer(manifest, 2)
    assert manifest["spec"]["scheduling"] == gang(2)
