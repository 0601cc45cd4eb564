"""Update and patch: versions, conflicts, generations, the status subresource, finalizers."""

from __future__ import annotations

import asyncio

import pytest

from support.backends import (
    DELETE,
    DRY,
    OPTIONS,
    STRICT,
    config_map,
    group_body,
    job_body,
    namespace_body,
    opened,
    pod_body,
    read,
    value,
)
from unisono.api.kinds import CONFIG_MAPS, JOBS, NAMESPACES, NODES, POD_GROUPS, PODS
from unisono.errors import ApiError, Conflict, Invalid, NotFound


@pytest.fixture
async def service():
    async with opened() as backend:
        yield backend.service


async def made(service, kind, body):
    namespace = body["metadata"].get("namespace")
    return value((await service.create(kind, namespace, body, OPTIONS)).object)


async def patched(service, kind, name, patch, **options):
    namespace = None if not kind.namespaced else "default"
    patch_type = options.pop("patch_type", "merge")
    written = await service.patch(kind, namespace, name, patch, patch_type, OPTIONS, **options)
    return value(written.object)


async def test_replace_keeps_what_a_writer_cannot_change(service):
    old = await made(service, CONFIG_MAPS, config_map("c"))
    body = config_map("c", data={"a": "1"}, creationTimestamp="1999-01-01T00:00:00Z", labels={"x": "y"})
    new = value((await service.update(CONFIG_MAPS, "default", "c", body, OPTIONS)).object)
    assert new["data"] == {"a": "1"}
    for field in ("uid", "creationTimestamp", "name", "namespace"):
        assert new["metadata"][field] == old["metadata"][field]
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])


async def test_a_stale_version_is_refused(service):
    old = await made(service, CONFIG_MAPS, config_map("c"))
    await patched(service, CONFIG_MAPS, "c", {"data": {"a": "1"}})
    stale = config_map("c", resourceVersion=old["metadata"]["resourceVersion"])
    for attempt in (
        service.update(CONFIG_MAPS, "default", "c", stale, OPTIONS),
        service.patch(CONFIG_MAPS, "default", "c", {"metadata": stale["metadata"]}, "merge", OPTIONS),
    ):
        with pytest.raises(Conflict) as caught:
            await attempt
        assert caught.value.message == (
            'Operation cannot be fulfilled on configmaps "c": the object has been modified; '
            "please apply your changes to the latest version and try again"
        )
        assert caught.value.details["kind"] == "configmaps"


async def test_another_incarnation_is_refused(service):
    await made(service, CONFIG_MAPS, config_map("c"))
    with pytest.raises(Conflict, match="Precondition failed: UID in precondition: other, UID in object meta"):
        await service.update(CONFIG_MAPS, "default", "c", config_map("c", uid="other"), OPTIONS)


async def test_replacing_a_custom_resource_needs_a_version(service):
    job = await made(service, JOBS, job_body("j"))
    with pytest.raises(Invalid, match=r"metadata.resourceVersion: Invalid value: 0: must be specified for an update"):
        await service.update(JOBS, "default", "j", job_body("j"), OPTIONS)
    job["spec"]["minAvailable"] = 1
    new = value((await service.update(JOBS, "default", "j", job, OPTIONS)).object)
    assert new["spec"]["minAvailable"] == 1


async def test_of_many_updates_of_one_version_exactly_one_wins(service):
    old = await made(service, CONFIG_MAPS, config_map("c"))
    version = old["metadata"]["resourceVersion"]
    attempts = [
        service.update(
            CONFIG_MAPS, "default", "c", config_map("c", data={"n": str(i)}, resourceVersion=version), OPTIONS
        )
        for i in range(20)
    ]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(result, Conflict) for result in results) == 19


async def test_patches_without_a_version_never_lose_each_other(service):
    await made(service, CONFIG_MAPS, config_map("c"))
    await asyncio.gather(*(patched(service, CONFIG_MAPS, "c", {"data": {f"k{i}": "v"}}) for i in range(50)))
    assert len((await read(service, CONFIG_MAPS, "default", "c"))["data"]) == 50


@pytest.mark.parametrize(
    ("patch", "patch_type"),
    [
        ({}, "merge"),
        ({"data": {"a": "1"}}, "merge"),
        ({"data": {"missing": None}}, "merge"),
        ([{"op": "test", "path": "/data/a", "value": "1"}], "json"),
        ([{"op": "replace", "path": "/data/a", "value": "1"}], "json"),
        ({"data": {"a": "1"}}, "strategic"),
    ],
)
async def test_a_patch_that_changes_nothing_keeps_the_version_and_makes_no_event(service, patch, patch_type):
    old = await made(service, CONFIG_MAPS, config_map("c", data={"a": "1"}))
    revision = service.store.revision
    assert await patched(service, CONFIG_MAPS, "c", patch, patch_type=patch_type) == old
    assert service.store.revision == revision


async def test_generation_counts_changes_of_the_specification(service):
    job = await made(service, JOBS, job_body("j"))
    assert job["metadata"]["generation"] == 1
    job = await patched(service, JOBS, "j", {"metadata": {"labels": {"a": "b"}}})
    assert job["metadata"]["generation"] == 1
    job = await patched(service, JOBS, "j", {"status": {"running": 1}}, subresource="status")
    assert job["metadata"]["generation"] == 1
    job = await patched(service, JOBS, "j", {"spec": {"minAvailable": 1}})
    assert job["metadata"]["generation"] == 2
    job = await patched(service, JOBS, "j", {"metadata": {"generation": 99}})
    assert job["metadata"]["generation"] == 2


async def test_the_status_subresource_separates_both_ways(service):
    await made(service, JOBS, job_body("j"))
    job = await patched(service, JOBS, "j", {"status": {"running": 3}, "spec": {"minAvailable": 1}})
    assert "running" not in job.get("status", {})
    assert job["spec"]["minAvailable"] == 1
    status = {"status": {"running": 3}, "spec": {"minAvailable": 2}, "metadata": {"labels": {"a": "b"}}}
    job = await patched(service, JOBS, "j", status, subresource="status")
    assert job["status"]["running"] == 3
    assert job["spec"]["minAvailable"] == 1
    assert "labels" not in job["metadata"]


async def test_labels_of_built_in_kinds_can_go_through_status(service):
    await made(service, PODS, pod_body("p"))
    change = {"status": {"phase": "Running"}, "metadata": {"annotations": {"a": "b"}}, "spec": {"nodeName": "n"}}
    pod = await patched(service, PODS, "p", change, subresource="status")
    assert pod["status"]["phase"] == "Running"
    assert pod["metadata"]["annotations"] == {"a": "b"}
    assert "nodeName" not in pod["spec"]


async def test_pod_groups_have_no_status_subresource(service):
    body = group_body("g")
    body["status"] = {"phase": "Inqueue"}
    assert (await made(service, POD_GROUPS, body))["status"]["phase"] == "Inqueue"
    group = await patched(service, POD_GROUPS, "g", {"status": {"phase": "Running"}})
    assert group["status"]["phase"] == "Running"
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await patched(service, POD_GROUPS, "g", {"status": {"phase": "Running"}}, subresource="status")


async def test_bad_results_are_refused_like_bad_bodies(service):
    await made(service, JOBS, job_body("j"))
    with pytest.raises(Invalid, match=r"spec.minAvailable"):
        await patched(service, JOBS, "j", {"spec": {"minAvailable": 9}})
    with pytest.raises(ApiError) as caught:
        await service.patch(JOBS, "default", "j", {"spec": {"bogus": 1}}, "merge", STRICT)
    assert caught.value.message.endswith('strict decoding error: unknown field "spec.bogus"')
    with pytest.raises(ApiError, match="name of the object"):
        await patched(service, JOBS, "j", {"metadata": {"name": "k"}})
    assert (await read(service, JOBS, "default", "j"))["spec"]["minAvailable"] == 2


async def test_custom_resources_take_no_strategic_merge_patches(service):
    await made(service, JOBS, job_body("j"))
    with pytest.raises(ApiError) as caught:
        await patched(service, JOBS, "j", {"spec": {"minAvailable": 1}}, patch_type="strategic")
    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")
    assert caught.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


async def test_strategic_patches_use_the_schema_of_the_kind(service):
    await made(service, PODS, pod_body("p", spec_tolerations=[{"key": "a", "operator": "Exists"}]))
    change = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    pod = await patched(service, PODS, "p", change, patch_type="strategic")
    assert pod["spec"]["containers"][0]["image"] == "busybox:2"
    assert pod["spec"]["containers"][0]["imagePullPolicy"]


async def test_cordon_and_taint_as_kubectl_sends_them(service):
    await made(service, NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    node = await patched(service, NODES, "n", {"spec": {"unschedulable": True}}, patch_type="strategic")
    assert node["spec"]["unschedulable"] is True
    taints = [{"key": "k", "effect": "NoSchedule"}]
    node = await patched(service, NODES, "n", {"spec": {"taints": taints}}, patch_type="strategic")
    assert node["spec"]["taints"] == taints
    node = await patched(service, NODES, "n", {"spec": {"unschedulable": None, "taints": None}}, patch_type="strategic")
    assert not node["spec"].keys() & {"unschedulable", "taints"}


async def test_dry_run_changes_nothing(service):
    old = await made(service, CONFIG_MAPS, config_map("c"))
    written = await service.patch(CONFIG_MAPS, "default", "c", {"data": {"a": "1"}}, "merge", DRY)
    assert value(written.object)["data"] == {"a": "1"}
    assert await read(service, CONFIG_MAPS, "default", "c") == old


async def test_no_new_finalizers_on_the_way_out(service):
    await made(service, CONFIG_MAPS, config_map("c", finalizers=["example.org/a", "example.org/b"]))
    await service.delete(CONFIG_MAPS, "default", "c", DELETE)
    finalizers = {"metadata": {"finalizers": ["example.org/a", "example.org/c"]}}
    with pytest.raises(Invalid, match="no new finalizers can be added if the object is being deleted"):
        await patched(service, CONFIG_MAPS, "c", finalizers)
    await patched(service, CONFIG_MAPS, "c", {"metadata": {"finalizers": ["example.org/b"]}})
    last = await patched(service, CONFIG_MAPS, "c", {"metadata": {"finalizers": None}})
    assert last["metadata"]["deletionTimestamp"]
    with pytest.raises(NotFound):
        await service.get(CONFIG_MAPS, "default", "c")


async def test_a_namespace_keeps_its_finalizer_and_its_name_label(service):
    await made(service, NAMESPACES, namespace_body("team"))
    change = {"spec": {"finalizers": None}, "metadata": {"labels": {"kubernetes.io/metadata.name": None, "a": "b"}}}
    namespace = await patched(service, NAMESPACES, "team", change)
    assert namespace["spec"]["finalizers"] == ["kubernetes"]
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team", "a": "b"}


async def test_what_is_missing_cannot_be_changed(service):
    for attempt in (
        service.update(CONFIG_MAPS, "default", "c", config_map("c"), OPTIONS),
        service.patch(CONFIG_MAPS, "default", "c", {}, "merge", OPTIONS),
        service.delete(CONFIG_MAPS, "default", "c", DELETE),
        service.bind("default", "c", {"target": {"name": "n"}}, OPTIONS),
        service.evict("default", "c", {}, OPTIONS),
    ):
        with pytest.raises(NotFound, match='"c" not found'):
            await attempt
