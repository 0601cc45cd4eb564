"""Events of ``events.k8s.io/v1`` and of core v1 are the same objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.backends import opened
from support.serving import WebClient, serving

CORE = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
MERGE = "application/merge-patch+json"


@pytest.fixture
async def web(tmp_path: Path):
    async with opened() as backend, serving(backend.service, tmp_path) as client:
        yield client


def event(name: str = "e", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": "2026-11-21T10:00:00.000001Z",
        "reportingController": "volcano",
        "reportingInstance": "volcano-0",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "assigned",
        "type": "Normal",
        "deprecatedCount": 2,
        **more,
    }


async def test_written_as_the_one_read_as_the_other(web: WebClient) -> None:
    made = await web.post(NEW, event())
    assert made.status == 201
    assert made.json()["note"] == "assigned"
    core = (await web.get(f"{CORE}/e")).json()
    assert core["apiVersion"] == "v1"
    assert core["involvedObject"] == event()["regarding"]
    assert (core["message"], core["reportingComponent"], core["count"]) == ("assigned", "volcano", 2)
    again = (await web.get(f"{NEW}/e")).json()
    assert {name: again[name] for name in event() if name != "metadata"} == {
        name: value for name, value in event().items() if name != "metadata"
    }
    assert not {"message", "involvedObject", "source"} & again.keys()


async def test_patches_and_updates_speak_the_words_of_their_group(web: WebClient) -> None:
    await web.post(NEW, event())
    patched = (await web.call("PATCH", f"{NEW}/e", {"note": "moved", "series": {"count": 3}}, type=MERGE)).json()
    assert (patched["note"], patched["series"]) == ("moved", {"count": 3})
    updated = await web.call("PUT", f"{NEW}/e", {**patched, "note": "again"})
    assert updated.json()["note"] == "again"
    assert (await web.get(f"{CORE}/e")).json()["message"] == "again"
    strict = await web.post(f"{NEW}?fieldValidation=Strict", event("f", message="core's word"))
    assert strict.status == 400
    assert 'unknown field "message"' in strict.json()["message"]


async def test_lists_watches_and_selectors(web: WebClient) -> None:
    await web.post(NEW, event())
    await web.post(NEW, event("other", regarding={"kind": "Pod", "name": "q", "namespace": "default"}))
    for query in ("regarding.name=q", "regarding.kind=Pod,regarding.name=q", "involvedObject.name=q"):
        listed = (await web.get(f"{NEW}?fieldSelector={query}")).json()
        assert listed["kind"] == "EventList"
        assert listed["apiVersion"] == "events.k8s.io/v1"
        assert [item["metadata"]["name"] for item in listed["items"]] == ["other"]
    watched = (await web.get(f"{NEW}?watch=true&timeoutSeconds=1&fieldSelector=reportingController=volcano")).body
    assert watched.count(b'"note":"assigned"') == 2
    table = await web.get(NEW, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [row["cells"][0] for row in table.json()["rows"]] == ["e", "other"]
    deleted = await web.call("DELETE", f"{NEW}?fieldSelector=regarding.name=q")
    assert [item["metadata"]["name"] for item in deleted.json()["items"]] == ["other"]
    assert [item["metadata"]["name"] for item in (await web.get(CORE)).json()["items"]] == ["e"]


async def test_discovery_names_both_groups_core_first(web: WebClient) -> None:
    found = (await web.get("/apis/events.k8s.io/v1")).json()
    assert [resource["name"] for resource in found["resources"]] == ["events"]
    document = (await web.get("/openapi/v3/apis/events.k8s.io/v1")).json()
    assert "regarding" in document["components"]["schemas"]["io.k8s.api.events.v1.Event"]["properties"]
