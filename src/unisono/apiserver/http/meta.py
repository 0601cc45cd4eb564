"""Everything that is not an object: version, health, metrics, discovery and OpenAPI."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from aiohttp import web

from unisono import __version__
from unisono.apiserver.access.service_accounts import TokenSigner
from unisono.apiserver.catalog import Catalog
from unisono.apiserver.http import discovery, openapi
from unisono.apiserver.http.exchange import JSON, Exchange
from unisono.apiserver.http.metrics import CONTENT_TYPE, RequestMetrics
from unisono.apiserver.http.openapi import Encoded, OpenApi
from unisono.apiserver.http.own_paths import BackupHandler, HistoryHandler

Readiness = Callable[[], Sequence[str]]
# The Kubernetes version whose API is spoken; clients warn when it is more than one minor version away from theirs.
KUBERNETES_VERSION = (1, 36)
_HEALTH = {"healthz", "livez", "readyz"}
_ROOTS = (
    "/api",
    "/api/v1",
    "/.well-known/openid-configuration",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
)


def version_document() -> dict[str, str]:
    """The answer of ``/version``."""
    major, minor = KUBERNETES_VERSION
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": str(major),
        "minor": str(minor),
        "gitVersion": f"v{major}.{minor}.0+unisono.{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{machine}",
    }


class MetaHandlers:
    """Handlers of the paths that name no resource.

    Args:
        catalog: what is served.
        metrics: what ``/metrics`` shows.
        readiness: reasons why the server is not ready yet, empty when it is.
        backups: sends copies of the store; None where there is none.
        history: answers what ran.
        signer: signs the tokens of service accounts; others may check them by its documents.

    """

    def __init__(
        self,
        catalog: Catalog,
        metrics: RequestMetrics,
        readiness: Readiness,
        signer: TokenSigner,
        backups: BackupHandler,
        history: HistoryHandler,
    ) -> None:
        self._catalog = catalog
        self._metrics = metrics
        self._readiness = readiness
        self._signer = signer
        self._backups, self._history = backups, history
        self._openapi = OpenApi(catalog, __version__)

    async def handle(self, exchange: Exchange, parts: list[str]) -> web.StreamResponse | None:
        """Answer the path; None when nothing is there."""
        match parts:
            case []:
                return await exchange.document({"paths": list(_ROOTS)})
            case ["version"]:
                return await exchange.document(version_document())
            case [check, *rest] if check in _HEALTH:
                return await self._health(exchange, check) if len(rest) < 2 else None
            case ["metrics"]:
                return await exchange.send(200, await self._metrics.text(), content_type=CONTENT_TYPE)
            case [".well-known", "openid-configuration"]:
                return await exchange.document(self._signer.configuration(f"https://{exchange.request.host}"))
            case ["openid", "v1", "jwks"]:
                return await exchange.document(self._signer.keys(), content_type="application/jwk-set+json")
            case ["unisono", "v1", "backup"]:
                return await self._backups.send(exchange)
            case ["unisono", "v1", "history", what]:
                return await self._history.send(exchange, what)
            case ["openapi", "v3", *rest]:
                return await self._open_api(exchange, rest)
            case ["openapi", "v2"]:
                return await self._open_api_v2(exchange)
            case ["api" | "apis", *_]:
                return await self._discovery(exchange, parts)
        return None

    async def _health(self, exchange: Exchange, check: str) -> web.StreamResponse:
        reasons = list(self._readiness()) if check == "readyz" else []
        if reasons:
            lines = "".join(f"[-]{reason}\n" for reason in reasons)
            return await exchange.send(500, f"{lines}readyz check failed\n".encode(), content_type="text/plain")
        return await exchange.send(200, b"ok", content_type="text/plain; charset=utf-8")

    async def _discovery(self, exchange: Exchange, parts: list[str]) -> web.StreamResponse | None:
        accept = exchange.request.headers.get("Accept", "")
        if len(parts) == 1:
            version = discovery.aggregated_version(accept)
            if version is not None:
                return await self._aggregated(exchange, version, core=parts[0] == "api")
        found = self._legacy(exchange, parts)
        return None if found is None else await exchange.document(found)

    def _legacy(self, exchange: Exchange, parts: list[str]) -> dict[str, Any] | None:
        match parts:
            case ["api"]:
                return discovery.api_versions(exchange.request.host)
            case ["apis"]:
                return discovery.group_list(self._catalog)
            case ["api", version]:
                return discovery.resource_list(self._catalog, "", version)
            case ["apis", group]:
                return discovery.group(self._catalog, group)
            case ["apis", group, version]:
                return discovery.resource_list(self._catalog, group, version)
        return None

    async def _aggregated(self, exchange: Exchange, version: str, *, core: bool) -> web.StreamResponse:
        body = msgspec.json.encode(discovery.aggregated(self._catalog, version, core=core))
        etag = f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"'
        extra = [("ETag", etag), ("Vary", "Accept")]
        content_type = discovery.aggregated_content_type(version)
        if exchange.request.headers.get("If-None-Match") == etag:
            return await exchange.send(304, b"", content_type=content_type, extra=extra)
        return await exchange.send(200, body, content_type=content_type, extra=extra)

    async def _open_api(self, exchange: Exchange, rest: list[str]) -> web.StreamResponse | None:
        match rest:
            case []:
                return await exchange.document(await self._openapi.index())
            case ["api", version]:
                found = await self._openapi.document("", version)
            case ["apis", group, version]:
                found = await self._openapi.document(group, version)
            case _:
                return None
        return None if found is None else await self._tagged(exchange, found, JSON)

    async def _open_api_v2(self, exchange: Exchange) -> web.StreamResponse:
        protobuf = "openapi.spec.v2" in exchange.request.headers.get("Accept", "")
        found = await self._openapi.v2(protobuf=protobuf)
        return await self._tagged(exchange, found, openapi.MEDIA_TYPE if protobuf else JSON)

    async def _tagged(self, exchange: Exchange, found: Encoded, content_type: str) -> web.StreamResponse:
        extra = [("ETag", f'"{found.digest}"'), ("Vary", "Accept")]
        if exchange.request.headers.get("If-None-Match") == f'"{found.digest}"':
            return await exchange.send(304, b"", extra=extra)
        return await exchange.send(200, found.body, content_type=content_type, extra=extra, packed=found.packed)
