from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from support.things import THINGS, thing
from support.virtual_clock import VirtualClock
from unisono.api.kind_families import WORKLOAD_POD_GROUPS
from unisono.api.kinds import LIMIT_RANGES, PODS, RESOURCE_CLAIMS
from unisono.errors import AlreadyExists, Conflict, Gone, Invalid, NotFound, Unavailable
from unisono.kube.http import CUT, HttpClient, cut_deep, split_lines
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.transport import Transport

THINGS_PATH = "/apis/example.io/v1/namespaces/default/things"


class Script:
    """A server that answers what the test says and remembers what it was asked."""

    def __init__(self, *answers: web.StreamResponse | Callable[[web.Request], Any]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, dict[str, str], dict[str, str], Any]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(
            (
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                json.loads(body) if body else None,
            )
        )
        answer = self.answers.pop(0)
        return await answer(request) if callable(answer) else answer


@asynccontextmanager
async def serving(script: Script, **config: Any) -> AsyncIterator[tuple[HttpClient, VirtualClock]]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    server = TestServer(app)
    await server.start_server()
    clock = VirtualClock()
    options = {"timeout": 60.0, **config.pop("transport", {})}
    settings = ClusterConfig(server=str(server.make_url("")).rstrip("/"), **config)
    client = HttpClient(settings, transport=Transport(settings, clock=clock, **options))
    try:
        yield client, clock
    finally:
        await client.close()
        await server.close()


def answer(value: Any, status: int = 200, **headers: str) -> web.Response:
    return web.json_response(value, status=status, headers={name.replace("_", "-"): v for name, v in headers.items()})


def failure(code: int, reason: str, message: str, **details: Any) -> web.Response:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return answer({**status, "details": details}, code)


def raw(name: str, version: str = "1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.io/v1",
        "kind": "Thing",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": version},
        "spec": spec,
    }


def lines(*events: Any, cut: bytes = b"") -> Callable[[web.Request], Any]:
    async def send(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            await response.write(json.dumps(event).encode() + b"\n")
        if cut:
            await response.write(cut)
        return response

    return send


async def test_lists_are_read_page_by_page() -> None:
    script = Script(
        answer({"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [raw("a")]}),
        answer({"metadata": {"resourceVersion": "7"}, "items": [raw("b")]}),
    )
    async with serving(script) as (client, _):
        listing = await client.list(THINGS, label_selector="x=y", field_selector="metadata.name=z")
    assert [item.metadata.name for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "7"
    first, second = (asked[2] for asked in script.asked)
    assert first == {"limit": "500", "labelSelector": "x=y", "fieldSelector": "metadata.name=z"}
    assert second["continue"] == "next"


GROUPS = "/apis/scheduling.k8s.io"


def served(*plurals: str) -> web.Response:
    return answer({"kind": "APIResourceList", "resources": [{"name": each} for each in plurals]})


def group(name: str, version: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "resourceVersion": "1"}
    return {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "PodGroup", "metadata": meta, "spec": {}}


async def test_a_server_is_spoken_to_in_the_version_that_it_serves() -> None:
    item = group("a", "v1alpha2")
    del item["apiVersion"], item["kind"]  # as in lists of Kubernetes
    script = Script(
        *(failure(404, "NotFound", "the server could not find the requested resource") for _ in range(3)),
        served("workloads", "podgroups", "podgroups/status"),
        answer({"metadata": {"resourceVersion": "7"}, "items": [item]}),
        lines({"type": "ADDED", "object": group("b", "v1alpha2")}),
        answer(group("a", "v1alpha2")),
    )
    async with serving(script) as (client, _):
        listing = await client.list(WORKLOAD_POD_GROUPS)
        assert [each.api_version for each in listing.items] == ["scheduling.k8s.io/v1alpha2"]
        events = [each async for each in client.watch(WORKLOAD_POD_GROUPS, resource_version="7")]
        assert [each.object.metadata.name for each in events] == ["b"]
        await client.patch(WORKLOAD_POD_GROUPS, "a", {"status": {}}, namespace="default", subresource="status")
    assert [asked[1] for asked in script.asked] == [
        f"{GROUPS}/v1beta1/podgroups",
        f"{GROUPS}/v1beta1",
        f"{GROUPS}/v1alpha3",
        f"{GROUPS}/v1alpha2",
        f"{GROUPS}/v1alpha2/podgroups",
        f"{GROUPS}/v1alpha2/podgroups",
        f"{GROUPS}/v1alpha2/namespaces/default/podgroups/a/status",
    ]


async def test_a_watch_finds_the_version_of_its_server_too_and_a_later_one_after_an_upgrade() -> None:
    unknown = partial(failure, 404, "NotFound", "the server could not find the requested resource")
    script = Script(
        unknown(),
        unknown(),
        served("workloads", "podgroups"),
        lines({"type": "ADDED", "object": group("a", "v1alpha3")}),
        unknown(),
        served("workloads", "podgroups"),
        answer({"metadata": {"resourceVersion": "7"}, "items": [group("a", "v1beta1")]}),
    )
    async with serving(script) as (client, _):
        assert [each.object.metadata.name async for each in client.watch(WORKLOAD_POD_GROUPS, resource_version="")]
        assert len((await client.list(WORKLOAD_POD_GROUPS)).items) == 1
    versions = [asked[1].removeprefix(GROUPS).split("/")[1] for asked in script.asked]
    assert versions == ["v1beta1", "v1beta1", "v1alpha3", "v1alpha3", "v1alpha3", "v1beta1", "v1beta1"]


async def test_a_kind_that_is_served_in_no_version_is_not_found() -> None:
    unknown = partial(failure, 404, "NotFound", "the server could not find the requested resource")
    script = Script(unknown(), served("priorityclasses"), unknown(), unknown())
    async with serving(script) as (client, _):
        with pytest.raises(NotFound):
            await client.list(WORKLOAD_POD_GROUPS)
    assert len(script.asked) == 4


async def test_an_object_that_is_absent_changes_no_version() -> None:
    script = Script(
        failure(404, "NotFound", 'podgroups "a" not found'), served("podgroups"), answer(group("b", "v1beta1"))
    )
    async with serving(script) as (client, _):
        with pytest.raises(NotFound):
            await client.get(WORKLOAD_POD_GROUPS, "a", "default")
        await client.get(WORKLOAD_POD_GROUPS, "b", "default")
    assert script.asked[-1][1] == f"{GROUPS}/v1beta1/namespaces/default/podgroups/b"


async def test_a_null_list_is_empty() -> None:
    async with serving(Script(answer({"metadata": {"resourceVersion": "7"}, "items": None}))) as (client, _):
        assert (await client.list(THINGS)).items == []


async def test_one_undecodable_object_does_not_hide_the_others() -> None:
    broken = raw("broken", color=5)
    script = Script(
        answer({"metadata": {"resourceVersion": "7"}, "items": [raw("a"), broken, raw("b")]}),
        lines({"type": "ADDED", "object": broken}, {"type": "ADDED", "object": raw("c")}),
    )
    async with serving(script) as (client, _):
        listing = await client.list(THINGS)
        events = [event async for event in client.watch(THINGS, resource_version="7")]
    assert [item.metadata.name for item in listing.items] == ["a", "b"]
    assert [(item.metadata.name, bool(why)) for item, why in listing.unread] == [("broken", True)]
    assert [(event.object.metadata.name, bool(event.error)) for event in events] == [("broken", True), ("c", False)]


def deep(name: str, levels: int = 5_000) -> str:
    parameters = '{"a":' + "[" * levels + "]" * levels + "}"
    spec = f'{{"devices": {{"config": [{{"opaque": {{"driver": "d", "parameters": {parameters}}}}}]}}}}'
    return f'{{"metadata": {{"name": "{name}", "namespace": "a", "resourceVersion": "3"}}, "spec": {spec}}}'


async def test_an_object_that_is_nested_too_deep_is_set_aside_and_the_others_are_read() -> None:
    """A Kubernetes API server takes 10,000 levels of JSON where a field may hold any."""
    plain = '{"metadata": {"name": "plain", "namespace": "a", "resourceVersion": "2"}}'
    page = f'{{"metadata": {{"resourceVersion": "9"}}, "items": [{plain}, {deep("deep")}, {plain}]}}'
    event = f'{{"type": "MODIFIED", "object": {deep("deep")}}}\n'
    after = f'{{"type": "MODIFIED", "object": {plain}}}\n'
    script = Script(
        web.Response(text=page, content_type="application/json"),
        web.Response(text=event + after, content_type="application/json"),
    )
    async with serving(script) as (client, _):
        listing = await client.list(RESOURCE_CLAIMS)
        assert [item.metadata.name for item in listing.items] == ["plain", "plain"]
        ((unread, why),) = listing.unread
        assert (unread.metadata.name, unread.metadata.namespace) == ("deep", "a")
        assert why == "it is nested more than 200 levels deep"
        events = [each async for each in client.watch(RESOURCE_CLAIMS, resource_version="9")]
        assert [(each.object.metadata.name, bool(each.error)) for each in events] == [
            ("deep", True),
            ("plain", False),
        ]


@given(st.recursive(st.none() | st.text(max_size=8), lambda below: st.lists(below) | st.dictionaries(st.text(), below)))
def test_what_is_cut_out_is_what_is_too_deep(value: Any) -> None:
    def cut(value: Any, left: int) -> Any:
        if not isinstance(value, list | dict):
            return value
        if not left:
            return json.loads(CUT)
        if isinstance(value, list):
            return [cut(each, left - 1) for each in value]
        return {key: cut(each, left - 1) for key, each in value.items()}

    for deepest in (1, 2, 3):
        assert json.loads(cut_deep(json.dumps(value).encode(), deepest)) == cut(value, deepest)


async def test_writes_send_what_kubernetes_wants() -> None:
    script = Script(
        answer(raw("a"), 201), answer(raw("a")), answer(raw("a")), answer({"kind": "Status"}), answer({}, 201)
    )
    async with serving(script, token="secret") as (client, _):
        await client.create(THINGS, thing("a"), dry_run=True)
        await client.patch(THINGS, "a", {"status": {}}, namespace="default", subresource="status")
        await client.patch(THINGS, "a", [{"op": "test"}], namespace="default", patch_type="json")
        await client.delete(THINGS, "a", "default", uid="u", grace_seconds=0, propagation="Background")
        await client.bind("default", "p", "n1", uid="u", annotations={"k": "v"})
    created, status, patched, deleted, bound = script.asked
    assert (created[0], created[1], created[2]) == ("POST", THINGS_PATH, {"dryRun": "All"})
    assert created[4]["apiVersion"] == "example.io/v1" and created[4]["kind"] == "Thing"
    assert created[3]["Authorization"] == "Bearer secret"
    assert created[3]["User-Agent"].startswith("unisono/")
    assert status[1] == f"{THINGS_PATH}/a/status"
    assert status[3]["Content-Type"] == "application/merge-patch+json"
    assert patched[3]["Content-Type"] == "application/json-patch+json"
    assert deleted[4]["preconditions"] == {"uid": "u"}
    assert (deleted[4]["gracePeriodSeconds"], deleted[4]["propagationPolicy"]) == (0, "Background")
    assert bound[1] == "/api/v1/namespaces/default/pods/p/binding"
    assert bound[4]["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert bound[4]["metadata"] == {"name": "p", "namespace": "default", "uid": "u", "annotations": {"k": "v"}}


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        (failure(404, "NotFound", 'things "a" not found'), NotFound, 'things "a" not found'),
        (failure(409, "AlreadyExists", "exists"), AlreadyExists, "exists"),
        (failure(409, "Conflict", "modified"), Conflict, "modified"),
        (failure(410, "Expired", "old"), Gone, "old"),
        (failure(422, "Invalid", "bad"), Invalid, "bad"),
        (failure(500, "InternalError", "oops"), Unavailable, "oops"),
        (web.Response(status=404, text="404 page not found"), NotFound, "404 page not found"),
        (web.Response(status=502, text="<html>bad gateway"), Unavailable, "<html>bad gateway"),
    ],
)
async def test_errors_are_what_the_server_says(response: web.Response, error: type, text: str) -> None:
    async with serving(Script(response)) as (client, _):
        with pytest.raises(error, match=text):
            await client.get(THINGS, "a", "default")


async def test_a_busy_server_is_asked_again_after_its_retry_after() -> None:
    busy = [answer({}, 429, Retry_After="3"), answer({}, 503, Retry_After="2")]
    script = Script(*busy, answer(raw("a")))
    async with serving(script) as (client, clock):
        call = asyncio.create_task(client.get(THINGS, "a", "default"))
        while len(script.asked) < 3 and not call.done():
            await asyncio.sleep(0.005)
            await clock.advance(0.5)
        assert (await call).metadata.name == "a"
        assert clock.monotonic() >= 5.0


async def test_waiting_for_a_busy_server_is_bounded() -> None:
    async with serving(Script(answer({}, 429, Retry_After="3600"))) as (client, _):
        with pytest.raises(Unavailable) as caught:
            await client.get(THINGS, "a", "default")
    assert caught.value.retry_after == 3600


async def test_no_server_is_one_sentence() -> None:
    client = HttpClient(ClusterConfig(server="http://127.0.0.1:1"))
    with pytest.raises(Unavailable, match=r"^The API server at http://127.0.0.1:1 cannot be reached: .*\.$"):
        await client.get(THINGS, "a", "default")
    await client.close()


async def test_watch_yields_changes_and_bookmarks_and_drops_a_cut_line() -> None:
    bookmark = {"kind": "Thing", "metadata": {"resourceVersion": "9"}}
    script = Script(
        lines(
            {"type": "ADDED", "object": raw("a", "8")},
            {"type": "BOOKMARK", "object": bookmark},
            cut=b'{"type":"MODIFIED","obj',
        )
    )
    async with serving(script) as (client, _):
        events = [event async for event in client.watch(THINGS, "default", resource_version="7", timeout_seconds=60)]
    assert [(event.type, event.object.metadata.resource_version) for event in events] == [
        ("ADDED", "8"),
        ("BOOKMARK", "9"),
    ]
    assert script.asked[0][2] == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "60",
    }


async def test_a_watch_from_nothing_asks_for_all_objects_and_its_bookmark_need_not_be_a_whole_object() -> None:
    # As a server sends it for a kind whose lists have no default: null where the kind says list.
    mark = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
    end = {"kind": "LimitRange", **mark, "spec": {"limits": None}}
    script = Script(lines({"type": "BOOKMARK", "object": end}))
    async with serving(script) as (client, _):
        (event,) = [event async for event in client.watch(LIMIT_RANGES, "default", resource_version="")]
    assert event.object.metadata.annotations == {"k8s.io/initial-events-end": "true"}
    assert script.asked[0][2] == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }


async def test_a_watch_line_may_be_very_long() -> None:
    color = "x" * 3_000_000
    async with serving(Script(lines({"type": "ADDED", "object": raw("a", color=color)}))) as (client, _):
        events = [event async for event in client.watch(THINGS, resource_version="7")]
    assert events[0].object.spec.color == color


async def test_a_watch_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unisono.kube.http._LONGEST_LINE", 10)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"short\n12345"
        yield b"678901"

    found = []
    with pytest.raises(Unavailable, match="a line of more than 10 bytes"):
        async for line in split_lines(chunks()):
            found.append(line)
    assert found == [b"short", b"12345short", b"12345short"]


async def test_an_answer_of_an_untrusted_server_is_bounded() -> None:
    script = Script(
        web.Response(body=b"x" * 10), web.Response(body=b"x" * 11), web.Response(body=b"y" * 11, status=500)
    )
    async with serving(script, transport={"most_bytes": 10}) as (client, _):
        assert (await client.request("GET", "/version"))[2] == b"x" * 10
        for _ in range(2):
            with pytest.raises(Unavailable, match="larger than 10 bytes"):
                await client.request("GET", "/version")


async def test_an_error_event_of_a_watch_is_raised() -> None:
    expired = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    async with serving(Script(lines({"type": "ERROR", "object": expired}))) as (client, _):
        with pytest.raises(Gone, match="too old"):
            async for _ in client.watch(THINGS, resource_version="1"):
                pass


async def test_a_broken_stream_is_unavailable() -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 1000
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(Script(break_off)) as (client, _):
        with pytest.raises(Unavailable, match="cannot be reached"):
            async for _ in client.watch(THINGS, resource_version="1"):
                pass


async def test_raw_requests_return_any_status_and_streams_raise() -> None:
    script = Script(answer({"a": 1}, 404), failure(404, "NotFound", "no log"))
    async with serving(script) as (client, _):
        status, headers, body = await client.request("GET", "/anything", params={"b": "c"}, accept="text/plain")
        assert (status, json.loads(body)) == (404, {"a": 1})
        assert headers["Content-Type"].startswith("application/json")
        with pytest.raises(NotFound, match="no log"):
            async for _ in client.stream("/log"):
                pass
    assert script.asked[0][3]["Accept"] == "text/plain"


async def test_large_bodies_are_sent_whole_with_their_length() -> None:
    body, seen = b"x" * 3_000_000, list[int]()

    async def count(request: web.Request) -> web.Response:
        seen.append(int(request.headers["Content-Length"]))
        seen.append(sum([len(chunk) async for chunk in request.content.iter_any()]))
        return web.json_response({})

    app = web.Application()
    app.router.add_post("/anything", count)
    async with TestServer(app) as server:
        client = HttpClient(ClusterConfig(server=str(server.make_url("")).rstrip("/")))
        try:
            assert (await client.request("POST", "/anything", body=body))[0] == 200
        finally:
            await client.close()
    assert seen == [len(body), len(body)]


async def test_a_rotated_token_file_is_read_again(tmp_path: Any) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    script = Script(answer(raw("a")), answer({}, 401), answer(raw("a")))
    async with serving(script, token_file=file) as (client, clock):
        await client.get(THINGS, "a", "default")
        file.write_text("two\n")
        await clock.advance(5)
        await client.get(THINGS, "a", "default")
    assert [asked[3]["Authorization"] for asked in script.asked] == ["Bearer one", "Bearer one", "Bearer two"]


async def test_lines_are_split_wherever_chunks_end() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"a", b"b\n\nc\nd", b"", b"e\n", b"cut"):
            yield chunk

    assert [line async for line in split_lines(chunks())] == [b"ab", b"c", b"de"]


async def test_lists_and_watches_of_pods_leave_out_who_set_which_field() -> None:
    def pod(name: str) -> dict[str, Any]:
        meta = {"name": name, "namespace": "ns", "resourceVersion": "7", "managedFields": [{"manager": "somebody"}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}

    script = Script(
        answer({"metadata": {"resourceVersion": "7"}, "items": [pod("a")]}),
        lines({"type": "ADDED", "object": pod("b")}),
        answer(pod("c")),
        answer({"metadata": {"resourceVersion": "7"}, "items": [{**raw("d"), "metadata": pod("d")["metadata"]}]}),
    )
    async with serving(script) as (client, _):
        listed = (await client.list(PODS)).items
        watched = [event.object async for event in client.watch(PODS, resource_version="7")]
        one = await client.get(PODS, "c", "ns")
        things = (await client.list(THINGS)).items
    assert [pod.metadata.managed_fields for pod in (*listed, *watched)] == [None, None]
    assert [each.metadata.managed_fields for each in (one, *things)] == [[{"manager": "somebody"}]] * 2
