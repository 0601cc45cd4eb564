"""Asking servers and pods that users name, with bounds: one GET, one metric, or whether a pod answers."""

from __future__ import annotations

import asyncio
import base64
import math
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import aiohttp
import msgspec

from unisono.api.field_error import UNREADABLE
from unisono.api.topology_sources import MOST_BYTES, SourceFailed

# Asking servers that administrators name: one GET, bounded in time and size, with credentials.

_CHUNK = 1 << 20


class NetworkFetch:
    """Asks over the network.

    Args:
        timeout_seconds: for a whole answer.
    """

    def __init__(self, timeout_seconds: float = 30.0) -> None:
        self._timeout = timeout_seconds

    async def get(
        self, url: str, *, credentials: Mapping[str, str], verify: bool = True, most_bytes: int = MOST_BYTES
    ) -> bytes:
        """The body of a GET; see ``Fetch``.

        Raises:
            SourceFailed: it does not answer in time, or otherwise.
        """
        try:
            async with asyncio.timeout(self._timeout):
                return await self._get(url, credentials, verify, most_bytes)
        except TimeoutError as error:
            raise SourceFailed(f"{url} does not answer within {self._timeout:g} s") from error
        except aiohttp.ClientConnectorCertificateError as error:
            way_out = "put the certificate of its authority into the Secret as ca.crt"
            raise SourceFailed(f"{url} shows no certificate that is trusted; {way_out}") from error
        except (OSError, aiohttp.ClientError, ValueError) as error:
            raise SourceFailed(f"{url} cannot be reached: {error or type(error).__name__}") from error

    async def _get(self, url: str, credentials: Mapping[str, str], verify: bool, most_bytes: int) -> bytes:
        # No proxies and no redirects: credentials go to the server that is named, and nowhere else.
        async with (
            aiohttp.ClientSession(trust_env=False, headers=_headers(credentials)) as session,
            session.get(url, ssl=_trust(credentials, verify), allow_redirects=False) as response,
        ):
            if response.status != 200:
                hint = "; are the credentials right?" if response.status in (401, 403) else ""
                raise SourceFailed(f"{url} answers status {response.status}{hint}")
            parts, size = [], 0
            async for part in response.content.iter_chunked(_CHUNK):
                size += len(part)
                if size > most_bytes:
                    raise SourceFailed(f"the answer of {url} is longer than {most_bytes} bytes")
                parts.append(part)
            return b"".join(parts)


def _headers(credentials: Mapping[str, str]) -> dict[str, str]:
    if "token" in credentials:
        return {"Authorization": f"Bearer {credentials['token']}"}
    if "username" in credentials:
        pair = f"{credentials['username']}:{credentials.get('password', '')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return {}


def _trust(credentials: Mapping[str, str], verify: bool) -> ssl.SSLContext | bool:
    if not verify:
        return False
    authority = credentials.get("ca.crt")
    return ssl.create_default_context(cadata=authority) if authority else True


# Asking servers of metrics, as controllers need them: one number within a bounded time and size.

_LONGEST = 1 << 20
_SHOWN = 200
_LONGEST_LINE = 4096


def _command(*words: str) -> bytes:
    """A command in Redis' protocol."""
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def _error_in(text: bytes) -> str:
    """The error that Prometheus tells in JSON."""
    try:
        refusal = msgspec.json.decode(text, type=_Refusal)
    except UNREADABLE:
        return "no answer of Prometheus"
    return refusal.error[:_SHOWN]


class _Refusal(msgspec.Struct):
    """Of a query; others' answers have other fields."""

    status: Literal["error"]
    error: str


class NetworkMetrics:
    """Asks over the network.

    Args:
        failed: makes the error of a metric without a value.
        timeout_seconds: for a whole answer.
    """

    def __init__(self, failed: Callable[[str], Exception], timeout_seconds: float = 5.0) -> None:
        self._failed, self._timeout = failed, timeout_seconds

    async def prometheus(self, address: str, query: str) -> float | None:
        """The value of an instant query; None where no series matches."""
        url = f"{address.rstrip('/')}/api/v1/query"
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._get(url, {"query": query})
        except TimeoutError as error:
            raise self._failed(f"{address} does not answer within {self._timeout:g} s") from error
        except (OSError, aiohttp.ClientError, ValueError) as error:
            raise self._failed(f"{address} cannot be reached: {error or type(error).__name__}") from error
        return self._number(address, query, answer)

    async def redis_length(self, host: str, port: int, database: int, name: str) -> float:
        """How many entries a list has; 0 where there is no such list."""
        where = f"Redis at {host}:{port}"
        try:
            async with asyncio.timeout(self._timeout):
                reader, writer = await asyncio.open_connection(host, port, limit=_LONGEST_LINE)
                try:
                    writer.write(_command("SELECT", str(database)) + _command("LLEN", name))
                    await writer.drain()
                    answers = [(await reader.readuntil(b"\r\n"))[:-2] for _ in range(2)]
                finally:
                    writer.close()
        except TimeoutError as error:
            raise self._failed(f"{where} does not answer within {self._timeout:g} s") from error
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise self._failed(f"{where} cannot be reached: {error or type(error).__name__}") from error
        for answer in answers:
            if answer.startswith(b"-"):
                raise self._failed(f"{where} refuses the question: {answer[1:_SHOWN].decode('utf-8', 'replace')}")
        length = answers[1]
        if not length.startswith(b":") or not length[1:].isdigit():
            raise self._failed(f"{where} answers no number for the list {name[:_SHOWN]}")
        return float(int(length[1:]))

    async def _get(self, url: str, params: dict[str, str]) -> Any:
        # No proxies and no redirects: the server that is named is asked, and nothing else.
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(url, params=params, allow_redirects=False) as response,
        ):
            text = await response.content.read(_LONGEST)
            if not response.content.at_eof():
                raise self._failed(f"the answer of {url} is longer than {_LONGEST} bytes")
            if response.status != 200:
                # Users name the address: what a server says that is no Prometheus is not for them to read.
                raise self._failed(f"{url} answers status {response.status}: {_error_in(text)}")
        try:
            return msgspec.json.decode(text)
        except UNREADABLE as error:
            raise self._failed(f"{url} answers no JSON; is the address right?") from error

    def _number(self, address: str, query: str, answer: Any) -> float | None:
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, dict) or answer.get("status") != "success":
            why = answer.get("error") if isinstance(answer, dict) else None
            raise self._failed(f"{address} refuses the query {query}: {why or 'no reason given'}")
        result = data.get("result")
        if data.get("resultType") == "scalar":
            result = [{"value": result}]
        if not isinstance(result, list):
            raise self._failed(f"{address} answers no vector to {query}")
        if not result:
            return None
        if len(result) > 1:
            raise self._failed(f"{address} has {len(result)} series for {query}; a query must give one number")
        sample = result[0].get("value") if isinstance(result[0], dict) else None
        try:
            value = float(sample[1])  # type: ignore[index]
        except (TypeError, ValueError, IndexError, KeyError) as error:
            raise self._failed(f"{address} answers no number to {query}") from error
        if math.isnan(value):
            return None
        if math.isinf(value):
            raise self._failed(f"{address} answers infinity to {query}")
        return value


# Asking pods whether they answer: TCP connections and HTTP requests, as a kubelet's probes do.


class Question(Protocol):
    """What is asked of one pod: address, port, and for HTTP a path and a header."""

    @property
    def host(self) -> str:
        """Address of the pod."""
        ...

    @property
    def port(self) -> int:
        """TCP port."""
        ...

    @property
    def path(self) -> str:
        """Path of the GET; empty for a bare connection."""
        ...

    @property
    def header(self) -> tuple[str, str] | None:
        """Name and value of a header of the GET."""
        ...


class NetworkProber:
    """Asks over the network; what does not answer in time does not hold."""

    def __init__(self, timeout_seconds: float = 2.0) -> None:
        self._timeout = timeout_seconds

    async def holds(self, probe: Question) -> bool:
        """Whether the port accepts a connection, or the GET is answered with a status from 200 to 399."""
        try:
            async with asyncio.timeout(self._timeout):
                return await (_get(probe) if probe.path else _connect(probe))
        except (OSError, TimeoutError, aiohttp.ClientError, ValueError):
            return False


async def _connect(probe: Question) -> bool:
    _, writer = await asyncio.open_connection(probe.host, probe.port)
    writer.close()
    return True


async def _get(probe: Question) -> bool:
    host = f"[{probe.host}]" if ":" in probe.host else probe.host
    headers = dict([probe.header]) if probe.header else None
    # No proxies and no redirects: the pod itself is asked, and a redirect is an answer.
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.get(f"http://{host}:{probe.port}{probe.path}", headers=headers, allow_redirects=False) as answer,
    ):
        return 200 <= answer.status < 400
