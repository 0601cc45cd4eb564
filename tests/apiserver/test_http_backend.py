"""The server over the real store: what only shows when both work together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.serving import TABLE, WebClient, serving
from unisono.api.core import ConfigMap
from unisono.api.kind import Kind
from unisono.api.kinds import ALL_KINDS, CONFIG_MAPS
from unisono.apiserver.backend import Backend
from unisono.apiserver.storage.database import Database
from unisono.apiserver.storage.files import DiskFullError
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load

CM = "/api/v1/namespaces/default/configmaps"
VCJOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


@asynccontextmanager
async def running(data_dir: Path) -> AsyncIterator[WebClient]:
    backend = await Backend.open()
    try:
        async with serving(backend.service, data_dir) as client:
            yield client
    finally:
        await backend.close()


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[WebClient]:
    async with running(tmp_path) as client:
        yield client


def config_map(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


def job(version: str = "v1alpha1", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": f"batch.volcano.sh/{version}",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": [{"name": "t", "replicas": 1, "template": template}], **spec},
    }


async def test_a_full_disk_is_told_at_once_and_costs_nothing_but_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, apply = [True], Database.apply

    def applied(disk: Database, events: Any, **options: Any) -> None:
        if not room[0]:
            raise DiskFullError("no room is left on the disk of /data/state.db")
        apply(disk, events, **options)

    monkeypatch.setattr(Database, "apply", applied)
    async with running(tmp_path) as web:
        assert (await web.post(CM, config_map("before"))).status == 201
        room[0] = False
        refused = await web.post(CM, config_map("while"))
        assert (refused.status, refused.json()["reason"]) == (507, "InsufficientStorage")
        assert "no room is left on the disk of /data/state.db; free disk space there" in refused.json()["message"]
        assert "Retry-After" not in refused.headers, "clients would keep their users waiting"
        assert (await web.call("DELETE", f"{CM}/before")).status == 507
        assert (await web.get(f"{CM}/before")).status == 200
        assert (await web.get(f"{CM}/while")).status == 404
        room[0] = True
        assert (await web.post(CM, config_map("while"))).status == 201


async def test_life_of_an_object(web: WebClient) -> None:
    created = await web.post(CM, config_map("a", data={"k": "1"}))
    assert created.status == 201
    assert created.json()["metadata"]["uid"]
    again = await web.post(CM, config_map("a"))
    assert (again.status, again.json()["message"]) == (409, 'configmaps "a" already exists')
    stale = created.json()
    fresh = await web.call("PUT", f"{CM}/a", {**stale, "data": {"k": "2"}})
    assert (fresh.status, fresh.json()["data"]) == (200, {"k": "2"})
    conflict = await web.call("PUT", f"{CM}/a", stale)
    assert (conflict.status, conflict.json()["reason"]) == (409, "Conflict")
    merged = await web.call("PATCH", f"{CM}/a", {"data": {"k": None}}, type="application/merge-patch+json")
    assert merged.status == 200
    gone = await web.call("DELETE", f"{CM}/a")
    assert (gone.json()["status"], gone.json()["details"]["uid"]) == ("Success", stale["metadata"]["uid"])
    missing = await web.get(f"{CM}/a")
    assert (missing.status, missing.json()["details"]) == (404, {"name": "a", "kind": "configmaps"})


async def test_typed_clients_need_not_name_the_kind(web: WebClient) -> None:
    created = await web.post(CM, {"metadata": {"name": "a"}})
    assert (created.status, created.json()["apiVersion"], created.json()["kind"]) == (201, "v1", "ConfigMap")
    assert (await web.call("PUT", f"{CM}/a", {"metadata": {"name": "a"}, "data": {}})).status == 200
    assert (await web.post(VCJOBS, {"metadata": {"name": "j"}, "spec": job()["spec"]})).status == 400
    assert (await web.post(CM, {"kind": "Secret", "metadata": {"name": "b"}})).status == 400


async def test_a_list_and_the_watch_after_it_miss_nothing(web: WebClient) -> None:
    await web.post(CM, config_map("a"))
    version = (await web.get(CM)).json()["metadata"]["resourceVersion"]
    await web.post(CM, config_map("b"))
    async with web.open("GET", f"{CM}?watch=1&resourceVersion={version}") as answer:
        assert json.loads(await answer.content.readline())["object"]["metadata"]["name"] == "b"
        await web.call("DELETE", f"{CM}/a")
        event = json.loads(await answer.content.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "a")


async def test_pages_show_one_snapshot(web: WebClient) -> None:
    for index in range(5):
        await web.post(CM, config_map(f"c{index}"))
    first = (await web.get(f"{CM}?limit=2")).json()
    await web.call("DELETE", f"{CM}/c4")
    token = first["metadata"]["continue"]
    # Every namespace gets a ConfigMap of the cluster besides.
    assert first["metadata"]["remainingItemCount"] in (3, 4)
    second = (await web.get(CM, params={"limit": "9", "continue": token}, accept=TABLE)).json()
    assert [row["cells"][0] for row in second["rows"]][:3] == ["c2", "c3", "c4"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert (await web.get(CM, params={"limit": "2", "continue": "nonsense"})).status == 400


async def test_watch_list(web: WebClient) -> None:
    await web.post(CM, config_map("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with web.open("GET", f"{CM}?{query}&fieldSelector=metadata.name%3Da") as answer:
        assert json.loads(await answer.content.readline())["type"] == "ADDED"
        bookmark = json.loads(await answer.content.readline())
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_both_versions_of_a_job(web: WebClient) -> None:
    other = VCJOBS.replace("v1alpha1", "v1beta1")
    created = await web.post(other, job("v1beta1"))
    assert (created.status, created.json()["apiVersion"]) == (201, "batch.volcano.sh/v1beta1")
    assert (await web.get(f"{VCJOBS}/j")).json()["apiVersion"] == "batch.volcano.sh/v1alpha1"
    assert (await web.get(other)).json()["items"][0]["apiVersion"] == "batch.volcano.sh/v1beta1"
    assert (await web.post(VCJOBS, job("v1beta1"))).status == 400
    table = (await web.get(other, accept=TABLE)).json()
    assert [column["name"] for column in table["columnDefinitions"]][:3] == ["Name", "STATUS", "minAvailable"]


async def test_unknown_fields(web: WebClient) -> None:
    strict = await web.post(f"{VCJOBS}?fieldValidation=Strict", job(bogus=1))
    assert strict.status == 400
    assert strict.json()["message"] == (
        'Job in version "v1alpha1" cannot be handled as a Job: strict decoding error: unknown field "spec.bogus"'
    )
    warned = await web.post(f"{VCJOBS}?fieldValidation=Warn", job(bogus=1))
    assert (warned.status, warned.headers["Warning"]) == (201, '299 - "unknown field \\"spec.bogus\\""')
    taken = await web.post(f"{VCJOBS}?fieldValidation=Warn", job(bogus=1))
    assert (taken.status, taken.headers["Warning"]) == (409, '299 - "unknown field \\"spec.bogus\\""')


async def test_two_writers_with_one_version(web: WebClient) -> None:
    obj = (await web.post(CM, config_map("a"))).json()
    replies = await asyncio.gather(
        *(web.call("PUT", f"{CM}/a", {**obj, "data": {"k": str(index)}}) for index in range(8))
    )
    assert sorted(reply.status for reply in replies) == [200] + [409] * 7


async def test_the_http_client_of_the_house(web: WebClient) -> None:
    client = HttpClient(load(web.server.kubeconfig_path))
    try:
        obj = ConfigMap(data={"k": "v"})
        obj.metadata.name, obj.metadata.namespace = "a", "default"
        created = await client.create(CONFIG_MAPS, obj)
        listing = await client.list(CONFIG_MAPS, "default")
        assert created.metadata.uid in [item.metadata.uid for item in listing.items]
        await client.patch(CONFIG_MAPS, "a", {"data": {"k": "w"}}, namespace="default")
        async for event in client.watch(CONFIG_MAPS, "default", resource_version=listing.resource_version):
            if event.object.metadata.name == "a":
                assert (event.type, event.object.data) == ("MODIFIED", {"k": "w"})
                break
    finally:
        await client.close()


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.resource)
async def test_every_kind_answers_in_every_form(web: WebClient, kind: Any) -> None:
    for accept in ("application/json", TABLE, "application/yaml", "application/json;as=PartialObjectMetadataList;v=v1"):
        assert (await web.get(kind.path(), accept=accept)).status == 200


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
PARAMETERS = ["labelSelector", "fieldSelector", "limit", "resourceVersion", "continue", "dryRun", "fieldManager"]
PATCHES = ["application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json"]
OTHER_MEDIA = ["application/apply-patch+yaml", "application/vnd.kubernetes.protobuf", "application/yaml", ""]


def sample(kind: Kind[Any], name: str) -> dict[str, Any]:
    """A valid object of a kind."""
    specs: dict[str, Any] = {
        "Job": {"spec": job()["spec"]},
        "ConfigMap": {"data": {"k": "v"}},
        "Pod": {"spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]}},
        "PodGroup": {"spec": {"minMember": 1, "minResources": {"cpu": "1"}}, "status": {"phase": "Pending"}},
        "Queue": {"spec": {"weight": 1, "capability": {"cpu": "4"}}},
        "Node": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "1"}}},
        "Lease": {"spec": {"holderIdentity": "me", "renewTime": "2026-11-20T17:00:00.000000Z"}},
    }
    metadata = {"name": name, "labels": {"a": "b"}, "annotations": {"c": "d"}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **specs.get(kind.kind, {})}


@st.composite
def damaged(draw: st.DrawFn, kind: Kind[Any], name: str) -> Any:
    """A valid object in which one value, at any depth, is another, or one more field stands."""
    obj: Any = sample(kind, name)
    here = obj
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = draw(st.sampled_from(keys))
        if not isinstance(here[key], dict | list) or not here[key] or draw(st.integers(0, 3)) == 0:
            if isinstance(here, dict) and draw(st.booleans()):
                key = draw(st.text(max_size=5))
            here[key] = draw(json_values)
            return obj
        here = here[key]


operations = st.builds(
    lambda op, path, value: {"op": op, "path": path, "value": value, "from": path},
    st.sampled_from(["add", "remove", "replace", "test", "move", "copy", "x"]),
    st.sampled_from(
        ["", "/", "/metadata", "/metadata/name", "/metadata/labels/a", "/spec", "/status/x", "/spec/tasks/0"]
    )
    | st.text(max_size=6),
    json_values,
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, Any, str, Kind[Any]]:
    """Method, path, body, content type, and the kind that is meant."""
    kind = draw(st.sampled_from(ALL_KINDS))
    method = draw(st.sampled_from(["POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "GET"]))
    name = draw(st.sampled_from(["a"] * 9 + ["b", "A b", "%00", "é"]))
    subresource = draw(st.sampled_from([None] * 6 + ["status", "status", "log", "binding"]))
    posts = method == "POST" and subresource != "binding"
    path = kind.path("default" if kind.namespaced else None, *(() if posts else (name, subresource)))
    if draw(st.integers(0, 3)) == 0:
        path += f"?{draw(st.sampled_from(PARAMETERS))}={quote(draw(st.text(max_size=12)), safe='')}"
    media = draw(st.sampled_from(PATCHES)) if method == "PATCH" else "application/json"
    if draw(st.integers(0, 9)) == 0:
        media = draw(st.sampled_from(OTHER_MEDIA))
    body: Any = None
    if method != "GET":
        body = draw(damaged(kind, name) | st.just(sample(kind, name)) | json_values)
        if media == "application/json-patch+json":
            body = draw(st.lists(operations, max_size=3))
    return method, path, body, media, kind


def test_nothing_a_client_sends_breaks_the_server(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        server = running(tmp_path)
        web = runner.run(server.__aenter__())

        async def once(method: str, path: str, body: Any, media: str, kind: Kind[Any]) -> None:
            collection = kind.path("default" if kind.namespaced else None)
            if method not in {"GET", "POST"}:
                await web.post(collection, sample(kind, "a"))
            reply = await web.call(method, path, body, type=media)
            assert reply.status < 500, (reply.status, reply.body)
            assert (await web.get(collection)).json()["items"] is not None
            assert (await web.get(collection, accept=TABLE)).json()["kind"] == "Table"

        @settings(max_examples=examples(200), deadline=None, database=None)
        @given(requests())
        def attack(request: tuple[str, str, Any, str, Kind[Any]]) -> None:
            runner.run(once(*request))

        try:
            attack()
        finally:
            runner.run(server.__aexit__(None, None, None))
