"""Questions about the past are answered in turn, and one user's many questions count as one."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from unisono.apiserver.http.meta import HistoryHandler, Place


class Source:
    """Answers one question at a time, and notes whose it was."""

    def __init__(self) -> None:
        self.turn, self.asked = asyncio.Lock(), []  # type: ignore[var-annotated]

    async def places(self) -> Sequence[Place]:
        async with self.turn:
            await asyncio.sleep(0)
        return []

    async def answer(self, what: str, query: Mapping[str, str], _: Collection[Place], **__: Any) -> bytes | None:
        async with self.turn:
            self.asked.append(query["user"])
            await asyncio.sleep(0)
        return b"{}"


class Authorizer:
    def decide(self, *_: Any) -> Any:
        return SimpleNamespace(allowed=True)


@pytest.mark.parametrize("crowded", ["mallory", "system:serviceaccount:eve:{}"])
async def test_another_users_question_waits_for_one_of_a_crowd_at_most(crowded: str) -> None:
    source = Source()
    handler = HistoryHandler(source, Authorizer())  # type: ignore[arg-type]

    async def ask(user: str) -> None:
        async def send(*_: Any) -> None: ...

        await handler.send(SimpleNamespace(user=SimpleNamespace(name=user), query={"user": user}, send=send), "report")  # type: ignore[arg-type]

    crowd = [asyncio.create_task(ask(crowded.format(number))) for number in range(50)]
    await asyncio.sleep(0)
    await ask("bob")
    assert source.asked.index("bob") <= 2
    await asyncio.gather(*crowd)
