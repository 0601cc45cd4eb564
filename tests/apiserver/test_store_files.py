"""The data file: what survives a restart, and what is said about files that cannot be used."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading

import pytest

from support.backends import drop, put
from unisono.apiserver.storage.database import Database
from unisono.apiserver.storage.files import StoreError
from unisono.apiserver.storage.objects import Event, Retention, StoredEntry
from unisono.apiserver.storage.schema import APPLICATION_ID
from unisono.apiserver.storage.store import Store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


async def filled(path, count=3):
    store = await Store.open(path)
    for i in range(count):
        await store.write([put(f"n{i}")])
    await store.close()


async def test_objects_revisions_and_history_survive(path):
    store = await Store.open(path)
    await store.write([put("a")])
    await store.write([put("a", 1, "second"), put("b")])
    await store.write([drop("b", 3)])
    await store.close()
    store = await Store.open(path)
    assert store.revision == 4
    assert b"second" in store.get(("things", "ns", "a")).data
    assert store.get(("things", "ns", "b")) is None
    history = store.history("things")
    events = history.read(history.position_after(0), 10)
    assert [(e.type, e.entry.name, e.entry.revision) for e in events] == [
        ("ADDED", "a", 1),
        ("MODIFIED", "a", 2),
        ("ADDED", "b", 3),
        ("DELETED", "b", 4),
    ]
    assert events[1].previous.revision == 1
    entry = (await store.write([put("c")]))[0]
    assert entry.revision == 5
    await store.close()


async def test_the_counter_survives_when_everything_was_deleted(path):
    store = await Store.open(path)
    await store.write([put("a")])
    await store.write([drop("a", 1)])
    await store.close()
    store = await Store.open(path)
    assert (await store.write([put("a")]))[0].revision == 3
    await store.close()


async def test_only_the_owner_may_read_the_file(path):
    store = await Store.open(path)
    await store.write([put("secret")])
    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    await store.close()
    assert modes == {0o600}


async def test_history_on_disk_is_trimmed(path):
    keep = Retention(events=500, seconds=0)
    store = await Store.open(path, retention=keep)
    for _ in range(5):
        await store.write([put(f"n{store.revision + i}") for i in range(1000)])
    await store.close()
    store = await Store.open(path, retention=keep)
    history = store.history("things")
    assert len(store.scan("things")) == 5000
    assert len(history) < 5000
    assert history.position_after(100) is None
    assert history.position_after(5000) is not None
    await store.close()


async def test_history_of_large_objects_is_trimmed_in_memory_and_on_disk(path):
    """Ten thousand changes of one large object would be gigabytes; other resources keep their history."""
    keep = Retention(most_bytes=400_000)
    store = await Store.open(path, retention=keep)
    await store.write([put("quiet", resource="others")])
    for _ in range(10):
        await store.write([put(f"n{store.revision + i}", text="x" * 1000) for i in range(100)])
    history = store.history("things")
    assert history.size <= 400_000
    assert len(history) > 200
    assert history.position_after(100) is None
    assert len(store.history("others")) == 1
    await store.close()
    store = await Store.open(path, retention=keep)
    assert len(store.scan("things")) == 1000
    assert store.history("things").size <= 400_000
    assert store.history("things").position_after(100) is None
    await store.close()


def foreign_text(path):
    path.write_text("this is my diary, " * 500)


def foreign_database(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()


def newer(path):
    connection = sqlite3.connect(path)
    connection.executescript(f"CREATE TABLE t (x); PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 9")
    connection.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (foreign_text, "is not a Unisono data file: choose another data directory"),
        (foreign_database, "is not a Unisono data file: choose another data directory"),
        (newer, "has schema version 9, this Unisono reads versions up to 2: use the Unisono that wrote it"),
    ],
)
async def test_a_file_that_is_not_ours_is_left_alone(path, make, message):
    make(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message):
        await Store.open(path)
    assert path.read_bytes() == before


async def test_a_torn_file_is_reported(path):
    await filled(path, 400)
    data = bytearray(path.read_bytes())
    assert len(data) > 40_000
    data[8192:20480] = b"\xff" * 12288
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"is damaged; every object can be read, nothing was changed:\n  file: "):
        await Store.open(path)


async def test_a_truncated_file_is_reported(path):
    await filled(path, 400)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(StoreError, match="is damaged"):
        await Store.open(path)


async def test_a_torn_last_page_of_the_log_loses_only_what_was_not_complete(path):
    """The log's checksums cut off a half-written transaction; everything before it stays."""
    await filled(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA locking_mode = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    for i in range(2):
        entry = StoredEntry("things", "ns", f"w{i}", 4 + i, f'{{"metadata":{{"name":"w{i}"}}}}'.encode())
        Database._write(connection, [Event("ADDED", entry, None, 0.0)], 0)
        connection.commit()
    log = path.with_name(path.name + "-wal").read_bytes()
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    copy.with_name("copy.db-wal").write_bytes(log[:-1000] + b"\x00" * 1000)
    connection.close()
    store = await Store.open(copy)
    assert [entry.name for entry in store.scan("things")] == ["n0", "n1", "n2", "w0"]
    await store.close()


async def test_a_second_server_on_the_same_file_is_refused(path):
    store = await Store.open(path)
    with pytest.raises(StoreError, match="is in use by another Unisono: stop that one"):
        await Store.open(path)
    await store.write([put("still-works")])
    await store.close()


async def test_a_connection_that_breaks_is_opened_again_only_on_the_same_state(path):
    database = Database(path)
    database.open()
    database.load()
    entry = StoredEntry("things", "ns", "a", 1, b"{}")
    database.apply([Event("ADDED", entry, None, 0.0)])
    database.close()
    database.apply([Event("MODIFIED", StoredEntry("things", "ns", "a", 2, b"{}"), entry, 0.0)])
    database.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = 99 WHERE key = 'revision'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="has changes that this server does not know: restart it"):
        database.apply([Event("MODIFIED", StoredEntry("things", "ns", "a", 3, b"{}"), entry, 0.0)])
    database.close()


async def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(StoreError, match="cannot be opened"):
        await Store.open(tmp_path / "nowhere" / "state.db")


async def test_an_empty_file_is_a_new_one(path):
    path.touch()
    store = await Store.open(path)
    assert store.revision == 0
    await store.close()


async def test_who_gives_up_while_the_file_is_read_may_take_its_folder_away(path):
    """Ctrl-C while a private control plane starts: no thread is left that trips over the missing folder."""
    reading, go_on = threading.Event(), threading.Event()

    class Slow(Database):
        closed = False

        def load(self):
            reading.set()
            assert go_on.wait(30)
            return super().load()

        def close(self):
            super().close()
            self.closed = True

    disk = Slow(path)
    opening = asyncio.create_task(Store.open(path, disk=disk))
    await asyncio.to_thread(reading.wait, 30)
    opening.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert disk.closed
    await filled(path)
