"""Disks that fail, and disks without room: what was acknowledged stays, and nothing half made is left."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.backends import put
from support.programs import needed
from unisono.apiserver.storage.backup import accept_loss, check_backup, repair, restore_backup
from unisono.apiserver.storage.files import StoreError, copy_database
from unisono.apiserver.storage.store import Store

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
# Fails the calls that are named in the variable, for the files of the store, while the file FAIL is there.
_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int broken(int fd, const char *call) {
    char link[64], name[4096];
    const char *flag = getenv("FAIL"), *calls = getenv("FAIL_CALLS");
    if (!flag || !calls || !strstr(calls, call) || access(flag, F_OK)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) return 0;
    name[length] = 0;
    if (!strstr(name, "state.db")) return 0;
    errno = EIO;
    return 1;
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    return broken(fd, "write") ? -1 : real(fd, data, size, at);
}
ssize_t write(int fd, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    return broken(fd, "write") ? -1 : real(fd, data, size);
}
int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    return broken(fd, "sync") ? -1 : real(fd);
}
int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    return broken(fd, "sync") ? -1 : real(fd);
}
"""
_WRITER = """
import asyncio, os, sys
from unisono.apiserver.storage.store import Change, Store
from unisono.errors import Unavailable

def change(name):
    return Change(("things", "ns", name), 0, lambda revision: b'{"metadata":{"name":"%s"}}' % name.encode())

async def main():
    path, flag = sys.argv[1], os.environ["FAIL"]
    store = await Store.open(path)
    kept, refused = [], []
    for number in range(60):
        if number == 20:
            open(flag, "w").close()
        if number == 40:
            os.unlink(flag)
        try:
            await store.write([change(f"n{number}")])
            kept.append(f"n{number}")
        except Unavailable:
            refused.append(f"n{number}")
    print(" ".join(kept), "|", " ".join(refused), flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that makes calls of the system fail."""
    compiler = needed("cc")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(_SHIM)
    command = [compiler, "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "shim.so"


@pytest.mark.processes
@pytest.mark.parametrize("calls", ["write", "sync", "write,sync"])
async def test_a_disk_that_fails_for_a_while(tmp_path: Path, shim: Path, calls: str) -> None:
    path = tmp_path / "state.db"
    environment = {**os.environ, "LD_PRELOAD": str(shim), "FAIL": str(tmp_path / "flag"), "FAIL_CALLS": calls}
    done = subprocess.run(
        [sys.executable, "-c", _WRITER, str(path)], capture_output=True, text=True, env=environment, check=False
    )
    assert "|" in done.stdout, done.stderr
    kept, refused = (set(part.split()) for part in done.stdout.splitlines()[-1].split("|"))
    assert len(refused) >= 20, "the disk did not fail"
    store = await Store.open(path)
    found = {entry.name for entry in store.scan("things")}
    assert kept <= found
    assert {f"n{number}" for number in range(20)} <= kept
    await store.close()


@contextmanager
def no_room() -> Iterator[None]:
    """No file may grow beyond 20 kB, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    store = await Store.open(path)
    await store.write([put(f"n{number}", text="x" * 900) for number in range(100)])
    await store.close()
    return path


def damage(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE objects SET data = x'00' WHERE name = 'n7'")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def copied(path: Path, target: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        copy_database(connection, target)


def repaired(path: Path) -> None:
    damage(path)
    repair(path, NOW)


def incomplete(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = 1 WHERE key = 'running'")
    path.with_name("state.db-acknowledged").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("prepare", "work"),
    [
        (lambda path: None, lambda path: copied(path, path.with_name("copy.db"))),
        (lambda path: copied(path, path.with_name("copy.db")), lambda path: restore(path)),
        (damage, lambda path: repair(path, NOW)),
        (incomplete, lambda path: accept_loss(path, NOW)),
    ],
    ids=["backup", "restore", "repair", "accept loss"],
)
async def test_without_room_nothing_half_made_is_left(
    path: Path, prepare: Callable[[Path], None], work: Callable[[Path], object]
) -> None:
    prepare(path)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with no_room(), pytest.raises((OSError, sqlite3.Error, StoreError)):
        work(path)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    work(path)


def restore(path: Path) -> None:
    restore_backup(path.with_name("copy.db"), path, NOW)


async def test_a_store_of_the_first_version_waits_for_room(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in ("objects", "events"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN sum")
        connection.execute("DELETE FROM meta WHERE key IN ('store', 'running')")
        connection.execute("PRAGMA user_version = 1")
        connection.execute("PRAGMA journal_mode = DELETE")
    before = path.read_bytes()
    with no_room(), pytest.raises(Exception, match=r"room|full|disk I/O|large"):
        await Store.open(path)
    assert path.read_bytes()[100:] == before[100:]
    assert not path.with_name("state.db.schema-1").exists()
    store = await Store.open(path)
    assert len(store.scan("things")) == 100
    await store.close()
    assert check_backup(path).objects == 100
