"""A client's connection to its control plane: found at the first call, and closed with the client."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from unisono.kube.http import HttpClient
from unisono.sdk.endpoint import Endpoint, Where, find


class Connection:
    """Connects to one control plane.

    Args:
        where: which control plane; see `Where`.
        namespace: for objects that name none; None for the kubeconfig's, or ``default``.

    """

    def __init__(self, where: Where | None = None, *, namespace: str | None = None) -> None:
        self._where, self._namespace = where or Where(), namespace
        self._endpoint: Endpoint | None = None
        self._http: HttpClient | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Connect."""
        await self._connected()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close the connections, and end a private control plane with its pods."""
        async with self._lock:
            http, endpoint = self._http, self._endpoint
            self._http = self._endpoint = None
        if http is not None:
            await http.close()
        if endpoint is not None and endpoint.private is not None:
            await endpoint.private.stop()

    async def endpoint(self) -> Endpoint:
        """The control plane that the client talks to."""
        await self._connected()
        assert self._endpoint is not None
        return self._endpoint

    @property
    def namespace(self) -> str:
        """Namespace for jobs that name none."""
        configured = self._endpoint.config.namespace if self._endpoint is not None else None
        return self._namespace or configured or "default"

    async def _connected(self) -> HttpClient:
        async with self._lock:
            if self._http is None:
                self._endpoint = await find(self._where)
                self._http = HttpClient(self._endpoint.config)
            return self._http
