"""Delete: at once, gracefully, with finalizers, by collection; binding and eviction."""

from __future__ import annotations

import pytest

from support.backends import (
    DELETE,
    OPTIONS,
    Wall,
    config_map,
    job_body,
    names,
    opened,
    pod_body,
    read,
    value,
)
from unisono.api.kinds import CONFIG_MAPS, JOBS, PODS
from unisono.apiserver.types import DeleteOptions, WriteOptions
from unisono.errors import ApiError, Conflict, Invalid, NotFound

NOW = DeleteOptions(grace_period_seconds=0)


@pytest.fixture
def wall():
    return Wall()


@pytest.fixture
async def service(wall):
    async with opened(clock=wall) as backend:
        yield backend.service


async def made(service, kind, body):
    return value((await service.create(kind, body["metadata"]["namespace"], body, OPTIONS)).object)


async def bound(service, **meta):
    await made(service, PODS, pod_body("p", **meta))
    await service.bind("default", "p", {"target": {"kind": "Node", "name": "n1"}}, OPTIONS)


async def gone(service, kind, name):
    with pytest.raises(NotFound):
        await service.get(kind, "default", name)
    return True


async def test_most_kinds_go_at_once_and_answer_details(service):
    job = await made(service, JOBS, job_body("j"))
    deleted = await service.delete(JOBS, "default", "j", DELETE)
    assert deleted.object is None
    assert deleted.details == {
        "name": "j",
        "group": "batch.volcano.sh",
        "kind": "jobs",
        "uid": job["metadata"]["uid"],
    }
    assert await gone(service, JOBS, "j")


async def test_unbound_pods_go_at_once_and_answer_themselves(service):
    await made(service, PODS, pod_body("p"))
    pod = value((await service.delete(PODS, "default", "p", DELETE)).object)
    assert pod["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:20Z"
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 0
    assert await gone(service, PODS, "p")


@pytest.mark.parametrize(
    ("spec", "grace", "seconds", "timestamp"),
    [
        ({}, None, 30, "2023-11-14T22:13:50Z"),
        ({"spec_terminationGracePeriodSeconds": 5}, None, 5, "2023-11-14T22:13:25Z"),
        ({}, 2, 2, "2023-11-14T22:13:22Z"),
        ({}, -7, 1, "2023-11-14T22:13:21Z"),
    ],
)
async def test_bound_pods_get_their_grace_period(service, spec, grace, seconds, timestamp):
    await bound(service, **spec)
    deleted = await service.delete(PODS, "default", "p", DeleteOptions(grace_period_seconds=grace))
    meta = value(deleted.object)["metadata"]
    assert (meta["deletionGracePeriodSeconds"], meta["deletionTimestamp"]) == (seconds, timestamp)
    assert await read(service, PODS, "default", "p") == value(deleted.object)
    await service.delete(PODS, "default", "p", NOW)
    assert await gone(service, PODS, "p")


async def test_a_second_delete_can_only_shorten_the_period(service, wall):
    await bound(service)
    first = value((await service.delete(PODS, "default", "p", DELETE)).object)
    wall.now += 3
    revision = service.store.revision
    again = value((await service.delete(PODS, "default", "p", DELETE)).object)
    longer = await service.delete(PODS, "default", "p", DeleteOptions(grace_period_seconds=600))
    assert first == again == value(longer.object)
    assert service.store.revision == revision, "nothing changed, so nothing was written"
    shorter = value((await service.delete(PODS, "default", "p", DeleteOptions(grace_period_seconds=5))).object)
    assert shorter["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:28Z"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_finished_pods_go_at_once(service, phase):
    await bound(service)
    await service.patch(PODS, "default", "p", {"status": {"phase": phase}}, "merge", OPTIONS, "status")
    await service.delete(PODS, "default", "p", DELETE)
    assert await gone(service, PODS, "p")


async def test_finalizers_hold_an_object(service):
    await made(
        service, JOBS, job_body("j") | {"metadata": {"name": "j", "namespace": "default", "finalizers": ["x.org/a"]}}
    )
    deleted = value((await service.delete(JOBS, "default", "j", DELETE)).object)
    assert deleted["metadata"]["deletionTimestamp"]
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    assert deleted["metadata"]["generation"] == 2
    await service.delete(JOBS, "default", "j", DELETE)
    last = await service.patch(JOBS, "default", "j", {"metadata": {"finalizers": []}}, "merge", OPTIONS)
    assert value(last.object)["metadata"]["name"] == "j"
    assert await gone(service, JOBS, "j")


async def test_a_pod_with_finalizers_outlives_its_grace_period(service):
    await bound(service, finalizers=["x.org/a"])
    await service.delete(PODS, "default", "p", DELETE)
    pod = value((await service.delete(PODS, "default", "p", NOW)).object)
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 0
    await service.patch(PODS, "default", "p", {"metadata": {"finalizers": None}}, "merge", OPTIONS)
    assert await gone(service, PODS, "p")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (DeleteOptions(uid="other"), "Precondition failed: UID in precondition: other"),
        (DeleteOptions(resource_version="1"), "Precondition failed: ResourceVersion in precondition: 1"),
    ],
)
async def test_preconditions(service, options, message):
    await made(service, CONFIG_MAPS, config_map("c"))
    with pytest.raises(Conflict, match=message):
        await service.delete(CONFIG_MAPS, "default", "c", options)
    await service.get(CONFIG_MAPS, "default", "c")


async def test_dry_run_keeps_the_object(service):
    await made(service, CONFIG_MAPS, config_map("c"))
    deleted = await service.delete(CONFIG_MAPS, "default", "c", DeleteOptions(dry_run=True))
    assert deleted.details["name"] == "c"
    await service.get(CONFIG_MAPS, "default", "c")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, DeleteOptions()),
        ({"gracePeriodSeconds": 0}, DeleteOptions(grace_period_seconds=0)),
        ({"orphanDependents": True}, DeleteOptions(propagation_policy="Orphan")),
        (
            {"propagationPolicy": "Foreground", "dryRun": ["All"]},
            DeleteOptions(dry_run=True, propagation_policy="Foreground"),
        ),
        ({"preconditions": {"uid": "u", "resourceVersion": "3"}}, DeleteOptions(uid="u", resource_version="3")),
    ],
)
def test_options_from_a_body(body, expected):
    assert DeleteOptions.from_body(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        {"gracePeriodSeconds": "5"},
        {"gracePeriodSeconds": True},
        {"preconditions": []},
        {"propagationPolicy": 1},
        {"dryRun": "All"},
    ],
)
def test_malformed_options(body):
    with pytest.raises(ApiError) as caught:
        DeleteOptions.from_body(body)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"dryRun": ["Some"]}, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        ({"dryRun": ["All", "x"]}, 'dryRun: Unsupported value: ["All","x"]: supported values: "All"'),
        (
            {"orphanDependents": True, "propagationPolicy": "Orphan"},
            'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
        (
            {"propagationPolicy": "Later"},
            'propagationPolicy: Unsupported value: "Later": '
            'supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
    ],
)
def test_options_that_could_delete_what_was_not_meant(body, why):
    with pytest.raises(Invalid) as caught:
        DeleteOptions.from_body(body)
    assert caught.value.message == f'DeleteOptions.meta.k8s.io "" is invalid: {why}'
    assert caught.value.details["causes"][0]["field"] == why.partition(":")[0]


async def test_an_unknown_policy(service):
    await made(service, CONFIG_MAPS, config_map("c"))
    with pytest.raises(ApiError, match='Unsupported value: "Later": supported values: "Background"'):
        await service.delete(CONFIG_MAPS, "default", "c", DeleteOptions(propagation_policy="Later"))


async def test_a_collection(service):
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "1"}), ("c", {"x": "2"})):
        await made(service, CONFIG_MAPS, config_map(name, labels=labels))
    page = await service.delete_collection(CONFIG_MAPS, "default", DELETE, label_selector="x=1")
    assert [value(item)["metadata"]["name"] for item in page.items] == ["a", "b"]
    assert await names(service, CONFIG_MAPS, "default") == ["c"]
    empty = await service.delete_collection(CONFIG_MAPS, "default", DELETE, label_selector="x=9")
    assert not empty.items


async def test_binding(service):
    pod = await made(service, PODS, pod_body("p"))
    binding = {
        "metadata": {"name": "p", "uid": pod["metadata"]["uid"], "annotations": {"gpu": "0"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    await service.bind("default", "p", binding, WriteOptions(dry_run=True))
    assert "nodeName" not in (await read(service, PODS, "default", "p"))["spec"]
    await service.bind("default", "p", binding, OPTIONS)
    pod = await read(service, PODS, "default", "p")
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["annotations"] == {"gpu": "0"}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z"}
    assert pod["status"]["conditions"] == [scheduled]


@pytest.mark.parametrize(
    ("prepare", "binding", "error", "message"),
    [
        (
            "bound",
            {},
            Conflict,
            'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"',
        ),
        ("deleted", {}, Conflict, "pod p is being deleted, cannot be assigned to a host"),
        ("gated", {}, Conflict, "pod p has non-empty .spec.schedulingGates"),
        ("free", {"metadata": {"uid": "other"}}, Conflict, "Precondition failed: UID in precondition: other"),
        ("free", {"target": {}}, Invalid, "target.name: Required value"),
        ("free", {"target": {"kind": "Moon", "name": "n"}}, Invalid, "target.kind: Unsupported value"),
        ("free", {"metadata": {"annotations": {"a": 1}}}, ApiError, "text annotations"),
        ("free", {"metadata": {"name": "q"}}, ApiError, "does not match the name on the URL"),
    ],
)
async def test_bindings_that_are_refused(service, prepare, binding, error, message):
    if prepare == "bound":
        await bound(service)
    elif prepare == "deleted":
        await made(service, PODS, pod_body("p", finalizers=["x.org/a"]))
        await service.delete(PODS, "default", "p", DELETE)
    else:
        gates = {"spec_schedulingGates": [{"name": "x.org/wait"}]} if prepare == "gated" else {}
        await made(service, PODS, pod_body("p", **gates))
    with pytest.raises(error) as caught:
        await service.bind("default", "p", {"target": {"kind": "Node", "name": "n2"}, **binding}, OPTIONS)
    assert message in caught.value.message


async def test_eviction_marks_the_pod_and_deletes_it_gracefully(service):
    await bound(service)
    await service.evict("default", "p", {"deleteOptions": {"gracePeriodSeconds": 4}}, OPTIONS)
    pod = await read(service, PODS, "default", "p")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 4
    condition = pod["status"]["conditions"][-1]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionTarget",
        "True",
        "EvictionByEvictionAPI",
    )
    revision = service.store.revision
    await service.evict("default", "p", {}, OPTIONS)
    assert service.store.revision == revision


async def test_evicting_an_unbound_pod_removes_it(service):
    await made(service, PODS, pod_body("p"))
    with pytest.raises(Conflict):
        await service.evict("default", "p", {"deleteOptions": {"preconditions": {"uid": "x"}}}, OPTIONS)
    await service.evict("default", "p", {}, WriteOptions(dry_run=True))
    await service.get(PODS, "default", "p")
    await service.evict("default", "p", {}, OPTIONS)
    assert await gone(service, PODS, "p")
