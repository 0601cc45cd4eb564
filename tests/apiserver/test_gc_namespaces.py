"""Ending namespaces, and events that are too old."""

from __future__ import annotations

import asyncio

import pytest

from support.backends import (
    DELETE,
    NOW,
    OPTIONS,
    Wall,
    config_map,
    job_body,
    names,
    namespace_body,
    opened,
    pod_body,
    read,
    settle,
    value,
)
from support.virtual_clock import VirtualClock
from unisono.api.kinds import CONFIG_MAPS, EVENTS, JOBS, NAMESPACES, PODS
from unisono.api.times import rfc3339, rfc3339_micro
from unisono.apiserver.housekeeping.gc import NamespaceController
from unisono.apiserver.housekeeping.objects import EVENT_SECONDS, EventExpiry
from unisono.apiserver.types import DeleteOptions
from unisono.errors import ApiError


@pytest.fixture
async def backend():
    async with opened() as backend:
        await fill(backend.service)
        yield backend


async def fill(service):
    await service.create(NAMESPACES, None, namespace_body("team"), OPTIONS)
    for i in range(5):
        await service.create(CONFIG_MAPS, "team", config_map(f"c{i}", "team"), OPTIONS)
    await service.create(JOBS, "team", job_body("j", "team"), OPTIONS)
    await service.create(PODS, "team", pod_body("p", "team"), OPTIONS)


async def test_a_namespace_takes_its_content_along(backend):
    service = backend.service
    await service.create(CONFIG_MAPS, "default", config_map("kept"), OPTIONS)
    deleted = value((await service.delete(NAMESPACES, None, "team", DELETE)).object)
    assert deleted["status"]["phase"] == "Terminating"
    assert deleted["metadata"]["deletionTimestamp"]
    await settle(backend)
    assert "team" not in await names(service, NAMESPACES)
    assert await names(service, CONFIG_MAPS) == ["kept"]
    assert await names(service, JOBS) == await names(service, PODS) == []


async def test_a_running_pod_holds_its_namespace_until_it_has_ended(backend):
    service = backend.service
    await service.bind("team", "p", {"target": {"name": "n"}}, OPTIONS)
    await service.delete(NAMESPACES, None, "team", DELETE)
    await settle(backend)
    pod = await read(service, PODS, "team", "p")
    assert pod["metadata"]["deletionTimestamp"]
    assert (await read(service, NAMESPACES, None, "team"))["status"]["phase"] == "Terminating"
    await service.delete(PODS, "team", "p", DeleteOptions(grace_period_seconds=0))
    await settle(backend)
    assert "team" not in await names(service, NAMESPACES)


async def test_nothing_new_in_an_ending_namespace(backend):
    service = backend.service
    await service.patch(CONFIG_MAPS, "team", "c0", {"metadata": {"finalizers": ["x.org/a"]}}, "merge", OPTIONS)
    await service.delete(NAMESPACES, None, "team", DELETE)
    with pytest.raises(ApiError) as caught:
        await service.create(CONFIG_MAPS, "team", config_map("late", "team"), OPTIONS)
    error = caught.value
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message == (
        'configmaps "late" is forbidden: unable to create new content in namespace team because it is being terminated'
    )
    assert error.details["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace team is being terminated",
            "field": "metadata.namespace",
        }
    ]
    await settle(backend)
    await service.patch(CONFIG_MAPS, "team", "c0", {"metadata": {"finalizers": None}}, "merge", OPTIONS)
    await settle(backend)
    assert "team" not in await names(service, NAMESPACES)


async def test_content_that_raced_with_the_end_goes_too(backend):
    service = backend.service
    creating = service.create(CONFIG_MAPS, "team", config_map("racer", "team"), OPTIONS)
    await asyncio.gather(creating, service.delete(NAMESPACES, None, "team", DELETE))
    await settle(backend)
    assert "team" not in await names(service, NAMESPACES)
    assert await names(service, CONFIG_MAPS) == []


async def test_an_empty_namespace_goes_at_once(backend):
    await backend.service.create(NAMESPACES, None, namespace_body("empty"), OPTIONS)
    await backend.service.delete(NAMESPACES, None, "empty", DELETE)
    await settle(backend)
    assert "empty" not in await names(backend.service, NAMESPACES)


async def test_a_restart_goes_on_with_the_end(tmp_path):
    path = tmp_path / "state.db"
    async with opened(path) as backend:
        await fill(backend.service)
        await next(one for one in backend._controllers if isinstance(one, NamespaceController)).stop()
        await backend.service.delete(NAMESPACES, None, "team", DELETE)
    async with opened(path) as backend:
        await settle(backend)
        assert "team" not in await names(backend.service, NAMESPACES)


def event(name, **times):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
        **times,
    }


async def test_events_live_an_hour_after_they_were_last_seen():
    wall, steady = Wall(), VirtualClock()

    async def at(now: float) -> None:
        await steady.advance(now - wall.now)
        wall.now = now

    async with opened(clock=wall) as backend:
        service = backend.service
        later = NOW + 1000
        series = {"count": 2, "lastObservedTime": rfc3339_micro(later)}
        for body in (
            event("created"),
            event("repeated", lastTimestamp=rfc3339(later)),
            event("micro", eventTime=rfc3339_micro(later), reportingComponent="c", reportingInstance="i", action="a"),
            event("series", series=series),
        ):
            await service.create(EVENTS, "default", body, OPTIONS)
        expiry = EventExpiry(service.context, clock=steady)
        await at(NOW + EVENT_SECONDS - 1)
        assert await expiry.sweep() == 0
        await at(NOW + EVENT_SECONDS + 1)
        assert await expiry.sweep() == 1
        assert await names(service, EVENTS) == ["micro", "repeated", "series"]
        await at(later + EVENT_SECONDS + 1)
        assert await expiry.sweep() == 3


@pytest.mark.parametrize("jump", [7200.0, -7200.0, 40 * 86400.0], ids=["forward", "back", "a-long-sleep"])
async def test_a_clock_that_jumps_takes_no_events_with_it(jump):
    wall, steady = Wall(), VirtualClock()
    async with opened(clock=wall) as backend:
        service = backend.service
        expiry = EventExpiry(service.context, clock=steady)

        async def after(seconds: float, jump: float = 0.0) -> int:
            await steady.advance(seconds)
            wall.now += seconds + jump
            return await expiry.sweep()

        await service.create(EVENTS, "default", event("before"), OPTIONS)
        assert await after(600, jump) == 0, "it is ten minutes old, whatever the clock says"
        await service.create(EVENTS, "default", event("after"), OPTIONS)
        assert await after(EVENT_SECONDS - 601) == 0
        await after(EVENT_SECONDS)
        await after(EVENT_SECONDS + 7200)
        assert await names(service, EVENTS) == [], "nor do they stay for ever"
