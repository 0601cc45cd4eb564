"""Collects the errors of a configuration file, so that one reading names all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unisono.errors import ConfigError

# More are of no use to a reader, and each may cost a search for the nearest known name.
_MOST = 100


class _Enough(Exception):
    """So many errors were found that the rest of the file is not read."""


class Problems:
    """Errors in the order in which they were found, at most 100.

    Attributes:
        found: the errors.

    """

    def __init__(self) -> None:
        self.found: list[ConfigError] = []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the error that ends a part of the file, and go on after it."""
        try:
            yield
        except ConfigError as error:
            self.found.append(error)
            if len(self.found) >= _MOST:
                raise _Enough from None

    @contextmanager
    def whole_file(self) -> Iterator[None]:
        """The same around the reading of the whole file."""
        try:
            with self.kept():
                yield
        except _Enough:
            pass

    def raise_first(self) -> None:
        """Raise the first error, which also says how many more there are; without an error do nothing.

        Raises:
            ConfigError: with file, line and key of the first error.

        """
        if not self.found:
            return
        first, more = self.found[0], len(self.found) - 1
        if more:
            first.args = (f"{first} ({more} more error{'s' if more > 1 else ''}: unisono config check names all)",)
        raise first
