"""Everything that is not an object: version, health, metrics, discovery and OpenAPI."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import sys
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

import msgspec
from aiohttp import web

from unisono import __version__
from unisono.api.annotations import tenant
from unisono.api.kinds import QUEUES
from unisono.apiserver.access.service_accounts import TokenSigner
from unisono.apiserver.access.user import User
from unisono.apiserver.authorization.authorizer import Action, Authorizer
from unisono.apiserver.catalog import Catalog, Served, Subresource
from unisono.apiserver.http import openapi
from unisono.apiserver.http.exchange import JSON, Exchange
from unisono.apiserver.http.metrics import CONTENT_TYPE, RequestMetrics
from unisono.apiserver.http.openapi import Encoded, OpenApi
from unisono.apiserver.http.status import clauses
from unisono.errors import NotFound

# ``/unisono/v1/backup``: a copy of everything in the store, for users with access to this path.

PATH = "/unisono/v1/backup"
_PIECE = 256 * 1024


class BackupHandler:
    """Makes a copy on disk and sends it.

    Args:
        make: writes a copy to a path.
        directory: where copies are for a moment; only its owner reads it.
    """

    def __init__(self, make: Callable[[Path], Awaitable[None]], directory: Path) -> None:
        self._make, self._directory = make, directory

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        """Answer with the copy."""
        path = self._directory / f".backup-{uuid.uuid4().hex}.tmp"
        try:
            await self._make(path)
            # Opened, it is read to its end even though its name is gone: nothing is left behind.
            file = path.open("rb")
        finally:
            path.unlink(missing_ok=True)
        with file:
            response = await exchange.stream("application/vnd.sqlite3", length=os.fstat(file.fileno()).st_size)
            while piece := await asyncio.to_thread(file.read, _PIECE):
                await exchange.write(response, piece)
        return response


# ``/unisono/v1/history``: reports of what ran; each user sees what they may list now.

Place = tuple[str, str]
"""A namespace, and the resource of a kind of job as ``plural.group``."""


class HistorySource(Protocol):
    """Who keeps the history."""

    async def places(self) -> Sequence[Place]:
        """Of which places there is anything."""
        ...

    async def answer(
        self, what: str, query: Mapping[str, str], shown: Collection[Place], *, capacity: bool, queues: bool
    ) -> bytes | None:
        """The answer to a question about these places, as JSON; None where there is no such question."""
        ...


class HistoryHandler:
    """Asks the source for the rows that a user may see.

    Args:
        source: None where no history is kept.
        authorizer: what users may do.
    """

    def __init__(self, source: HistorySource | None, authorizer: Authorizer) -> None:
        self._source, self._authorizer = source, authorizer
        # The source answers one question after the other: of each tenant one waits there, of each of its users one for
        # that, and the others wait for those.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def send(self, exchange: Exchange, what: str) -> web.StreamResponse | None:
        """Answer a question; None where there is no such one.

        Raises:
            NotFound: no history is kept.
        """
        if self._source is None:
            raise NotFound("no history is kept here: start 'unisono up' with --history-days 90, or without that option")
        user = exchange.user.name
        own, all_of_tenant = (self._turns.setdefault(name, asyncio.Lock()) for name in (f":{user}", tenant(user)))
        async with own, all_of_tenant:
            body = await self._answer(self._source, exchange, what)
        return None if body is None else await exchange.send(200, body)

    async def _answer(self, source: HistorySource, exchange: Exchange, what: str) -> bytes | None:
        user = exchange.user
        shown = [place for place in await source.places() if self._may_list(user, *place)]
        capacity = self._authorizer.decide(user, Action("list", resource="nodes")).allowed
        queues = self._authorizer.decide(user, Action("list", group=QUEUES.group, resource=QUEUES.plural)).allowed
        return await source.answer(what, exchange.query, shown, capacity=capacity, queues=queues)

    def _may_list(self, user: User, namespace: str, resource: str) -> bool:
        plural, _, group = resource.partition(".")
        return self._authorizer.decide(user, Action("list", group=group, resource=plural, namespace=namespace)).allowed


# Discovery documents: what is served, in the aggregated and in the older form.

Document = dict[str, Any]
_AGGREGATED_GROUP = "apidiscovery.k8s.io"
_AGGREGATED_VERSIONS = ("v2", "v2beta1")


def aggregated_version(accept: str) -> str | None:
    """``v2`` or ``v2beta1`` when the client reads aggregated discovery, None when it reads the older form."""
    for clause in clauses(accept):
        if clause.media_type != "application/json":
            continue
        params = clause.params
        if not params:
            return None
        version = params.get("v", "")
        asks_aggregated = params.get("as") == "APIGroupDiscoveryList" and params.get("g") == _AGGREGATED_GROUP
        if asks_aggregated and version in _AGGREGATED_VERSIONS:
            return version
    return None


def aggregated_content_type(version: str) -> str:
    """The exact content type by which clients recognise an aggregated answer."""
    return f"application/json;g={_AGGREGATED_GROUP};v={version};as=APIGroupDiscoveryList"


def aggregated(catalog: Catalog, version: str, *, core: bool) -> Document:
    """The ``APIGroupDiscoveryList`` of ``/api`` (core) or of ``/apis`` (all other groups)."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{_AGGREGATED_GROUP}/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {**({"name": group} if group else {}), "creationTimestamp": None},
                "versions": [
                    {
                        "version": entry,
                        "freshness": "Current",
                        "resources": [_discovered(served) for served in catalog.resources(group, entry)],
                    }
                    for entry in versions
                ],
            }
            for group, versions in catalog.groups()
            if (group == "") == core
        ],
    }


def _discovered(served: Served) -> Document:
    kind = served.kind
    resource: Document = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular_name,
        "verbs": list(served.verbs),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    if served.subresources:
        resource["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(sub.group, sub.version, sub.kind),
                "verbs": list(sub.verbs),
            }
            for sub in served.subresources
        ]
    return resource


def _response_kind(group: str, version: str, kind: str) -> Document:
    return {"group": group, "version": version, "kind": kind}


def api_versions(server_address: str) -> Document:
    """The ``APIVersions`` of ``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def group_list(catalog: Catalog) -> Document:
    """The ``APIGroupList`` of ``/apis``."""
    groups = [_group(group, versions) for group, versions in catalog.groups() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group_answer(catalog: Catalog, name: str) -> Document | None:
    """The ``APIGroup`` of ``/apis/<group>``; None when it is not served."""
    for group, versions in catalog.groups():
        if group == name and name:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}
    return None


def _group(name: str, versions: list[str]) -> Document:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def resource_list(catalog: Catalog, group_name: str, version: str) -> Document | None:
    """The ``APIResourceList`` of one group and version; None when it is not served."""
    served = catalog.resources(group_name, version)
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group_name}/{version}" if group_name else version,
        "resources": [entry for one in served for entry in _resources(one)],
    }


def _resources(served: Served) -> list[Document]:
    kind = served.kind
    main: Document = {
        "name": kind.plural,
        "singularName": kind.singular_name,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(served.verbs),
    }
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    return [main, *(_subresource(served, sub) for sub in served.subresources)]


def _subresource(served: Served, sub: Subresource) -> Document:
    entry: Document = {
        "name": f"{served.kind.plural}/{sub.name}",
        "singularName": "",
        "namespaced": served.kind.namespaced,
        "kind": sub.kind,
        "verbs": list(sub.verbs),
    }
    if (sub.group, sub.version) != (served.kind.group, served.kind.version):
        entry["group"], entry["version"] = sub.group, sub.version
    return entry


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
            version = aggregated_version(accept)
            if version is not None:
                return await self._aggregated(exchange, version, core=parts[0] == "api")
        answer = self._legacy(exchange, parts)
        return None if answer is None else await exchange.document(answer)

    def _legacy(self, exchange: Exchange, parts: list[str]) -> dict[str, Any] | None:
        match parts:
            case ["api"]:
                return api_versions(exchange.request.host)
            case ["apis"]:
                return group_list(self._catalog)
            case ["api", version]:
                return resource_list(self._catalog, "", version)
            case ["apis", group]:
                return group_answer(self._catalog, group)
            case ["apis", group, version]:
                return resource_list(self._catalog, group, version)
        return None

    async def _aggregated(self, exchange: Exchange, version: str, *, core: bool) -> web.StreamResponse:
        body = msgspec.json.encode(aggregated(self._catalog, version, core=core))
        etag = f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"'
        extra = [("ETag", etag), ("Vary", "Accept")]
        content_type = aggregated_content_type(version)
        if exchange.request.headers.get("If-None-Match") == etag:
            return await exchange.send(304, b"", content_type=content_type, extra=extra)
        return await exchange.send(200, body, content_type=content_type, extra=extra)

    async def _open_api(self, exchange: Exchange, rest: list[str]) -> web.StreamResponse | None:
        match rest:
            case []:
                return await exchange.document(await self._openapi.index())
            case ["api", version]:
                encoded = await self._openapi.document("", version)
            case ["apis", group, version]:
                encoded = await self._openapi.document(group, version)
            case _:
                return None
        return None if encoded is None else await self._tagged(exchange, encoded, JSON)

    async def _open_api_v2(self, exchange: Exchange) -> web.StreamResponse:
        protobuf = "openapi.spec.v2" in exchange.request.headers.get("Accept", "")
        encoded = await self._openapi.v2(protobuf=protobuf)
        return await self._tagged(exchange, encoded, openapi.MEDIA_TYPE if protobuf else JSON)

    async def _tagged(self, exchange: Exchange, found: Encoded, content_type: str) -> web.StreamResponse:
        extra = [("ETag", f'"{found.digest}"'), ("Vary", "Accept")]
        if exchange.request.headers.get("If-None-Match") == f'"{found.digest}"':
            return await exchange.send(304, b"", extra=extra)
        return await exchange.send(200, found.body, content_type=content_type, extra=extra, packed=found.packed)
