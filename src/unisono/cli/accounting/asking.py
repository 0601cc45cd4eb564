"""Asks about the history, wherever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unisono.cli.accounting.place import HistoryPlace
    from unisono.cli.options import Command, Where
    from unisono.kube.http import HttpClient

T = TypeVar("T")


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


async def ask(where: Where, what: str, parameters: Mapping[str, str], kind: type[T], place: HistoryPlace) -> T:
    """An answer of the API server, of a cluster's dashboard, or of a database, which shows everything to its users.

    Raises:
        NoHistory: there is none; says where one may be.
        ApiError: who was asked refuses, or the database cannot be read.
        ConfigError: the file has no connection string, or the dashboard's address is none.

    """
    import msgspec

    if place.dsn_file is not None:
        from unisono.history.postgres import Postgres
        from unisono.history.source import StoredHistory

        source = StoredHistory(Postgres.of_file(place.dsn_file))
        told = await source.answer(what, parameters, await source.places(), capacity=True, queues=True)
        return msgspec.json.decode(told or b"", type=kind)

    from unisono.cli.accounting.through_dashboard import ask_dashboard
    from unisono.cli.connection import connect

    given = {name: value for name, value in parameters.items() if value}
    async with connect(where) as client:
        body = None if place.dashboard else await _of_server(client, what, given)
        if body is None:
            body = await ask_dashboard(client.transport, place, what, given)
    return msgspec.json.decode(body, type=kind)


async def _of_server(client: HttpClient, what: str, given: Mapping[str, str]) -> bytes | None:
    """The answer of the API server itself; None where it is none that keeps a history."""
    from unisono.history.answers import PATH
    from unisono.kube.transport import error_of

    status, headers, body = await client.request("GET", f"{PATH}/{what}", params=given)
    if status == 200:
        return body
    error = error_of(status, headers, body)
    # A server of ours says itself why it has none; another one knows no such path, or lets not everybody ask for it.
    if status == 403 or (status == 404 and "history" not in error.message.replace(PATH, "")):
        return None
    raise error
