"""No namespace stores more than its share; what is there may go, shrink and run on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends import DELETE, OPTIONS, namespace_body, opened, pod_body, queue_body, settle
from unisono.api.keys import MASTERS, NODES_GROUP
from unisono.api.kinds import CONFIG_MAPS, EVENTS, NAMESPACES, PODS, QUEUES
from unisono.apiserver.admission import Admission, Settings
from unisono.apiserver.storage.objects import Event, NamespaceSizes, StoredEntry
from unisono.errors import ApiError

KIB = 1024
USER = replace(OPTIONS, user="mallory", groups=("system:authenticated",))
MASTER = replace(OPTIONS, user="admin", groups=(MASTERS,))
NODE = replace(OPTIONS, user="system:node:n1", groups=(NODES_GROUP,))


def config_map(name: str, size: int, namespace: str = "default", **meta: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, **meta}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y" * size}}


def event(name: str) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": meta, "involvedObject": about, "reason": "Full"}


@pytest.fixture
async def full():
    """A server whose namespace ``default`` is full; nine maps of 6 KiB, a larger one and a pod are in it."""
    async with opened(admission=Admission(Settings(namespace_bytes=64 * KIB))) as backend:
        service = backend.service
        await service.create(PODS, "default", pod_body("p"), USER)
        for number in range(9):
            await service.create(CONFIG_MAPS, "default", config_map(f"m{number}", 6 * KIB), USER)
        await service.create(CONFIG_MAPS, "default", config_map("last", 10 * KIB), USER)
        assert backend.store.stored_bytes("default") > 64 * KIB
        yield backend


REFUSED = 'configmaps "more" is forbidden: the objects of namespace "default" take 0.0'


@pytest.mark.parametrize("options", [USER, MASTER, NODE], ids=["user", "master", "node"])
async def test_a_full_namespace_takes_nothing_more_and_others_do(full: Any, options: Any) -> None:
    with pytest.raises(ApiError, match="namespace_bytes") as refused:
        await full.service.create(CONFIG_MAPS, "default", config_map("more", 10), options)
    assert refused.value.code == 403
    assert str(refused.value).startswith(REFUSED)
    await full.service.create(NAMESPACES, None, namespace_body("other"), MASTER)
    await full.service.create(CONFIG_MAPS, "other", config_map("more", 10, "other"), USER)
    await full.service.create(QUEUES, None, queue_body("q"), MASTER)


async def test_users_may_shrink_and_delete_but_not_grow(full: Any) -> None:
    grown = {"data": {"x": "y" * (6 * KIB + 1)}}
    with pytest.raises(ApiError, match="namespace_bytes"):
        await full.service.patch(CONFIG_MAPS, "default", "m1", grown, "merge", USER)
    await full.service.patch(CONFIG_MAPS, "default", "m1", {"data": {"x": "z" * 6 * KIB}}, "merge", USER)
    await full.service.patch(CONFIG_MAPS, "default", "m1", {"data": {"x": ""}}, "merge", USER)
    await full.service.create(CONFIG_MAPS, "default", config_map("more", 10), USER)
    await full.service.create(CONFIG_MAPS, "default", config_map("large", 8 * KIB), USER)
    await full.service.delete(CONFIG_MAPS, "default", "large", DELETE)
    await settle(full)
    await full.service.create(CONFIG_MAPS, "default", config_map("again", 10), USER)


async def test_what_runs_there_goes_on(full: Any) -> None:
    status = {"status": {"phase": "Running", "message": "y" * 8 * KIB}}
    await full.service.patch(PODS, "default", "p", status, "merge", NODE, "status")
    await full.service.patch(PODS, "default", "p", {"metadata": {"labels": {"a": "b"}}}, "merge", MASTER)
    await full.service.create(EVENTS, "default", event("e"), MASTER)
    with pytest.raises(ApiError, match="namespace_bytes"):
        await full.service.create(EVENTS, "default", event("of-a-user"), USER)


async def test_sizes_are_known_after_a_restart(tmp_path: Any) -> None:
    async with opened(tmp_path / "db") as backend:
        for number in range(5):
            await backend.service.create(CONFIG_MAPS, "default", config_map(f"m{number}", 6 * KIB), USER)
        await backend.service.delete(CONFIG_MAPS, "default", "m0", DELETE)
        await settle(backend)
        before = backend.store.stored_bytes("default")
    async with opened(tmp_path / "db") as backend:
        assert backend.store.stored_bytes("default") == before > 24 * KIB


SIZES = st.none() | st.integers(1, 50)
CHANGES = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), SIZES), max_size=40)


@given(CHANGES)
def test_sizes_are_the_sum_of_what_is_stored(changes: list[tuple[str, str, int | None]]) -> None:
    sizes, stored = NamespaceSizes(), dict[tuple[str, str], StoredEntry]()
    for revision, (namespace, name, size) in enumerate(changes, 1):
        previous = stored.get((namespace, name))
        if size is None:
            if previous is None:
                continue
            sizes.follow(Event("DELETED", previous, previous, 0.0))
            del stored[namespace, name]
        else:
            entry = StoredEntry("configmaps", namespace, name, revision, b"." * size)
            sizes.follow(Event("MODIFIED" if previous else "ADDED", entry, previous, 0.0))
            stored[namespace, name] = entry
    again = NamespaceSizes()
    again.count(stored.values())
    for namespace in "ab":
        kept = [entry for entry in stored.values() if entry.namespace == namespace]
        assert sizes.of(namespace) == again.of(namespace) == sum(len(entry.data) for entry in kept)
