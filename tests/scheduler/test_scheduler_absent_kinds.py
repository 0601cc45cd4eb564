"""A cluster without HyperNodes' definition is scheduled as one without HyperNodes, until the definition appears."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.base import Object, ObjectMeta
from unisono.api.groups.topology import HyperNode, HyperNodeSpec
from unisono.api.kinds import HYPER_NODES
from unisono.errors import NotFound
from unisono.kube.pace import Backoff
from unisono.kube.reflector import Reflector


class Heard:
    def __init__(self) -> None:
        self.lines: list[Any] = []

    def refuse(self, obj: Object, why: str) -> None:
        raise AssertionError(why)

    def replace(self, objects: Sequence[Object], unread: Sequence[tuple[Object, str]] = ()) -> None:
        self.lines.append([obj.metadata.name for obj in objects])

    def apply(self, event_type: str, obj: Object) -> None:
        self.lines.append(f"{event_type} {obj.metadata.name}")


class Missing(MemoryClient):
    absent = True

    async def list(self, kind: Any, *given: Any, **options: Any) -> Any:
        if self.absent:
            raise NotFound("the server could not find the requested resource")
        return await super().list(kind, *given, **options)


def node(name: str) -> HyperNode:
    return HyperNode(metadata=ObjectMeta(name=name), spec=HyperNodeSpec(tier=1))


@pytest.mark.parametrize("seconds", [60.0, None])
async def test_a_kind_that_the_server_does_not_know(seconds: float | None) -> None:
    client, heard = Missing(), Heard()
    await client.create(HYPER_NODES, node("a"))
    reflector: Reflector[HyperNode] = Reflector(
        client, HYPER_NODES, heard, clock=client.clock, backoff=Backoff(base=1.0, jitter=0.0), absent_seconds=seconds
    )
    task = asyncio.create_task(reflector.run())
    await settle()
    assert heard.lines == ([[]] if seconds else [])
    assert reflector.synced.is_set() == (seconds is not None)
    client.absent = False
    await client.clock.advance(61)
    assert heard.lines[-1] == ["a"]
    await client.create(HYPER_NODES, node("b"))
    await settle()
    assert heard.lines[-1] == "ADDED b"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_was_read_before_a_kind_may_not_be_read_any_more_is_not_gone() -> None:
    """Rights that are taken away for a moment, or a version that is served no longer, delete nothing."""
    client, heard = Missing(), Heard()
    client.absent = False
    await client.create(HYPER_NODES, node("a"))
    reflector: Reflector[HyperNode] = Reflector(
        client, HYPER_NODES, heard, clock=client.clock, backoff=Backoff(base=1.0, jitter=0.0), absent_seconds=60.0
    )
    task = asyncio.create_task(reflector.run())
    await settle()
    client.absent = True

    def unserved(verb: str, *_: str) -> None:
        if client.absent and verb == "watch":
            raise NotFound("the server could not find the requested resource")

    client.interceptor = unserved
    client.drop_watches()
    await client.clock.advance(5)
    assert (heard.lines, reflector.is_absent) == ([["a"]], True)
    client.absent = False
    await client.delete(HYPER_NODES, "a")
    await client.clock.advance(61)
    assert heard.lines[-1] == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
