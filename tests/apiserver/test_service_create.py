"""Create: what the server fills in, what it refuses, and in which words."""

from __future__ import annotations

import dataclasses
import re

import pytest

from support.backends import (
    DRY,
    OPTIONS,
    STRICT,
    config_map,
    job_body,
    names,
    namespace_body,
    opened,
    pod_body,
    read,
    value,
)
from unisono.api.kinds import CONFIG_MAPS, JOBS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, QUEUES, SECRETS
from unisono.apiserver.types import WriteOptions
from unisono.errors import AlreadyExists, ApiError, Invalid, NotFound

V1BETA1 = dataclasses.replace(JOBS, version="v1beta1")


@pytest.fixture
async def backend():
    async with opened() as backend:
        yield backend


@pytest.fixture
def service(backend):
    return backend.service


async def test_what_every_cluster_has(service):
    assert await names(service, NAMESPACES) == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "volcano-system",
    ]
    found = {
        name: (await read(service, PRIORITY_CLASSES, None, name))["value"]
        for name in await names(service, PRIORITY_CLASSES)
    }
    assert found == {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
    assert await names(service, QUEUES) == ["default", "root"]


async def test_the_server_fills_in_metadata(service):
    body = pod_body(
        "p",
        uid="mine",
        generation=7,
        creationTimestamp=None,
        deletionTimestamp="2020-01-01T00:00:00Z",
        managedFields=[{"manager": "x"}],
    )
    body["status"] = {"phase": "Running"}
    written = await service.create(PODS, "default", body, OPTIONS)
    pod = value(written.object)
    meta = pod["metadata"]
    assert written.created
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}", meta["uid"])
    assert meta["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert meta["generation"] == 1
    assert 0 < int(meta["resourceVersion"]) <= service.store.revision
    assert "deletionTimestamp" not in meta
    assert {"manager": "x"} not in meta["managedFields"]
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert pod["spec"]["restartPolicy"] == "Always"
    assert pod["spec"]["priority"] == 0
    assert await service.get(PODS, "default", "p") == written.object


async def test_config_maps_have_no_generation_and_jobs_do(service):
    plain = value((await service.create(CONFIG_MAPS, "default", config_map("c"), OPTIONS)).object)
    job = value((await service.create(JOBS, "default", job_body("j"), OPTIONS)).object)
    assert "generation" not in plain["metadata"]
    assert job["metadata"]["generation"] == 1


async def test_nodes_register_with_their_status(service):
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"capacity": {"cpu": "8"}},
    }
    stored = value((await service.create(NODES, None, node, OPTIONS)).object)
    assert stored["status"]["capacity"] == {"cpu": "8"}
    assert "namespace" not in stored["metadata"]


async def test_generated_names(service):
    body = pod_body("", generateName="x" * 70)
    first = value((await service.create(PODS, "default", body, OPTIONS)).object)["metadata"]["name"]
    assert re.fullmatch(r"x{58}[bcdfghjklmnpqrstvwxz2456789]{5}", first)


async def test_a_generated_name_that_is_taken_is_drawn_again():
    suffixes = iter(["aaaaa", "aaaaa", "bbbbb"])
    async with opened(new_suffix=lambda: next(suffixes, "zzzzz")) as backend:
        made = []
        for _ in range(2):
            written = await backend.service.create(PODS, "default", pod_body("", generateName="p-"), OPTIONS)
            made.append(value(written.object)["metadata"]["name"])
        assert len(set(made)) == 2


async def test_existing_names_are_refused(service):
    await service.create(CONFIG_MAPS, "default", config_map("c"), OPTIONS)
    with pytest.raises(AlreadyExists) as caught:
        await service.create(CONFIG_MAPS, "default", config_map("c"), OPTIONS)
    error = caught.value
    assert (error.code, error.reason) == (409, "AlreadyExists")
    assert error.message == 'configmaps "c" already exists'
    assert error.details == {"name": "c", "kind": "configmaps"}


@pytest.mark.parametrize(
    ("namespace", "body", "code", "message"),
    [
        ("nons", config_map("c", "nons"), 404, 'namespaces "nons" not found'),
        (
            "default",
            config_map("c", "other"),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ("default", {**config_map("c"), "kind": "Secret"}, 400, "the kind in the data (Secret) does not match"),
        ("default", {**config_map("c"), "apiVersion": "v2"}, 400, "the API version in the data (v2) does not match"),
        ("default", {}, 400, "the API version in the data () does not match"),
        (
            "default",
            config_map("c", resourceVersion="1"),
            400,
            "resourceVersion should not be set on objects to be created",
        ),
        ("default", config_map(""), 422, "metadata.name: Required value: name or generateName is required"),
        ("default", config_map("Bad_Name"), 422, 'ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value'),
        (None, config_map("c"), 400, "an empty namespace may not be set during creation"),
    ],
)
async def test_refusals(service, namespace, body, code, message):
    before = service.store.revision
    with pytest.raises(ApiError) as caught:
        await service.create(CONFIG_MAPS, namespace, body, OPTIONS)
    assert caught.value.code == code
    assert message in caught.value.message
    assert service.store.revision == before, "nothing is stored"


async def test_unknown_fields_under_strict_warn_and_ignore(service):
    body = job_body("j", bogus=1)
    with pytest.raises(ApiError) as caught:
        await service.create(JOBS, "default", body, STRICT)
    assert caught.value.code == 400
    assert caught.value.message == (
        'Job in version "v1alpha1" cannot be handled as a Job: strict decoding error: unknown field "spec.bogus"'
    )
    assert await names(service, JOBS) == []
    warned = await service.create(JOBS, "default", body, OPTIONS)
    assert warned.warnings == ['unknown field "spec.bogus"']
    assert "bogus" not in value(warned.object)["spec"]
    silent = await service.create(
        JOBS, "default", {**body, "metadata": {"name": "k"}}, WriteOptions(field_validation="Ignore")
    )
    assert silent.warnings == []


async def test_wrong_types_name_the_field(service):
    with pytest.raises(Invalid) as caught:
        await service.create(JOBS, "default", job_body("j", minAvailable="two"), OPTIONS)
    error = caught.value
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message.startswith('Job.batch.volcano.sh "j" is invalid: spec.minAvailable: Invalid value: "string"')
    assert error.details["kind"] == "Job"
    assert error.details["group"] == "batch.volcano.sh"
    assert [cause["field"] for cause in error.details["causes"]] == ["spec.minAvailable"]
    assert error.details["causes"][0]["reason"] == "FieldValueTypeInvalid"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minAvailable": 5}, "spec.minAvailable"),
        ({"tasks": []}, "spec.tasks"),
        ({"minAvailable": -1}, "spec.minAvailable"),
        ({"queue": "nope"}, "spec.queue"),
    ],
)
async def test_bad_jobs_name_the_field_and_are_not_stored(service, spec, field):
    with pytest.raises(Invalid) as caught:
        await service.create(JOBS, "default", job_body("j", **spec), OPTIONS)
    assert field in caught.value.message
    assert any(cause["field"].startswith(field) for cause in caught.value.details["causes"])
    assert await names(service, JOBS) == []


async def test_dry_run_answers_everything_but_stores_nothing(service):
    before = service.store.revision
    written = await service.create(JOBS, "default", job_body("j"), DRY)
    job = value(written.object)
    assert job["metadata"]["uid"]
    assert "resourceVersion" not in job["metadata"]
    assert job["spec"]["queue"] == "default"
    assert service.store.revision == before
    with pytest.raises(NotFound):
        await service.get(JOBS, "default", "j")


async def test_alias_versions_are_answered_as_asked_and_stored_once(service):
    written = await service.create(V1BETA1, "default", job_body("j", version="v1beta1"), OPTIONS)
    assert value(written.object)["apiVersion"] == "batch.volcano.sh/v1beta1"
    assert (await read(service, JOBS, "default", "j"))["apiVersion"] == "batch.volcano.sh/v1alpha1"
    page = await service.list(V1BETA1, "default")
    assert [value(item)["apiVersion"] for item in page.items] == ["batch.volcano.sh/v1beta1"]
    with pytest.raises(ApiError, match="does not match the expected API version"):
        await service.create(JOBS, "default", job_body("k", version="v1beta1"), OPTIONS)


async def test_secret_texts_are_encoded(service):
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    stored = value((await service.create(SECRETS, "default", body, OPTIONS)).object)
    assert stored["data"] == {"a": "Yg=="}
    assert "stringData" not in stored


async def test_namespaces_are_active_and_labelled(service):
    stored = value((await service.create(NAMESPACES, None, namespace_body("team"), OPTIONS)).object)
    assert stored["status"] == {"phase": "Active"}
    assert stored["spec"] == {"finalizers": ["kubernetes"]}
    assert stored["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}


async def test_a_kind_that_is_not_served(service):
    stranger = dataclasses.replace(PODS, plural="strangers", group="example.org")
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await service.get(stranger, "default", "x")
    with pytest.raises(NotFound, match='pods "x" not found'):
        await service.get(PODS, "default", "x")
