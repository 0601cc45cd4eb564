"""Server-side apply and field ownership, as clients meet them; expectations were compared with Kubernetes 1.36."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.backends import OPTIONS, config_map, job_body, opened, pod_body, read, value
from unisono.api.kinds import CONFIG_MAPS, JOBS, PODS, SERVICES
from unisono.apiserver.types import WriteOptions
from unisono.errors import ApiError, Conflict


@pytest.fixture
async def service():
    async with opened() as backend:
        yield backend.service


@pytest.fixture
def clock(service):
    return service.context.clock


def by(manager: str, *, force: bool = False, **options: Any) -> WriteOptions:
    return WriteOptions(field_manager=manager, force=force, **options)


async def applied(service, kind, body, options, name="x", subresource=""):
    namespace = "default" if kind.namespaced else None
    written = await service.patch(kind, namespace, name, body, "apply", options, subresource)
    return value(written.object)


async def changed(service, kind, patch, options, name="x", subresource="", patch_type="merge"):
    written = await service.patch(kind, "default", name, patch, patch_type, options, subresource)
    return value(written.object)


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    """Fields by manager, operation and subresource."""
    return {
        "/".join(filter(None, (entry["manager"], entry["operation"], entry.get("subresource")))): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }


def cm(data: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", **meta}}
    return body if data is None else {**body, "data": data}


def data_of(*keys: str) -> dict[str, Any]:
    return {"f:data": {f"f:{key}": {} for key in keys}}


async def test_apply_creates_what_is_absent(service):
    written = await service.patch(CONFIG_MAPS, "default", "x", cm({"a": "1"}), "apply", by("me"))
    assert written.created
    found = await read(service, CONFIG_MAPS, "default", "x")
    assert found["data"] == {"a": "1"}
    assert found["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2023-11-14T22:13:20Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": data_of("a"),
        }
    ]


async def test_applying_the_same_again_changes_nothing(service, clock):
    first = await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("me"))
    clock.now += 60
    assert await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("me")) == first
    assert await read(service, CONFIG_MAPS, "default", "x") == first


async def test_fields_that_the_applier_drops_go_unless_others_own_them(service):
    await applied(service, CONFIG_MAPS, cm({"mine": "1", "ours": "1"}), by("a"))
    await applied(service, CONFIG_MAPS, cm({"ours": "1"}), by("b"))
    found = await applied(service, CONFIG_MAPS, cm({}), by("a"))
    assert found["data"] == {"ours": "1"}
    assert owners(found) == {"a/Apply": {"f:data": {}}, "b/Apply": data_of("ours")}


async def test_fields_that_nobody_owns_stay_beside_dropped_ones(service):
    created = replace(OPTIONS, track_fields=False)
    await service.create(CONFIG_MAPS, "default", config_map("x", data={"old": "1"}), created)
    await applied(service, CONFIG_MAPS, cm({"new": "1"}), by("a"))
    found = await applied(service, CONFIG_MAPS, cm(None, labels={"l": "1"}), by("a"))
    assert found["data"] == {"old": "1"}


async def test_metadata_outlives_the_last_owner_of_a_label(service):
    await applied(service, CONFIG_MAPS, cm(None, labels={"l": "1"}), by("a"))
    found = await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("a"))
    assert found["metadata"]["name"] == "x"
    assert "labels" not in found["metadata"]


async def test_one_conflict(service):
    await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("a"))
    with pytest.raises(Conflict) as caught:
        await applied(service, CONFIG_MAPS, cm({"a": "2"}), by("b"))
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "a": .data.a'
    assert caught.value.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".data.a"}
    ]
    assert (await read(service, CONFIG_MAPS, "default", "x"))["data"] == {"a": "1"}


async def test_many_conflicts_name_how_each_owner_wrote(service):
    await applied(service, PODS, pod_body("x"), by("a"))
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await changed(service, PODS, ready, by("kubelet"), subresource="status")
    unready = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]},
    }
    with pytest.raises(Conflict) as caught:
        await applied(service, PODS, unready, by("b"), subresource="status")
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "kubelet" with subresource "status" using v1: '
        '.status.conditions[type="Ready"].status'
    )
    await changed(service, PODS, {"metadata": {"labels": {"l": "1"}}}, by("kubectl-label"))
    body = pod_body("x", labels={"l": "2"})
    body["spec"]["containers"][0]["image"] = "busybox:2"
    with pytest.raises(Conflict) as caught:
        await applied(service, PODS, body, by("b"))
    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "a":\n'
        '- .spec.containers[name="main"].image\n'
        'conflicts with "kubectl-label" using v1:\n'
        "- .metadata.labels.l"
    )


async def test_force_takes_the_field(service):
    await applied(service, CONFIG_MAPS, cm({"a": "1", "b": "1"}), by("a"))
    found = await applied(service, CONFIG_MAPS, cm({"a": "2"}), by("b", force=True))
    assert found["data"] == {"a": "2", "b": "1"}
    assert owners(found) == {"a/Apply": data_of("b"), "b/Apply": data_of("a")}


async def test_equal_values_are_shared(service):
    await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("a"))
    found = await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("b"))
    assert owners(found) == {"a/Apply": data_of("a"), "b/Apply": data_of("a")}
    with pytest.raises(Conflict, match=r'conflict with "a": \.data\.a'):
        await applied(service, CONFIG_MAPS, cm({"a": "2"}), by("b"))


async def test_updates_own_what_they_change(service, clock):
    await service.create(CONFIG_MAPS, "default", config_map("x", data={"a": "1", "b": "1"}), by("kubectl-create"))
    clock.now += 60
    found = await changed(service, CONFIG_MAPS, {"data": {"a": "2", "b": None, "c": "1"}}, by("kubectl-patch"))
    assert owners(found) == {"kubectl-create/Update": {"f:data": {}}, "kubectl-patch/Update": data_of("a", "c")}
    times = {entry["manager"]: entry["time"] for entry in found["metadata"]["managedFields"]}
    assert times == {"kubectl-create": "2023-11-14T22:13:20Z", "kubectl-patch": "2023-11-14T22:14:20Z"}


async def test_who_creates_a_pod_owns_its_defaults_but_not_what_admission_adds(service):
    found = value((await service.create(PODS, "default", pod_body("x"), by("me"))).object)
    spec = owners(found)["me/Update"]["f:spec"]
    assert {"f:restartPolicy", "f:dnsPolicy", "f:containers"} <= spec.keys()
    assert not {"f:tolerations", "f:serviceAccountName", "f:priority", "f:nodeName"} & spec.keys()
    assert spec["f:containers"].keys() == {'k:{"name":"main"}'}
    assert "f:status" not in owners(found)["me/Update"]


async def test_components_of_this_process_are_not_recorded_until_somebody_applies(service):
    silent = by("unisono", track_fields=False)
    await service.create(CONFIG_MAPS, "default", config_map("x", data={"a": "1"}), silent)
    assert "managedFields" not in (await changed(service, CONFIG_MAPS, {"data": {"b": "1"}}, by("kubectl")))["metadata"]
    with pytest.raises(Conflict, match=r'conflict with "before-first-apply" using v1: \.data\.a'):
        await applied(service, CONFIG_MAPS, cm({"a": "2"}), by("me"))
    await applied(service, CONFIG_MAPS, cm({"a": "2"}), by("me", force=True))
    found = await changed(service, CONFIG_MAPS, {"data": {"b": "2"}}, silent)
    assert owners(found)["unisono/Update"] == data_of("b")
    assert owners(found)["me/Apply"] == data_of("a")


async def test_lists_with_keys_merge_and_absent_keys_have_defaults(service):
    def service_body(*ports):
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": list(ports)}}

    web = {"port": 80, "name": "web"}
    dns = {"port": 53, "protocol": "UDP", "name": "dns"}
    await applied(service, SERVICES, service_body(web, dns), by("a"))
    found = await applied(service, SERVICES, service_body({**web, "targetPort": 8080}), by("b", force=True))
    assert [(port["port"], port["protocol"]) for port in found["spec"]["ports"]] == [(80, "TCP"), (53, "UDP")]
    assert found["spec"]["ports"][0]["targetPort"] == 8080
    item = {".": {}, "f:name": {}, "f:port": {}, "f:targetPort": {}}
    assert owners(found)["b/Apply"] == {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': item}}}
    found = await applied(service, SERVICES, service_body(web), by("a"))
    assert [port["port"] for port in found["spec"]["ports"]] == [80]


async def test_items_of_a_list_follow_the_configuration_and_others_keep_their_place(service):
    def containers(*names):
        body = pod_body("x")
        body["spec"]["schedulingGates"] = [{"name": name} for name in names]
        return body

    await applied(service, PODS, containers("a.io/a", "a.io/b"), by("a"))
    found = await applied(service, PODS, containers("a.io/b", "a.io/a"), by("b"))
    assert [gate["name"] for gate in found["spec"]["schedulingGates"]] == ["a.io/b", "a.io/a"]


async def test_lists_without_keys_are_one_field(service):
    await applied(service, JOBS, job_body("x"), by("a"))
    other = job_body("x")
    other["spec"]["tasks"][0]["replicas"] = 7
    with pytest.raises(Conflict, match=r'conflict with "a": \.spec\.tasks$'):
        await applied(service, JOBS, other, by("b"))


async def test_the_status_door_owns_the_status_only(service):
    await applied(service, JOBS, job_body("x"), by("a"))
    body = {**job_body("x"), "status": {"running": 3}}
    found = await applied(service, JOBS, body, by("c"), subresource="status")
    assert owners(found)["c/Apply/status"] == {"f:status": {"f:running": {}}}
    assert found["status"]["running"] == 3
    found = await applied(service, JOBS, {**job_body("x"), "status": {"running": 9}}, by("a"))
    assert found["status"]["running"] == 3
    assert "f:status" not in owners(found)["a/Apply"]


async def test_a_dry_run_stores_nothing(service):
    found = await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("me", dry_run=True))
    assert owners(found) == {"me/Apply": data_of("a")}
    with pytest.raises(ApiError, match="not found"):
        await service.get(CONFIG_MAPS, "default", "x")


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {**cm({"a": "1"}), "bogus": 1},
            400,
            "failed to create typed patch object (default/x; /v1, Kind=ConfigMap): "
            ".bogus: field not declared in schema",
        ),
        (cm({"a": "1"}, managedFields=[]), 400, "metadata.managedFields must be nil"),
        (
            {**cm({}), "apiVersion": "v2"},
            400,
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        (cm({}, name="y"), 400, "the name of the object (y) does not match the name on the URL (x)"),
        (cm({}, uid="gone"), 409, None),
        ([], 400, "an applied configuration must be an object"),
    ],
)
async def test_configurations_that_are_refused(service, body, code, message):
    with pytest.raises(ApiError) as caught:
        await applied(service, CONFIG_MAPS, body, by("me"))
    assert caught.value.code == code
    assert message in (None, caught.value.message)


async def test_an_item_named_twice_is_refused(service):
    body = pod_body("x")
    body["spec"]["containers"] *= 2
    with pytest.raises(ApiError) as caught:
        await applied(service, PODS, body, by("me"))
    assert caught.value.message == '.spec.containers: duplicate entries for key [name="main"]'
    assert caught.value.code == 400


async def test_a_stale_version_is_a_conflict(service):
    await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("me"))
    with pytest.raises(Conflict, match="the object has been modified"):
        await applied(service, CONFIG_MAPS, cm({"a": "2"}, resourceVersion="1"), by("me"))


@pytest.mark.parametrize("value_", [[], [{}]])
async def test_owners_can_be_forgotten(service, value_):
    await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("me"))
    patch = [{"op": "replace", "path": "/metadata/managedFields", "value": value_}]
    found = await changed(service, CONFIG_MAPS, patch, by("x"), patch_type="json")
    assert not found["metadata"].get("managedFields")


async def test_owners_can_be_written_and_malformed_ones_are_not_taken(service):
    await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("me"))
    before = await read(service, CONFIG_MAPS, "default", "x")
    renamed = {**before["metadata"]["managedFields"][0], "manager": "you"}
    found = await changed(service, CONFIG_MAPS, {"metadata": {"managedFields": [renamed]}}, by("x"))
    assert owners(found) == {"you/Apply": data_of("a")}
    broken = {**renamed, "fieldsV1": {"nonsense": {}}}
    found = await changed(service, CONFIG_MAPS, {"metadata": {"managedFields": [broken]}}, by("x"))
    assert owners(found) == {"you/Apply": data_of("a")}


async def test_clients_that_know_nothing_of_owners_do_not_delete_them(service):
    await applied(service, CONFIG_MAPS, cm({"a": "1"}), by("me"))
    found = await read(service, CONFIG_MAPS, "default", "x")
    del found["metadata"]["managedFields"]
    found["data"]["b"] = "2"
    again = value((await service.update(CONFIG_MAPS, "default", "x", found, by("old"))).object)
    assert owners(again) == {"me/Apply": data_of("a"), "old/Update": data_of("b")}


async def test_more_than_ten_updaters_become_ancient(service, clock):
    await service.create(CONFIG_MAPS, "default", config_map("x", data={"k0": "1"}), by("m0"))
    for index in range(1, 13):
        clock.now += 1
        found = await changed(service, CONFIG_MAPS, {"data": {f"k{index}": "1"}}, by(f"m{index}"))
    names = [entry["manager"] for entry in found["metadata"]["managedFields"]]
    assert names == ["ancient-changes", *(f"m{index}" for index in range(4, 13))]
    assert owners(found)["ancient-changes/Update"] == {
        "f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}
    }


LAST = "kubectl.kubernetes.io/last-applied-configuration"


async def test_kubectl_takes_over_what_it_applied_on_the_client_side(service):
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"}}'
    body = config_map("x", data={"a": "1"}, annotations={LAST: last})
    await service.create(CONFIG_MAPS, "default", body, by("kubectl-client-side-apply"))
    with pytest.raises(Conflict):
        await applied(service, CONFIG_MAPS, cm({"a": "2"}), by("other"))
    found = await applied(service, CONFIG_MAPS, cm({"a": "2"}), by("kubectl"))
    assert found["data"] == {"a": "2"}
    assert '"data":{"a":"2"}' in found["metadata"]["annotations"][LAST]
