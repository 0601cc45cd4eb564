"""Tests of what is stored run with a file of SQLite, and with a database of PostgreSQL where one can be started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import postgres
from unisono.history.sqlite import SqliteFile
from unisono.history.storage import Connection, Storage


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.serving() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """Empty; what a test leaves open is closed."""
    found: Storage
    if request.param == "sqlite":
        found = SqliteFile(tmp_path / "history.db")
    else:
        from unisono.history.postgres import Postgres

        server: postgres.Server = request.getfixturevalue("server")
        found = Postgres(server.database())
    opened: list[Connection] = []
    writer = found.writer

    def kept() -> Connection:
        opened.append(writer())
        return opened[-1]

    monkeypatch.setattr(found, "writer", kept)
    yield found
    for connection in opened:
        connection.close()
