"""Backups: taken while writes go on, checked before they are trusted, restored without losing the old data."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.backends import DELETE, WriteOptions, config_map, names, opened, settle
from support.serving import serving
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.backend import Backend
from unisono.apiserver.storage.backup import check_backup, restore_backup
from unisono.apiserver.storage.files import StoreError
from unisono.cli.commands.backup import command as backup_command
from unisono.cli.commands.backup import restore_command
from unisono.errors import Gone, UnisonoError
from unisono.standalone.paths import AlreadyRunning, DataDir

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


async def add(backend: Backend, *wanted: str) -> None:
    for name in wanted:
        await backend.service.create(CONFIG_MAPS, "default", config_map(name), WriteOptions())


async def maps(path: Path) -> list[str]:
    async with opened(path) as backend:
        return await names(backend.service, CONFIG_MAPS, "default")


async def test_a_backup_holds_what_was_written_before_it(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    async with opened(tmp_path / "state.db") as backend:
        await add(backend, "a", "b")
        writes = [asyncio.ensure_future(add(backend, f"c{number}")) for number in range(20)]
        await backend.store.backup(copy)
        await asyncio.gather(*writes)
        await add(backend, "late")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    found = check_backup(copy)
    restored, kept = restore_backup(copy, tmp_path / "new" / "state.db", NOW)
    assert (restored.objects, kept) == (found.objects, None)
    present = await maps(tmp_path / "new" / "state.db")
    assert {"a", "b"} <= set(present)
    assert "late" not in present


async def test_restoring_keeps_the_old_data_and_ends_old_watches(tmp_path: Path) -> None:
    database, copy = tmp_path / "state.db", tmp_path / "copy.db"
    async with opened(database) as backend:
        await add(backend, "a")
        await backend.store.backup(copy)
        await add(backend, "b", "c")
        await backend.service.delete(CONFIG_MAPS, "default", "a", DELETE)
        seen = backend.store.revision
    _, kept = restore_backup(copy, database, NOW)
    assert kept is not None
    async with opened(database) as backend:
        await settle(backend)
        assert await names(backend.service, CONFIG_MAPS, "default") == ["a"]
        # No version that a client has seen comes again for something else.
        assert backend.store.revision > seen
        with pytest.raises(Gone):
            async for _ in backend.service.watch(CONFIG_MAPS, "default", resource_version=str(seen)):
                pass
        await add(backend, "d")
    assert await maps(kept) == ["b", "c"]


async def test_damaged_data_can_be_replaced(tmp_path: Path) -> None:
    database, copy = tmp_path / "state.db", tmp_path / "copy.db"
    async with opened(database) as backend:
        await add(backend, "a")
        await backend.store.backup(copy)
    database.write_bytes(b"SQLite format 3\x00" + b"garbage" * 2000)
    (tmp_path / "state.db-wal").write_bytes(b"more garbage")
    _, kept = restore_backup(copy, database, NOW)
    assert await maps(database) == ["a"]
    assert kept is not None
    assert kept.read_bytes().endswith(b"garbage")


def broken(copy: Path, how: str) -> None:
    if how == "foreign":
        copy.unlink()
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute("CREATE TABLE objects (x)")
            connection.commit()
    elif how == "text":
        copy.write_text("apiVersion: v1")
    elif how == "cut":
        copy.write_bytes(copy.read_bytes()[: copy.stat().st_size // 2])
    elif how == "missing":
        copy.unlink()
    else:
        statement = {
            "newer": "PRAGMA user_version = 99",
            "object": "UPDATE objects SET data = '{' WHERE resource = 'namespaces'",
            "renamed": "UPDATE objects SET name = 'other' WHERE name = 'default' AND resource = 'namespaces'",
        }[how]
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute(statement)
            connection.commit()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("foreign", "is not a Unisono data file: name a file that 'unisono backup' wrote"),
        ("text", "is not a Unisono data file: name a file that 'unisono backup' wrote"),
        ("cut", "damaged"),
        ("missing", "does not exist"),
        ("newer", "has schema version 99"),
        ("object", "Namespace default: its row has values of wrong types; revision 1 of it is in the history"),
        ("renamed", "Namespace other: its checksum does not match"),
    ],
)
async def test_bad_backups_change_nothing(tmp_path: Path, how: str, message: str) -> None:
    database, copy = tmp_path / "state.db", tmp_path / "copy.db"
    async with opened(database) as backend:
        await add(backend, "a")
        await backend.store.backup(copy)
    before = database.read_bytes()
    broken(copy, how)
    with pytest.raises(StoreError, match=message):
        restore_backup(copy, database, NOW)
    assert database.read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if "restor" in path.name]


async def test_data_in_use_is_not_replaced(tmp_path: Path) -> None:
    database, copy = tmp_path / "state.db", tmp_path / "copy.db"
    async with opened(database) as backend:
        await backend.store.backup(copy)
        with pytest.raises(StoreError, match="in use"):
            restore_backup(copy, database, NOW)
        await add(backend, "a")
    assert await maps(database) == ["a"]


async def test_a_copy_that_cannot_be_written_disturbs_nobody(tmp_path: Path) -> None:
    async with opened(tmp_path / "state.db") as backend:
        with pytest.raises(Exception, match="could not be stored"):
            await backend.store.backup(tmp_path / "none" / "copy.db")
        await add(backend, "a")


async def test_only_administrators_fetch_backups(tmp_path: Path) -> None:
    async with opened() as backend:
        await settle(backend)
        async with serving(backend.service, tmp_path) as web:
            for headers in ({"Authorization": None}, {"Impersonate-User": "bob"}):
                assert (await web.get("/unisono/v1/backup", headers=headers)).status == 403
            reply = await web.get("/unisono/v1/backup")
            assert (reply.status, reply.headers["Content-Length"]) == (200, str(len(reply.body)))
            assert reply.body.startswith(b"SQLite format 3")
            assert not [path for path in tmp_path.iterdir() if path.name.startswith(".backup")]


def test_commands_on_a_stopped_control_plane(tmp_path: Path) -> None:
    data, file = DataDir.at(tmp_path / "data"), tmp_path / "file.db"
    data.create()

    async def prepare() -> None:
        async with opened(data.database) as backend:
            await add(backend, "a")

    asyncio.run(prepare())
    run = CliRunner().invoke
    done = run(backup_command, [str(file), "--data-dir", str(data.root)], catch_exceptions=False)
    assert f"objects to {file}" in done.output
    with pytest.raises(UnisonoError, match="replace it with --force"):
        run(backup_command, [str(file), "--data-dir", str(data.root)], catch_exceptions=False)
    done = run(restore_command, [str(file), "--data-dir", str(data.root)], catch_exceptions=False)
    assert "The old data is kept as" in done.output
    with data.acquire(), pytest.raises(AlreadyRunning, match="stop it with 'unisono down"):
        run(restore_command, [str(file), "--data-dir", str(data.root)], catch_exceptions=False)
