from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.memory import MemoryClient
from support.things import THINGS, Thing, thing
from support.virtual_clock import settle
from unisono.errors import Gone, Unavailable
from unisono.kube.informer import Informer
from unisono.kube.pace import Backoff


class Story:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, event_type: str, new: Thing, old: Thing | None) -> None:
        before = f" from {old.spec.color}" if old is not None else ""
        self.lines.append(f"{event_type} {new.metadata.name} {new.spec.color}{before}")


@asynccontextmanager
async def running(client: MemoryClient, **options: object) -> AsyncIterator[tuple[Informer[Thing], Story]]:
    informer: Informer[Thing] = Informer(
        client,
        THINGS,
        clock=client.clock,
        backoff=Backoff(base=1.0, cap=4.0, jitter=0.0),
        **options,  # type: ignore[arg-type]
    )
    story = Story()
    informer.on_change(story)
    informer.add_index("color", lambda obj: [obj.spec.color or ""])
    task = asyncio.create_task(informer.run())
    await settle()
    try:
        yield informer, story
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_list_then_changes() -> None:
    client = MemoryClient()
    await client.create(THINGS, thing("a"))
    async with running(client) as (informer, story):
        assert informer.synced.is_set()
        await client.create(THINGS, thing("b"))
        await client.patch(THINGS, "a", {"spec": {"color": "blue"}}, namespace="default")
        await client.delete(THINGS, "b", "default")
        await settle()
        assert story.lines == [
            "ADDED a red",
            "ADDED b red",
            "MODIFIED a blue from red",
            "DELETED b red from red",
        ]
        assert informer.keys() == ["default/a"]
        assert [obj.metadata.name for obj in informer.by_index("color", "blue")] == ["a"]
        assert informer.by_index("color", "red") == []


async def test_a_late_handler_gets_what_is_there() -> None:
    client = MemoryClient()
    await client.create(THINGS, thing("a"))
    async with running(client) as (informer, _):
        late = Story()
        informer.on_change(late)
        assert late.lines == ["ADDED a red"]


async def test_a_compacted_history_means_a_new_list_and_missed_deletes_are_told() -> None:
    client = MemoryClient()
    await client.create(THINGS, thing("a"))
    await client.create(THINGS, thing("b"))
    async with running(client) as (informer, story):
        client.interceptor = _refuse_watches
        client.drop_watches()
        await settle()
        await client.delete(THINGS, "a", "default")
        await client.create(THINGS, thing("c"))
        client.compact()
        client.interceptor = None
        await client.clock.advance(10)
        assert informer.statistics().lists == 2
        assert story.lines[2:] == ["DELETED a red from red", "ADDED c red"]
        assert sorted(informer.keys()) == ["default/b", "default/c"]


async def test_a_recreated_object_is_told_as_delete_and_add() -> None:
    client = MemoryClient()
    await client.create(THINGS, thing("a"))
    async with running(client) as (_, story):
        client.interceptor = _refuse_watches
        client.drop_watches()
        await settle()
        await client.delete(THINGS, "a", "default")
        await client.create(THINGS, thing("a", "green"))
        client.compact()
        client.interceptor = None
        await client.clock.advance(10)
        assert story.lines == ["ADDED a red", "DELETED a red from red", "ADDED a green"]


async def test_a_dropped_watch_goes_on_from_the_last_version_without_repeats() -> None:
    client = MemoryClient()
    async with running(client) as (informer, story):
        for number in range(4):
            await client.create(THINGS, thing(f"t{number}"))
            client.drop_watches()
            await client.clock.advance(10)
        assert story.lines == [f"ADDED t{number} red" for number in range(4)]
        assert informer.statistics().lists == 1


async def test_duplicated_and_late_events_change_nothing() -> None:
    client = MemoryClient()
    created = await client.create(THINGS, thing("a"))
    async with running(client) as (informer, story):
        newer = await client.patch(THINGS, "a", {"spec": {"color": "blue"}}, namespace="default")
        await settle()
        informer.apply("MODIFIED", newer)
        informer.apply("ADDED", created)
        assert story.lines == ["ADDED a red", "MODIFIED a blue from red"]
        assert informer.get("default/a") == newer


async def test_selectors_turn_updates_into_adds_and_deletes() -> None:
    client = MemoryClient()
    await client.create(THINGS, thing("a"))
    async with running(client, label_selector="tier=gold") as (_, story):
        await client.patch(THINGS, "a", {"metadata": {"labels": {"tier": "gold"}}}, namespace="default")
        await client.patch(THINGS, "a", {"metadata": {"labels": {"tier": None}}}, namespace="default")
        await settle()
        assert story.lines == ["ADDED a red", "DELETED a red from red"]


async def test_an_unavailable_server_is_asked_with_back_off() -> None:
    client = MemoryClient()
    asked: list[float] = []

    def refuse(operation: str, *_: str) -> None:
        asked.append(client.clock.monotonic())
        raise Unavailable("try later")

    client.interceptor = refuse
    async with running(client) as (informer, _):
        await client.clock.advance(20)
        assert asked == [0, 1, 3, 7, 11, 15, 19]
        assert not informer.synced.is_set()
        assert informer.statistics().last_error == "try later"
        client.interceptor = None
        await client.clock.advance(4)
        assert informer.synced.is_set()
        assert informer.statistics().failures == 0


async def test_a_server_whose_watches_always_expire_is_not_listed_in_a_loop() -> None:
    client = MemoryClient()

    def expire(operation: str, *_: str) -> None:
        if operation == "watch":
            raise Gone("too old resource version")

    client.interceptor = expire
    async with running(client) as (informer, _):
        await client.clock.advance(20)
        assert informer.statistics().lists == 8
        client.interceptor = None
        await client.clock.advance(4)
        await client.create(THINGS, thing("a"))
        await settle()
        assert informer.keys() == ["default/a"]


async def test_a_failing_handler_does_not_stop_the_others() -> None:
    client = MemoryClient()
    async with running(client) as (informer, story):

        def fail(*_: object) -> None:
            raise RuntimeError("handler")

        informer.on_change(fail)
        late = Story()
        informer.on_change(late)
        await client.create(THINGS, thing("a"))
        await settle()
        assert story.lines == late.lines == ["ADDED a red"]


def _refuse_watches(operation: str, *_: str) -> None:
    if operation == "watch":
        raise Unavailable("no watch now")


async def test_what_cannot_be_decoded_any_more_stays_as_it_was_last_known() -> None:
    informer = Informer(MemoryClient(), THINGS)
    told: list[str] = []
    informer.on_change(lambda event, new, old: told.append(event))
    known, fresh = thing("known"), thing("fresh")
    informer.replace([known])
    informer.refuse(thing("known", color="broken"), "why")
    informer.replace([], [(thing("known"), "why"), (fresh, "why")])
    assert informer.items() == [known]
    assert told == ["ADDED"]
    informer.replace([])
    assert told == ["ADDED", "DELETED"]
