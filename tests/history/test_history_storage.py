"""Storages alike: one writer, one cluster, migrations, texts that users write; and PostgreSQL on its own."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from support import postgres
from support.histories import ZERO
from support.plane import REPOSITORY
from unisono.api.kinds import JOBS
from unisono.errors import ConfigError
from unisono.history import storage as schema
from unisono.history.database import Bounds, Database
from unisono.history.reading import Filter, Reader, StoredHistory
from unisono.history.records import Changes, Interval, JobRecord, Link
from unisono.history.report import Window
from unisono.history.sqlite import SqliteFile
from unisono.history.storage import HistoryError, NotStored, Storage

PLACES = [("ns", JOBS.resource)]
WINDOW = Window(ZERO - 1000, ZERO + 10_000_000, ZERO + 10_000_000)


def a_record(name: str, **given: object) -> JobRecord:
    values = {"queue": "q", "created": ZERO, "started": ZERO, "live": False, **given}
    return JobRecord(name, "v1", "Job", JOBS.resource, "ns", name, **values)  # type: ignore[arg-type]


def names(storage: Storage) -> list[str]:
    return [job.name for job in Reader(storage).jobs(WINDOW, Filter(), PLACES).jobs]


def test_who_was_there_first_is_refused_once_another_writes(storage: Storage) -> None:
    first, second = Database(storage), Database(storage)
    first.open()
    first.store(Changes(jobs={"a": a_record("a")}))
    second.open()
    for write in (
        lambda: first.store(Changes(jobs={"a": a_record("a", queue="stale")})),
        lambda: first.compact(ZERO + 10**12, Bounds()),
        lambda: first.belongs_to("elsewhere"),
    ):
        with pytest.raises(HistoryError, match="another process writes"):
            write()
    second.store(Changes(jobs={"b": a_record("b", created=ZERO + 1)}))
    assert names(storage) == ["a", "b"]
    assert Reader(storage).jobs(WINDOW, Filter(queue="stale"), PLACES).jobs == []


def test_tables_of_an_earlier_version_are_brought_up_and_keep_their_rows(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Database(storage)
    before.open()
    before.store(Changes(jobs={"a": a_record("a")}))
    before.close()
    more = ("CREATE TABLE extra (name TEXT PRIMARY KEY)", "INSERT INTO extra SELECT name FROM jobs")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, more))
    with pytest.raises(Exception, match="no history"):
        names(storage)
    after = Database(storage)
    after.open()
    assert after._open().one("SELECT name FROM extra") == ("a",)
    assert names(storage) == ["a"]
    monkeypatch.undo()


def test_a_migration_that_fails_changes_nothing(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Database(storage)
    before.open()
    before.store(Changes(jobs={"a": a_record("a")}))
    before.close()
    with monkeypatch.context() as broken:
        bad = ("CREATE TABLE extra (name TEXT PRIMARY KEY)", "INSERT INTO missing VALUES (1)")
        broken.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, bad))
        with pytest.raises(HistoryError, match="cannot be opened"):
            Database(storage).open()
    again = Database(storage)
    again.open()
    assert names(storage) == ["a"]
    with pytest.raises(storage.failures):
        again._open().one("SELECT name FROM extra")


@pytest.mark.parametrize(
    "text", ["nul \0 within", "percent %s %(x)s", "question ? and :colon", "quote ' \" \\", "é漢🎶"]
)
def test_texts_that_users_write_come_back(storage: Storage, text: str) -> None:
    database = Database(storage)
    database.open()
    database.store(
        Changes(
            links={"l": Link("l", "pods", "ns", text)},
            jobs={"a": a_record("a", message=text, user=text, queue=text)},
            intervals={("p", ZERO): Interval("p", ZERO, "a", text, text, text, {text: 1}, group=text)},
        )
    )
    [line] = Reader(storage).jobs(WINDOW, Filter(queue=text.replace("\0", "")), PLACES).jobs
    assert (line.message, line.user) == (text.replace("\0", ""),) * 2
    assert [row.key for row in Reader(storage).report(WINDOW, "queue", Filter(), PLACES, capacity=False).rows] == [
        text.replace("\0", "")
    ]


def test_more_jobs_than_are_read_at_a_time_have_their_own_pods(storage: Storage) -> None:
    database, changes = Database(storage), Changes()
    database.open()
    for number in range(1203):
        uid = f"job-{number:04}"
        changes.jobs[uid] = a_record(uid, created=ZERO + number)
        changes.intervals[uid, ZERO] = Interval(
            uid, ZERO, uid, uid, "n", "q", {"cpu": 3_600_000}, end=ZERO + number, present=False
        )
    database.store(changes)
    found = Reader(storage).jobs(WINDOW, Filter(), PLACES).jobs
    assert [job.name for job in found] == sorted(changes.jobs)
    assert [round(job.cpu_hours * 1000) for job in found] == list(range(1203))


# ---- PostgreSQL


@pytest.fixture
def dsn(server: postgres.Server) -> str:
    return server.database()


@pytest.fixture
def logged() -> Iterator[list[object]]:
    with structlog.testing.capture_logs() as lines:
        yield lines  # type: ignore[misc]


def test_a_database_of_another_cluster_is_left_alone(dsn: str) -> None:
    from unisono.history.postgres import Postgres

    database = Database(Postgres(dsn))
    database.open()
    assert database.belongs_to("one")
    assert database.belongs_to("one")
    with pytest.raises(HistoryError, match="another cluster"):
        database.belongs_to("two")
    database.close()


def test_a_server_that_was_away_is_used_again(server: postgres.Server, dsn: str) -> None:
    from unisono.history.postgres import Postgres

    database = Database(Postgres(dsn))
    database.open()
    database.store(Changes(jobs={"a": a_record("a")}))
    server.stop()
    try:
        with pytest.raises(NotStored):
            database.store(Changes(jobs={"b": a_record("b")}))
        with pytest.raises(NotStored) as told:
            names(Postgres(dsn))
        assert postgres.PASSWORD not in str(told.value)
        with pytest.raises(HistoryError, match="cannot be opened") as unusable:
            Database(Postgres(dsn)).open()
        assert postgres.PASSWORD not in str(unusable.value)
    finally:
        server.start()
    database.store(Changes(jobs={"b": a_record("b", created=ZERO + 1)}))
    assert names(Postgres(dsn)) == ["a", "b"]
    database.close()


def test_a_reader_sees_one_state_and_cannot_write(dsn: str) -> None:
    from unisono.history.postgres import Postgres

    storage = Postgres(dsn)
    database = Database(storage)
    database.open()
    reader = storage.reader()
    assert list(reader.rows("SELECT uid FROM jobs")) == []
    database.store(Changes(jobs={"a": a_record("a")}))
    assert list(reader.rows("SELECT uid FROM jobs")) == []
    with pytest.raises(storage.failures, match="read-only"):
        reader.execute("DELETE FROM jobs")
    reader.close()
    database.close()


def test_two_schemas_of_one_database_keep_two_histories(dsn: str) -> None:
    import psycopg

    from unisono.history.postgres import Postgres

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA one")
        connection.execute("CREATE SCHEMA two")
    found = {}
    for name in ("one", "two"):
        storage = Postgres(f"{dsn}?options=-csearch_path%3D{name}")
        database = Database(storage)
        database.open()
        assert database.belongs_to(name)
        database.store(Changes(jobs={name: a_record(name)}))
        database.close()
        found[name] = names(storage)
    assert found == {"one": ["one"], "two": ["two"]}


SECRET = "hunter2-of-the-history"
BAD = [
    f"postgresql://u:{SECRET}@[::1/db",
    f"host=h password={SECRET} nonsense",
    f"host=h passwrd={SECRET}",
    f"postgresql://u:{SECRET}%zz@h/db",
    f"password='{SECRET}",
    "",
]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_connection_string_is_not_repeated(tmp_path: Path, text: str) -> None:
    pytest.importorskip("psycopg")
    from unisono.history.postgres import dsn_of_file

    path = tmp_path / "dsn"
    path.write_text(text)
    with pytest.raises(ConfigError) as told:
        dsn_of_file(path)
    assert SECRET not in f"{told.value!r} {told.value}"
    assert told.value.__cause__ is None
    assert str(path) in str(told.value)


async def test_no_message_has_the_password(
    server: postgres.Server, dsn: str, logged: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    from unisono.history.postgres import Postgres

    caplog.set_level(logging.DEBUG)
    wrong = dsn.replace("unisono:", "nobody:")
    storage = Postgres(wrong)
    told = []
    with pytest.raises(HistoryError) as opened:
        Database(storage).open()
    told += [repr(opened.value), str(opened.value), repr(storage), storage.name]
    with pytest.raises(Exception, match="history cannot be read") as asked:
        await StoredHistory(storage).answer("report", {}, PLACES, capacity=True, queues=True)
    told += [repr(asked.value), str(asked.value), json.dumps(logged, default=repr), caplog.text]
    assert "nobody" in told[0]
    from urllib.parse import quote

    assert not [
        each for each in told for secret in (postgres.PASSWORD, quote(postgres.PASSWORD, safe="")) if secret in each
    ]


def test_without_the_driver_the_message_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from unisono.history.postgres import Postgres

    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"unisono\[postgres\]"):
        Postgres("host=h")


def test_a_file_of_the_first_release_is_read(tmp_path: Path) -> None:
    """Its columns had no types that PostgreSQL knows."""
    import sqlite3

    path = tmp_path / "history.db"
    connection = sqlite3.connect(path)
    for statement in schema.MIGRATIONS[0]:
        if statement.startswith("CREATE TABLE"):
            old = statement.replace("BIGINT", "INTEGER").replace("BOOLEAN", "INTEGER").replace("value TEXT", "value")
            connection.execute(f"{old.replace('DOUBLE PRECISION', 'REAL')} WITHOUT ROWID")
    connection.execute("INSERT INTO meta VALUES ('heard', 42)")
    connection.execute("INSERT INTO hours VALUES (0, 'q', 'ns', 'r', 'u', 'cpu', 1.5)")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    database = Database(SqliteFile(path))
    assert database.open().heard == 42
    database.store(Changes(jobs={"a": a_record("a")}, heard=43))
    assert names(SqliteFile(path)) == ["a"]
    assert database.open().heard == 43
    database.close()


def test_the_users_of_the_documentation_write_and_read(server: postgres.Server) -> None:
    """The statements of docs/history.md, as an administrator runs them."""
    import psycopg

    from unisono.history.postgres import Postgres

    page = (REPOSITORY / "docs" / "history.md").read_text()
    statements = page[page.index("```sql\n") + 7 :].partition("```")[0]
    # The server's own administrator is called unisono here.
    text = statements.replace("unisono", "documented").replace("...", "word")
    first, _, rest = text.partition("\\c documented\n")
    for name, part in (("postgres", first), ("documented", rest)):
        with psycopg.connect(server.dsn(name), autocommit=True) as connection:
            for statement in filter(str.strip, part.split(";")):
                connection.execute(statement.encode())
    address = f"127.0.0.1:{server.port}/documented"
    database = Database(Postgres(f"postgresql://documented:word@{address}"))
    database.open()
    database.store(Changes(jobs={"a": a_record("a")}))
    database.close()
    reader = Postgres(f"postgresql://documented_reader:word@{address}")
    assert names(reader) == ["a"]
    with pytest.raises(HistoryError, match="permission denied"):
        Database(reader).open()
