"""Large objects of users cost the event loop little: they are read and rendered beside it, and judged in slices."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.backends import OPTIONS, WriteOptions, config_map, names, opened, read, settle
from support.hooks import Hooks, Reply, configure, patched, webhook
from support.serving import WebClient, serving
from unisono.api.base import OwnerReference
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIG_MAPS
from unisono.apiserver import encoding, flow_control, managed_fields
from unisono.apiserver.access.user import AUTHENTICATED
from unisono.apiserver.authorization.authorizer import Authorizer
from unisono.apiserver.backend import Backend
from unisono.apiserver.housekeeping import gc
from unisono.apiserver.http import exchange
from unisono.apiserver.operations import field_owners
from unisono.apiserver.webhooks import review
from unisono.errors import ApiError

PATH = "/api/v1/namespaces/default/configmaps/a"
LARGE = {f"k{number}": "v" * 50 for number in range(2_000)}
SMALL = 50_000
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with opened() as backend:
        yield backend


@pytest.fixture
async def web(backend: Backend, tmp_path: Path) -> AsyncIterator[WebClient]:
    async with serving(backend.service, tmp_path) as client:
        yield client


def body(**data: str) -> bytes:
    return json.dumps(config_map("a") | {"data": data}).encode()


CALLS: dict[str, tuple[ModuleType, str, dict[str, Any]]] = {
    "an update reads the object": (encoding, "read", {"method": "PUT", "data": body(k="w")}),
    "a patch reads the object": (encoding, "read", {"method": "PATCH", "data": b'{"data":{"k":"w"}}', "type": MERGE}),
    "a patch renders the object": (
        field_owners,
        "seen",
        {"method": "PATCH", "data": b'{"data":{"k":"w"}}', "type": MERGE},
    ),
    "an apply reads the object": (encoding, "read", {"method": "PATCH", "data": body(k="w"), "type": APPLY}),
    "an apply reads its owners": (
        field_owners,
        "entries_of",
        {"method": "PATCH", "data": body(k="w"), "type": APPLY},
    ),
    "a deletion reads the object": (encoding, "read", {"method": "DELETE", "data": None}),
    "an answer is written as YAML": (
        exchange,
        "dump",
        {"method": "GET", "data": None, "headers": {"Accept": "application/yaml"}},
    ),
}


@pytest.mark.parametrize("name", CALLS)
async def test_large_objects_are_worked_on_beside_the_event_loop(
    web: WebClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    module, function, call = CALLS[name]
    assert (await web.post(PATH.removesuffix("/a"), body(**LARGE))).status == 201
    where: list[str] = []
    original = getattr(module, function)

    def seen(*arguments: Any, **more: Any) -> Any:
        # The server's own housekeeping reads small objects meanwhile, on the loop.
        if not any(isinstance(each, bytes) and len(each) < SMALL for each in arguments):
            where.append(threading.current_thread().name)
        return original(*arguments, **more)

    monkeypatch.setattr(module, function, seen)
    path = f"{PATH}?fieldManager=me&force=true" if call.get("type") == APPLY else PATH
    more = {key: value for key, value in call.items() if key not in ("method", "data")}
    reply = await web.call(call["method"], path, call["data"], **more)
    assert reply.status == 200, reply.body[:300]
    assert where
    assert all(each.startswith("heavy-request") for each in where)


async def test_large_answers_of_webhooks_are_read_beside_the_event_loop(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[str] = []
    original = review.read

    def seen(*arguments: Any, **more: Any) -> Any:
        where.append(threading.current_thread().name)
        return original(*arguments, **more)

    monkeypatch.setattr(review, "read", seen)
    hooks = Hooks()
    backend.service.context.hooks.caller = hooks
    hooks.replies["one"] = patched({"op": "add", "path": "/data", "value": LARGE})
    await configure(backend, webhook("one", "configmaps"), changing=True)
    await backend.service.create(CONFIG_MAPS, "default", config_map("a"), OPTIONS)
    assert [each.partition("_")[0] for each in where] == ["heavy-request"]


def nested(levels: int) -> Reply:
    value = b"[" * levels + b"]" * levels
    patch = base64.b64encode(b'[{"op":"add","path":"/data","value":' + value + b"}]").decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


@pytest.mark.parametrize("levels", [250, 100_000])
async def test_deep_answers_of_webhooks_are_refused(backend: Backend, levels: int) -> None:
    hooks = Hooks()
    backend.service.context.hooks.caller = hooks
    hooks.replies["one"] = nested(levels)
    await configure(backend, webhook("one", "configmaps"), changing=True)
    with pytest.raises(ApiError, match=r"nested more than 200 levels deep|cannot be read"):
        await backend.service.create(CONFIG_MAPS, "default", config_map("a"), OPTIONS)


async def test_a_large_object_that_is_changed_while_it_is_read_is_read_again(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion is for the object as it is when it is marked."""
    service, original = backend.service, encoding.read
    await service.create(CONFIG_MAPS, "default", config_map("a") | {"data": LARGE}, OPTIONS)
    begun, go = threading.Event(), threading.Event()

    def held(*arguments: Any) -> Any:
        if not begun.is_set() and threading.current_thread() is not threading.main_thread():
            begun.set()
            assert go.wait(60)
        return original(*arguments)

    monkeypatch.setattr(encoding, "read", held)
    loading = asyncio.create_task(service.context.load(CONFIG_MAPS, "default", "a"))
    while not (begun.is_set() or loading.done()):
        await asyncio.sleep(0)
    present = service.store.latest(("configmaps", "default", "a"))
    obj = original(CONFIG_MAPS, present.data)
    obj.data = {"k": "new"}
    await service.context.put(CONFIG_MAPS, obj, present.revision)
    go.set()
    entry, found = await loading
    assert found.data == {"k": "new"}
    assert entry is service.store.latest(entry.key)


def references(number: int, name: Callable[[int], str], kind: str = "ConfigMap") -> list[dict[str, Any]]:
    return [
        {"apiVersion": "v1", "kind": kind, "name": name(each), "uid": f"u{each}", "blockOwnerDeletion": True}
        for each in range(number)
    ]


async def test_an_owner_that_is_named_many_times_is_read_once(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    original = gc.read_meta

    def seen(data: bytes) -> Any:
        reads.append(len(data))
        return original(data)

    await backend.service.create(CONFIG_MAPS, "default", config_map("large") | {"data": LARGE}, OPTIONS)
    await settle(backend)
    monkeypatch.setattr(gc, "read_meta", seen)
    many = config_map("many", ownerReferences=references(1_000, lambda _: "large"))
    await backend.service.create(CONFIG_MAPS, "default", many, OPTIONS)
    await settle(backend)
    assert await names(backend.service, CONFIG_MAPS) == ["large"]
    assert len([size for size in reads if size > 100_000]) < 10


async def test_owners_are_judged_in_slices(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    original = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await original(seconds)

    monkeypatch.setattr(flow_control.asyncio, "sleep", sleep)
    owners = gc._Owners(backend.service.context)
    for number in range(10_000):
        reference = OwnerReference(api_version="v1", kind="ConfigMap", name=f"o{number}", uid="u")
        assert await owners.state(("configmaps", "default", "many"), reference) == "gone"
    assert slept == [0, 0]


async def test_a_dependent_that_changes_while_it_is_judged_is_judged_again(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have got an owner that lives."""
    service = backend.service
    await service.create(CONFIG_MAPS, "default", config_map("owner"), OPTIONS)
    await settle(backend)
    uid = (await read(service, CONFIG_MAPS, "default", "owner"))["metadata"]["uid"]
    original = gc._Owners.state
    adopted: list[str] = []

    async def state(self: Any, key: Any, reference: OwnerReference) -> str:
        found = await original(self, key, reference)
        if not adopted:
            adopted.append(key[2])
            lives = references(1, lambda _: "owner")[0] | {"uid": uid}
            patch = {"metadata": {"ownerReferences": [lives]}}
            await service.patch(CONFIG_MAPS, "default", key[2], patch, "merge", OPTIONS)
        return found

    monkeypatch.setattr(gc._Owners, "state", state)
    lost = config_map("child", ownerReferences=references(1, lambda _: "gone"))
    await service.create(CONFIG_MAPS, "default", lost, OPTIONS)
    await settle(backend)
    assert adopted == ["child"]
    assert await names(service, CONFIG_MAPS) == ["child", "owner"]


RBAC = CLUSTER_ROLES.api_version


@pytest.mark.parametrize("limited", [False, True])
async def test_a_right_on_owners_is_looked_up_once(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, limited: bool
) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]}
        | ({"resourceNames": ["n"]} if limited else {}),
    ]
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}
    await backend.service.create(CLUSTER_ROLES, None, role, OPTIONS)
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "r"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    await backend.service.create(CLUSTER_ROLE_BINDINGS, None, binding, OPTIONS)
    asked: list[Any] = []
    original = Authorizer.decide

    def decide(self: Any, user: Any, action: Any) -> Any:
        asked.append(action)
        return original(self, user, action)

    monkeypatch.setattr(Authorizer, "decide", decide)
    owners = references(500, (lambda _: "n") if limited else (lambda each: f"n{each}"), "Node")
    bob = WriteOptions(user="bob", groups=(AUTHENTICATED,))
    await backend.service.create(CONFIG_MAPS, "default", config_map("a", ownerReferences=owners), bob)
    assert len(asked) <= 4
    refused = config_map("b", ownerReferences=references(1, lambda _: "other", "Namespace"))
    with pytest.raises(ApiError, match='cannot delete namespaces "other"'):
        await backend.service.create(CONFIG_MAPS, "default", refused, bob)


def test_entries_are_compared_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def entries() -> list[managed_fields.ManagerEntry]:
        writers = [managed_fields.FieldManager(f"manager{number}", "Update", "v1") for number in range(500)]
        return [managed_fields.ManagerEntry(writer, "", frozenset({("f:data",)})) for writer in writers]

    compared: list[int] = []
    original = managed_fields.ManagerEntry.__eq__

    def equal(self: Any, other: Any) -> Any:
        compared.append(1)
        return original(self, other)

    before, after = entries(), entries()[::-1]
    monkeypatch.setattr(managed_fields.ManagerEntry, "__eq__", equal)
    obj = CONFIG_MAPS.struct()
    managed = [{"manager": "as it was"}]
    field_owners.set_entries(obj, managed, before, after)
    assert obj.metadata.managed_fields is managed
    assert len(compared) < 1_000
    field_owners.set_entries(obj, managed, before, after[1:])
    assert len(obj.metadata.managed_fields or ()) == 499
