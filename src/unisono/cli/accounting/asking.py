"""Asks about the history, wherever it is: a database, an API server, or the dashboard of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from unisono.cli.components import history_option
from unisono.cli.options import option
from unisono.errors import ApiError, ConfigError, UnisonoError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unisono.cli.options import Command, Where
    from unisono.kube.http import HttpClient
    from unisono.kube.kubeconfig import ClusterConfig
    from unisono.kube.transport import Answer, Transport


# Where a command reads the history: at the API server, in a database, or at a cluster's dashboard.


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """What the user said.

    Attributes:
        dsn_file: with the connection string of a database, to read in place of asking anybody.
        dashboard: address of a dashboard to ask; empty for the one that is installed, if the API server knows nothing.
        namespace: of the installation.
    """

    dsn_file: Path | None = None
    dashboard: str = ""
    namespace: str = "unisono-system"


def history_place_options(function: Command) -> Command:
    """``--history-dsn-file``, ``--dashboard`` and ``--system-namespace``; the command gets one ``place``."""

    @history_option(", to read in place of asking the API server")
    @click.option(
        "--dashboard",
        default="",
        metavar="URL",
        envvar="UNISONO_DASHBOARD",
        help="Address of a cluster's dashboard to ask.  [default: its Service, through the API server]",
    )
    @option(
        "--system-namespace",
        default="unisono-system",
        help="Namespace of the installation, where the dashboard's Service is.",
    )
    @wraps(function)
    def command(*args: Any, history_dsn_file: Path | None, dashboard: str, system_namespace: str, **kwargs: Any) -> Any:
        if history_dsn_file is not None and dashboard:
            raise click.UsageError("--history-dsn-file and --dashboard name two places; give one of them.")
        return function(*args, place=HistoryPlace(history_dsn_file, dashboard, system_namespace), **kwargs)

    return command  # type: ignore[return-value]


# There is no history to show, and where there may be one.

KEPT_ELSEWHERE = (
    "'unisono up' keeps one. On a cluster the controllers write one into a database that you name, and the dashboard "
    "shows it to every user: 'unisono install --dashboard --history-dsn-secret NAME'. In another namespace than "
    "unisono-system, say --system-namespace; with the database's password, --history-dsn-file reads it without a "
    "dashboard."
)


class NoHistory(UnisonoError):
    """The server keeps none, or does not show it."""


# Asks a cluster's dashboard about the history, as the user of the kubeconfig: RBAC decides what it answers.

_NOTHING_TO_SEND = (
    "The dashboard answers who has a token of the API server, and this kubeconfig has none for its user (a client "
    "certificate cannot be passed on). Give a kubeconfig with a token ('kubectl create token NAME' makes one for a "
    "service account), or read the database with --history-dsn-file."
)
# The dashboard's own bound is a minute.
_SECONDS, _WAIT_SECONDS = 75.0, 3.0


async def ask_dashboard(transport: Transport, place: HistoryPlace, what: str, parameters: Mapping[str, str]) -> bytes:
    """The answer as JSON.

    Args:
        transport: to the API server, as the user.
        place: where the dashboard is.
        what: ``report`` or ``jobs``.
        parameters: of the question.

    Raises:
        NoHistory: there is no dashboard, it may not be reached, or it keeps no history; says what helps.
        ApiError: the dashboard refuses the question, or nothing answers.
        ConfigError: the address cannot be used.
    """
    from unisono.dashboard.http.guard import QUESTIONS, TOKEN_HEADER
    from unisono.install.dashboard_server import service_path

    token = await transport.authorization()
    if token is None or not token.lower().startswith("bearer "):
        raise NoHistory(_NOTHING_TO_SEND)
    path, more = f"{QUESTIONS}history/{what}", [(TOKEN_HEADER, token)]
    if not place.dashboard:
        whole = f"{service_path(place.namespace)}{path}"
        answer = await transport.request(
            "GET", whole, params=parameters, more=more, timeout=_SECONDS, max_wait=_WAIT_SECONDS
        )
        return _told(answer, place)
    direct = _direct(place.dashboard)
    try:
        return _told(await direct.request("GET", path, params=parameters, more=more, timeout=_SECONDS), place)
    finally:
        await direct.close()


def _direct(url: str) -> Transport:
    """To a dashboard under an address of its own; the certificate is verified as browsers do."""
    from unisono.kube.command_transport import CommandTransport
    from unisono.kube.transport import is_loopback

    split = urlsplit(url if "//" in url else f"https://{url}")
    if split.scheme not in ("http", "https") or not split.hostname:
        raise ConfigError(f"{url!r} is no address: give one such as https://unisono.example.com", key="dashboard")
    server = split.geturl().rstrip("/")
    if split.scheme == "http" and not is_loopback(server):
        raise ConfigError(
            f"{url} would carry your token over the network unencrypted: give an address with https://, or forward a "
            "port of this machine ('kubectl port-forward') and give http://127.0.0.1:PORT",
            key="dashboard",
        )
    return CommandTransport(_anonymous(server))


def _anonymous(server: str) -> ClusterConfig:
    from unisono.kube.kubeconfig import ClusterConfig

    return ClusterConfig(server=server)


def _told(answer: Answer, place: HistoryPlace) -> bytes:
    """The body of a good answer; raises what a bad one means, of the API server before it or of the dashboard."""
    import msgspec

    from unisono.kube.transport import error_of

    status, headers, body = answer
    if status == 200:
        return body
    where = place.dashboard or f"Service unisono-dashboard of namespace {place.namespace}"
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        decoded = None
    if isinstance(decoded, dict) and isinstance(decoded.get("error"), str):
        if status == 404 and "database" not in decoded["error"]:
            raise NoHistory(f"The dashboard at {where} is older than this command: upgrade it ('unisono install').")
        if status == 404:
            raise NoHistory(f"No history is kept on this cluster: {decoded['error']}.")
        raise ApiError(f"{where}: {decoded['error']}", code=status)
    error = error_of(status, headers, body)
    if place.dashboard:
        raise ApiError(
            f"{where} is no dashboard of Unisono, or something before it answers: {error.message}", code=status
        )
    if status == 404:
        raise NoHistory(
            f"No history is kept on this cluster, or there is no dashboard to ask: {error.message}. {KEPT_ELSEWHERE}"
        )
    if status == 403:
        raise NoHistory(
            f"You may not ask the dashboard through the API server: {error.message}. 'unisono install' allows it to "
            "all users where the dashboard reads a history. Else forward a port of yours ('kubectl port-forward') or "
            "take its own address, and give that with --dashboard."
        )
    if status == 503:
        raise NoHistory(f"The dashboard of namespace {place.namespace} does not answer now: {error.message}.")
    raise error


# Asks about the history, wherever it is.

T = TypeVar("T")


def time_options(function: Command) -> Command:
    """``--from`` and ``--to``."""
    until = option(
        "--to", "-E", "--endtime", "until", default="now", metavar="TIME", help="Up to when, written as --from."
    )
    since = option(
        "--from",
        "-S",
        "--starttime",
        "since",
        default="-7d",
        metavar="TIME",
        help="From when on: now, today, yesterday, -7d, -12h, 2026-11, 2026-11-01 or 2026-11-01T08:30.",
    )
    return since(until(function))


def window_of(since: str, until: str, now: float) -> tuple[float, float]:
    """Both ends in seconds since 1970.

    Raises:
        UsageError: one is no time, or the first is not the earlier one.
    """
    from unisono.cli.printing import moment_of_text

    moments = []
    for name, text in (("--from", since), ("--to", until)):
        try:
            moments.append(moment_of_text(text, now))
        except ValueError as error:
            raise click.UsageError(f"{name}: {error}.") from None
    if moments[0] >= moments[1]:
        raise click.UsageError(f"--from {since} is not before --to {until}.")
    return moments[0], moments[1]


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
        from unisono.history.reading import StoredHistory

        source = StoredHistory(Postgres.of_file(place.dsn_file))
        encoded = await source.answer(what, parameters, await source.places(), capacity=True, queues=True)
        return msgspec.json.decode(encoded or b"", type=kind)

    from unisono.cli.connection import connect

    given = {name: value for name, value in parameters.items() if value}
    async with connect(where) as client:
        body = None if place.dashboard else await _of_server(client, what, given)
        if body is None:
            body = await ask_dashboard(client.transport, place, what, given)
    return msgspec.json.decode(body, type=kind)


async def _of_server(client: HttpClient, what: str, given: Mapping[str, str]) -> bytes | None:
    """The answer of the API server itself; None where it is none that keeps a history."""
    from unisono.history.report import PATH
    from unisono.kube.transport import error_of

    status, headers, body = await client.request("GET", f"{PATH}/{what}", params=given)
    if status == 200:
        return body
    error = error_of(status, headers, body)
    # A server of ours says itself why it has none; another one knows no such path, or lets not everybody ask for it.
    if status == 403 or (status == 404 and "history" not in error.message.replace(PATH, "")):
        return None
    raise error
