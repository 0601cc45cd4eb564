"""An embedded backend for tests: in memory, on a clock that the test moves, with predictable uids."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from unisono.apiserver.backend import Backend
from unisono.apiserver.operations.service import ObjectService
from unisono.apiserver.storage.store import Change
from unisono.apiserver.types import DeleteOptions, WriteOptions

OPTIONS = WriteOptions()
STRICT = WriteOptions(field_validation="Strict")
DRY = WriteOptions(dry_run=True)
DELETE = DeleteOptions()
NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


class Wall:
    """A wall clock that stands still until it is moved."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def opened(path: Any = ":memory:", **options: Any) -> AsyncIterator[Backend]:
    """A backend that is closed at the end."""
    numbers = itertools.count(1)
    options.setdefault("clock", Wall())
    options.setdefault("new_uid", lambda: f"00000000-0000-4000-8000-{next(numbers):012d}")
    backend = await Backend.open(path, **options)
    try:
        yield backend
    finally:
        await backend.close()


async def settle(backend: Backend) -> None:
    """Wait until every write is visible and housekeeping has nothing left to do."""
    for _ in range(3):  # handing over a commit takes a turn of the loop, in which new work may appear
        while not backend.idle:
            await asyncio.sleep(0)
        await asyncio.sleep(0)


def value(data: bytes | None) -> dict[str, Any]:
    """Decoded JSON."""
    assert data is not None
    found: dict[str, Any] = msgspec.json.decode(data)
    return found


async def read(service: ObjectService, kind: Any, namespace: str | None, name: str) -> dict[str, Any]:
    """One object, decoded."""
    return value(await service.get(kind, namespace, name))


async def names(service: ObjectService, kind: Any, namespace: str | None = None, **options: Any) -> list[str]:
    """Names that a list shows."""
    page = await service.list(kind, namespace, **options)
    return [value(item)["metadata"]["name"] for item in page.items]


def pod_body(name: str = "p", namespace: str = "default", **meta: Any) -> dict[str, Any]:
    """A pod with one container; keywords go to its metadata, ``spec_`` ones to its spec."""
    spec = {key.removeprefix("spec_"): meta.pop(key) for key in list(meta) if key.startswith("spec_")}
    metadata = {"namespace": namespace, **({"name": name} if name else {}), **meta}
    containers = [{"name": "main", "image": "busybox:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def config_map(
    name: str, namespace: str = "default", data: dict[str, str] | None = None, **meta: Any
) -> dict[str, Any]:
    """A ConfigMap."""
    metadata = {"name": name, "namespace": namespace, **meta}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}


def namespace_body(name: str, **meta: Any) -> dict[str, Any]:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **meta}}


def queue_body(name: str, **spec: Any) -> dict[str, Any]:
    """A Queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def group_body(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A PodGroup."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": 1, **spec},
    }


def job_body(name: str, namespace: str = "default", *, version: str = "v1alpha1", **spec: Any) -> dict[str, Any]:
    """A job with one task of two replicas."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}
    return {
        "apiVersion": f"batch.volcano.sh/{version}",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": 2, "tasks": [{"name": "work", "replicas": 2, "template": template}], **spec},
    }


def owner(body: dict[str, Any], *, blocks: bool = False) -> dict[str, Any]:
    """An owner reference to a stored object."""
    found = {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": body["metadata"]["name"],
        "uid": body["metadata"]["uid"],
    }
    return {**found, "blockOwnerDeletion": True} if blocks else found


def put(name: str, expected: int = 0, text: str = "x", namespace: str = "ns", resource: str = "things") -> Change:
    def encode(revision: int) -> bytes:
        return f'{{"metadata":{{"name":"{name}","resourceVersion":"{revision}"}},"text":"{text}"}}'.encode()

    return Change((resource, namespace, name), expected, encode)


def drop(name: str, expected: int) -> Change:
    change = put(name, expected)
    return Change(change.key, expected, change.encode, delete=True)
