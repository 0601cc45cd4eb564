"""The store alone: one order of writes, visibility after commit, group commit, failures of the disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from support.backends import drop, put
from unisono.apiserver.storage.database import Database
from unisono.apiserver.storage.files import DiskFullError
from unisono.apiserver.storage.store import StaleWriteError, Store
from unisono.errors import Unavailable

KEY = ("things", "ns", "a")


class Gate(Database):
    """A database that waits before each transaction, and fails on demand."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.free = threading.Event()
        self.free.set()
        self.error: Exception | None = None
        self.applied: list[int] = []

    def apply(self, events, *, compact_to=0):
        self.free.wait(10)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        super().apply(events, compact_to=compact_to)
        self.applied.append(len(events))


@pytest.fixture
async def gate():
    return Gate()


@pytest.fixture
async def store(gate):
    store = await Store.open(disk=gate)
    yield store
    gate.free.set()
    await store.close()


async def test_revisions_count_up_over_all_resources(store):
    first = await store.write([put("a")])
    second = await store.write([put("a", resource="others")])
    third = await store.write([put("a", expected=1)])
    assert [one[0].revision for one in (first, second, third)] == [1, 2, 3]
    assert store.revision == 3
    assert store.get(KEY).data == third[0].data
    assert b'"resourceVersion":"3"' in third[0].data


@pytest.mark.parametrize(
    ("change", "why"),
    [(put("a", 0), "exists"), (put("a", 99), "is older"), (put("b", 1), "is missing"), (drop("b", 1), "is missing")],
)
async def test_compare_and_set_refuses_another_revision(store, change, why):
    await store.write([put("a")])
    with pytest.raises(StaleWriteError):
        store.write([change])
    assert store.revision == 1, why


async def test_a_write_is_invisible_to_readers_until_it_is_on_disk(store, gate):
    gate.free.clear()
    written = store.write([put("a")])
    await asyncio.sleep(0)
    assert store.get(KEY) is None
    assert store.scan("things") == ()
    assert store.latest(KEY).revision == 1
    assert [entry.name for entry in store.scan_latest("things")] == ["a"]
    gate.free.set()
    await written
    assert store.get(KEY).revision == 1


async def test_of_two_writers_of_one_revision_one_wins(store):
    await store.write([put("a")])
    first = store.write([put("a", 1, "first")])
    with pytest.raises(StaleWriteError):
        store.write([put("a", 1, "second")])
    await first
    assert b"first" in store.get(KEY).data


async def test_requests_that_arrive_during_a_sync_share_the_next_one(store, gate):
    gate.free.clear()
    writes = [store.write([put(f"n{i}")]) for i in range(100)]
    gate.free.set()
    await asyncio.gather(*writes)
    assert sum(gate.applied) == 100
    assert len(gate.applied) <= 3
    assert store.statistics()["largest_batch"] >= 50


async def test_changes_of_one_write_appear_together(store):
    seen = []
    store.listen(lambda event: seen.append((event.type, event.entry.name, event.entry.revision)))
    await store.write([put("a"), put("b")])
    await store.write([drop("a", 1), put("b", 2)])
    assert seen == [("ADDED", "a", 1), ("ADDED", "b", 2), ("DELETED", "a", 3), ("MODIFIED", "b", 4)]
    assert store.get(KEY) is None


async def test_a_write_with_one_stale_change_changes_nothing(store):
    with pytest.raises(StaleWriteError):
        store.write([put("a"), put("b", 7)])
    assert store.latest(KEY) is None
    await store.write([put("a")])


async def test_scan_is_sorted_and_by_namespace(store):
    await store.write([put("b", namespace="n2"), put("a", namespace="n2"), put("z", namespace="n1")])
    assert [entry.key[1:] for entry in store.scan("things")] == [("n1", "z"), ("n2", "a"), ("n2", "b")]
    assert [entry.name for entry in store.scan("things", "n2")] == ["a", "b"]
    assert store.scan("things", "n3") == ()
    assert store.scan("nothing") == ()


@pytest.mark.parametrize(
    ("error", "code"),
    [(DiskFullError("no room is left on the disk of /data/state.db"), 507), (OSError("I/O error"), 500)],
)
async def test_a_failed_commit_fails_its_requests_and_nothing_else(store, gate, error, code):
    await store.write([put("a", text="old")])
    gate.error = error
    with pytest.raises(Unavailable, match=r"could not be stored: .*free disk space") as caught:
        await store.write([put("a", 1, "lost")])
    assert (caught.value.code, caught.value.retry_after) == (code, None), "the user is told now, not after ten tries"
    assert b"old" in store.get(KEY).data
    assert store.latest(KEY).revision == 1
    again = await store.write([put("a", 1, "new")])
    assert again[0].revision > 2, "a revision is never given twice"
    assert store.statistics()["failed_batches"] == 1


async def test_a_disk_that_stays_full_is_logged_once_and_so_is_its_end(store, gate):
    with capture_logs() as logs:
        for index in range(20):
            gate.error = DiskFullError("no room is left")
            with pytest.raises(Unavailable):
                await store.write([put(f"lost-{index}")])
        await store.write([put("kept")])
        await store.write([put("too")])
        gate.error = DiskFullError("no room is left")
        with pytest.raises(Unavailable):
            await store.write([put("large")])
        await store.write([put("small")])
    assert [(line["event"], line.get("refused")) for line in logs] == [
        ("write failed", None),
        ("writes work again", 20),
    ]


async def test_writes_built_on_a_lost_one_are_lost_with_it(store, gate):
    gate.free.clear()
    gate.error = sqlite3.OperationalError("disk I/O error")
    first = store.write([put("a", text="lost")])
    await asyncio.sleep(0)
    built_on_it = store.write([put("a", 1, "also lost")])
    gate.free.set()
    results = await asyncio.gather(first, built_on_it, return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable, Unavailable]
    assert all("disk I/O error" in str(result) for result in results), "both are told the cause"
    assert store.latest(KEY) is None
    await store.write([put("a", text="kept")])
    assert b"kept" in store.get(KEY).data


async def test_a_really_full_disk(tmp_path):
    class Small(Database):
        def open(self):
            super().open()
            self._connection.execute("PRAGMA max_page_count = 20")

    store = await Store.open(disk=Small(tmp_path / "state.db"))
    stored, refused = [], 0
    for i in range(60):
        try:
            stored += await store.write([put(f"n{i}", text="x" * 2000)])
        except Unavailable as error:
            assert (error.code, error.reason) == (507, "InsufficientStorage")
            assert f"no room is left on the disk of {tmp_path}" in error.message
            refused += 1
    assert refused
    assert len(store.scan("things")) == len(stored), "reads go on"
    assert stored
    await store.close()
    again = await Store.open(tmp_path / "state.db")
    assert [entry.name for entry in again.scan("things")] == sorted(entry.name for entry in stored)
    await again.close()


async def test_a_cancelled_request_does_not_disturb_others(store, gate):
    gate.free.clear()
    doomed = asyncio.ensure_future(store.write([put("a")]))
    other = store.write([put("b")])
    doomed.cancel()
    gate.free.set()
    await other
    assert store.get(KEY) is not None, "it was accepted, so it is stored"


async def test_closing_finishes_queued_writes_and_refuses_new_ones(tmp_path):
    store = await Store.open(tmp_path / "state.db")
    writes = [store.write([put(f"n{i}")]) for i in range(50)]
    await store.close()
    assert all(write.done() and not write.exception() for write in writes)
    with pytest.raises(Unavailable, match="stopping"):
        store.write([put("late")])
    await store.close()


async def test_the_writers_of_one_transaction_go_on_few_at_a_time(store, gate):
    gate.free.clear()
    writes = [asyncio.ensure_future(store.write([put(f"w-{index:02}")])) for index in range(40)]
    await asyncio.sleep(0)
    gate.free.set()
    went_on = [0]
    while went_on[-1] < len(writes):
        await asyncio.sleep(0)
        went_on.append(sum(write.done() for write in writes))
    assert max(gate.applied) > 10, "they came together"
    assert max(after - before for before, after in pairwise(went_on)) <= 5
    assert len(store.scan("things")) == 40


async def test_closing_answers_everybody(store, gate):
    gate.free.clear()
    writes = [asyncio.ensure_future(store.write([put(f"w-{index:02}")])) for index in range(40)]
    await asyncio.sleep(0)
    gate.free.set()
    await store.close()
    assert [written[0].name for written in await asyncio.gather(*writes)] == [f"w-{index:02}" for index in range(40)]
