"""Where the history is kept: one set of tables and queries, which SQLite and PostgreSQL understand alike.

Queries are written with ``?`` or ``:name`` for parameters. What the two say differently stands in a ``Storage``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from unisono.errors import UnisonoError

Parameters = Sequence[Any] | Mapping[str, Any]
Row = tuple[Any, ...]


class HistoryError(UnisonoError):
    """The history cannot be kept there."""


class NotStored(UnisonoError):
    """The storage failed at this moment: nothing of what was asked for is done, and it may work again later."""


class Connection(Protocol):
    """One connection; for one thread at a time."""

    def rows(self, query: str, parameters: Parameters = ()) -> Iterator[Row]:
        """Rows of a query, as they are read."""
        ...

    def one(self, query: str, parameters: Parameters = ()) -> Row | None:
        """The first row, None where there is none."""
        ...

    def execute(self, query: str, parameters: Parameters = ()) -> None:
        """Carry out a statement."""
        ...

    def executemany(self, query: str, rows: Iterable[Parameters]) -> None:
        """Carry out a statement for each row of parameters."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """All statements within it, or none."""
        ...

    def version(self) -> int:
        """Of the tables; 0 where there are none."""
        ...

    def prepare(self) -> None:
        """Before the first statement of a writer, once it is clear that the tables are of no later version."""
        ...

    def set_version(self, version: int) -> None:
        """Note the version of the tables."""
        ...

    def size(self) -> int:
        """Bytes that the history takes."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class Storage(Protocol):
    """One place for a history.

    Attributes:
        name: as people are told it; without any secret.
        failures: what its connections raise where the storage fails.
        in_texts: an SQL condition: one of the texts in the JSON array ``:places``.
        table_end: behind the columns of a table.
        locked: behind a query whose rows nobody else may change until the transaction ends.
        shared: others than this cluster's control plane may use the same place by mistake.

    """

    name: str
    failures: tuple[type[Exception], ...]
    in_texts: str
    table_end: str
    locked: str
    shared: bool

    def writer(self) -> Connection:
        """A connection that writes.

        Raises:
            HistoryError: it cannot be used, and trying again does not help.

        """
        ...

    def reader(self) -> Connection:
        """A connection that cannot write and sees one state for as long as it is open."""
        ...

    def set_aside(self, error: Exception) -> str:
        """Where what is there is damaged, put it away; answers where to, empty where that is not the matter."""
        ...
