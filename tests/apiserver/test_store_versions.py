"""Stores that earlier versions wrote are read with every object, and a store of a newer version is not touched.

``stores/FORMAT-VERSION.sql`` are dumps of such stores: jobs, queues, flows, topology and training jobs, as they were
written then, without definitions and events. Each release whose format or stored kinds have changed adds one.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.backends import opened
from unisono.api.decode import decode
from unisono.api.kinds import CONFIG_MAPS, find
from unisono.api.validation import validate
from unisono.apiserver.storage.files import StoreError
from unisono.apiserver.storage.schema import SCHEMA_VERSION
from unisono.apiserver.types import DeleteOptions

STORES = sorted((Path(__file__).parent / "stores").glob("*.sql"))


def restored(dump: Path, path: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The store of a dump at ``path``; answers what is in it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(dump.read_text())
        rows = connection.execute("SELECT resource, namespace, name, data FROM objects").fetchall()
    return {(resource, namespace, name): json.loads(data) for resource, namespace, name, data in rows}


@pytest.mark.parametrize("dump", STORES, ids=lambda path: path.stem)
async def test_every_object_of_an_earlier_version_is_read_as_it_was_written(dump: Path, tmp_path: Path) -> None:
    before = restored(dump, tmp_path / "state.db")
    assert len(before) > 10
    for _ in range(2):  # what the first start made of the store is a store as well
        async with opened(tmp_path / "state.db") as backend:
            for (_, namespace, name), stored in before.items():
                kind = find(stored["apiVersion"], stored["kind"])
                assert kind is not None, stored["kind"]
                read = json.loads(await backend.service.get(kind, namespace or None, name))
                assert read["metadata"]["uid"] == stored["metadata"]["uid"]
                assert (read.get("spec"), read.get("data")) == (stored.get("spec"), stored.get("data"))
                decoded = decode(kind, read)
                assert not decoded.unknown_fields
                assert not decoded.type_errors
                assert not [error.message() for error in validate(kind, decoded.obj)]


@pytest.mark.parametrize("dump", STORES, ids=lambda path: path.stem)
async def test_a_store_of_an_earlier_version_is_written_on_with_later_revisions(dump: Path, tmp_path: Path) -> None:
    before = restored(dump, tmp_path / "state.db")
    newest = max(int(each["metadata"]["resourceVersion"]) for each in before.values())
    async with opened(tmp_path / "state.db") as backend:
        read = json.loads(await backend.service.get(CONFIG_MAPS, "default", "settings"))
        assert int(read["metadata"]["resourceVersion"]) <= newest
        await backend.service.delete(CONFIG_MAPS, "default", "settings", DeleteOptions())
        assert backend.store.revision > newest
    async with opened(tmp_path / "state.db") as backend:
        names = [key for key in before if key[0] == "configmaps"]
        assert names == [("configmaps", "default", "settings")]
        with pytest.raises(Exception, match="not found"):
            await backend.service.get(CONFIG_MAPS, "default", "settings")


async def test_a_store_of_a_newer_version_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    restored(STORES[-1], tmp_path / "state.db")
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(StoreError, match=f"has schema version {SCHEMA_VERSION + 1}"):
        async with opened(tmp_path / "state.db"):
            pass
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_formats_of_dumps_are_those_of_their_names() -> None:
    for dump in STORES:
        stamped = re.search(r"PRAGMA user_version = (\d+)", dump.read_text())
        assert stamped is not None and stamped[1] == dump.stem.partition("-")[0]
        assert int(stamped[1]) <= SCHEMA_VERSION
