"""Watchers of one form share an event's line; a reader of another form, or of another event, gets another line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.serving import TABLE, WebClient, serving
from unisono.api.kinds import CONFIG_MAPS, PODS
from unisono.apiserver.backend import Backend
from unisono.apiserver.http import watch
from unisono.apiserver.http.watch import SharedLines
from unisono.apiserver.types import StoreEvent

CM = "/api/v1/namespaces/default/configmaps"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def event(kind: Any = "ADDED", text: bytes = b"{}", version: int = 1) -> StoreEvent:
    return StoreEvent(kind, text, version)


@pytest.mark.parametrize(
    ("other", "form", "kind"),
    [
        (event("MODIFIED"), "json", CONFIG_MAPS),
        (event(text=b'{"a":1}'), "json", CONFIG_MAPS),
        (event(version=2), "json", CONFIG_MAPS),
        (event(), "table", CONFIG_MAPS),
        (event(), "json", PODS),
    ],
    ids=["type", "object", "version", "form", "kind"],
)
def test_a_line_is_for_one_event_in_one_form_of_one_kind(other: StoreEvent, form: str, kind: Any) -> None:
    lines = SharedLines()
    assert lines.line(event(), "json", CONFIG_MAPS, lambda _: b"first") == b"first"
    assert lines.line(event(), "json", CONFIG_MAPS, lambda _: b"again") == b"first"
    assert lines.line(other, form, kind, lambda _: b"other") == b"other"


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 900)), max_size=60))
def test_what_is_kept_is_bounded_and_every_line_is_right(asked: list[tuple[int, int]]) -> None:
    lines = SharedLines(most_bytes=3000)
    for version, size in asked:
        text = b"x" * size
        told = lines.line(event(text=text, version=version), "f", CONFIG_MAPS, lambda e: b"line of " + e.object)
        assert told == b"line of " + text
        assert sum(len(line) for line in lines._lines.values()) <= 3000
        assert lines._lines.keys() == lines._owners.keys()


async def _read(web: WebClient, accept: str, count: int, opened: asyncio.Event) -> list[bytes]:
    version = (await web.get(CM)).json()["metadata"]["resourceVersion"]
    async with web.open("GET", f"{CM}?watch=true&resourceVersion={version}", accept=accept) as answer:
        opened.set()
        return [await answer.content.readline() for _ in range(count)]


@pytest.mark.parametrize("accept", ["application/json", METADATA, TABLE], ids=["whole", "metadata", "table"])
async def test_many_watchers_are_told_the_same_and_it_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accept: str
) -> None:
    decoded: list[bytes] = []
    decode = watch.msgspec.json.decode

    def counted(data: bytes) -> Any:
        decoded.append(data)
        return decode(data)

    backend = await Backend.open()
    try:
        async with serving(backend.service, tmp_path, clock=lambda: 1_800_000_000.0) as web:
            opened = [asyncio.Event() for _ in range(8)]
            reading = [asyncio.create_task(_read(web, accept, 3, each)) for each in opened]
            for each in opened:
                await each.wait()
            with monkeypatch.context() as patched:
                patched.setattr(watch.msgspec.json, "decode", counted)
                for name in ("a", "b", "c"):
                    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": name}}
                    assert (await web.post(CM, body)).status == 201
                told = await asyncio.gather(*reading)
    finally:
        await backend.close()
    assert all(lines == told[0] for lines in told)
    shown = [json.loads(line)["object"] for line in told[0]]
    if accept == TABLE:
        assert [table["rows"][0]["cells"][0] for table in shown] == ["a", "b", "c"]
        assert [table["columnDefinitions"] is None for table in shown] == [False, True, True]
    else:
        assert [one["metadata"]["name"] for one in shown] == ["a", "b", "c"]
        assert ["data" in one for one in shown] == [accept == "application/json"] * 3
    objects = [data for data in decoded if b'"resourceVersion"' in data and b'"ConfigMap"' in data]
    assert len(objects) == len(set(objects)), "no event is decoded for a second watcher"
