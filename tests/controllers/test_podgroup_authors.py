"""Who is behind a plain pod: what the server has written on its outermost owner, whatever templates say."""

from __future__ import annotations

from typing import Any

import pytest
from controller_world import ControllerWorld

from unisono.api.annotations import ADMITTED_QUEUES, USER
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_CRON_JOBS, BATCH_JOBS, DEPLOYMENTS, REPLICA_SETS
from unisono.api.kinds import CONFIG_MAPS, NAMESPACES, POD_GROUPS, PODS, SERVICE_ACCOUNTS
from unisono.controllers.kueue import ServedJobController
from unisono.controllers.podgroup.controller import PodGroupController
from unisono.jobkinds.kueue import SERVED
from unisono.kube.controller import Controller

GOLD = {ADMITTED_QUEUES: "gold"}
FORGED = {ADMITTED_QUEUES: "forged", USER: "forged"}


class World(ControllerWorld):
    def make_controllers(self) -> list[Controller]:
        return [PodGroupController(self.recorder)]


def made(kind: Kind[Any], name: str, notes: dict[str, str], owner: Any = None, uid: str = "") -> Any:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "annotations": notes}
    if owner is not None:
        reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.metadata.name}
        meta["ownerReferences"] = [{**reference, "uid": uid or owner.metadata.uid, "controller": True}]
    container = {"name": "c", "image": "i"}
    spec: dict[str, Any] = {"schedulerName": "volcano", "containers": [container]} if kind is PODS else {}
    return decode(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}).obj


@pytest.mark.parametrize(
    ("chain", "wanted"),
    [
        ([], GOLD),
        ([(REPLICA_SETS, GOLD)], GOLD),
        ([(DEPLOYMENTS, GOLD), (REPLICA_SETS, {})], GOLD),
        ([(BATCH_CRON_JOBS, GOLD), (BATCH_JOBS, FORGED)], GOLD),
        ([(BATCH_CRON_JOBS, {}), (BATCH_JOBS, FORGED)], {}),
        ([(DEPLOYMENTS, {}), (REPLICA_SETS, {})], {}),
        # Of these nobody has looked at what their authors say of themselves.
        ([(CONFIG_MAPS, FORGED), (REPLICA_SETS, GOLD)], {}),
        ([(SERVICE_ACCOUNTS, FORGED)], {}),
    ],
)
async def test_the_outermost_owner_tells_whose_pods_they_are(
    chain: list[tuple[Kind[Any], dict[str, str]]], wanted: dict[str, str]
) -> None:
    async with World() as world:
        owner = None
        for index, (kind, notes) in enumerate(chain):
            owner = await world.client.create(kind, made(kind, f"o{index}", notes, owner))
        await world.client.create(PODS, made(PODS, "p", FORGED if chain else GOLD, owner))
        await world.settle()
        (group,) = world.client.objects(POD_GROUPS)
        found = group.metadata.annotations or {}
        assert {key: found[key] for key in (ADMITTED_QUEUES, USER) if key in found} == wanted


class Served(ControllerWorld):
    def make_controllers(self) -> list[Controller]:
        kind = next(each for each in SERVED if each.kind is BATCH_JOBS)
        return [ServedJobController(kind, self.recorder)]


@pytest.mark.parametrize(
    ("above", "own", "wanted", "kind"),
    [
        (None, GOLD, GOLD, BATCH_CRON_JOBS),
        (GOLD, FORGED, GOLD, BATCH_CRON_JOBS),
        ({}, FORGED, {}, BATCH_CRON_JOBS),
        ("gone", FORGED, {}, BATCH_CRON_JOBS),
        (FORGED, FORGED, {}, CONFIG_MAPS),
    ],
    ids=["alone", "cron", "silent", "gone", "unseen"],
)
async def test_a_job_that_waits_for_its_local_queue_is_its_outermost_owners(
    above: dict[str, str] | str | None, own: dict[str, str], wanted: dict[str, str], kind: Kind[Any]
) -> None:
    async with Served() as world:
        space = {"name": "default", "annotations": {"unisono.io/serve": "kueue"}}
        await world.client.create(NAMESPACES, decode(NAMESPACES, {"metadata": space}).obj)
        owner = None if above is None else made(kind, "c", above if isinstance(above, dict) else {})
        if isinstance(above, dict):
            owner = await world.client.create(kind, owner)
        job = made(BATCH_JOBS, "j", own, owner, "" if owner is not None and owner.metadata.uid else "gone")
        job.metadata.labels = {"kueue.x-k8s.io/queue-name": "gold"}
        job.spec.suspend = True
        await world.client.create(BATCH_JOBS, job)
        await world.settle()
        (group,) = world.client.objects(POD_GROUPS)
        found = group.metadata.annotations or {}
        assert {key: found[key] for key in (ADMITTED_QUEUES, USER) if key in found} == wanted


@pytest.mark.parametrize("uid", ["", "of-another"])
async def test_an_owner_that_is_not_there_or_another_one_tells_nothing(uid: str) -> None:
    async with World() as world:
        owner = made(REPLICA_SETS, "rs", GOLD)
        if uid:
            owner = await world.client.create(REPLICA_SETS, owner)
        await world.client.create(PODS, made(PODS, "p", FORGED, owner, uid or "gone"))
        await world.settle()
        (group,) = world.client.objects(POD_GROUPS)
        assert not {ADMITTED_QUEUES, USER} & (group.metadata.annotations or {}).keys()
