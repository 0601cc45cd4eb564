"""A damaged or incomplete store: what ``unisono up`` says and does about it, and the check of backups."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.backends import config_map, opened
from unisono.api.kinds import CONFIG_MAPS
from unisono.apiserver.storage.files import StoreError
from unisono.apiserver.types import WriteOptions
from unisono.cli.commands.backup import command as backup_command
from unisono.cli.commands.backup import restore_command
from unisono.cli.main import main
from unisono.standalone.paths import AlreadyRunning, DataDir
from unisono.standalone.store import prepare

run = CliRunner().invoke


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """A stopped control plane with two ConfigMaps."""
    data = DataDir.at(tmp_path / "data")
    data.create()

    async def fill() -> None:
        async with opened(data.database) as backend:
            for name in ("a", "b"):
                await backend.service.create(CONFIG_MAPS, "default", config_map(name), WriteOptions())

    asyncio.run(fill())
    return data


def maps(data: DataDir) -> list[str]:
    with closing(sqlite3.connect(data.database)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM objects WHERE resource='configmaps'")]


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def damage(path: Path) -> None:
    execute(
        path,
        "UPDATE objects SET data = x'00' WHERE name = 'a'",
        "DELETE FROM events",
        "UPDATE meta SET value = (SELECT value FROM meta WHERE key = 'revision') WHERE key = 'compacted'",
    )


@pytest.mark.parametrize("words", [(), ("--detach",)])
@pytest.mark.processes
def test_up_names_what_is_damaged_and_the_ways_out(
    data: DataDir, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], monkeypatch
) -> None:
    monkeypatch.setattr("sys.argv", ["unisono", "up", "--no-agent", "--data-dir", str(data.root), *words])
    saved = tmp_path / "monday.db"
    run(backup_command, [str(saved), "--data-dir", str(data.root)], catch_exceptions=False)
    damage(data.database)
    before = data.database.read_bytes()
    with pytest.raises(SystemExit) as end:
        main(["up", "--no-agent", "--data-dir", str(data.root), *words])
    told = capsys.readouterr().err
    assert end.value.code == 1
    assert f"{data.database} is damaged; 1 of" in told
    assert "ConfigMap default/a: its checksum does not match" in told or "default/a: its row has values of" in told
    assert "unisono up --repair" in told
    assert f"{saved} (" in told and "old)" in told
    assert data.database.read_bytes() == before
    assert not Path(f"{data.database}-shm").exists()


def test_a_repair_sets_aside_and_serves_the_rest(data: DataDir) -> None:
    damage(data.database)
    lines = "\n".join(prepare(data, set_aside=True, lossy=False))
    assert "ConfigMap default/a: " in lines
    quarantine = next(data.root.glob("state.db.quarantine-*.jsonl"))
    assert str(quarantine) in lines
    (line,) = [json.loads(line) for line in quarantine.read_text().splitlines()]
    assert line["object"] == "ConfigMap default/a"
    assert {"base64": "AA=="} in line["columns"]
    assert "b" in maps(data) and "a" not in maps(data)
    assert prepare(data, set_aside=True, lossy=False) == [f"{data.database} is not damaged."]


def test_a_repair_does_not_pass_over_a_loss(data: DataDir) -> None:
    """Two decisions: what is damaged can be found in the quarantine, what is missing nowhere."""
    old = data.database.read_bytes()
    execute(data.database, "SELECT 1")

    async def more() -> None:
        async with opened(data.database) as backend:
            await backend.service.create(CONFIG_MAPS, "default", config_map("c"), WriteOptions())

    asyncio.run(more())
    data.database.write_bytes(old)
    damage(data.database)
    with pytest.raises(StoreError, match="were acknowledged"):
        prepare(data, set_aside=True, lossy=False)
    lines = prepare(data, set_aside=True, lossy=True)
    assert any("Repaired" in line for line in lines)
    assert maps(data).count("b") == 1


def test_a_backup_of_a_damaged_store_names_the_ways_out(data: DataDir, tmp_path: Path) -> None:
    damage(data.database)
    with pytest.raises(StoreError, match=r"(?s)ConfigMap default/a: .*unisono up --repair"):
        run(backup_command, [str(tmp_path / "late.db"), "--data-dir", str(data.root)], catch_exceptions=False)
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


def test_nothing_is_repaired_while_a_control_plane_runs(data: DataDir) -> None:
    damage(data.database)
    before = data.database.read_bytes()
    with data.acquire(), pytest.raises(AlreadyRunning):
        prepare(data, set_aside=True, lossy=True)
    assert data.database.read_bytes() == before


def test_verify_says_what_a_backup_holds(data: DataDir, tmp_path: Path) -> None:
    saved = tmp_path / "monday #1?.db"
    run(backup_command, [str(saved), "--data-dir", str(data.root)], catch_exceptions=False)
    told = run(backup_command, ["--verify", str(saved)], catch_exceptions=False)
    assert told.exit_code == 0
    assert "is whole: " in told.output
    assert "ConfigMap" in told.output
    told = run(backup_command, ["--verify", str(saved), "--output", "json"], catch_exceptions=False)
    result = json.loads(told.output)
    assert result["whole"] is True
    assert result["objects"] == sum(result["kinds"].values())
    damage(saved)
    told = run(backup_command, ["--verify", str(saved), "-o", "json"], catch_exceptions=False)
    assert told.exit_code == 1
    result = json.loads(told.output)
    assert not result["whole"]
    assert [finding["what"] for finding in result["findings"]] == ["ConfigMap default/a"]
    with pytest.raises(StoreError, match="ConfigMap default/a"):
        run(backup_command, ["--verify", str(saved)], catch_exceptions=False)


def lines_of(path: Path) -> None:
    path.write_text("apiVersion: v1\n")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: os.truncate(path, path.stat().st_size // 2), "is damaged"),
        (lambda path: os.truncate(path, 0), "is not a Unisono data file"),
        (lambda path: execute(path, "PRAGMA user_version = 99"), "has schema version 99"),
        (lambda path: execute(path, "PRAGMA application_id = 7"), "is not a Unisono data file"),
        (lines_of, "is not a Unisono data file"),
        (damage, "ConfigMap default/a: "),
        (lambda path: execute(path, "UPDATE objects SET name = 'z' WHERE name = 'a'"), "ConfigMap default/z: "),
        (lambda path: execute(path, "UPDATE meta SET value = 1 WHERE key = 'running'"), "was not closed"),
    ],
)
def test_restore_refuses_what_cannot_be_trusted(
    data: DataDir, tmp_path: Path, make: Callable[[Path], None], told: str
) -> None:
    saved = tmp_path / "monday.db"
    run(backup_command, [str(saved), "--data-dir", str(data.root)], catch_exceptions=False)
    make(saved)
    before = {file.name: file.read_bytes() for file in data.root.iterdir() if file.name.startswith("state")}
    with pytest.raises(StoreError, match=told):
        run(restore_command, [str(saved), "--data-dir", str(data.root)], catch_exceptions=False)
    assert {file.name: file.read_bytes() for file in data.root.iterdir() if file.name.startswith("state")} == before
