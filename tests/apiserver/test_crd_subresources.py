"""Status, scale, selectable fields, watches and tables of user-defined kinds."""

from __future__ import annotations

import asyncio

import pytest

from support.backends import OPTIONS, opened, value
from support.definitions import CRDS, crd, define, obj_schema, version, widget
from support.serving import serving
from unisono.api.kind_families import PYTORCH_JOBS
from unisono.errors import ApiError, Conflict, Invalid, NotFound

SCHEMA = obj_schema(
    spec=obj_schema(
        size={"type": "integer", "maximum": 5}, color={"type": "string", "default": "red"}, on={"type": "boolean"}
    ),
    status=obj_schema(
        phase={"type": "string", "enum": ["A", "B"]}, size={"type": "integer"}, selector={"type": "string"}
    ),
)
SCALE = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.size",
    "labelSelectorPath": ".status.selector",
}
FULL = crd(
    "widgets",
    version(
        schema=SCHEMA,
        subresources={"status": {}, "scale": SCALE},
        selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.on"}],
    ),
)


@pytest.fixture
async def service():
    async with opened() as backend:
        yield backend.service


@pytest.fixture
async def kind(service):
    return await define(service, FULL)


async def change(service, kind, patch, subresource=""):
    return value((await service.patch(kind, "default", "w", patch, "merge", OPTIONS, subresource)).object)


async def test_status_has_its_own_door(service, kind):
    made = value(
        (await service.create(kind, "default", widget(spec={"size": 1}, status={"phase": "A"}), OPTIONS)).object
    )
    assert "status" not in made
    kept = await change(service, kind, {"spec": {"size": 2}, "status": {"phase": "B"}})
    assert "status" not in kept
    assert kept["metadata"]["generation"] == 2
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 4}, "status": {"phase": "B"}}
    reported = await change(service, kind, patch, "status")
    assert (reported["spec"]["size"], reported["status"]) == (2, {"phase": "B"})
    assert reported["metadata"]["generation"] == 2
    assert "labels" not in reported["metadata"]
    with pytest.raises(Invalid, match=r'status\.phase: Unsupported value: "C"'):
        await change(service, kind, {"status": {"phase": "C"}}, "status")


async def test_without_the_subresource_status_is_a_field(service):
    kind = await define(service, crd("widgets", version(schema=SCHEMA)))
    made = value((await service.create(kind, "default", widget(status={"phase": "A"}), OPTIONS)).object)
    assert made["status"] == {"phase": "A"}
    changed = await change(service, kind, {"status": {"phase": "B"}})
    assert changed["metadata"]["generation"] == 2
    for subresource in ("status", "scale"):
        with pytest.raises(NotFound):
            await change(service, kind, {}, subresource)


async def test_scale_reads_and_writes_the_paths_of_the_definition(service, kind):
    await service.create(kind, "default", widget(spec={"size": 2}), OPTIONS)
    await change(service, kind, {"status": {"size": 1, "selector": "a=b"}}, "status")
    scale = value(await service.get(kind, "default", "w", "scale"))
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "a=b"}
    scaled = await change(service, kind, {"spec": {"replicas": 4}}, "scale")
    assert scaled["spec"] == {"replicas": 4}
    assert value(await service.get(kind, "default", "w"))["spec"] == {"size": 4, "color": "red"}
    written = await service.update(kind, "default", "w", {**scaled, "spec": {"replicas": 3}}, OPTIONS, "scale")
    assert value(written.object)["spec"] == {"replicas": 3}
    with pytest.raises(Conflict):
        await service.update(kind, "default", "w", {**scaled, "spec": {"replicas": 5}}, OPTIONS, "scale")


async def test_built_in_kinds_with_a_scale_are_scaled_in_the_same_way(service):
    template = {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}
    replicas = {name: {"replicas": 1, "template": template} for name in ("Master", "Worker")}
    body = {
        "apiVersion": PYTORCH_JOBS.api_version,
        "kind": PYTORCH_JOBS.kind,
        "metadata": {"name": "w"},
        "spec": {"pytorchReplicaSpecs": replicas},
    }
    await service.create(PYTORCH_JOBS, "default", body, OPTIONS)
    scaled = await change(service, PYTORCH_JOBS, {"spec": {"replicas": 3}}, "scale")
    assert scaled["spec"] == {"replicas": 3}
    job = value(await service.get(PYTORCH_JOBS, "default", "w"))
    assert [job["spec"]["pytorchReplicaSpecs"][name]["replicas"] for name in ("Master", "Worker")] == [1, 3]


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        (-1, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ("x", 'spec.replicas: Invalid value: "string"'),
        (6, "spec.size in body should be less than or equal to 5"),
    ],
)
async def test_replicas_that_cannot_be(service, kind, replicas, message):
    await service.create(kind, "default", widget(spec={"size": 2}), OPTIONS)
    with pytest.raises(Invalid) as caught:
        await change(service, kind, {"spec": {"replicas": replicas}}, "scale")
    assert message in caught.value.message


async def test_field_selectors_over_the_fields_of_the_definition(service, kind):
    for name, spec in (("a", {"color": "blue"}), ("b", {}), ("c", {"on": True})):
        await service.create(kind, "default", widget(name, spec), OPTIONS)

    async def named(selector):
        page = await service.list(kind, "default", field_selector=selector)
        return [value(item)["metadata"]["name"] for item in page.items]

    assert await named("spec.color=red") == ["b", "c"]
    assert await named("spec.color!=red") == ["a"]
    assert await named("spec.on=true,metadata.name!=a") == ["c"]
    with pytest.raises(ApiError, match=r"field label not supported: spec\.size"):
        await named("spec.size=1")


async def test_watches_end_when_the_definition_changes(service, kind):
    await service.create(kind, "default", widget(spec={"size": 2}), OPTIONS)
    stream = service.watch(kind, "default")
    assert (await anext(stream)).type == "ADDED"
    waiting = asyncio.ensure_future(anext(stream, None))
    await asyncio.sleep(0)
    current = value(await service.get(CRDS, None, "widgets.example.com"))
    current["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "changed"
    await service.update(CRDS, None, "widgets.example.com", current, OPTIONS)
    assert await waiting is None


async def test_discovery_and_openapi_follow_the_definitions(service, tmp_path):
    async with serving(service, tmp_path) as client:
        assert (await client.get("/apis/example.com/v1")).status == 404
        before = (await client.get("/openapi/v3")).json()["paths"]
        await service.create(CRDS, None, FULL, OPTIONS)
        resources = (await client.get("/apis/example.com/v1")).json()["resources"]
        assert [each["name"] for each in resources] == ["widgets", "widgets/scale", "widgets/status"]
        groups = [group["name"] for group in (await client.get("/apis")).json()["groups"]]
        assert groups[-1] == "example.com"
        paths = (await client.get("/openapi/v3")).json()["paths"]
        assert set(paths) - set(before) == {"apis/example.com/v1"}
        schema = (await client.get("/openapi/v3/apis/example.com/v1")).json()["components"]["schemas"]
        widget_schema = schema["com.example.v1.Widget"]
        assert widget_schema["properties"]["spec"]["properties"]["size"] == {"type": "integer", "maximum": 5}
        assert "labels" in widget_schema["properties"]["metadata"]["properties"]


async def test_deprecated_versions_say_so_with_every_answer(service, tmp_path):
    definition = crd("widgets", version("v1"), version("v1beta1", storage=False, deprecated=True))
    await service.create(CRDS, None, definition, OPTIONS)
    async with serving(service, tmp_path) as client:
        answer = await client.get("/apis/example.com/v1beta1/widgets")
        assert "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget" in answer.headers["Warning"]
        assert "Warning" not in (await client.get("/apis/example.com/v1/widgets")).headers
