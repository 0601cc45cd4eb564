"""The history in a database of PostgreSQL: of a cluster, in a database that its users name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from unisono.errors import ConfigError
from unisono.history.storage import HistoryError, Parameters, Row

if TYPE_CHECKING:
    import psycopg

_PARAMETER = re.compile(r"\?|(?<![:\w]):([a-z]+)\b")
# A server that is gone without a word is noticed within a minute, and a question that takes long is ended.
_DEFAULTS = {
    "connect_timeout": "10",
    "application_name": "unisono-history",
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
_LONGEST_MS = 120_000
# Rows that are fetched at a time.
_CHUNK = 2000
# What a row takes beside its values: header and line pointer.
_ROW_BYTES = 28
_TABLES = ("jobs", "intervals", "hours", "samples", "links")


def dsn_of_file(path: Path) -> str:
    """The connection string in a file, as a Secret is mounted.

    Raises:
        ConfigError: it cannot be read, or is none; the message says nothing of what is in it.
    """
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the connection string cannot be read ({type(error).__name__})", file=str(path)) from None
    if not text:
        raise ConfigError(
            "the connection string is empty: give postgresql://USER:PASSWORD@HOST/DATABASE", file=str(path)
        )
    _parts_of(text, str(path))
    return text


def _parts_of(dsn: str, file: str = "") -> dict[str, Any]:
    """What a connection string says.

    Raises:
        ConfigError: it is none; libpq's own message would repeat it, with the password.
    """
    psycopg = _driver()
    try:
        return cast("dict[str, Any]", psycopg.conninfo.conninfo_to_dict(dsn))
    except psycopg.Error:
        raise ConfigError(
            "this is no connection string: give postgresql://USER:PASSWORD@HOST/DATABASE, special characters of the "
            "password percent-encoded, or host=... dbname=... user=... password=...",
            file=file,
        ) from None


def _driver() -> Any:
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError:
        raise ConfigError(
            "a history in PostgreSQL needs the driver psycopg: install it with pip install 'unisono[postgres]'"
        ) from None
    return psycopg


class Postgres:
    """A database, in the schema that the connection's ``search_path`` names first.

    Args:
        dsn: libpq's connection string or URI, or what reads it, which is asked for each connection. It is kept here
            alone: no message, log or representation has it.

    Raises:
        ConfigError: it is none, or the driver is missing.
    """

    in_texts = "IN (SELECT json_array_elements_text(CAST(:places AS json)))"
    table_end = ""
    locked = " FOR UPDATE"
    shared = True

    def __init__(self, dsn: str | Callable[[], str]) -> None:
        self._driver = _driver()
        self.failures: tuple[type[Exception], ...] = (self._driver.Error,)
        self._dsn = dsn if callable(dsn) else lambda: dsn
        parts = _parts_of(self._dsn())
        place = parts.get("host") or parts.get("hostaddr") or parts.get("service") or "localhost"
        self.name = f"the database {parts.get('dbname') or parts.get('user') or ''} at {place}".replace("  ", " ")

    @classmethod
    def of_file(cls, path: Path) -> Postgres:
        """As a file says, such as a mounted Secret: a new password counts from the next connection on.

        Raises:
            ConfigError: it cannot be read, or has no connection string.
        """
        return cls(partial(dsn_of_file, path))

    def __repr__(self) -> str:
        return f"Postgres({self.name!r})"

    def writer(self) -> PostgresConnection:
        """Connect."""
        return PostgresConnection(self._connect())

    def reader(self) -> PostgresConnection:
        """Connect for questions alone."""
        raw = self._connect()
        try:
            raw.execute(f"SET statement_timeout = {_LONGEST_MS:d}")
            raw.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        except BaseException:
            raw.close()
            raise
        return PostgresConnection(raw, streams=True)

    def set_aside(self, error: Exception) -> str:
        """Nothing: its administrators restore a damaged database."""
        return ""

    def _connect(self) -> psycopg.Connection[Row]:
        parts = {**_DEFAULTS, **_parts_of(self._dsn())}
        try:
            # Statements are not prepared: proxies that share connections do not know them.
            return cast(
                "psycopg.Connection[Row]", self._driver.connect(**parts, autocommit=True, prepare_threshold=None)
            )
        except UnicodeError as error:
            raise HistoryError(f"{self.name} cannot be reached: a part of its address is no name") from error


class PostgresConnection:
    """A connection; ``streams`` fetches rows as they are read, which takes a transaction."""

    def __init__(self, raw: psycopg.Connection[Row], *, streams: bool = False) -> None:
        self.raw, self._streams, self._cursors = raw, streams, 0

    def rows(self, query: str, parameters: Parameters = ()) -> Iterator[Row]:
        """Rows of a query."""
        if not self._streams:
            yield from self.raw.execute(cast("Any", _translated(query)), parameters or None)
            return
        self._cursors += 1
        with self.raw.cursor(f"rows{self._cursors}") as cursor:
            cursor.itersize = _CHUNK
            cursor.execute(cast("Any", _translated(query)), parameters or None)
            yield from cursor

    def one(self, query: str, parameters: Parameters = ()) -> Row | None:
        """The first row."""
        row: Row | None = self.raw.execute(cast("Any", _translated(query)), parameters or None).fetchone()
        return row

    def execute(self, query: str, parameters: Parameters = ()) -> None:
        """Carry out a statement."""
        self.raw.execute(cast("Any", _translated(query)), parameters or None)

    def executemany(self, query: str, rows: Iterable[Parameters]) -> None:
        """Carry out a statement for each row, without waiting for each."""
        with self.raw.cursor() as cursor:
            cursor.executemany(cast("Any", _translated(query)), rows)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements within it, or none."""
        with self.raw.transaction():
            yield

    def prepare(self) -> None:
        """Nothing: a database is as its administrators made it."""

    def version(self) -> int:
        """As the table ``meta`` has it."""
        if not self.one("SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'meta'"):
            return 0
        row = self.one("SELECT value FROM meta WHERE key = 'version'")
        return int(row[0]) if row else 0

    def set_version(self, version: int) -> None:
        """Note it in ``meta``."""
        self.execute(
            "INSERT INTO meta VALUES ('version', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (str(version),),
        )

    def size(self) -> int:
        """Bytes of all rows: space that compaction frees is used again, and not given back, by PostgreSQL."""
        sums = (f"SELECT coalesce(sum(pg_column_size(t.*) + {_ROW_BYTES}), 0) FROM {table} t" for table in _TABLES)  # noqa: S608  # nosec B608 # names
        return sum(int(found[0]) for query in sums if (found := self.one(query)))

    def close(self) -> None:
        """Disconnect."""
        with contextlib.suppress(Exception):
            self.raw.close()


@lru_cache(256)
def _translated(query: str) -> str:
    """A query with the driver's marks for parameters."""
    return _PARAMETER.sub(lambda found: f"%({found[1]})s" if found[1] else "%s", query.replace("%", "%%"))
