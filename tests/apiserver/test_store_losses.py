"""Acknowledged changes that are missing: a log that was deleted or left behind after kill -9 is noticed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.backends import put
from unisono.apiserver.storage.backup import accept_loss
from unisono.apiserver.storage.files import LostWrites, marker_path, read_mark
from unisono.apiserver.storage.store import Store

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
WRITES = 20
_CHILD = """
import asyncio, sys
from unisono.apiserver.storage.store import Change, Store

async def main():
    store = await Store.open(sys.argv[1])
    for number in range(int(sys.argv[2])):
        body = b'{"metadata":{"name":"n%d"}}' % number
        await store.write([Change(("things", "ns", f"n{number}"), 0, lambda revision: body)])
    print("written", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""

pytestmark = pytest.mark.processes


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The store of a process that was killed after 20 acknowledged writes; one that had been closed before."""
    path = tmp_path / "state.db"
    child = subprocess.Popen([sys.executable, "-c", _CHILD, str(path), str(WRITES)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"written\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    return path


async def count(path: Path) -> int:
    store = await Store.open(path)
    found = len(store.scan("things"))
    await store.close()
    return found


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


async def test_with_its_log_nothing_is_missing(killed: Path) -> None:
    assert read_mark(killed) is not None
    assert await count(killed) == WRITES
    assert await count(killed) == WRITES


async def test_a_deleted_log_is_noticed_and_the_loss_can_be_accepted(killed: Path) -> None:
    log_of(killed).unlink()
    for _ in range(2):
        with pytest.raises(LostWrites, match=r"at revision 0, but changes up to revision 20 were acknowledged, and"):
            await Store.open(killed)
    assert "unisono up --accept-loss" in str(await refusal(killed))
    assert accept_loss(killed, NOW) == killed.with_name("state.db.incomplete-20261120T120000")
    store = await Store.open(killed)
    assert store.revision > WRITES + 1000, "no version that a client has seen comes again"
    await store.write([put("again")])
    await store.close()
    assert await count(killed) == 1


async def refusal(path: Path) -> LostWrites:
    with pytest.raises(LostWrites) as caught:
        await Store.open(path)
    return caught.value


@pytest.mark.parametrize("how", ["cut", "emptied", "exchanged"])
async def test_a_log_that_ends_too_early_is_noticed(killed: Path, tmp_path: Path, how: str) -> None:
    log = log_of(killed)
    if how == "cut":
        os.truncate(log, log.stat().st_size // 2)
    elif how == "emptied":
        os.truncate(log, 0)
    else:
        log.write_bytes(b"\x37\x7f\x06\x82" + bytes(5000))
    assert "were acknowledged" in str(await refusal(killed))


async def test_a_copy_without_its_log_is_noticed(killed: Path, tmp_path: Path) -> None:
    """The marker stayed behind as well: the file itself says that it was not closed."""
    copy = tmp_path / "elsewhere" / "state.db"
    copy.parent.mkdir()
    shutil.copyfile(killed, copy)
    assert "was not closed, and its write-ahead log state.db-wal is missing" in str(await refusal(copy))
    shutil.copyfile(log_of(killed), log_of(copy))
    assert await count(copy) == WRITES


async def test_a_missing_and_an_emptied_file_are_not_taken_for_new_ones(killed: Path) -> None:
    assert await count(killed) == WRITES
    os.truncate(killed, 0)
    assert "is empty, but changes up to revision 20 were acknowledged" in str(await refusal(killed))
    killed.unlink()
    assert "is missing, but changes up to revision 20 were acknowledged" in str(await refusal(killed))
    marker_path(killed).unlink()
    log_of(killed).write_bytes(b"something")
    assert "is missing, but its write-ahead log state.db-wal is there" in str(await refusal(killed))
    accept_loss(killed, NOW)
    assert await count(killed) == 0


async def test_an_older_copy_in_the_place_of_the_file_is_noticed(killed: Path, tmp_path: Path) -> None:
    assert await count(killed) == WRITES
    old = tmp_path / "old"
    shutil.copyfile(killed, old)
    store = await Store.open(killed)
    await store.write([put("newer")])
    await store.close()
    shutil.copyfile(old, killed)
    assert "ends at revision 20, but changes up to revision 21" in str(await refusal(killed))


@pytest.mark.parametrize("text", [b"", b"unisono 00 00000000000000000099 deadbeef\n", b"\xff" * 60])
async def test_a_torn_marker_proves_nothing(killed: Path, text: bytes) -> None:
    marker_path(killed).write_bytes(text)
    assert await count(killed) == WRITES
    assert read_mark(killed) is not None


async def test_another_tool_may_fold_the_log_into_the_file(killed: Path) -> None:
    """A program that opens the store with SQLite after a crash loses nothing, and is not accused of it."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(killed)) as connection:
        connection.execute("SELECT count(*) FROM objects")
    assert not log_of(killed).exists()
    assert await count(killed) == WRITES
