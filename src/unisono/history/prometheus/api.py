"""Prometheus' HTTP API, as far as reports need it: bounded in time and size, with errors that name the server."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import unquote, urlsplit

import aiohttp
import msgspec

from unisono.errors import ConfigError, Unavailable

T = TypeVar("T")

MOST_BYTES = 32 << 20
"""Of one answer."""
SECONDS = 20.0
"""For one question; Prometheus itself is told to give up then."""
_SHOWN = 300
_CHUNK = 1 << 16

Labels = dict[str, str]


class _Series(msgspec.Struct):
    metric: Labels
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    type: Literal["vector", "matrix", "scalar", "string"] = msgspec.field(name="resultType")
    result: msgspec.Raw


class _Answer(msgspec.Struct):
    status: str
    data: msgspec.Raw = msgspec.Raw()
    error: str = ""


class PrometheusApi:
    """One server.

    Args:
        address: its URL, with the path where it lives below one.
        token_file: with a bearer token for a proxy before it, read for each question; None for none.

    Raises:
        ConfigError: the address is none.
    """

    def __init__(self, address: str, token_file: Path | None = None) -> None:
        split = urlsplit(address)
        if split.scheme not in ("http", "https") or not split.hostname:
            raise ConfigError(
                f"{address!r} is no address of Prometheus: give one such as http://prometheus.monitoring:9090",
                key="history-prometheus",
            )
        user = f"{unquote(split.username or '')}:{unquote(split.password or '')}".encode()
        self._basic = f"Basic {b64encode(user).decode()}" if split.username else ""
        shown = split._replace(netloc=split.netloc.rpartition("@")[2])
        self.address = shown.geturl().rstrip("/")
        self._token_file = token_file

    async def vector(self, query: str, at: float) -> list[tuple[Labels, float]]:
        """Series of an instant query.

        Args:
            query: PromQL.
            at: seconds since 1970.

        Raises:
            Unavailable: there is no answer within the bounds, or Prometheus refuses the query.
        """
        series = await self._ask("query", {"query": query, "time": f"{at:.3f}"})
        return [(each.metric, float(each.value[1])) for each in series if each.value is not None]

    async def matrix(
        self, query: str, start: float, end: float, step: float
    ) -> list[tuple[Labels, dict[float, float]]]:
        """Series of a range query, each as values by time.

        Args:
            query: PromQL.
            start: seconds since 1970.
            end: the same.
            step: seconds.

        Raises:
            Unavailable: as of ``vector``.
        """
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        series = await self._ask("query_range", {"query": query, **times})
        return [(each.metric, {at: float(value) for at, value in each.values}) for each in series]

    async def label(self, name: str, match: str, start: float, end: float) -> list[str]:
        """Values of a label.

        Args:
            name: of the label.
            match: selector of the series.
            start: seconds since 1970.
            end: the same.

        Raises:
            Unavailable: as of ``vector``.
        """
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}"}
        answer = await self._get(f"label/{name}/values", {"match[]": match, **times})
        return self._read(answer, list[str])

    async def _ask(self, what: str, fields: dict[str, str]) -> list[_Series]:
        # As a form: queries that name many namespaces are longer than addresses may be.
        answer = await self._exchange("POST", what, data={**fields, "timeout": f"{SECONDS:.0f}s"})
        data = self._read(answer, _Data)
        if data.type not in ("vector", "matrix"):
            raise self._failed(f"answers a {data.type}")
        return self._read(data.result, list[_Series])

    async def _get(self, what: str, params: dict[str, str]) -> msgspec.Raw:
        return await self._exchange("GET", what, params=params)

    async def _exchange(self, method: str, what: str, **sent: Any) -> msgspec.Raw:
        headers = {"Authorization": self._basic} if self._basic else {}
        if (file := self._token_file) is not None:
            headers["Authorization"] = f"Bearer {await asyncio.to_thread(self._token, file)}"
        limit = aiohttp.ClientTimeout(total=SECONDS + 5)
        url = f"{self.address}/api/v1/{what}"
        try:
            async with (
                aiohttp.ClientSession(headers=headers, timeout=limit) as session,
                # No redirects: the server that is named is asked, and gets the token, and nothing else.
                session.request(method, url, allow_redirects=False, **sent) as response,
            ):
                status, text = response.status, await self._whole(response)
        except TimeoutError as error:
            raise self._failed(f"gave no answer within {SECONDS:.0f} s: ask for a shorter time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._failed(f"cannot be reached ({error or type(error).__name__})") from error
        try:
            answer = msgspec.json.decode(text, type=_Answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._failed(f"answers status {status} and nothing of Prometheus: is the address right?") from error
        if answer.status != "success":
            raise self._failed(f"refuses the question: {answer.error[:_SHOWN] or f'status {status}'}")
        return answer.data

    async def _whole(self, response: aiohttp.ClientResponse) -> bytes:
        read = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            read += chunk
            if len(read) > MOST_BYTES:
                raise self._failed(f"has more than {MOST_BYTES >> 20} MiB to say: ask for a shorter time or one queue")
        return bytes(read)

    def _token(self, file: Path) -> str:
        try:
            return file.read_text().strip()
        except OSError as error:
            raise self._failed(f"cannot be asked: its token cannot be read ({error.strerror})") from error

    def _read(self, data: msgspec.Raw, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._failed(f"answers what is not understood ({error})") from error

    def _failed(self, why: str) -> Unavailable:
        return Unavailable(f"Prometheus at {self.address} {why}")
