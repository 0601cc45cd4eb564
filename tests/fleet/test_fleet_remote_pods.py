"""Pods of a hub's jobs, read where they run; a member's own pods are not shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
from fleet_world import NAMESPACE, kubeconfig

from support.memory import MemoryClient
from unisono.api.annotations import CLUSTER, DISPATCH, HUB, ORIGIN_UID
from unisono.api.base import ObjectMeta
from unisono.api.batch import Job
from unisono.api.core import Namespace, Secret
from unisono.api.fleet import AttachedCluster, AttachedClusterSpec
from unisono.api.fleet_kinds import ATTACHED_CLUSTERS
from unisono.api.kinds import JOBS, NAMESPACES, SECRETS
from unisono.errors import ApiError, NotFound, Unavailable
from unisono.fleet.remote_pods import MemberPods


class MemberApi:
    """The API of a member: answers by path."""

    def __init__(self) -> None:
        self.pods: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.broken = False

    async def request(self, method: str, path: str) -> tuple[int, Mapping[str, str], bytes]:
        assert method == "GET"
        if self.broken:
            raise OSError("no route")
        status, value = self.pods.get(path, (404, {}))
        return status, {}, msgspec.json.encode(value)

    async def stream(self, path: str, params: Mapping[str, str], *, accept: str) -> AsyncIterator[bytes]:
        self.asked.append((path, params))
        yield b"step 1\n"
        yield b"step 2\n"

    async def close(self) -> None:
        return None


@pytest.fixture
def world() -> tuple[MemberPods, MemberApi, MemoryClient]:
    hub, api = MemoryClient(), MemberApi()
    hub.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default", uid="the-hub")))
    hub.put(SECRETS, Secret(metadata=ObjectMeta(name="a", namespace=NAMESPACE), data={"value": kubeconfig("a")}))
    hub.put(
        ATTACHED_CLUSTERS,
        AttachedCluster(
            metadata=ObjectMeta(name="a", namespace=NAMESPACE), spec=AttachedClusterSpec(kubeconfig_secret_ref="a")
        ),
    )
    marks = {CLUSTER: "a", DISPATCH: "1"}
    hub.put(JOBS, Job(metadata=ObjectMeta(name="my-train", namespace="team", uid="u1", annotations=marks)))
    return MemberPods(hub, lambda _: api), api, hub


def pod(uid: str = "u1", hub: str = "the-hub") -> dict[str, Any]:
    return {"metadata": {"name": "my-train-w-0", "namespace": "team", "labels": {HUB: hub, ORIGIN_UID: uid}}}


PATH = "/api/v1/namespaces/team/pods/my-train-w-0"


async def test_a_pod_and_its_log_come_from_the_member(world):
    pods, api, _ = world
    api.pods[PATH] = (200, pod())
    assert msgspec.json.decode(await pods.find("team", "my-train-w-0")) == pod()
    chunks = [chunk async for chunk in pods.log("team", "my-train-w-0", {"tailLines": "2"})]
    assert chunks == [b"step 1\n", b"step 2\n"]
    assert api.asked == [(f"{PATH}/log", {"tailLines": "2"})]
    await pods.close()


@pytest.mark.parametrize("foreign", [pod(uid="u2"), pod(hub="another"), {"metadata": {"name": "my-train-w-0"}}])
async def test_a_pod_that_this_hub_did_not_bring_is_not_shown(world, foreign):
    pods, api, _ = world
    api.pods[PATH] = (200, foreign)
    assert await pods.find("team", "my-train-w-0") is None
    with pytest.raises(NotFound):
        _ = [chunk async for chunk in pods.log("team", "my-train-w-0", {})]
    assert api.asked == []


@pytest.mark.parametrize("name", ["my-train", "other-w-0", "my"])
async def test_a_name_of_no_job_is_not_asked_for(world, name):
    pods, api, _ = world
    api.pods[f"/api/v1/namespaces/team/pods/{name}"] = (200, pod())
    assert await pods.find("team", name) is None


async def test_what_is_wrong_with_a_member_is_one_sentence(world):
    pods, api, hub = world
    api.pods[PATH] = (403, {})
    with pytest.raises(ApiError, match="member a does not show pod"):
        await pods.find("team", "my-train-w-0")
    api.broken = True
    with pytest.raises(Unavailable, match="member a does not answer"):
        await pods.find("team", "my-train-w-0")
    hub.remove(SECRETS, f"{NAMESPACE}/a")
    with pytest.raises(Unavailable, match="member a cannot be reached"):
        await pods.find("team", "my-train-w-0")
    hub.remove(ATTACHED_CLUSTERS, f"{NAMESPACE}/a")
    with pytest.raises(Unavailable, match="member a has left"):
        await pods.find("team", "my-train-w-0")
