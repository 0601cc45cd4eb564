"""What is stored, in each storage: crashes at any statement, damage, sums of old records, bounds."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from support.examples import examples
from support.histories import KIND_OF, ZERO, Story, a_job, a_pod, uid_of
from support.pod_lives import LIVES, Life, counted, events_of
from unisono.api.base import Object
from unisono.api.kinds import JOBS
from unisono.history import storage as schema
from unisono.history.database import Bounds, Database
from unisono.history.ledger import Ledger
from unisono.history.reading import Filter, Reader
from unisono.history.records import Changes, JobRecord, Share
from unisono.history.report import Window
from unisono.history.sqlite import SqliteConnection, SqliteFile
from unisono.history.storage import HistoryError, NotStored, Storage

DAY = 86_400_000
PLACES = [("ns", JOBS.resource)]


def window(low: float, high: float) -> Window:
    end = ZERO + round(high * 1000)
    return Window(ZERO + round(low * 1000), end, end)


def gpu_seconds(storage: Storage, low: float, high: float) -> float:
    report = Reader(storage).report(window(low, high), "queue", Filter(), PLACES, capacity=True)
    return report.total.gpu_hours * 3600


class Filed(Story):
    """A story whose changes are stored."""

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self.storage = storage
        self.database = Database(storage)
        self.ledger = Ledger(self.database.open())

    def save(self, at: float = 0.0) -> None:
        self.database.store(self.ledger.take(ZERO + round(at * 1000)))

    def again_all(self, told: list[tuple[int, Object, bool]]) -> None:
        for at, obj, deleted in told:
            self.again(at, obj, deleted=deleted)


def numbered(lives: list[Life]) -> list[tuple[int, Object, bool]]:
    """Events with the resourceVersions that the server gives them."""
    found = events_of(lives)
    for number, (_, obj, _) in enumerate(found, start=1):
        obj.metadata.resource_version = str(number)
    return found


def crashed(path: Path, to: Path) -> None:
    """The file as a process that is killed now leaves it."""
    for end in ("", "-wal"):
        source = path.with_name(path.name + end)
        target = to.with_name(to.name + end)
        target.unlink(missing_ok=True)
        if source.exists():
            shutil.copyfile(source, target)


def lives_of_two_jobs() -> list[Life]:
    return [
        Life(job=0, created=0, waits=3, runs=40, lingers=5, cards=2, killed=False),
        Life(job=0, created=0, waits=3, runs=25, lingers=0, cards=1, killed=True),
        Life(job=1, created=9, waits=1, runs=60, lingers=9, cards=4, killed=False),
    ]


def test_a_crash_at_any_statement_loses_and_doubles_nothing(tmp_path: Path) -> None:
    told = numbered(lives_of_two_jobs())
    path, copy = tmp_path / "history.db", tmp_path / "crashed.db"
    story = Filed(SqliteFile(path))
    crashes: list[Path] = []

    def crash(statement: str) -> None:
        if not statement.startswith(("SELECT", "PRAGMA")):
            crashes.append(tmp_path / f"crash-{len(crashes)}.db")
            crashed(path, crashes[-1])

    assert isinstance(story.database._connection, SqliteConnection)
    story.database._connection.raw.set_trace_callback(crash)
    for at, obj, deleted in told:
        story.again(at, obj, deleted=deleted)
        story.save(at)
    expected = counted(lives_of_two_jobs(), 0, 200) / 1_000_000
    assert gpu_seconds(SqliteFile(path), 0, 200) == pytest.approx(expected)
    assert len(crashes) > 100
    for each in crashes:
        crashed(each, copy)
        after = Filed(SqliteFile(copy))
        after.again_all(told)
        after.save()
        assert gpu_seconds(SqliteFile(copy), 0, 200) == pytest.approx(expected)
        after.database.close()


@given(lives=LIVES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40))
def test_sums_of_old_records_are_those_of_their_intervals(storage: Storage, lives: list[Life]) -> None:
    connection = storage.writer()
    for table in ("intervals", "jobs", "hours", "samples", "links", "versions") if connection.version() else ():
        connection.execute(f"DELETE FROM {table}")
    connection.close()
    story = Filed(storage)
    story.again_all(numbered(lives))
    story.save()
    expected = counted(lives, 0, 7200) / 1_000_000
    # The hours of the builders' beginning, whole.
    low = -(ZERO % 3_600_000) / 1000
    assert gpu_seconds(storage, low, low + 7200) == pytest.approx(expected)
    story.database.compact(ZERO + 200 * DAY, Bounds())
    assert gpu_seconds(storage, low, low + 7200) == pytest.approx(expected)
    count = story.database._open().one("SELECT count(*) FROM intervals")
    assert count == (0,)
    story.database.compact(ZERO + 200 * DAY, Bounds())
    assert gpu_seconds(storage, low, low + 7200) == pytest.approx(expected)
    story.database.compact(ZERO + 900 * DAY, Bounds())
    assert gpu_seconds(storage, low, low + 7200) == 0
    story.database.close()


def test_sums_keep_ends_evictions_and_failures(storage: Storage) -> None:
    story = Filed(storage)
    story.tell(0, a_job("j"))
    story.tell(61, a_pod("a", phase="Failed", ended=60, exit_code=1), deleted=True)
    story.tell(61, a_pod("b", evicted=True), deleted=True)
    story.tell(90, a_job("j", "Failed", changed=90), deleted=True)
    story.save()
    reader = Reader(story.storage)
    before = reader.report(window(-7200, 7200), "user", Filter(), PLACES, capacity=False)
    story.database.compact(ZERO + 200 * DAY, Bounds())
    after = reader.report(window(-7200, 7200), "user", Filter(), PLACES, capacity=False)
    assert before.rows[0].ended == after.rows[0].ended == {"Failed": 1}
    assert (after.rows[0].key, after.rows[0].evictions, after.rows[0].failures) == ("ann", 1, 1)
    assert after.rows[0].cpu_hours == pytest.approx(before.rows[0].cpu_hours)
    assert (before.summed, after.summed) == (False, True)
    assert reader.jobs(window(-7200, 7200), Filter(), PLACES).jobs == []


def test_what_is_there_is_never_summed_up(storage: Storage) -> None:
    story = Filed(storage)
    story.tell(0, a_job("j"))
    story.tell(61, a_pod("over", phase="Succeeded", ended=60))
    story.tell(61, a_pod("runs"))
    story.save()
    story.database.compact(ZERO + 900 * DAY, Bounds())
    assert len(Reader(story.storage).jobs(window(0, 100), Filter(), PLACES).jobs) == 1
    story.database.close()
    story.ledger = Ledger(story.database.open())
    story.tell(99, a_pod("runs", phase="Succeeded", ended=98), deleted=True)
    story.save()
    assert gpu_seconds(story.storage, 0, 200) == pytest.approx(158)


def test_what_grows_too_large_gives_up_old_records_first(storage: Storage) -> None:
    story = Filed(storage)
    changes = Changes()
    for number in range(3000):
        uid = f"job-{number:05}"
        ended = ZERO + number * 1_800_000
        changes.jobs[uid] = JobRecord(
            uid,
            "v1",
            "Job",
            JOBS.resource,
            "ns",
            uid,
            created=ended - 10,
            ended=ended,
            outcome="Completed",
            live=False,
            message="x" * 400,
            user=f"user-{number}",
        )
    story.database.store(changes)
    now, full = ZERO + 3000 * 1_800_000, story.database.size()
    bounds = Bounds(detail_days=1000, most_bytes=full // 2)
    story.database.compact(now, bounds)
    assert story.database.size() <= bounds.most_bytes
    found = Reader(story.storage).jobs(Window(0, now + 1, now), Filter(), PLACES).jobs
    assert 0 < len(found) < 3000
    assert found[-1].name == "job-02999"
    tiny = Bounds(detail_days=1000, most_bytes=full // 20)
    story.database.compact(now, tiny)
    assert story.database.size() <= tiny.most_bytes
    rows = Reader(story.storage).report(Window(0, now + 1, now), "day", Filter(), PLACES, capacity=False).rows
    assert rows
    assert rows[-1].key == "2024-01-16"  # the last day is kept longest


def test_the_share_that_holds_is_kept_however_old_it_is(storage: Storage) -> None:
    story = Filed(storage)
    shares = [Share(ZERO + at * DAY, "", "nvidia.com/gpu", capacity=at * 1000 + 1000) for at in range(3)]
    story.database.store(Changes(shares=shares))
    story.database.compact(ZERO + 2000 * DAY, Bounds())
    now = ZERO + 2000 * DAY
    report = Reader(story.storage).report(Window(now - DAY, now, now), "day", Filter(), PLACES, capacity=True)
    assert report.capacity == {"nvidia.com/gpu": pytest.approx(72)}
    assert story.database._open().one("SELECT count(*) FROM samples") == (1,)


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"no database at all, " * 1000)
    database = Database(SqliteFile(path))
    assert not list(database.open().jobs)
    assert database.damaged == str(tmp_path / "history.db.damaged")
    assert Path(database.damaged).read_bytes().startswith(b"no database")


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(HistoryError, match="later version"):
        Database(SqliteFile(path)).open()
    assert path.read_bytes() == before


def test_only_its_owner_reads_the_file(tmp_path: Path) -> None:
    database = Database(SqliteFile(tmp_path / "history.db"))
    database.open()
    assert (tmp_path / "history.db").stat().st_mode & 0o777 == 0o600


def test_a_write_that_fails_is_made_up_for(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Filed(storage)
    story.tell(0, a_job("j"))
    first = story.ledger.take(0)

    def fails(_rows: Any) -> None:
        raise storage.failures[0]("disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr("unisono.history.storage.interval_row", fails)
        with pytest.raises(NotStored, match="disk I/O error"):
            story.database.store(first.then(Changes(intervals={("p", 1): object()})))  # type: ignore[dict-item]
    assert story.database.open().jobs == []
    story.tell(61, a_pod("p", phase="Succeeded", ended=60), deleted=True)
    story.database.store(first.then(story.ledger.take(0)))
    assert [job.uid for job in story.database.open().jobs] == [uid_of(JOBS, "j")]
    assert gpu_seconds(story.storage, 0, 200) == pytest.approx(60)


def test_records_come_back_as_they_were(storage: Storage) -> None:
    story = Filed(storage)
    for at, obj, deleted in events_of(lives_of_two_jobs())[:-4]:
        story.tell(at, obj, deleted=deleted)
    changes = story.ledger.take(0)
    story.database.store(changes)
    found = story.database.open()
    assert {job.uid: job for job in found.jobs} == {uid: job for uid, job in changes.jobs.items() if job and job.live}
    assert {each.uid: each for each in found.links} == changes.links
    assert {each.pod: each for each in found.intervals} == {
        each.pod: each for each in changes.intervals.values() if each and each.present
    }
    assert found.versions == {
        KIND_OF[type(obj)].resource: changes.versions[KIND_OF[type(obj)].resource]
        for _, obj, _ in events_of(lives_of_two_jobs())
    }


@pytest.mark.parametrize(("asked", "ended"), [("", 1), ("ann", 1), ("bob", 0)])
def test_jobs_of_which_no_user_is_known_are_the_owners(storage: Storage, asked: str, ended: int) -> None:
    story = Filed(storage)
    story.tell(0, a_job("j"))
    story.tell(61, a_pod("a", phase="Succeeded", ended=60))
    story.save()
    reader, wanted = Reader(story.storage, "ann"), Filter(user=asked)
    report = reader.report(window(0, 100), "user", wanted, reader.places(), capacity=False)
    assert [row.key for row in report.rows] == ["ann"] * ended
    assert [job.user for job in reader.jobs(window(0, 100), wanted, reader.places()).jobs] == ["ann"] * ended


def test_rows_that_a_viewer_may_not_see_are_not_even_read(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Filed(storage)
    story.tell(0, a_job("j"))
    story.tell(61, a_pod("a", phase="Succeeded", ended=60))
    story.save()
    reader, read = Reader(story.storage), list[object]()
    whole = schema.job_of
    monkeypatch.setattr(schema, "job_of", lambda row: read.append(row) or whole(row))
    ((namespace, resource), *_) = reader.places()
    for shown, wanted, expected in (
        ([], Filter(), False),
        ([("elsewhere", resource), (namespace, "others.example.com")], Filter(), False),
        ([(namespace, resource)], Filter(namespace="elsewhere"), False),
        ([(namespace, resource)], Filter(), True),
    ):
        read.clear()
        reader.report(window(0, 100), "queue", wanted, shown, capacity=False)
        reader.jobs(window(0, 100), wanted, shown)
        assert bool(read) is expected


def test_sums_that_are_larger_than_a_database_takes_are_stored_as_the_largest_number(storage: Storage) -> None:
    filed = Filed(storage)
    filed.tell(0, a_job("j"))
    for number in range(200):
        filed.tell(1, a_pod(f"p{number}", resources={"cpu": 2**46, "memory": 2**56}))
    filed.ledger.sample(ZERO + 2000)
    filed.save(2)
    [line] = Reader(storage).jobs(window(0, 3), Filter(), PLACES).jobs
    assert (line.pods, line.cpus) == (200, (2**63 - 1) / 1000)
