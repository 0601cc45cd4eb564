"""Watch: order, selection, bookmarks, expiry, restart."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from support.backends import DELETE, OPTIONS, config_map, job_body, opened, pod_body, value
from unisono.api.kinds import CONFIG_MAPS, JOBS, PODS
from unisono.apiserver.operations import reads
from unisono.apiserver.storage.objects import Retention
from unisono.errors import ApiError, Gone


@pytest.fixture
async def service():
    async with opened() as backend:
        yield backend.service


async def create(service, name, namespace="default", **meta):
    await service.create(CONFIG_MAPS, namespace, config_map(name, namespace, **meta), OPTIONS)


async def patch(service, name, change):
    await service.patch(CONFIG_MAPS, "default", name, change, "merge", OPTIONS)


async def seen(stream, count):
    """The next ``count`` events as (type, name)."""
    found = []
    async with asyncio.timeout(300):
        while len(found) < count:
            event = await anext(stream)
            found.append((event.type, value(event.object)["metadata"].get("name")))
    return found


def now(service):
    return str(service.store.revision)


async def test_changes_after_a_version_in_order(service):
    since = now(service)
    await create(service, "a")
    await patch(service, "a", {"data": {"x": "1"}})
    await create(service, "b", "kube-public")
    await service.delete(CONFIG_MAPS, "default", "a", DELETE)
    stream = service.watch(CONFIG_MAPS, None, resource_version=since)
    expected = [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert await seen(stream, 4) == expected
    stream = service.watch(CONFIG_MAPS, "default", resource_version=since)
    assert await seen(stream, 3) == [one for one in expected if one[1] == "a"]


async def test_the_last_event_of_an_object_has_the_version_of_its_deletion(service):
    await create(service, "a")
    since = now(service)
    stream = service.watch(CONFIG_MAPS, "default", resource_version=since)
    await service.delete(CONFIG_MAPS, "default", "a", DELETE)
    event = await anext(stream)
    assert event.type == "DELETED"
    assert value(event.object)["metadata"]["resourceVersion"] == str(event.resource_version)
    assert int(since) < event.resource_version <= int(now(service))  # housekeeping may write beside it


async def test_a_watch_waits_for_what_comes(service):
    stream = service.watch(CONFIG_MAPS, "default", resource_version=now(service))
    waiting = asyncio.ensure_future(seen(stream, 1))
    await asyncio.sleep(0)
    await create(service, "a")
    assert await waiting == [("ADDED", "a")]


@pytest.mark.parametrize("version", ["", "0"])
async def test_without_a_version_the_present_objects_come_first(service, version):
    await create(service, "b")
    await create(service, "a")
    stream = service.watch(CONFIG_MAPS, "default", resource_version=version)
    await create(service, "c")
    assert await seen(stream, 3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


async def test_a_list_through_a_watch(service):
    await create(service, "a")
    stream = service.watch(
        CONFIG_MAPS, "default", resource_version=now(service), bookmarks=True, send_initial_events=True
    )
    assert await seen(stream, 1) == [("ADDED", "a")]
    mark = await anext(stream)
    assert mark.type == "BOOKMARK"
    assert value(mark.object) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": now(service),
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    }


async def test_selectors_turn_updates_into_appearances(service):
    since = now(service)
    await create(service, "a", labels={"x": "no"})
    await patch(service, "a", {"metadata": {"labels": {"x": "yes"}}})
    await patch(service, "a", {"data": {"k": "v"}})
    await patch(service, "a", {"metadata": {"labels": {"x": "no"}}})
    await patch(service, "a", {"data": {"k": "w"}})
    await patch(service, "a", {"metadata": {"labels": {"x": "yes"}}})
    await service.delete(CONFIG_MAPS, "default", "a", DELETE)
    stream = service.watch(CONFIG_MAPS, "default", resource_version=since, label_selector="x=yes")
    types = [kind for kind, _ in await seen(stream, 5)]
    assert types == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]


async def test_field_selectors_follow_the_object(service):
    await service.create(PODS, "default", pod_body("p"), OPTIONS)
    stream = service.watch(PODS, None, resource_version=now(service), field_selector="spec.nodeName=n1")
    await service.bind("default", "p", {"target": {"name": "n1"}}, OPTIONS)
    await service.patch(PODS, "default", "p", {"status": {"phase": "Running"}}, "merge", OPTIONS, "status")
    assert await seen(stream, 2) == [("ADDED", "p"), ("MODIFIED", "p")]


async def test_time_out_ends_the_stream_with_a_bookmark(service):
    await create(service, "a")
    stream = service.watch(CONFIG_MAPS, "default", resource_version=now(service), timeout_seconds=0.0, bookmarks=True)
    events = [event async for event in stream]
    assert [event.type for event in events] == ["BOOKMARK"]
    assert events[0].resource_version == service.store.revision
    plain = service.watch(CONFIG_MAPS, "default", resource_version="0", timeout_seconds=0.0)
    assert [event.type async for event in plain] == ["ADDED"]


async def test_bookmarks_on_a_quiet_stream(service, monkeypatch):
    monkeypatch.setattr(reads, "BOOKMARK_SECONDS", 0.001)
    stream = service.watch(CONFIG_MAPS, "default", resource_version=now(service), bookmarks=True)
    first = await anext(stream)
    await service.create(PODS, "default", pod_body("p"), OPTIONS)
    while (event := await anext(stream)).resource_version == first.resource_version:
        pass
    assert event.type == "BOOKMARK"
    assert event.resource_version == service.store.revision, "it tells of other kinds' progress too"


async def test_bad_selectors_fail_at_the_call(service):
    with pytest.raises(ApiError, match="field label not supported"):
        service.watch(CONFIG_MAPS, "default", field_selector="spec.x=1")


async def test_aliases_see_their_version(service):
    alias = dataclasses.replace(JOBS, version="v1beta1")
    stream = service.watch(alias, "default", resource_version=now(service))
    await service.create(JOBS, "default", job_body("j"), OPTIONS)
    assert value((await anext(stream)).object)["apiVersion"] == "batch.volcano.sh/v1beta1"


async def test_too_old_a_version():
    async with opened(retention=Retention(events=10, seconds=0)) as backend:
        service = backend.service
        await create(service, "a")
        old = now(service)
        for i in range(40):
            await patch(service, "a", {"data": {"n": str(i)}})
        stream = service.watch(CONFIG_MAPS, "default", resource_version=old)
        with pytest.raises(Gone) as caught:
            await anext(stream)
        assert (caught.value.code, caught.value.reason) == (410, "Expired")
        assert caught.value.message.startswith(f"too old resource version: {old} (")


async def test_a_consumer_that_is_too_slow_is_told_and_holds_no_memory():
    async with opened(retention=Retention(events=10, seconds=0)) as backend:
        service = backend.service
        await create(service, "a")
        stream = service.watch(CONFIG_MAPS, "default", resource_version="0")
        assert await seen(stream, 1) == [("ADDED", "a")]
        for i in range(60):
            await patch(service, "a", {"data": {"n": str(i)}})
        assert len(service.store.history(CONFIG_MAPS.resource)) <= 12
        with pytest.raises(Gone):
            await anext(stream)


async def test_watches_go_on_after_a_restart(tmp_path):
    path = tmp_path / "state.db"
    async with opened(path) as backend:
        since = now(backend.service)
        await create(backend.service, "a", labels={"x": "yes"})
        await patch(backend.service, "a", {"metadata": {"labels": {"x": "no"}}})
    async with opened(path) as backend:
        stream = backend.service.watch(CONFIG_MAPS, None, resource_version=since, label_selector="x=yes")
        assert await seen(stream, 2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_closing_the_store_ends_watches():
    async with opened() as backend:
        stream = backend.service.watch(CONFIG_MAPS, "default", resource_version=now(backend.service))
        waiting = asyncio.ensure_future(anext(stream, "end"))
        await asyncio.sleep(0)
        await backend.close()
        assert await waiting == "end"


async def test_two_hundred_watchers_see_the_same(service):
    watches = [service.watch(CONFIG_MAPS, "default", resource_version=now(service)) for _ in range(200)]
    waiting = [asyncio.ensure_future(seen(stream, 20)) for stream in watches]
    await asyncio.gather(*(create(service, f"n{i:02}") for i in range(20)))
    results = await asyncio.gather(*waiting)
    assert all(result == results[0] for result in results)
    assert sorted(name for _, name in results[0]) == [f"n{i:02}" for i in range(20)]
