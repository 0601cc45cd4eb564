"""Resource claims of pods: made from templates, reserved, freed and deleted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from controller_world import ControllerWorld
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.core import Pod, ResourceClaim, ResourceClaimTemplate
from unisono.api.keys import DELETE_PROTECTION
from unisono.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.claims.decide import stem
from unisono.kube.controller import Controller

REQUESTS = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
RESULT = {"request": "gpu", "driver": "gpu", "pool": "n1", "device": "gpu-0"}


class ClaimWorld(ControllerWorld):
    """An API server with the controllers of resource claims."""

    def make_controllers(self) -> list[Controller]:
        return [each for each in builtin_controllers(self.recorder) if "resource-claim" in each.name]

    def claims(self) -> list[ResourceClaim]:
        return self.client.objects(RESOURCE_CLAIMS)

    async def submit(self, *pods: Pod) -> None:
        for pod in pods:
            await self.client.create(PODS, pod)
        await self.settle()

    async def template(self, name: str = "t") -> None:
        value = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": REQUESTS}}},
        }
        self.client.put(RESOURCE_CLAIM_TEMPLATES, msgspec.convert(value, ResourceClaimTemplate))
        await self.settle()

    async def allocate(self, claim: ResourceClaim, *pods: str) -> None:
        """As the scheduler does."""
        value = msgspec.to_builtins(claim)
        value["metadata"]["finalizers"] = [DELETE_PROTECTION]
        users = [{"resource": "pods", "name": name, "uid": self.find_pod(name).metadata.uid or ""} for name in pods]
        value["status"] = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": users}
        self.client.put(RESOURCE_CLAIMS, msgspec.convert(value, ResourceClaim))
        await self.settle()


def user(name: str = "p", *entries: dict[str, Any], node: str | None = None) -> Pod:
    claims = list(entries) or [{"name": "g", "resourceClaimTemplateName": "t"}]
    value = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "main"}], "resourceClaims": claims},
        "status": {"phase": "Pending"},
    }
    return msgspec.convert(value, Pod)


def shared(name: str = "shared") -> ResourceClaim:
    value = {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": REQUESTS}}}
    return msgspec.convert(value, ResourceClaim)


async def test_a_pod_gets_a_claim_of_its_own_from_a_template() -> None:
    async with ClaimWorld() as world:
        await world.template()
        await world.submit(user())
        (made,) = world.claims()
        assert made.metadata.name.startswith("p-g-")
        assert made.metadata.labels == {"a": "b"}
        assert made.metadata.annotations == {"resource.kubernetes.io/pod-claim-name": "g"}
        (owner,) = made.metadata.owner_references or ()
        assert (owner.kind, owner.name, owner.controller) == ("Pod", "p", True)
        assert made.spec.devices.requests
        (told,) = world.find_pod("p").status.resource_claim_statuses or ()
        assert (told.name, told.resource_claim_name) == ("g", made.metadata.name)


async def test_a_template_may_come_later_and_the_pod_hears_what_is_missing() -> None:
    async with ClaimWorld() as world:
        await world.submit(user())
        assert world.recorder.of("FailedResourceClaimCreation") == [
            'PodResourceClaim g: resource claim template "t" not found'
        ]
        await world.template()
        assert len(world.claims()) == 1


async def test_a_stop_between_claim_and_pod_makes_no_second_claim() -> None:
    async with ClaimWorld() as world:
        await world.template()

        def die(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("patch", "pods"):
                raise ConnectionError("gone")

        world.client.interceptor = die
        await world.submit(user())
        assert len(world.claims()) == 1
        world.client.interceptor = None
        await world.restart()
        (made,) = world.claims()
        assert [each.resource_claim_name for each in world.find_pod("p").status.resource_claim_statuses or ()] == [
            made.metadata.name
        ]


async def test_a_claim_that_was_deleted_by_mistake_is_made_again() -> None:
    async with ClaimWorld() as world:
        await world.template()
        await world.submit(user())
        (first,) = world.claims()
        world.client.remove(RESOURCE_CLAIMS, first.key)
        await world.settle()
        (second,) = world.claims()
        assert second.metadata.uid != first.metadata.uid
        (told,) = world.find_pod("p").status.resource_claim_statuses or ()
        assert told.resource_claim_name == second.metadata.name


@pytest.mark.parametrize("end", ["Succeeded", "Failed", "deleted"])
async def test_devices_are_free_when_the_pod_has_ended(end: str) -> None:
    async with ClaimWorld() as world:
        await world.template()
        await world.submit(user())
        await world.allocate(world.claims()[0], "p")
        await world.pod("p", "Running")
        assert world.claims()[0].status.allocation is not None
        if end == "deleted":
            world.client.remove(PODS, "default/p")
            await world.settle()
            (left,) = world.claims()
            # The garbage collector deletes it with its owner; until then nothing keeps its devices.
            assert (left.status.allocation, left.status.reserved_for, left.metadata.finalizers) == (None, None, None)
        else:
            await world.pod("p", end)
            assert world.claims() == []


async def test_a_claim_that_pods_share_is_kept_until_the_last_of_them_has_ended() -> None:
    async with ClaimWorld() as world:
        world.client.put(RESOURCE_CLAIMS, shared())
        entry = {"name": "g", "resourceClaimName": "shared"}
        await world.submit(user("p", entry), user("q", entry))
        await world.allocate(world.claims()[0], "p", "q")
        await world.pod("p", "Succeeded")
        (claim,) = world.claims()
        assert [each.name for each in claim.status.reserved_for or ()] == ["q"]
        assert claim.status.allocation is not None
        await world.pod("q", "Failed")
        (claim,) = world.claims()
        assert (claim.status.reserved_for, claim.status.allocation, claim.metadata.finalizers) == (None, None, None)


async def test_a_deleted_claim_goes_when_nobody_uses_it() -> None:
    async with ClaimWorld() as world:
        world.client.put(RESOURCE_CLAIMS, shared())
        await world.submit(user("p", {"name": "g", "resourceClaimName": "shared"}))
        await world.allocate(world.claims()[0], "p")
        await world.client.delete(RESOURCE_CLAIMS, "shared", "default")
        await world.settle()
        assert len(world.claims()) == 1
        world.client.remove(PODS, "default/p")
        await world.settle()
        assert world.claims() == []


async def test_a_pod_with_the_name_of_an_old_one_does_not_use_its_claim() -> None:
    async with ClaimWorld() as world:
        world.client.put(RESOURCE_CLAIMS, shared())
        entry = {"name": "g", "resourceClaimName": "shared"}
        await world.submit(user("p", entry))
        await world.allocate(world.claims()[0], "p")
        await world.stop()
        world.client.remove(PODS, "default/p")
        await world.client.create(PODS, user("p", entry))
        await world.start()
        assert world.claims()[0].status.reserved_for is None


async def test_a_pod_that_the_scheduler_never_saw_reserves_an_allocated_claim() -> None:
    async with ClaimWorld() as world:
        world.client.put(RESOURCE_CLAIMS, shared())
        entry = {"name": "g", "resourceClaimName": "shared"}
        await world.submit(user("p", entry))
        await world.allocate(world.claims()[0], "p")
        await world.submit(user("daemon", entry, node="n1"))
        assert [each.name for each in world.claims()[0].status.reserved_for or ()] == ["p", "daemon"]


@given(st.text("ab", min_size=1, max_size=253), st.text("cd", min_size=1, max_size=63))
def test_names_of_claims_leave_room_for_what_the_server_adds(pod: str, entry: str) -> None:
    made = stem(pod, entry)
    assert len(made) <= 57
    assert made[0] == pod[0]
    if len(pod) + len(entry) <= 55:
        assert made == f"{pod}-{entry}-"
