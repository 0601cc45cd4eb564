"""What a source of node load is, and HTTP to those outside of the cluster's API server."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Protocol

import aiohttp
import msgspec

from unisono.api.node_usage import NodeUsage
from unisono.errors import UnisonoError

_LONGEST = 64 << 20
"""Bytes of an answer at most: some 10,000 nodes take 2 MB."""
_SHOWN = 200

Names = Mapping[str, str]
"""The nodes that the cluster has, by everything that they are known as: name, host name and addresses."""


class UsageError(UnisonoError):
    """A source did not say how busy nodes are."""


class UsageSource(Protocol):
    """Answers the load of nodes."""

    async def collect(self, names: Names, now: float) -> Mapping[str, NodeUsage]:
        """Latest load by node, for as many of ``names`` as are known to the source.

        Raises:
            UsageError: the answer cannot be used.
            UnisonoError, OSError, TimeoutError: there is none.

        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Web:
    """JSON over HTTP to one address."""

    def __init__(self, address: str, *, insecure: bool = False, user: str = "", password: str = "") -> None:
        self.address = address
        self._insecure = insecure
        self._headers: dict[str, str] = {}
        if user:
            token = b64encode(f"{user}:{password}".encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {token}"
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None) -> Any:
        """The answer to one request, decoded; raises `UsageError`, or OSError without an answer."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=not self._insecure, limit=4)
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with self._session.request(
                method, self.address + path, params=params, data=data, headers=headers, allow_redirects=False
            ) as response:
                text = await self._read(response)
                status = response.status
        except aiohttp.ClientError as error:
            raise UsageError(f"{self.address} cannot be reached: {error or type(error).__name__}") from error
        if status != 200:
            detail = text[:_SHOWN].decode("utf-8", "replace")
            raise UsageError(f"{self.address}{path} answers status {status}: {detail}")
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.address}{path} answers no JSON; is the address right?") from error

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        read = bytearray()
        async for chunk in response.content.iter_chunked(1 << 16):
            read += chunk
            if len(read) > _LONGEST:
                raise UsageError(f"the answer of {self.address} is longer than {_LONGEST} bytes")
        return bytes(read)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def percent(value: object) -> float | None:
    """A measured percentage, at least 0; None for what is no number."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return max(number, 0.0) if math.isfinite(number) else None
