"""A watch whose server has vanished without a word is opened again; one that was always silent is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from support.memory import MemoryClient
from support.things import THINGS, Thing, thing
from support.virtual_clock import settle
from unisono.kube.client import WatchEvent
from unisono.kube.reflector import Reflector


class Heard:
    def __init__(self) -> None:
        self.names: list[str] = []

    def refuse(self, obj: Any, why: str) -> None:
        raise AssertionError(why)

    def replace(self, objects: Sequence[Any], unread: Sequence[tuple[Any, str]] = ()) -> None:
        self.names = [obj.metadata.name for obj in objects]

    def apply(self, _: str, obj: Any) -> None:
        self.names.append(obj.metadata.name)


class BeingDeleted(MemoryClient):
    """Its first watch sends what ``says`` holds and then nothing more, for ever."""

    def __init__(self, says: list[str]) -> None:
        super().__init__()
        self.says, self.watches = says, 0

    async def watch(self, kind: Any, *given: Any, **options: Any) -> AsyncIterator[WatchEvent[Any]]:
        self.watches += 1
        if self.watches > 1:
            async for event in super().watch(kind, *given, **options):
                yield event
            return
        for event_type in self.says:
            await self.clock.sleep(60)
            marked = thing("mark")
            marked.metadata.resource_version = options["resource_version"]
            yield WatchEvent(event_type, marked)  # type: ignore[arg-type]
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("says", "opened_again"),
    [(["BOOKMARK"], True), (["BOOKMARK", "BOOKMARK", "MODIFIED"], True), ([], False), (["MODIFIED"], False)],
)
async def test_silence(says: list[str], opened_again: bool) -> None:
    client, heard = BeingDeleted(says), Heard()
    reflector: Reflector[Thing] = Reflector(client, THINGS, heard, clock=client.clock)
    task = asyncio.create_task(reflector.run())
    await client.clock.advance(60.0 * len(says) + 170)
    assert client.watches == 1, "three minutes are not over"
    await client.create(THINGS, thing("new"))
    await client.clock.advance(60)
    await settle()
    assert (client.watches == 2) == opened_again
    assert ("new" in heard.names) == opened_again
    assert bool(reflector.statistics().silent_seconds < 60) == opened_again
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
