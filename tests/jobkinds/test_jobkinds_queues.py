"""Access to a queue, wherever a kind of job may name one: embedded API, webhook, and what is shown to the webhook."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import msgspec.inspect
import pytest

from support.backends import OPTIONS, namespace_body, opened, queue_body, value
from support.definitions import crd
from support.job_objects import put, small
from support.virtual_clock import VirtualClock
from unisono.api.annotations import ADMITTED_QUEUES, SUBMITTED, USER
from unisono.api.base import Object, ObjectMeta
from unisono.api.cel.program import compile_expression
from unisono.api.cel.values import Budget
from unisono.api.core import Namespace, PodSpec
from unisono.api.groups.scheduling import Queue, QueueStatus
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, QUEUES
from unisono.apiserver.access.user import AUTHENTICATED
from unisono.apiserver.backend import Backend
from unisono.apiserver.types import WriteOptions
from unisono.errors import ApiError
from unisono.install.admission import naming
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.registry import ALL, FOREIGN
from unisono.webhook.review import check, completed, read
from unisono.webhook.server import Objects

OWNER = WriteOptions(user="owner", groups=(AUTHENTICATED,))
MEMBER = WriteOptions(user="member", groups=("ml", AUTHENTICATED))
OTHER = WriteOptions(user="other", groups=(AUTHENTICATED,))
USERS = {"unisono.io/users": "owner,group:ml"}
EVERY_KIND = pytest.mark.parametrize("kind", ALL, ids=[kind.kind.resource for kind in ALL])


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with opened() as it:
        await it.service.create(NAMESPACES, None, namespace_body("team"), OPTIONS)
        body = queue_body("gold")
        body["metadata"]["annotations"] = USERS
        await it.service.create(QUEUES, None, body, OPTIONS)
        for kind in FOREIGN:
            names = {"group": kind.kind.group, "kind": kind.kind.kind}
            made = crd(kind.kind.plural, **names)
            made["spec"]["versions"][0]["name"] = kind.kind.version
            made["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com"}
            await it.service.create(CUSTOM_RESOURCE_DEFINITIONS, None, made, OPTIONS)
        yield it


def served(backend: Backend, kind: JobKind) -> Any:
    if kind not in FOREIGN:
        return kind.kind
    registry = backend.service.context.custom
    return next(each for each in registry.served() if each.resource == kind.kind.resource)


async def create(backend: Backend, kind: JobKind, body: dict[str, Any], options: WriteOptions) -> dict[str, Any]:
    dry = WriteOptions(user=options.user, groups=options.groups, dry_run=True)
    namespace = body["metadata"].get("namespace")
    return value((await backend.service.create(served(backend, kind), namespace, body, dry)).object)


@EVERY_KIND
async def test_a_queue_is_refused_to_others_wherever_it_is_named(backend: Backend, kind: JobKind) -> None:
    await create(backend, kind, small(kind), OTHER)
    for place in kind.places:
        body = put(small(kind), place, "gold")
        with pytest.raises(ApiError, match=r'queue gold is not for user "other"') as error:
            await create(backend, kind, body, OTHER)
        assert error.value.code == 403, place
        for options in (OWNER, MEMBER):
            made = await create(backend, kind, body, options)
            assert made["metadata"]["annotations"][ADMITTED_QUEUES] == "gold", place


@EVERY_KIND
async def test_what_admission_has_found_is_not_for_authors_to_say(backend: Backend, kind: JobKind) -> None:
    body = put(small(kind), f"metadata.annotations[{ADMITTED_QUEUES}]", "gold")
    made = await create(backend, kind, body, OTHER)
    assert ADMITTED_QUEUES not in (made["metadata"].get("annotations") or {})


@EVERY_KIND
async def test_an_update_names_no_queue_of_others_either(backend: Backend, kind: JobKind) -> None:
    name, namespace = f"u-{kind.kind.plural}", small(kind)["metadata"].get("namespace")
    there = served(backend, kind)
    await backend.service.create(there, namespace, small(kind, name=name), OTHER)
    for field in ("annotations", "labels"):
        note = {"metadata": {field: {"volcano.sh/queue-name": "gold"}}}
        with pytest.raises(ApiError, match=r'queue gold is not for user "other"'):
            await backend.service.patch(there, namespace, name, note, "merge", OTHER)
    forged = {"metadata": {"annotations": {ADMITTED_QUEUES: "gold"}}}
    made = value((await backend.service.patch(there, namespace, name, forged, "merge", OTHER)).object)
    assert ADMITTED_QUEUES not in (made["metadata"].get("annotations") or {})


SERVES = {"unisono.io/serve": "kueue", "unisono.io/local-queues": "own=gold"}
LOCAL = "kueue.x-k8s.io/queue-name"


@EVERY_KIND
async def test_a_local_queue_leads_nobody_into_a_queue_of_others(backend: Backend, kind: JobKind) -> None:
    note = {"metadata": {"annotations": SERVES}}
    await backend.service.patch(NAMESPACES, None, "team", note, "merge", OPTIONS)
    if not small(kind)["metadata"].get("namespace"):
        return
    for place in kind.labelled(LOCAL):
        body = put(small(kind), place, "own")
        with pytest.raises(ApiError, match=r'queue gold is not for user "other"'):
            await create(backend, kind, body, OTHER)
        made = await create(backend, kind, body, MEMBER)
        assert made["metadata"]["annotations"][ADMITTED_QUEUES] == "gold", place
        await create(backend, kind, put(small(kind), place, "none"), OTHER)
    there, name = served(backend, kind), f"l-{kind.kind.plural}"
    await backend.service.create(there, "team", small(kind, name=name), OTHER)
    with pytest.raises(ApiError, match=r'queue gold is not for user "other"'):
        await backend.service.patch(there, "team", name, {"metadata": {"labels": {LOCAL: "own"}}}, "merge", OTHER)


@EVERY_KIND
async def test_nobody_says_that_an_object_is_of_another_user(backend: Backend, kind: JobKind) -> None:
    forged = {"metadata": {"annotations": {USER: "owner"}}}
    body = put(small(kind), f"metadata.annotations[{USER}]", "owner")
    made = await create(backend, kind, body, OTHER)
    assert made["metadata"]["annotations"][USER] == "other"
    there, name, namespace = served(backend, kind), f"f-{kind.kind.plural}", body["metadata"].get("namespace")
    await backend.service.create(there, namespace, small(kind, name=name), OTHER)
    made = value((await backend.service.patch(there, namespace, name, forged, "merge", OTHER)).object)
    assert made["metadata"].get("annotations", {}).get(USER) != "owner"
    after = completed(asked(kind, body, "other"), seen())
    if namespace and kind.kind.resource not in {each.resource for each in SUBMITTED}:
        assert after is not None
        assert after["metadata"]["annotations"][USER] == "other"


def seen() -> Objects:
    gold = Queue(metadata=ObjectMeta(name="gold", annotations=USERS), status=QueueStatus(state="Open"))
    default = Queue(metadata=ObjectMeta(name="default"), status=QueueStatus(state="Open"))
    return Objects(
        {QUEUES: [gold, default], NAMESPACES: [Namespace(metadata=ObjectMeta(name="team", annotations=SERVES))]},
        VirtualClock(),
    )


def asked(kind: JobKind, body: dict[str, Any], user: str, *groups: str) -> Any:
    names = {"group": kind.kind.group, "version": kind.kind.version, "kind": kind.kind.kind}
    where = {"name": body["metadata"]["name"], "namespace": body["metadata"].get("namespace") or ""}
    author = {"username": user, "groups": list(groups)}
    request = {"uid": "u", "kind": names, "operation": "CREATE", "object": body, "oldObject": None, "userInfo": author}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | where}
    return read(json.dumps(review).encode())


@EVERY_KIND
def test_the_webhook_refuses_the_same(kind: JobKind) -> None:
    def no(_request: Any, _queue: str) -> bool:
        return False

    labels = kind.labelled(LOCAL) if small(kind)["metadata"].get("namespace") else ()
    for place, name in (*((each, "gold") for each in kind.places), *((each, "own") for each in labels)):
        body = put(small(kind), place, name)
        answer = check(asked(kind, body, "other"), seen(), may_use=no)["response"]
        assert not answer["allowed"], place
        assert answer["status"]["code"] == 403
        assert 'queue gold is not for user "other"' in answer["status"]["message"]
        question = asked(kind, body, "member", "ml")
        made = completed(question, seen(), no)
        assert made is not None
        assert made["metadata"]["annotations"][ADMITTED_QUEUES] == "gold"
        assert check(asked(kind, made, "member", "ml"), seen(), may_use=no)["response"]["allowed"], place


@EVERY_KIND
def test_the_webhook_is_shown_what_names_a_queue_and_nothing_else(kind: JobKind) -> None:
    shown = compile_expression(naming((kind,))["expression"], frozenset({"object"}))
    assert shown.evaluate({"object": small(kind)}, Budget(1_000_000)) is False
    said = (f"metadata.annotations[{key}]" for key in (ADMITTED_QUEUES, USER))
    for place in (*kind.places, *kind.labelled(LOCAL), *said):
        assert shown.evaluate({"object": put(small(kind), place, "gold")}, Budget(1_000_000)) is True, place


async def test_pods_of_a_controller_are_not_led_by_what_it_writes_on_them(backend: Backend) -> None:
    pod = next(kind for kind in ALL if kind.kind is PODS)
    body = put(small(pod), "metadata.annotations[volcano.sh/queue-name]", "gold")
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "r", "uid": "1", "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    await create(backend, pod, body, OTHER)


def _templates(struct: Any, path: str) -> Iterator[str]:
    """Where a struct has templates: structs with metadata of their own that are no objects."""
    if isinstance(struct, msgspec.inspect.StructType):
        if path and any(_is_of(field.type, ObjectMeta) for field in struct.fields if field.name == "metadata"):
            if not issubclass(struct.cls, Object):
                yield path
            if any(field.name == "spec" and _is_of(field.type, PodSpec) for field in struct.fields):
                return
        for field in struct.fields:
            if field.name not in ("status", "metadata"):
                name = field.encode_name
                yield from _templates(field.type, f"{path}.{name}" if path else name)
    elif isinstance(struct, msgspec.inspect.UnionType):
        for each in struct.types:
            yield from _templates(each, path)
    elif isinstance(struct, msgspec.inspect.ListType):
        yield from _templates(struct.item_type, f"{path}[*]")
    elif isinstance(struct, msgspec.inspect.DictType):
        yield from _templates(struct.value_type, f"{path}.*")
    elif isinstance(struct, msgspec.inspect.Metadata):
        yield from _templates(struct.type, path)


def _is_of(found: Any, struct: type) -> bool:
    return isinstance(found, msgspec.inspect.StructType) and issubclass(found.cls, struct)


@EVERY_KIND
def test_every_template_of_a_struct_is_known(kind: JobKind) -> None:
    if kind.kind is not PODS:
        found = set(_templates(msgspec.inspect.type_info(kind.kind.struct), ""))
        assert found <= {*kind.templates, *kind.inner}
