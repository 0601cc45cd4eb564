"""Pods of a Job are made again where its gang got nodes on which they take other amounts of devices."""

from __future__ import annotations

from typing import Any

import pytest
from job_world import World, job, task

from unisono.api.annotations import GOT, GOT_VARIABLE, ONE_OF
from unisono.api.core import Pod
from unisono.api.kinds import JOBS, POD_GROUPS, PODS

KEY = "gpu.example.com/type"
TEXT = f"{KEY}=h100, {KEY}=a100*2"


def choosing(text: str = TEXT, **spec: Any) -> Any:
    given = task("w", 2)
    container = given["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": "4", "cpu": "2"}, "requests": {"nvidia.com/gpu": "4"}}
    made = job(given, **spec)
    made.metadata.annotations = {ONE_OF: text}
    return made


def asked(pod: Pod) -> tuple[Any, Any]:
    resources = (pod.spec.containers or [])[0].resources
    return (resources.requests or {}).get("nvidia.com/gpu"), (resources.limits or {}).get("cpu")


async def tell(world: World, got: str) -> None:
    group = world.group()
    assert group is not None
    patch = {"metadata": {"annotations": {GOT: got}}}
    with world.client.hands():
        await world.client.patch(POD_GROUPS, group.metadata.name, patch, namespace="default")
    await world.settle()
    await world.finish_deletions()
    await world.settle()


@pytest.mark.parametrize("retries", [None, 0])
async def test_pods_are_made_again_with_what_they_take_and_no_retry_is_used(retries: int | None) -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    async with World() as world:
        await world.submit(choosing(policies=policies, **({} if retries is None else {"maxRetry": retries})))
        await world.admit()
        assert {asked(pod) for pod in world.pods()} == {("4", "2")}
        await tell(world, f"{KEY}=a100*2")
        assert {asked(pod) for pod in world.pods()} == {("8", "2")}
        assert {(pod.metadata.annotations or {})[GOT] for pod in world.pods()} == {f"{KEY}=a100*2"}
        assert (world.phase(), world.job().status.retry_count or 0) == ("Pending", 0)
        group = world.group()
        assert group is not None
        assert (group.spec.min_resources or {})["requests.nvidia.com/gpu"] == "16"
        await tell(world, f"{KEY}=h100")
        assert {asked(pod) for pod in world.pods()} == {("4", "2")}


@pytest.mark.parametrize("text", [f"{KEY}=h100", f"{KEY}=h100, {KEY}=a100"])
async def test_pods_are_made_again_for_what_the_gang_got_also_where_the_list_is_another_by_now(text: str) -> None:
    async with World() as world:
        await world.submit(choosing())
        await world.admit()
        await tell(world, f"{KEY}=a100*2")
        with world.client.hands():
            patch = {"metadata": {"annotations": {ONE_OF: text}}}
            await world.client.patch(JOBS, world.job().metadata.name, patch, namespace="default")
            await world.client.delete(PODS, world.pods()[0].metadata.name, namespace="default")
        await world.settle()
        await world.finish_deletions()
        await world.settle()
        assert [asked(pod) for pod in world.pods()] == [("8", "2")] * 2
        await tell(world, f"{KEY}=h100")
        assert [asked(pod) for pod in world.pods()] == [("4", "2")] * 2


async def test_pods_with_a_node_stay_and_so_do_those_whose_amounts_are_the_same() -> None:
    async with World() as world:
        await world.submit(choosing(f"{KEY}=h100, {KEY}=a100"))
        await world.admit()
        before = {pod.metadata.uid for pod in world.pods()}
        await tell(world, f"{KEY}=a100")
        assert {pod.metadata.uid for pod in world.pods()} == before


async def test_containers_are_told_what_they_got() -> None:
    async with World() as world:
        await world.submit(choosing())
        await world.admit()
        for pod in world.pods():
            found = {each.name: each.value_from for each in (pod.spec.containers or [])[0].env or ()}
            assert found[GOT_VARIABLE].field_ref.field_path == f"metadata.annotations['{GOT}']"
