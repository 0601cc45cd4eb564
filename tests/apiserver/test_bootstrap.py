"""What a start makes of a store that is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from support.backends import opened, settle
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from unisono.apiserver.backend import Backend
from unisono.apiserver.storage.objects import StoredEntry
from unisono.apiserver.storage.store import Change

KEY = (CUSTOM_RESOURCE_DEFINITIONS.resource, "", "queues.scheduling.volcano.sh")


def stored(backend: Backend) -> StoredEntry:
    entry = backend.store.latest(KEY)
    assert entry is not None
    return entry


async def rewrite(backend: Backend, document: dict[str, Any]) -> None:
    """Store the definition in other words, past all rules, as another version may have written it."""

    def encode(revision: int) -> bytes:
        document["metadata"]["resourceVersion"] = str(revision)
        return msgspec.json.encode(document)

    await backend.store.write([Change(KEY, stored(backend).revision, encode)])


async def test_a_second_start_writes_no_definition(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as backend:
        await settle(backend)
        document = msgspec.json.decode(stored(backend).data)
        document["spec"] = dict(reversed(document["spec"].items()))
        await rewrite(backend, document)
        revision = stored(backend).revision
    async with opened(tmp_path / "data") as backend:
        assert stored(backend).revision == revision, "the order of fields is no difference"


async def test_an_older_definition_is_brought_up_to_date(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as backend:
        await settle(backend)
        document = msgspec.json.decode(stored(backend).data)
        wanted, uid = document["spec"], document["metadata"]["uid"]
        document["spec"] = {**wanted, "names": {**wanted["names"], "shortNames": ["old"]}}
        await rewrite(backend, document)
    async with opened(tmp_path / "data") as backend:
        found = msgspec.json.decode(stored(backend).data)
        assert found["spec"] == wanted
        assert (found["metadata"]["uid"], found["metadata"]["generation"]) == (uid, 2)
        assert found["status"]["storedVersions"] == ["v1beta1"]
