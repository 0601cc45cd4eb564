"""Asks a cluster's dashboard about the history, as the user of the kubeconfig: RBAC decides what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from unisono.cli.accounting.no_history import KEPT_ELSEWHERE, NoHistory
from unisono.errors import ApiError, ConfigError
from unisono.install.dashboard_server import service_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unisono.cli.accounting.place import HistoryPlace
    from unisono.kube.kubeconfig import ClusterConfig
    from unisono.kube.transport import Answer, Transport

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
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        told = None
    if isinstance(told, dict) and isinstance(told.get("error"), str):
        if status == 404 and "database" not in told["error"]:
            raise NoHistory(f"The dashboard at {where} is older than this command: upgrade it ('unisono install').")
        if status == 404:
            raise NoHistory(f"No history is kept on this cluster: {told['error']}.")
        raise ApiError(f"{where}: {told['error']}", code=status)
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
