"""Asks the API server about its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from unisono.errors import UnisonoError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unisono.cli.options import Command, Where

T = TypeVar("T")

_NONE = (
    "'unisono up' keeps one. On a cluster the controllers write one into a database that you name "
    "('unisono install --history-dsn-secret NAME'): read it with --history-dsn-file, or in the dashboard."
)


class NoHistory(UnisonoError):
    """The server keeps none, or does not show it."""


def time_options(function: Command) -> Command:
    """``--from`` and ``--to``."""
    until = click.option(
        "--to",
        "-E",
        "--endtime",
        "until",
        default="now",
        metavar="TIME",
        show_default=True,
        help="Up to when, written as --from.",
    )
    since = click.option(
        "--from",
        "-S",
        "--starttime",
        "since",
        default="-7d",
        metavar="TIME",
        show_default=True,
        help="From when on: now, today, yesterday, -7d, -12h, 2026-11, 2026-11-01 or 2026-11-01T08:30.",
    )
    return since(until(function))


def window_of(since: str, until: str, now: float) -> tuple[float, float]:
    """Both ends in seconds since 1970.

    Raises:
        UsageError: one is no time, or the first is not the earlier one.

    """
    from unisono.cli.moments import moment_of_text

    found = []
    for option, text in (("--from", since), ("--to", until)):
        try:
            found.append(moment_of_text(text, now))
        except ValueError as error:
            raise click.UsageError(f"{option}: {error}.") from None
    if found[0] >= found[1]:
        raise click.UsageError(f"--from {since} is not before --to {until}.")
    return found[0], found[1]


async def ask(
    where: Where, what: str, parameters: Mapping[str, str], kind: type[T], *, dsn_file: Path | None = None
) -> T:
    """An answer of the server, or of a database, which shows all to who has its password.

    Raises:
        NoHistory: the server keeps none.
        ApiError: the server refuses, or the database cannot be read.
        ConfigError: the file has no connection string.

    """
    import msgspec

    if dsn_file is not None:
        from unisono.history.postgres import Postgres
        from unisono.history.source import StoredHistory

        source = StoredHistory(Postgres.of_file(dsn_file))
        told = await source.answer(what, parameters, await source.places(), capacity=True, queues=True)
        return msgspec.json.decode(told or b"", type=kind)

    from unisono.cli.connection import connect
    from unisono.history.answers import PATH
    from unisono.kube.transport import error_of

    async with connect(where) as client:
        given = {name: value for name, value in parameters.items() if value}
        status, headers, body = await client.request("GET", f"{PATH}/{what}", params=given)
    if status == 200:
        return msgspec.json.decode(body, type=kind)
    error = error_of(status, headers, body)
    # A server of ours says itself why it has none; another one knows no such path.
    if status == 404 and "history" not in error.message.replace(PATH, ""):
        raise NoHistory(f"No history is kept on this cluster: {_NONE}")
    if status == 403:
        raise NoHistory(f"{error.message}; where history is kept, every user may ask. Else {_NONE}")
    raise error
