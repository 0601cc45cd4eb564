"""Conversion webhooks of users' kinds: what is asked and when, what comes of it, and what happens when it fails."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.backends import settle
from support.definitions import CRDS, crd, define, obj_schema, served, version, widget
from support.https_hook import https_hook
from unisono.api.groups.admission_registration import VALIDATING_WEBHOOKS
from unisono.api.kind import Kind
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.access.pki import Authority, utc_now
from unisono.apiserver.backend import Backend
from unisono.apiserver.local import LocalClient
from unisono.apiserver.types import DeleteOptions, WriteOptions
from unisono.errors import ApiError, Conflict, Invalid, NotFound

OPTIONS = WriteOptions(user="ann", field_manager="ann")
WIDGETS = "widgets.example.com"
Document = dict[str, Any]
OLD = obj_schema(spec=obj_schema(size={"type": "string", "pattern": "^[0-9]+x[0-9]+$"}))
NEW = obj_schema(
    spec=obj_schema(
        width={"type": "integer", "maximum": 9}, height={"type": "integer"}, color={"type": "string", "default": "red"}
    )
)


def converted(obj: Document, api_version: str) -> Document:
    """``size: 2x3`` of v1 is ``width: 2, height: 3`` of v2; what v2 has besides goes into an annotation."""
    spec, meta = obj.get("spec") or {}, dict(obj["metadata"])
    notes = dict(meta.pop("annotations", None) or {})
    if api_version == "example.com/v2":
        width, _, height = spec.get("size", "0x0").partition("x")
        found = {"width": int(width), "height": int(height), **json.loads(notes.pop("rest", "{}"))}
    else:
        found = {"size": f"{spec.get('width', 0)}x{spec.get('height', 0)}"}
        notes["rest"] = json.dumps({"color": spec["color"]} if spec.get("color") not in (None, "red") else {})
    if notes.get("rest") == "{}":
        del notes["rest"]
    if notes:
        meta["annotations"] = notes
    return {"apiVersion": api_version, "kind": obj["kind"], "metadata": meta, "spec": found}


class Converter:
    """A conversion webhook in this process; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], str]] = []
        self.meanwhile: Callable[[], Any] | None = None
        self.spoil: Callable[[Document], Document] = lambda review: review

    async def post(self, client: Any, review: Document, seconds: float, view: Any) -> bytes:
        if review["kind"] == "AdmissionReview":
            self.asked.append(([review["request"]["object"]["apiVersion"]], "admission"))
            answer = {"uid": review["request"]["uid"], "allowed": True}
            return json.dumps({**review, "response": answer}).encode()
        request = review["request"]
        self.asked.append(([each["apiVersion"][-2:] for each in request["objects"]], request["desiredAPIVersion"][-2:]))
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            await act()
        objects = [converted(each, request["desiredAPIVersion"]) for each in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        head = {"apiVersion": review["apiVersion"], "kind": "ConversionReview"}
        return json.dumps(self.spoil({**head, "response": response})).encode()


@pytest.fixture
async def backend() -> Any:
    backend = await Backend.open()
    yield backend
    await backend.close()


@pytest.fixture
def converter(backend: Backend) -> Converter:
    converter = Converter()
    backend.service.context.hooks.caller = converter
    return converter


def definition(stored: str = "v2", client: Document | None = None, **fields: Any) -> Document:
    found = crd(
        "widgets",
        version("v1", OLD, storage=stored == "v1"),
        version("v2", NEW, storage=stored == "v2", selectableFields=[{"jsonPath": ".spec.width"}]),
    )
    client = client or {"url": "https://convert.example.com/"}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    found["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook, **fields}
    return found


async def both(backend: Backend, stored: str = "v2") -> tuple[Kind[Any], Kind[Any]]:
    await define(backend.service, definition(stored))
    return served(backend.service.context, at="v1"), served(backend.service.context, at="v2")


def small(name: str = "w", size: str = "2x3", **metadata: Any) -> Document:
    body = widget(name, {"size": size})
    body["metadata"].update(metadata)
    return body


def value(data: bytes) -> Document:
    found: Document = json.loads(data)
    return found


async def raw(backend: Backend, name: str = "w") -> Document:
    entry = backend.store.latest((WIDGETS, "default", name))
    assert entry is not None
    return value(entry.data)


@pytest.mark.parametrize("stored", ["v1", "v2"])
async def test_an_object_is_written_in_one_version_and_read_in_the_other(
    backend: Backend, converter: Converter, stored: str
) -> None:
    service = backend.service
    v1, v2 = await both(backend, stored)
    made = value((await service.create(v1, "default", small(labels={"a": "b"}), OPTIONS)).object)
    assert (made["apiVersion"], made["spec"]) == ("example.com/v1", {"size": "2x3"})
    kept = await raw(backend)
    assert kept["apiVersion"] == f"example.com/{stored}"
    shown = value(await service.get(v2, "default", "w"))
    assert shown["spec"] == {"width": 2, "height": 3, "color": "red"}
    assert shown["metadata"]["labels"] == {"a": "b"}
    for each in (made, kept, shown):
        assert each["metadata"]["uid"] == made["metadata"]["uid"]
        assert each["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_who_uses_the_stored_version_asks_nobody(backend: Backend, converter: Converter) -> None:
    service = backend.service
    _, v2 = await both(backend)
    await service.create(v2, "default", widget(spec={"width": 1}, api="v2"), OPTIONS)
    await service.patch(v2, "default", "w", {"spec": {"width": 2}}, "merge", OPTIONS)
    await service.list(v2, None)
    await service.delete(v2, "default", "w", DeleteOptions())
    assert converter.asked == []


async def test_patches_are_made_in_the_version_of_the_request(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    await service.create(v2, "default", widget(spec={"width": 1, "height": 1, "color": "blue"}, api="v2"), OPTIONS)
    patched = value((await service.patch(v1, "default", "w", {"spec": {"size": "4x5"}}, "merge", OPTIONS)).object)
    assert patched["spec"] == {"size": "4x5"}
    assert patched["metadata"]["generation"] == 2
    # The colour, which v1 does not know, has come through by its annotation.
    assert value(await service.get(v2, "default", "w"))["spec"] == {"width": 4, "height": 5, "color": "blue"}
    again = await service.patch(v1, "default", "w", {"spec": {"size": "4x5"}}, "merge", OPTIONS)
    assert value(again.object) == patched


async def test_updates_and_applies_work_in_both_versions(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    applier = WriteOptions(field_manager="applier")
    await service.patch(v1, "default", "w", small(), "apply", applier)
    current = value(await service.get(v2, "default", "w"))
    current["spec"]["width"] = 7
    await service.update(v2, "default", "w", current, OPTIONS)
    with pytest.raises(Conflict, match="size"):
        other = WriteOptions(field_manager="bob")
        await service.patch(v1, "default", "w", small(size="8x8"), "apply", other)
    changed = await service.patch(v1, "default", "w", small(size="8x8"), "apply", WriteOptions(force=True))
    assert value(changed.object)["spec"] == {"size": "8x8"}
    # Defaults of the storage version are filled in when it is read.
    assert (await raw(backend))["spec"] == {"width": 8, "height": 8}
    assert value(await service.get(v2, "default", "w"))["spec"]["color"] == "red"


async def test_rules_are_those_of_the_version_of_the_request(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    with pytest.raises(Invalid, match=r"spec\.size"):
        await service.create(v1, "default", small(size="big"), OPTIONS)
    with pytest.raises(Invalid, match=r"spec\.width"):
        await service.create(v2, "default", widget(spec={"width": 10}, api="v2"), OPTIONS)
    # As on a real server: what the webhook makes of it is not checked again.
    await service.create(v1, "default", small(size="10x1"), OPTIONS)
    assert value(await service.get(v2, "default", "w"))["spec"]["width"] == 10


async def test_a_list_asks_once_for_all_and_not_again(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    for index in range(3):
        body = widget(f"w{index}", {"width": index, "height": index}, api="v2")
        await service.create(v2, "default", body, OPTIONS)
    page = await service.list(v1, None)
    assert [value(item)["spec"]["size"] for item in page.items] == ["0x0", "1x1", "2x2"]
    assert converter.asked == [(["v2"] * 3, "v1")]
    await service.list(v1, "default")
    assert len(converter.asked) == 1


async def test_long_lists_are_asked_for_in_parts(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    for index in range(5):
        body = widget(f"w{index}", {"width": index}, api="v2")
        body["metadata"]["annotations"] = {"much": "x" * 250_000}
        await service.create(v2, "default", body, OPTIONS)
    assert len((await service.list(v1, None)).items) == 5
    assert [len(objects) for objects, _ in converter.asked] == [4, 1]


async def test_field_selectors_speak_of_the_version_of_the_request(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend, "v1")
    for index in range(3):
        await service.create(v1, "default", small(f"w{index}", f"{index}x1"), OPTIONS)
    page = await service.list(v2, None, field_selector="spec.width=1")
    assert [value(item)["metadata"]["name"] for item in page.items] == ["w1"]
    events = service.watch(v2, None, field_selector="spec.width=2", timeout_seconds=0)
    assert [value(event.object)["metadata"]["name"] async for event in events] == ["w2"]
    gone = await service.delete_collection(v2, None, DeleteOptions(), field_selector="spec.width=1")
    assert [value(item)["spec"]["width"] for item in gone.items] == [1]
    assert [value(item)["metadata"]["name"] for item in (await service.list(v1, None)).items] == ["w0", "w2"]


async def test_watches_show_every_change_in_their_version(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    client = LocalClient(service)
    start = (await client.list(v1)).resource_version
    await service.create(v2, "default", widget(spec={"width": 1}, api="v2"), OPTIONS)
    await service.patch(v2, "default", "w", {"spec": {"width": 2}}, "merge", OPTIONS)
    await service.delete(v2, "default", "w", DeleteOptions())
    events = service.watch(v1, None, resource_version=start, timeout_seconds=0)
    found = [(event.type, value(event.object)["spec"]["size"]) async for event in events]
    assert found == [("ADDED", "1x0"), ("MODIFIED", "2x0"), ("DELETED", "2x0")]


async def test_a_watch_ends_when_the_definition_changes(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, _ = await both(backend)
    events = service.watch(v1, None, resource_version=str(backend.store.revision))
    change = {"spec": {"conversion": {"webhook": {"clientConfig": {"url": "https://other.example.com/"}}}}}
    await service.patch(CRDS, None, WIDGETS, change, "merge", OPTIONS)
    assert [event async for event in events] == []


async def test_deleting_keeps_the_stored_version(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    await service.create(v2, "default", widget(spec={"width": 1}, api="v2", kind="Widget"), OPTIONS)
    await service.patch(v2, "default", "w", {"metadata": {"finalizers": ["example.com/x"]}}, "merge", OPTIONS)
    answer = (await service.delete(v1, "default", "w", DeleteOptions())).object
    assert answer is not None
    assert value(answer)["spec"] == {"size": "1x0"}
    assert value(answer)["metadata"]["deletionTimestamp"]
    kept = await raw(backend)
    assert (kept["apiVersion"], kept["spec"]["width"]) == ("example.com/v2", 1)
    await service.patch(v1, "default", "w", {"metadata": {"finalizers": None}}, "merge", OPTIONS)
    with pytest.raises(NotFound):
        await service.get(v2, "default", "w")


async def test_what_was_stored_before_the_storage_version_moved_is_converted(
    backend: Backend, converter: Converter
) -> None:
    service = backend.service
    v1, _ = await both(backend, "v1")
    await service.create(v1, "default", small(), OPTIONS)
    current = value(await service.get(CRDS, None, WIDGETS))
    current["spec"]["versions"][0]["storage"], current["spec"]["versions"][1]["storage"] = False, True
    await service.update(CRDS, None, WIDGETS, current, OPTIONS)
    v1, v2 = served(service.context, at="v1"), served(service.context, at="v2")
    assert (await raw(backend))["apiVersion"] == "example.com/v1"
    assert value(await service.get(v2, "default", "w"))["spec"] == {"width": 2, "height": 3, "color": "red"}
    await service.patch(v1, "default", "w", {"metadata": {"labels": {"a": "b"}}}, "merge", OPTIONS)
    assert (await raw(backend))["apiVersion"] == "example.com/v2"
    assert value(await service.get(v1, "default", "w"))["spec"] == {"size": "2x3"}


async def test_owners_take_objects_of_old_versions_along(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, _ = await both(backend, "v1")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
    owners = [value((await service.create(CONFIG_MAPS, "default", body, OPTIONS)).object)]
    body["metadata"] = {"name": "other"}
    owners.append(value((await service.create(CONFIG_MAPS, "default", body, OPTIONS)).object))
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]}
        for each in owners
    ]
    await service.create(v1, "default", small(ownerReferences=references), OPTIONS)
    current = value(await service.get(CRDS, None, WIDGETS))
    current["spec"]["versions"][0]["storage"], current["spec"]["versions"][1]["storage"] = False, True
    await service.update(CRDS, None, WIDGETS, current, OPTIONS)
    await service.delete(CONFIG_MAPS, "default", "owner", DeleteOptions())
    await settle(backend)
    kept = await raw(backend)
    assert [each["name"] for each in kept["metadata"]["ownerReferences"]] == ["other"]
    assert kept["spec"] == {"size": "2x3"}
    await service.delete(CONFIG_MAPS, "default", "other", DeleteOptions())
    await settle(backend)
    assert backend.store.latest((WIDGETS, "default", "w")) is None


async def test_a_dry_run_converts_and_stores_nothing(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, _ = await both(backend)
    options = WriteOptions(dry_run=True)
    made = value((await service.create(v1, "default", small(), options)).object)
    assert made["spec"] == {"size": "2x3"}
    assert backend.store.latest((WIDGETS, "default", "w")) is None


async def test_a_patch_is_made_anew_when_somebody_writes_meanwhile(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    await service.create(v2, "default", widget(spec={"width": 1}, api="v2"), OPTIONS)
    await service.get(v1, "default", "w")

    async def label() -> None:
        await service.patch(v2, "default", "w", {"metadata": {"labels": {"by": "other"}}}, "merge", OPTIONS)

    converter.meanwhile = label
    patched = value((await service.patch(v1, "default", "w", {"spec": {"size": "5x5"}}, "merge", OPTIONS)).object)
    assert patched["spec"] == {"size": "5x5"}
    assert patched["metadata"]["labels"] == {"by": "other"}


async def test_two_writers_of_one_new_name_do_not_overwrite_each_other(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)

    async def first() -> None:
        await service.create(v2, "default", widget(spec={"width": 9}, api="v2"), OPTIONS)

    converter.meanwhile = first
    with pytest.raises(ApiError, match="already exists"):
        await service.create(v1, "default", small(), OPTIONS)
    assert (await raw(backend))["spec"]["width"] == 9


async def test_admission_webhooks_see_the_version_of_the_request(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, _ = await both(backend)
    rule = {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"]}
    hook = {
        "name": "one.example.com",
        "clientConfig": {"url": "https://hooks.example.com/"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": VALIDATING_WEBHOOKS.kind,
        "metadata": {"name": "hooks"},
        "webhooks": [hook],
    }
    await service.create(VALIDATING_WEBHOOKS, None, body, OPTIONS)
    await service.create(v1, "default", small(), OPTIONS)
    assert (["example.com/v1"], "admission") in converter.asked


async def test_status_and_scale_go_through_the_webhook(backend: Backend, converter: Converter) -> None:
    service = backend.service
    found = definition("v2")
    schema = obj_schema(spec=obj_schema(width={"type": "integer"}, height={"type": "integer"}))
    scale = {"specReplicasPath": ".spec.width", "statusReplicasPath": ".status.width"}
    found["spec"]["versions"][1].update(schema={"openAPIV3Schema": schema}, subresources={"scale": scale})
    found["spec"]["versions"][0]["storage"], found["spec"]["versions"][1]["storage"] = True, False
    await define(service, found)
    v1, v2 = served(service.context, at="v1"), served(service.context, at="v2")
    await service.create(v1, "default", small(), OPTIONS)
    assert value(await service.get(v2, "default", "w", "scale"))["spec"] == {"replicas": 2}
    written = await service.patch(v2, "default", "w", {"spec": {"replicas": 6}}, "merge", OPTIONS, "scale")
    assert value(written.object)["spec"] == {"replicas": 6}
    assert (await raw(backend))["spec"] == {"size": "6x3"}


def _answer(change: Callable[[Document], None]) -> Callable[[Document], Document]:
    def spoil(review: Document) -> Document:
        change(review["response"])
        return review

    return spoil


def _object(**fields: Any) -> Callable[[Document], Document]:
    return _answer(lambda response: response["convertedObjects"][0].update(fields))


def _metadata(**fields: Any) -> Callable[[Document], Document]:
    return _answer(lambda response: response["convertedObjects"][0]["metadata"].update(fields))


INVALID = "conversion webhook for example.com/v2, Kind=Widget returned invalid converted object at index 0: "
FAILED = "conversion webhook for example.com/v2, Kind=Widget failed: "


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_answer(lambda response: response.update(result={"status": "Failure", "message": "no"})), f"{FAILED}no"),
        (
            _answer(lambda response: response.update(result={})),
            f"{FAILED}response.result.status was '', not 'Success'",
        ),
        (_answer(lambda response: response.update(uid="other")), 'got "other"'),
        (lambda review: {**review, "response": None}, f"{FAILED}no response provided"),
        (lambda review: {**review, "kind": "AdmissionReview"}, "got apiextensions.k8s.io/v1, Kind=AdmissionReview"),
        (_answer(lambda response: response.update(convertedObjects=[])), "returned 0 objects, expected 1"),
        (_answer(lambda response: response.update(convertedObjects=[7])), f"{INVALID}it is no object"),
        (
            _object(apiVersion="example.com/v3"),
            f"{INVALID}invalid groupVersion (expected example.com/v1, received example.com/v3)",
        ),
        (_object(kind="Gadget"), f"{INVALID}invalid kind (expected Widget, received Gadget)"),
        (_object(metadata=None), f"{INVALID}missing metadata in converted object"),
        (_metadata(name="x"), f"{INVALID}must have the same name: w != x"),
        (_metadata(namespace="x"), f"{INVALID}must have the same namespace: default != x"),
        (_metadata(labels={"a": 1}), f"{INVALID}metadata.labels[a] must be a string"),
        (_metadata(labels={"a b": "c"}), f'{INVALID}metadata.labels: Invalid value: "a b"'),
        (_metadata(annotations=[]), f"{INVALID}invalid metadata.annotations of type list in converted object"),
    ],
)
async def test_what_the_webhook_does_wrong_is_told(
    backend: Backend, converter: Converter, spoil: Callable[[Document], Document], message: str
) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    await service.create(v2, "default", widget(spec={"width": 1}, api="v2"), OPTIONS)
    converter.spoil = spoil
    for read in (service.get(v1, "default", "w"), service.list(v1, None)):
        with pytest.raises(ApiError) as failure:
            await read
        assert message in failure.value.message
        assert failure.value.code == 500
    assert value(await service.get(v2, "default", "w"))["spec"]["width"] == 1


async def test_only_labels_and_annotations_are_the_webhooks_to_change(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    await service.create(v2, "default", widget(spec={"width": 1}, api="v2"), OPTIONS)
    converter.spoil = _metadata(finalizers=["x/y"], generation=9, labels={"new": "one"}, resourceVersion="1")
    shown, kept = value(await service.get(v1, "default", "w"))["metadata"], (await raw(backend))["metadata"]
    assert shown["labels"] == {"new": "one"}
    assert {**shown, "labels": None} == {**kept, "labels": None}


async def test_a_write_that_cannot_be_converted_stores_nothing(backend: Backend, converter: Converter) -> None:
    service = backend.service
    v1, v2 = await both(backend)
    converter.spoil = _answer(lambda response: response.update(result={"status": "Failure", "message": "no"}))
    with pytest.raises(ApiError, match=r"conversion webhook for example\.com/v1, Kind=Widget failed: no"):
        await service.create(v1, "default", small(), OPTIONS)
    assert not (await service.list(v2, None)).items


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ({"url": "http://convert.example.com/"}, "'https' is the only allowed URL scheme"),
        ({"url": 7}, "Expected `str"),
        ({}, "exactly one of url or service is required"),
        ({"service": {"name": "s"}}, r"service\.namespace: Required value"),
        ({"url": "https://x/", "caBundle": "?"}, "must be base64"),
    ],
)
async def test_a_webhook_that_cannot_be_asked_is_refused(backend: Backend, client: Document, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        found = definition()
        found["spec"]["conversion"]["webhook"]["clientConfig"] = client
        await define(backend.service, found)


async def test_over_tls_with_the_old_review(backend: Backend, tmp_path: Path) -> None:
    """A real webhook of ``v1beta1``, at a URL, trusted by its caBundle; without the bundle it is not asked."""
    authority = Authority(tmp_path, utc_now())
    reviews = []

    def answer(review: Document) -> Document:
        reviews.append(review["apiVersion"])
        asked = review["request"]
        objects = [converted(each, asked["desiredAPIVersion"]) for each in asked["objects"]]
        return {"result": {"status": "Success"}, "convertedObjects": objects}

    async with https_hook(authority, "127.0.0.1", "/convert", answer) as port:
        url = f"https://127.0.0.1:{port}/convert"
        service = backend.service
        found = definition("v2", {"url": url})
        found["spec"]["conversion"]["webhook"]["conversionReviewVersions"] = ["v3", "v1beta1", "v1"]
        await define(service, found)
        v1, v2 = served(service.context, at="v1"), served(service.context, at="v2")
        body = widget(spec={"width": 1}, api="v2")
        body["metadata"]["annotations"] = {"much": "x" * 250_000}
        await service.create(v2, "default", body, OPTIONS)
        with pytest.raises(ApiError, match=r"conversion webhook for example\.com/v2, Kind=Widget failed: https://"):
            await service.get(v1, "default", "w")
        bundle = base64.b64encode(authority.ca_pem).decode()
        change = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}}
        await service.patch(CRDS, None, WIDGETS, change, "merge", OPTIONS)
        shown = value(await service.get(served(service.context, at="v1"), "default", "w"))
        assert shown["spec"] == {"size": "1x0"}
        assert shown["metadata"]["annotations"]["much"] == "x" * 250_000
        assert reviews == ["apiextensions.k8s.io/v1beta1"]
