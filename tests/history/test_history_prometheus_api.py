"""What a Prometheus that is slow, wrong or none at all does to who asks it; and what it cannot be asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from unisono.errors import ApiError, ConfigError, Unavailable
from unisono.history.prometheus import api
from unisono.history.prometheus.api import PrometheusApi
from unisono.history.prometheus.source import NOTHING, PrometheusHistory, Queries, over_time, pairs_of

Handler = Callable[[web.Request], Any]
EMPTY: dict[str, Any] = {"status": "success", "data": {"resultType": "vector", "result": []}}


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.StreamResponse:
        found = handler(request)
        if asyncio.iscoroutine(found):
            found = await found
        return found if isinstance(found, web.StreamResponse) else web.json_response(found)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def refusal(_: web.Request) -> web.Response:
    text = {"status": "error", "errorType": "bad_data", "error": "query processing would load too many samples"}
    return web.json_response(text, status=422)


def moved(_: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/stolen"})


BROKEN: dict[str, tuple[Handler, str]] = {
    "it refuses": (refusal, "too many samples"),
    "a page of a proxy": (lambda _: web.Response(text="<html>login"), "is the address right"),
    "it leads elsewhere": (moved, "is the address right"),
    "no vector": (lambda _: {"status": "success", "data": {"resultType": "string", "result": [1, "x"]}}, "a string"),
    "other fields": (
        lambda _: {"status": "success", "data": {"resultType": "vector", "result": [1]}},
        "not understood",
    ),
    "an answer without end": (lambda _: web.Response(body=b"x" * 5000), "more than"),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_what_is_no_answer_is_an_error_that_names_the_server(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handler, said = BROKEN[case]
    if said == "more than":
        monkeypatch.setattr(api, "MOST_BYTES", 1000)
    async with serving(handler) as url:
        with pytest.raises(Unavailable, match=f"Prometheus at {url} .*{said}"):
            await PrometheusApi(url).vector("up", 0)


async def test_who_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "SECONDS", -4.9)
    never = asyncio.Event()
    async with serving(lambda _: never.wait()) as url:
        with pytest.raises(Unavailable, match="gave no answer within"):
            await PrometheusApi(url).vector("up", 0)
        never.set()
    with pytest.raises(Unavailable, match="cannot be reached"):
        await PrometheusApi(url).vector("up", 0)


async def test_a_token_is_read_for_each_question_and_passwords_are_not_told(tmp_path: Path) -> None:
    seen: list[str] = []

    def note(request: web.Request) -> Any:
        seen.append(request.headers.get("Authorization", ""))
        return EMPTY

    token = tmp_path / "token"
    async with serving(note) as url:
        one = PrometheusApi(url, token)
        for text in ("first\n", "second\n"):
            token.write_text(text)
            await one.vector("up", 0)
        secret = PrometheusApi(url.replace("//", "//user:secret-word@") + "/prometheus/")
        await secret.vector("up", 0)
    assert seen[:2] == ["Bearer first", "Bearer second"]
    assert seen[2].startswith("Basic ")
    assert "secret-word" not in secret.address
    with pytest.raises(Unavailable) as told:
        await secret.vector("up", 0)
    assert "secret-word" not in str(told.value)


@pytest.mark.parametrize("address", ["", "prometheus:9090", "ftp://x", "http://"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ConfigError, match="is no address of Prometheus"):
        PrometheusApi(address)


@pytest.mark.parametrize("text", ["", "cluster", "1=x", "a b=c", "a{b=c"])
def test_a_label_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is no label"):
        dict(pairs_of([text]))


UNANSWERED = [
    ("jobs", {}, 400, "no single jobs"),
    ("report", {"by": "user"}, 400, "no use by user.*--history-dsn-secret"),
    ("report", {"by": "namespace"}, 400, "no use by namespace"),
    ("report", {"by": "job"}, 400, "no use by job"),
    ("report", {"user": "ann"}, 400, "no use by user"),
    ("report", {"namespace": "team-a"}, 400, "no use by namespace"),
    ("report", {"by": "moon"}, 400, "by must be one of"),
    ("report", {"from": "x"}, 400, "from must be seconds"),
    ("report", {"by": "day", "from": "0"}, 400, "at most 400 days"),
    ("shares", {"points": "-1"}, 400, "points must be a number"),
]


@pytest.mark.parametrize(("what", "query", "code", "said"), UNANSWERED)
async def test_what_it_cannot_answer_it_says(what: str, query: dict[str, str], code: int, said: str) -> None:
    async with serving(lambda _: {"status": "success", "data": []}) as url:
        source = PrometheusHistory(PrometheusApi(url))
        with pytest.raises(ApiError, match=said) as told:
            await source.answer(what, query, [], capacity=False, queues=True)
        assert told.value.code == code


async def test_use_of_queues_is_for_who_may_list_queues() -> None:
    source = PrometheusHistory(PrometheusApi("http://127.0.0.1:1"))
    for what in ("report", "shares"):
        with pytest.raises(ApiError, match="can list queues") as told:
            await source.answer(what, {}, [], capacity=True, queues=False)
        assert told.value.code == 403
    assert await source.answer("places", {}, [], capacity=True, queues=True) is None


async def test_values_that_are_no_numbers_count_as_nothing() -> None:
    def answer(request: web.Request) -> Any:
        if "label" in request.path:
            return {"status": "success", "data": ["a"]}
        result = [{"metric": {"queue_name": "q", "queue": "q"}, "value": [0, each]} for each in ("NaN", "+Inf")]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}

    async with serving(answer) as url:
        told = await PrometheusHistory(PrometheusApi(url)).answer("report", {}, [], capacity=True, queues=True)
    assert json.loads(told or b"")["rows"] == []


@pytest.mark.parametrize("name", ['x"', "x\\", "x\ny", "{}"])
def test_a_name_stays_within_its_quotes(name: str) -> None:
    [query, *_] = Queries({}).amounts("allocated", name)
    quoted = query.partition("queue_name=")[2].removesuffix("})")
    assert json.loads(quoted) == name


def test_what_cannot_be_a_namespace_is_not_asked_for() -> None:
    queries = Queries({"cluster": "a"})
    assert queries.waits(60, 0, "", ['x"|.*']) == NOTHING
    assert queries.ended("failed", 60, "", []) == NOTHING
    assert 'job_namespace=~"team-a"' in queries.waits(60, 0, "", ["team-a", ".*"])
    assert 'cluster="a"' in queries.evictions(60)


@pytest.mark.parametrize("seconds", [1, 60, 7 * 86400, 400 * 86400])
def test_a_question_has_a_bounded_number_of_samples(seconds: int) -> None:
    step = int(over_time("up", seconds).partition(f"[{seconds}s:")[2].partition("s]")[0])
    assert seconds / step <= 1000
