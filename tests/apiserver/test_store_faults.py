"""Full disks and torn logs: an acknowledged write stays, a refused one leaves nothing, pairs stay pairs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.apiserver.storage.store import Change, Store

# Writes pairs of objects one after the other and says, after each acknowledgement, how long the log is.
_WRITER = """
import asyncio, os, sys
from unisono.apiserver.storage.store import Change, Store

def one(name, index):
    body = '{"metadata":{"name":"%s"},"data":"%s"}' % (name, "d" * (index * 97 % 9000))
    return Change(("things", "ns", name), 0, lambda revision: body.encode())

def pair(index):
    return [one(f"{side}-{index:04}", index) for side in "ab"]

async def main():
    store = await Store.open(sys.argv[1])
    for index in range(int(sys.argv[2])):
        await store.write(pair(index))
        print(index, os.path.getsize(sys.argv[1] + "-wal"), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""

# Fills the disk, or what a process may write, at a moment that the first argument chooses; then makes room again.
_FULL = """
import asyncio, json, os, resource, sqlite3, sys
from unisono.apiserver.storage.store import Change, Store
from unisono.errors import Unavailable

folder, how, room = sys.argv[1], sys.argv[2], int(sys.argv[3])
path, filler = os.path.join(folder, "state.db"), os.path.join(folder, "filler")

def fill():
    if how == "limit":
        most = os.path.getsize(path + "-wal") + room
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        return
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            os.truncate(filler, max(0, os.path.getsize(filler) - room))

def free():
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        os.unlink(filler)

def one(name):
    body = '{"metadata":{"name":"%s"},"data":"%s"}' % (name, "d" * 3000)
    return Change(("things", "ns", name), 0, lambda revision: body.encode())

def pair(index):
    return [one(f"{side}-{index:04}") for side in "ab"]

async def main():
    store = await Store.open(path)
    kept, refused, texts = [], [], set()
    async def write(index):
        try:
            await store.write(pair(index))
        except Unavailable as error:
            refused.append(index)
            texts.add(error.message)
        else:
            kept.append(index)
    def seen():
        return sorted(entry.name for entry in store.scan("things"))
    def expected():
        return sorted(f"{side}-{index:04}" for index in kept for side in "ab")
    for index in range(10):
        await write(index)
    fill()
    for start in range(10, 60, 5):
        await asyncio.gather(*(write(index) for index in range(start, start + 5)))
        assert seen() == expected(), "what was refused must not be seen, what was stored must be"
    while_full = len(refused)
    free()
    again = len(kept)
    for index in range(100, 110):
        await write(index)
    recovered = len(kept) - again
    assert seen() == expected()
    await store.close()
    after = await Store.open(path)
    found = sorted(entry.name for entry in after.scan("things"))
    await after.close()
    told = {"refused": while_full, "recovered": recovered, "same": found == expected(), "texts": sorted(texts)}
    print(json.dumps(told))

asyncio.run(main())
"""


def _whole(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _check_full(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["refused"] > 0, "the disk was not full enough to test anything"
    assert told["recovered"] == 10, "when there is room again every write must succeed, without a restart"
    assert told["same"], "the file must hold what was acknowledged and nothing else"
    assert any("free disk space" in text for text in told["texts"])


@pytest.mark.processes
@pytest.mark.parametrize("room", [0, 1, 4096, 9_000, 40_000, 150_001])
def test_writes_that_find_no_room_leave_nothing_and_work_again_later(tmp_path: Path, room: int) -> None:
    command = [sys.executable, "-c", _FULL, str(tmp_path), "limit", str(room)]
    _check_full(subprocess.run(command, capture_output=True, text=True, timeout=600, check=False))
    _whole(tmp_path / "state.db")


_MOUNT = 'mount -t tmpfs -o size=1500k tmpfs "$0" && exec "$@"'


def _can_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "--mount", "--map-root-user", "sh", "-c", _MOUNT, str(folder), "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.processes
@pytest.mark.parametrize("room", [0, 12_288, 100_000])
def test_a_disk_that_is_really_full(tmp_path: Path, room: int) -> None:
    if not _can_mount(tmp_path):
        pytest.skip("this machine does not allow a mount namespace of one's own")
    child = [sys.executable, "-c", _FULL, str(tmp_path), "disk", str(room)]
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", _MOUNT, str(tmp_path), *child]
    _check_full(subprocess.run(command, capture_output=True, text=True, timeout=600, check=False))


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A data file and its log as kill -9 left them, and how long the log was after each acknowledged pair."""
    path = tmp_path_factory.mktemp("crashed") / "state.db"
    child = subprocess.Popen([sys.executable, "-c", _WRITER, str(path), "40"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    sizes = [int(line.split()[1]) for _, line in zip(range(40), child.stdout, strict=False)]
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert len(sizes) == 40
    return path, sizes


async def _stored_pairs(path: Path) -> int:
    """Pairs in the file, which must be the first ones, whole; the store can be written to and read again."""
    store = await Store.open(path)
    names = {entry.name for entry in store.scan("things")}
    count = len(names) // 2
    assert names == {f"{side}-{index:04}" for index in range(count) for side in "ab"}
    assert store.revision == max((entry.revision for entry in store.scan("things")), default=0)
    await store.write([Change(("things", "ns", "later"), 0, lambda revision: b'{"metadata":{"name":"later"}}')])
    await store.close()
    again = await Store.open(path)
    assert {entry.name for entry in again.scan("things")} == names | {"later"}
    await again.close()
    return count


def _copy(crashed: Path, folder: Path, log: bytes) -> Path:
    path = folder / "state.db"
    for old in folder.iterdir():
        old.unlink()
    shutil.copyfile(crashed, path)
    Path(f"{path}-wal").write_bytes(log)
    return path


@pytest.mark.processes
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_a_log_that_was_cut_anywhere(
    crashed: tuple[Path, list[int]], tmp_path: Path, data: st.DataObject
) -> None:
    source, sizes = crashed
    log = Path(f"{source}-wal").read_bytes()
    length = data.draw(st.one_of(st.integers(0, len(log)), st.sampled_from(sizes), st.sampled_from(sizes).map(_before)))
    count = await _stored_pairs(_copy(source, tmp_path, log[:length]))
    assert count == sum(size <= length for size in sizes)


def _before(size: int) -> int:
    return size - 1


@pytest.mark.processes
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_a_log_whose_end_is_garbage(crashed: tuple[Path, list[int]], tmp_path: Path, data: st.DataObject) -> None:
    """A page that the disk wrote only in part: what was acknowledged before it stays, what it belonged to goes."""
    source, sizes = crashed
    log = bytearray(Path(f"{source}-wal").read_bytes())
    whole = data.draw(st.integers(0, len(sizes) - 2))
    at = data.draw(st.integers(sizes[whole], sizes[whole + 1] - 1))
    end = min(len(log), at + data.draw(st.integers(1, 8192)))
    log[at:end] = bytes(byte ^ 0x5A for byte in log[at:end])
    assert await _stored_pairs(_copy(source, tmp_path, bytes(log))) == whole + 1


def test_the_writer_is_told_why(tmp_path: Path) -> None:
    """The message of a refused write names the cause, so that a user can mend it."""
    command = [sys.executable, "-c", _FULL, str(tmp_path), "limit", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=dict(os.environ))
    texts = json.loads(done.stdout.splitlines()[-1])["texts"]
    assert any("disk" in text.split(";")[0] for text in texts), texts
