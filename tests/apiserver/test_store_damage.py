"""Damaged data files: what is said of them, that they stay as they are, and what a repair saves."""

from __future__ import annotations

import json
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.backends import put
from unisono.apiserver.storage import inspection, schema
from unisono.apiserver.storage.backup import repair
from unisono.apiserver.storage.files import DamagedStore, StoreError
from unisono.apiserver.storage.pages import Pages
from unisono.apiserver.storage.store import Store

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
COUNT = 300
NAMES = {f"n{number}" for number in range(COUNT)}
CONFIG_MAP = '{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n7","namespace":"ns"}}'


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A store of 300 objects, the last of them with a large value, without history."""
    path = tmp_path / "state.db"
    store = await Store.open(path)
    await store.write([put(f"n{number}", text="x" * (60 + number)) for number in range(COUNT - 1)])
    await store.write([put(f"n{COUNT - 1}", text="y" * 20_000)])
    await store.close()
    execute(path, "DELETE FROM events", f"UPDATE meta SET value = {COUNT} WHERE key = 'compacted'", "VACUUM")
    return path


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("PRAGMA journal_mode = DELETE")


def pages_with(path: Path, text: bytes) -> list[int]:
    pages = Pages(path.read_bytes())
    return [number for number in range(1, pages.count + 1) if text in pages.page(number)]


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path: Path, text: bytes) -> None:
    at = path.read_bytes().index(text)
    overwrite(path, at + len(text) - 1, bytes([text[-1] ^ 4]))


def zero_page_of(path: Path, text: bytes) -> None:
    page = next(number for number in pages_with(path, text) if Pages(path.read_bytes()).page(number)[0] == 0x0D)
    overwrite(path, (page - 1) * 4096, bytes(4096))


def root(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0])


def break_index(path: Path) -> None:
    execute(path, "PRAGMA writable_schema = ON", "CREATE TABLE other (x)")
    overwrite(path, (root(path, "sqlite_autoindex_objects_1") - 1) * 4096, bytes(4096))


def unsummed(path: Path, statement: str) -> None:
    """What a faulty program would write: the checksum is right, the value is not."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
        rows = [schema.summed_object(row) for row in connection.execute(schema.object_query(1))]
        connection.executemany(schema.PUT_OBJECT, rows)
        connection.execute("PRAGMA journal_mode = DELETE")


Fault = Callable[[Path], None]
FAULTS: dict[str, tuple[Fault, str, set[str]]] = {
    "a flipped bit in a value": (lambda p: flip(p, b'"text":"' + b"x" * 77 + b'"'), "things ns/n17: its", {"n17"}),
    "a flipped bit in a large value": (lambda p: flip(p, b"y" * 2000), "things ns/n299: its checksum", {"n299"}),
    "a zeroed page of rows": (lambda p: zero_page_of(p, b'"n100"'), "things ns/n100: its row is lost", set()),
    "a zeroed page of the tree": (
        lambda p: overwrite(p, (root(p, "objects") - 1) * 4096, bytes(4096)),
        "file: ",
        {"none"},
    ),
    "a destroyed header": (lambda p: overwrite(p, 0, b"\xff" * 100), "file: file is not a database", {"none"}),
    "a broken index": (break_index, "file: ", {"none"}),
    "a cut file": (lambda p: p.write_bytes(p.read_bytes()[: 4096 * 12]) and None, "pages are missing", set()),
    "a value that is no JSON": (
        lambda p: unsummed(p, "UPDATE objects SET data = CAST('{\"a\":' AS BLOB) WHERE name = 'n7'"),
        "things ns/n7: its value is not a JSON object",
        {"n7"},
    ),
    "a value of another key": (
        lambda p: unsummed(p, "UPDATE objects SET data = (SELECT data FROM objects WHERE name='n8') WHERE name='n7'"),
        "things ns/n7: its value is that of things n8",
        {"n7"},
    ),
    "a value of another kind": (
        lambda p: unsummed(p, f"UPDATE objects SET data = CAST('{CONFIG_MAP}' AS BLOB) WHERE name = 'n7'"),
        "things ns/n7: its value is of kind Secret",
        {"n7"},
    ),
    "a revision above the counter": (
        lambda p: execute(p, "UPDATE meta SET value = 250 WHERE key IN ('revision', 'compacted')"),
        "things ns/n299: its revision 300 is above the counter of versions, 250",
        {"none"},
    ),
    "a revision given twice": (
        lambda p: unsummed(
            p,
            'UPDATE objects SET revision = 1, data = CAST(replace(data, \'Version":"8"\', \'Version":"1"\') AS BLOB) '
            "WHERE name = 'n7'",
        ),
        "it has revision 1, as things ns/n",
        {"none"},
    ),
    "a missing counter": (
        lambda p: execute(p, "DELETE FROM meta WHERE key = 'revision'"),
        "file: the counter 'revision' is missing",
        {"none"},
    ),
    "a missing table": (lambda p: execute(p, "DROP TABLE meta"), "file: no such table: meta", {"none"}),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_damage_is_named_and_changed_by_a_repair_only(path: Path, name: str) -> None:
    make, told, lost = FAULTS[name]
    make(path)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    for _ in range(2):
        with pytest.raises(DamagedStore) as caught:
            await Store.open(path)
        assert any(told in str(finding) for finding in caught.value.findings), caught.value.findings
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    done = repair(path, NOW)
    assert done is not None
    assert done.original.read_bytes() == before["state.db"]
    store = await Store.open(path)
    served = {entry.name for entry in store.scan("things")}
    assert store.revision > COUNT + 1000
    await store.close()
    named = {finding.what.removeprefix("things ns/") for finding in done.findings if finding.lost}
    if lost == {"none"}:
        assert served == NAMES
    elif lost:
        assert served == NAMES - lost
        assert named == lost
    else:
        assert served < NAMES
        assert len(served) > COUNT // 5
    if name != "a cut file":
        assert named == NAMES - served
    if done.quarantine is not None:
        assert stat.S_IMODE(done.quarantine.stat().st_mode) == 0o600
        lines = [json.loads(line) for line in done.quarantine.read_text().splitlines()]
        assert all(line["why"] and line["columns"] for line in lines)
    assert lost in (set(), {"none"}) or done.quarantine is not None
    assert repair(path, NOW) is None


async def test_the_history_gives_back_what_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = await Store.open(path)
    await store.write([put("a", text="first")])
    await store.write([put("a", 1, "second"), put("b")])
    await store.close()
    execute(path, "UPDATE objects SET data = x'00' WHERE name = 'a'", "DELETE FROM objects WHERE name = 'b'")
    with pytest.raises(DamagedStore, match="every object can be read") as caught:
        await Store.open(path)
    assert "things ns/a: its checksum does not match; revision 2 of it is in the history" in str(caught.value)
    assert "things ns/b: its row is lost; revision 3 of it is in the history" in str(caught.value)
    assert repair(path, NOW) is not None
    store = await Store.open(path)
    assert [entry.name for entry in store.scan("things")] == ["a", "b"]
    assert b"second" in store.scan("things")[0].data
    await store.close()


async def test_rows_of_the_log_are_salvaged_too(tmp_path: Path) -> None:
    """The newest pages stand in the log only: a repair after a crash must look there."""
    source = tmp_path / "running"
    source.mkdir()
    store = await Store.open(source / "state.db")
    await store.write([put(f"n{number}") for number in range(50)])
    for file in list(source.iterdir()):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    await store.close()
    path = tmp_path / "state.db"
    overwrite(path, 0, b"\xff" * 100)
    log = tmp_path / "state.db-wal"
    data = bytearray(log.read_bytes())
    data[24] ^= 1  # the checksum of its header: SQLite does not believe it any more
    log.write_bytes(data)
    with pytest.raises(StoreError):
        await Store.open(path)
    done = repair(path, NOW)
    assert done is not None
    assert done.original.with_name(done.original.name + "-wal").exists()
    store = await Store.open(path)
    assert len(store.scan("things")) == 50
    await store.close()


@pytest.mark.parametrize("room", [0, 1, 2])
async def test_a_repair_that_is_interrupted_is_completed(
    path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(path, b'"text":"' + b"x" * 77 + b'"')
    Path(f"{path}-wal").write_bytes(b"a log that is not for the new file")
    renames = 0
    names = ("rename", "replace")
    for name in names:
        before = getattr(Path, name)

        def counted(self: Path, target: Path, before: Callable[[Path, Path], Path] = before) -> Path:
            nonlocal renames
            if "replacing" in self.name or "-wal" in self.name:
                renames += 1
                if renames > room:
                    raise OSError(5, "Input/output error")
            return before(self, target)

        monkeypatch.setattr(Path, name, counted)
    if room < 2:
        with pytest.raises(OSError, match="Input/output"):
            repair(path, NOW)
    else:
        repair(path, NOW)
    monkeypatch.undo()
    store = await Store.open(path)
    assert {entry.name for entry in store.scan("things")} == NAMES - {"n17"}
    await store.close()
    assert path.with_name("state.db.damaged-20261120T120000-wal").read_bytes().startswith(b"a log")
    assert not [file for file in path.parent.iterdir() if "replacing" in file.name or file.name.endswith(".new")]


async def test_a_file_of_the_first_version_is_migrated(path: Path) -> None:
    execute(
        path,
        *(f"ALTER TABLE {table} DROP COLUMN sum" for table in ("objects", "events")),
        "DELETE FROM meta WHERE key IN ('store', 'running')",
        "PRAGMA user_version = 1",
    )
    before = path.read_bytes()
    store = await Store.open(path)
    assert {entry.name for entry in store.scan("things")} == NAMES
    await store.write([put("later")])
    await store.close()
    store = await Store.open(path)
    assert len(store.scan("things")) == COUNT + 1
    await store.close()
    old = path.with_name("state.db.schema-1")
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert len(old.read_bytes()) == len(before), "who goes back restores this one"


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/dev/null")])
async def test_what_is_no_file_is_named(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "state.db"
    make(path)
    with pytest.raises(StoreError, match=r"state.db is a (directory|special file), not a data file"):
        await Store.open(path)


def looked_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ways in which the file is read at a start."""
    ways: list[str] = []
    for name in ("_closed", "_read"):
        real = getattr(inspection, name)

        def read(*given: object, name: str = name, real: Callable[..., object] = real, **options: object) -> object:
            ways.append(name)
            return real(*given, **options)

        monkeypatch.setattr(inspection, name, read)
    return ways


async def test_a_file_that_was_closed_and_is_whole_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ways = looked_at(path, monkeypatch)
    await (await Store.open(path)).close()
    assert ways == ["_closed"]


async def test_a_file_that_was_not_closed_is_checked_by_sqlite_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(path, "UPDATE meta SET value = 1 WHERE key = 'running'")
    ways = looked_at(path, monkeypatch)
    await (await Store.open(path)).close()
    assert ways == ["_closed", "_read"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: break_index(path),
        lambda path: zero_page_of(path, b"n150"),
        lambda path: flip(path, b"n150"),
        lambda path: unsummed(path, "UPDATE objects SET data = x'7b7d' WHERE name = 'n7'"),
    ],
    ids=["index", "page", "byte", "value"],
)
async def test_damage_of_a_file_that_was_closed_is_found_by_a_start(
    path: Path, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(path)
    ways = looked_at(path, monkeypatch)
    with pytest.raises(DamagedStore):
        await Store.open(path)
    assert ways == ["_closed", "_read"]
