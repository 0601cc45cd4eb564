"""What users have used outlives the scheduler that counted it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from scheduler_world import Fixed, fill, unadvised, world

from support.build import config
from support.memory import MemoryClient
from unisono.api.annotations import USE
from unisono.api.kinds import QUEUES

FAIR = config(
    ("priority", "fair-share", "gang"),
    ("predicates", "nodeorder"),
    arguments={"fair-share": {"fair-share.by": "namespace", "fair-share.halfLife": "24h"}},
)


def kept(client: MemoryClient) -> dict[str, float] | None:
    text = (client.raw(QUEUES, "default")["metadata"].get("annotations") or {}).get(USE)
    return None if text is None else dict(msgspec.json.decode(text)["use"])


def options(setting: Any = FAIR) -> dict[str, Any]:
    source = Fixed()
    source.config = setting
    return {"config": source, "engine": unadvised}


async def test_it_is_written_every_five_minutes_and_when_the_scheduler_stops() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2})
    async with world(client, **options()) as it:
        await it.run(100)
        assert kept(client) is None
        await it.run(250)
        first = kept(client)
        assert first is not None and first["team"] > 0
    last = kept(client)
    assert last is not None and last["team"] > first["team"]
    async with world(client, **options()) as it:
        await it.run(310)
    after = kept(client)
    assert after is not None and after["team"] == pytest.approx(last["team"] + first["team"], rel=0.2)


async def test_without_the_plugin_nothing_is_written() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2})
    async with world(client, **options(config(("priority", "gang"), ("predicates",)))) as it:
        await it.run(310)
    assert kept(client) is None
