"""List: order, selection, pages of one snapshot."""

from __future__ import annotations

import asyncio
import base64

import pytest

from support.backends import DELETE, OPTIONS, Wall, config_map, names, opened, pod_body, settle, value
from unisono.api.kinds import CONFIG_MAPS, NAMESPACES, PODS
from unisono.apiserver.operations import reads
from unisono.apiserver.storage.objects import Retention
from unisono.errors import ApiError, Gone, Unavailable


@pytest.fixture
async def service():
    async with opened() as backend:
        service = backend.service
        for name in ("b", "a", "c"):
            await service.create(CONFIG_MAPS, "default", config_map(name, labels={"name": name, "all": "yes"}), OPTIONS)
        await service.create(CONFIG_MAPS, "kube-public", config_map("z", "kube-public"), OPTIONS)
        await settle(backend)  # housekeeping writes too
        yield service


async def test_order_and_scope(service):
    assert await names(service, CONFIG_MAPS) == ["a", "b", "c", "z"]
    assert await names(service, CONFIG_MAPS, "default") == ["a", "b", "c"]
    assert await names(service, CONFIG_MAPS, "nowhere") == []
    page = await service.list(CONFIG_MAPS, "default")
    assert (page.resource_version, page.continue_token, page.remaining) == (service.store.revision, "", None)


@pytest.mark.parametrize(
    ("labels", "fields", "expected"),
    [
        ("all=yes", "", ["a", "b", "c"]),
        ("name in (a,c)", "", ["a", "c"]),
        ("!all", "", ["z"]),
        ("", "metadata.name=b", ["b"]),
        ("", "metadata.name!=b,metadata.namespace=default", ["a", "c"]),
        ("name=a", "metadata.name=b", []),
        ("", "metadata.name=nobody", []),
    ],
)
async def test_selectors(service, labels, fields, expected):
    assert await names(service, CONFIG_MAPS, label_selector=labels, field_selector=fields) == expected


async def test_a_name_pinned_in_a_namespace(service):
    assert await names(service, CONFIG_MAPS, "default", field_selector="metadata.name=b") == ["b"]
    assert await names(service, CONFIG_MAPS, "default", field_selector="metadata.name=z") == []
    assert await names(service, NAMESPACES, field_selector="metadata.name=default") == ["default"]


async def test_fields_of_pods(service):
    await service.create(PODS, "default", pod_body("p"), OPTIONS)
    await service.create(PODS, "default", pod_body("q", spec_nodeName="n1"), OPTIONS)
    for fields, expected in (
        ("spec.nodeName=n1", ["q"]),
        ("spec.nodeName=", ["p"]),
        ("spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed", ["q"]),
        ("spec.hostNetwork=false,status.phase==Pending", ["p", "q"]),
    ):
        assert await names(service, PODS, field_selector=fields) == expected


@pytest.mark.parametrize(
    ("selectors", "message"),
    [
        ({"label_selector": "a===b"}, "unable to parse requirement: found '=', expected: identifier"),
        ({"field_selector": "spec.foo=1"}, "field label not supported: spec.foo"),
        ({"field_selector": "metadata.name"}, "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ({"resource_version": "abc"}, "resourceVersion: Invalid value"),
        ({"continue_token": "%%%"}, "invalid continue token"),
        ({"continue_token": base64.b64encode(b"{}").decode()}, "invalid continue token"),
    ],
)
async def test_bad_parameters(service, selectors, message):
    with pytest.raises(ApiError) as caught:
        await service.list(CONFIG_MAPS, "default", **selectors)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert message in caught.value.message


async def test_pages_show_one_snapshot(service):
    first = await service.list(CONFIG_MAPS, None, limit=2)
    assert [value(item)["metadata"]["name"] for item in first.items] == ["a", "b"]
    assert first.remaining == 2
    await service.create(CONFIG_MAPS, "default", config_map("bb"), OPTIONS)
    await service.patch(CONFIG_MAPS, "default", "c", {"data": {"new": "yes"}}, "merge", OPTIONS)
    second = await service.list(CONFIG_MAPS, None, limit=1, continue_token=first.continue_token)
    third = await service.list(CONFIG_MAPS, None, limit=5, continue_token=second.continue_token)
    found = [value(item) for item in (*second.items, *third.items)]
    assert [item["metadata"]["name"] for item in found] == ["c", "z"]
    assert "data" not in found[0] or "new" not in found[0]["data"]
    assert first.resource_version == second.resource_version == third.resource_version
    assert (second.remaining, third.remaining, third.continue_token) == (1, None, "")


async def test_pages_with_selectors_do_not_count_the_rest(service):
    page = await service.list(CONFIG_MAPS, "default", label_selector="all=yes", limit=1)
    assert page.continue_token
    assert page.remaining is None
    with pytest.raises(ApiError, match="it belongs to another list"):
        await service.list(CONFIG_MAPS, "default", limit=1, continue_token=page.continue_token)


@pytest.mark.parametrize(
    ("selector", "limit", "pages"),
    [
        pytest.param({"label_selector": "name=a"}, 1, [["a"], []], id="full, and others behind it"),
        pytest.param({"label_selector": "name=c"}, 1, [["c"]], id="full, and nothing behind it"),
        pytest.param({"label_selector": "name=a"}, 2, [["a"]], id="not full"),
        pytest.param({"label_selector": "name in (a,b)"}, 1, [["a"], ["b"], []], id="several"),
        pytest.param({"field_selector": "metadata.name=a"}, 1, [["a"]], id="one name"),
        pytest.param({"label_selector": "name=none"}, 1, [[]], id="nothing"),
        pytest.param({}, 3, [["a", "b", "c"]], id="without selectors"),
    ],
)
async def test_a_full_page_ends_the_search(service, selector, limit, pages):
    found, token = [], ""
    while not found or token:
        page = await service.list(CONFIG_MAPS, "default", limit=limit, continue_token=token, **selector)
        found.append([value(item)["metadata"]["name"] for item in page.items])
        token = page.continue_token
        # What comes meanwhile is not in the pages of a list that was begun.
        await service.create(CONFIG_MAPS, "default", config_map(f"b{len(found)}", labels={"name": "a"}), OPTIONS)
    assert found == pages


def test_snapshots_are_few_and_short_lived():
    clock = Wall(0.0)
    snapshots = reads.Snapshots(clock)
    for revision in range(100):
        snapshots.keep("q", revision, (), None)
    assert snapshots.find("q", 0) is None
    assert snapshots.find("q", 99) == ((), None)
    clock.now = 301.0
    assert snapshots.find("q", 99) is None


async def test_an_expired_page(service):
    page = await service.list(CONFIG_MAPS, "default", limit=1)
    for _ in range(40):
        await service.create(CONFIG_MAPS, "default", config_map(f"x{service.store.revision}"), OPTIONS)
        await service.list(CONFIG_MAPS, "default", limit=1)
    with pytest.raises(Gone, match="start a new list without the continue parameter") as caught:
        await service.list(CONFIG_MAPS, "default", limit=1, continue_token=page.continue_token)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


async def test_a_version_of_the_future(service, monkeypatch):
    monkeypatch.setattr(reads, "_WAIT_FOR_REVISION", 0.0)
    with pytest.raises(Unavailable, match="Too large resource version") as caught:
        await service.list(CONFIG_MAPS, "default", resource_version="999999")
    assert (caught.value.code, caught.value.reason) == (504, "Timeout")
    assert caught.value.details["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert caught.value.retry_after == 1.0


async def test_a_version_that_is_on_its_way_is_waited_for(service):
    writing = service.create(CONFIG_MAPS, "default", config_map("late"), OPTIONS)
    listing = service.list(CONFIG_MAPS, "default", resource_version=str(service.store.revision + 1))
    page, _ = await asyncio.gather(listing, writing)
    assert "late" in [value(item)["metadata"]["name"] for item in page.items]


async def test_an_exact_list_shows_what_was(service):
    then = service.store.revision
    await service.create(CONFIG_MAPS, "default", config_map("d", labels={"all": "yes"}), OPTIONS)
    await service.patch(CONFIG_MAPS, "default", "a", {"metadata": {"labels": {"all": "no"}}}, "merge", OPTIONS)
    await service.delete(CONFIG_MAPS, "default", "b", DELETE)
    assert await names(service, CONFIG_MAPS, "default") == ["a", "c", "d"]
    past = {"resource_version": str(then), "exact": True}
    assert await names(service, CONFIG_MAPS, "default", **past) == ["a", "b", "c"]
    assert await names(service, CONFIG_MAPS, "default", label_selector="all=yes", **past) == ["a", "b", "c"]
    assert await names(service, CONFIG_MAPS, **past) == ["a", "b", "c", "z"]
    page = await service.list(CONFIG_MAPS, "default", limit=2, **past)
    assert (page.resource_version, len(page.items)) == (then, 2)
    rest = await service.list(CONFIG_MAPS, "default", limit=2, continue_token=page.continue_token)
    assert [value(item)["metadata"]["name"] for item in rest.items] == ["c"]
    assert rest.resource_version == then


async def test_an_exact_list_of_a_forgotten_moment_is_gone():
    retention = Retention(events=2, seconds=0, max_bytes=0)
    async with opened(retention=retention) as backend:
        for index in range(9):
            await backend.service.create(CONFIG_MAPS, "default", config_map(f"c{index}"), OPTIONS)
        with pytest.raises(Gone, match="too old resource version: 1 ") as caught:
            await backend.service.list(CONFIG_MAPS, "default", resource_version="1", exact=True)
        assert (caught.value.code, caught.value.reason) == (410, "Expired")
