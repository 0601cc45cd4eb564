"""Claims at the door: the default storage class, and which may grow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from support.backends import opened
from unisono.api.core import PersistentVolumeClaim, StorageClass
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from unisono.errors import ApiError
from unisono.kube.client import Client

DEFAULT = "storageclass.kubernetes.io/is-default-class"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with opened() as backend:
        yield backend.client(field_manager="tests")


async def add_class(client: Client, name: str, *, default: bool = False, grows: bool = False) -> None:
    value = {
        "metadata": {"name": name, "annotations": {DEFAULT: "true"} if default else {}},
        "provisioner": "example.com/disk",
        "allowVolumeExpansion": grows,
    }
    await client.create(STORAGE_CLASSES, msgspec.convert(value, StorageClass))


def claim(**spec: Any) -> PersistentVolumeClaim:
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    value = {"metadata": {"name": "c", "namespace": "default"}, "spec": given | spec}
    return msgspec.convert(value, PersistentVolumeClaim)


@pytest.mark.parametrize(
    ("classes", "asked", "given"),
    [
        ({"a": False}, {}, None),
        ({"a": False, "b": True}, {}, "b"),
        ({"b": True, "a": True}, {}, "a"),
        ({"b": True}, {"storageClassName": ""}, ""),
        ({"b": True}, {"storageClassName": "other"}, "other"),
    ],
)
async def test_a_claim_without_a_class_gets_the_default_one(
    client: Client, classes: dict[str, bool], asked: dict[str, Any], given: str | None
) -> None:
    for name, default in classes.items():
        await add_class(client, name, default=default)
    made = await client.create(PERSISTENT_VOLUME_CLAIMS, claim(**asked))
    assert made.spec.storage_class_name == given


async def resized(client: Client, amount: str) -> PersistentVolumeClaim:
    patch = {"spec": {"resources": {"requests": {"storage": amount}}}}
    return await client.patch(PERSISTENT_VOLUME_CLAIMS, "c", patch, namespace="default")


async def bound(client: Client) -> None:
    patch = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    await client.patch(PERSISTENT_VOLUME_CLAIMS, "c", patch, namespace="default", subresource="status")


async def test_only_claims_of_classes_that_allow_it_grow(client: Client) -> None:
    await add_class(client, "fixed")
    await client.create(PERSISTENT_VOLUME_CLAIMS, claim(storageClassName="fixed"))
    await bound(client)
    with pytest.raises(ApiError, match="only dynamically provisioned pvc can be resized"):
        await resized(client, "2Gi")


async def test_bound_claims_grow_and_never_shrink(client: Client) -> None:
    await add_class(client, "grows", grows=True)
    await client.create(PERSISTENT_VOLUME_CLAIMS, claim(storageClassName="grows"))
    with pytest.raises(ApiError, match="spec is immutable after creation except"):
        await resized(client, "2Gi")
    await bound(client)
    assert ((await resized(client, "2Gi")).spec.resources.requests or {})["storage"] == "2Gi"
    with pytest.raises(ApiError, match="field can not be less than status"):
        await resized(client, "512Mi")


async def test_the_class_of_a_claim_comes_once(client: Client) -> None:
    await client.create(PERSISTENT_VOLUME_CLAIMS, claim())
    for name, refused in (("a", False), ("b", True)):
        patch = {"spec": {"storageClassName": name}}
        if refused:
            with pytest.raises(ApiError, match="spec is immutable"):
                await client.patch(PERSISTENT_VOLUME_CLAIMS, "c", patch, namespace="default")
        else:
            await client.patch(PERSISTENT_VOLUME_CLAIMS, "c", patch, namespace="default")
