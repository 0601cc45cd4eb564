"""Lists that come as the beginning of a watch, and servers that cannot send them so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.memory import MemoryClient
from support.things import THINGS, Thing, thing
from unisono.api.keys import INITIAL_EVENTS_END
from unisono.errors import ApiError, Gone, NotFound, Unavailable
from unisono.kube.client import WatchEvent
from unisono.kube.reflector import Reflector


class Seen:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def refuse(self, obj: Thing, why: str) -> None:
        raise AssertionError(why)

    def replace(self, objects: Sequence[Thing], unread: Sequence[tuple[Thing, str]] = ()) -> None:
        self.told.append(sorted(obj.metadata.name for obj in objects))

    def apply(self, event_type: str, obj: Thing) -> None:
        self.told.append(f"{event_type} {obj.metadata.name}")


def event(event_type: Any, name: str = "", *, end: bool = False, version: str = "5") -> WatchEvent[Thing]:
    made = thing(name)
    made.metadata.resource_version = version
    made.metadata.annotations = {INITIAL_EVENTS_END: "true"} if end else None
    return WatchEvent(event_type, made)


END = event("BOOKMARK", end=True)


class Streaming(MemoryClient):
    """Each watch from nothing plays the next script: events, an error, or None for silence without an end."""

    streams_lists = True

    def __init__(self, *scripts: Sequence[WatchEvent[Thing] | Exception | None]) -> None:
        super().__init__()
        self.scripts = list(scripts)
        self.began: list[str] = []
        self.lists = 0

    async def list(self, *given: Any, **options: Any) -> Any:
        self.lists += 1
        return await super().list(*given, **options)

    async def watch(self, kind: Any, *given: Any, **options: Any) -> AsyncIterator[WatchEvent[Any]]:
        self.began.append(options["resource_version"])
        if options["resource_version"]:
            async for one in super().watch(kind, *given, **options):
                yield one
            return
        for step in self.scripts.pop(0):
            if step is None:
                await asyncio.Event().wait()
            elif isinstance(step, Exception):
                raise step
            else:
                yield step
        await self.clock.sleep(5.0)


@asynccontextmanager
async def reflecting(client: Streaming, **options: Any) -> AsyncIterator[tuple[Seen, Reflector[Thing]]]:
    seen = Seen()
    reflector: Reflector[Thing] = Reflector(client, THINGS, seen, clock=client.clock, **options)
    task = asyncio.create_task(reflector.run())
    try:
        yield seen, reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_all_objects_are_told_at_once_and_changes_one_by_one() -> None:
    client = Streaming([event("ADDED", "a"), event("ADDED", "b"), END, event("MODIFIED", "a", version="6")])
    async with reflecting(client) as (seen, reflector):
        await client.clock.advance(1.0)
        assert seen.told == [["a", "b"], "MODIFIED a"]
        assert reflector.synced.is_set() and client.lists == 0
        assert (reflector.statistics().lists, reflector.statistics().events) == (1, 1)
        await client.clock.advance(6.0)
        assert client.began == ["", "6"], "the next watch goes on where this one ended"


async def test_nothing_is_told_before_the_end_of_the_list() -> None:
    client = Streaming([event("ADDED", "a"), event("BOOKMARK"), None])
    async with reflecting(client) as (seen, reflector):
        await client.clock.advance(60.0)
        assert seen.told == [] and not reflector.synced.is_set()


async def test_what_changes_while_the_list_comes_is_in_it() -> None:
    script = [event("ADDED", "a"), event("ADDED", "b"), event("DELETED", "a"), event("MODIFIED", "b", version="7"), END]
    async with reflecting(Streaming(script)) as (seen, _):
        await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert seen.told == [["b"]]


@pytest.mark.parametrize(
    "script",
    [
        [ApiError("sendInitialEvents is forbidden", code=422, reason="Invalid")],
        [event("ADDED", "a"), Unavailable("connection lost")],
        [event("ADDED", "a"), Gone("too old")],
        [event("ADDED", "a")],
        [event("ADDED", "a"), None],
    ],
    ids=["refused", "broken", "expired", "ends-early", "never-ends"],
)
async def test_a_server_that_does_not_send_it_to_its_end_is_asked_for_a_list(script: Any) -> None:
    client = Streaming(script)
    await client.create(THINGS, thing("real"))
    async with reflecting(client) as (seen, reflector):
        await client.clock.advance(240.0)
        assert reflector.synced.is_set()
        assert seen.told == [["real"]], "what came before is not taken for the whole"
        await client.create(THINGS, thing("later"))
        await client.clock.advance(1.0)
        assert seen.told[-1] == "ADDED later"


async def test_an_expired_watch_streams_the_objects_anew() -> None:
    client = Streaming([event("ADDED", "a"), END, Gone("too old")], [event("ADDED", "b"), END])
    async with reflecting(client) as (seen, _):
        await client.clock.advance(3.0)
        assert seen.told == [["a"], ["b"]]
        assert client.lists == 0


async def test_a_kind_that_the_server_lacks_counts_as_empty() -> None:
    client = Streaming([NotFound("no such kind")])
    client.scripts += [[NotFound("no such kind")]] * 5

    async def absent(*_given: Any, **_options: Any) -> Any:
        raise NotFound("no such kind")

    client.list = absent  # type: ignore[method-assign]
    async with reflecting(client, absent_seconds=60.0) as (seen, reflector):
        await client.clock.advance(5.0)
        assert reflector.synced.is_set()
        assert seen.told == [[]]


@pytest.mark.parametrize(
    ("first", "again"),
    [(Unavailable("connection lost"), True), (ApiError("forbidden here", code=422, reason="Invalid"), False)],
    ids=["broken", "refused"],
)
async def test_after_a_refusal_it_is_not_asked_again_after_a_broken_connection_it_is(
    first: ApiError, again: bool
) -> None:
    client = Streaming([first], [event("ADDED", "streamed"), END, None])
    await client.create(THINGS, thing("real"))
    async with reflecting(client) as (seen, _):
        await client.clock.advance(60.0)
        await client.create(THINGS, thing("other"))
        client.compact()
        client.drop_watches()
        await client.clock.advance(60.0)
        assert seen.told[0] == ["real"]
        assert (["streamed"] in seen.told) is again
