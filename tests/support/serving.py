"""A running API server over HTTPS, a plain client for it, and an object service that does as it is told."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import yaml

from unisono.api.kind import Kind
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from unisono.apiserver.authorization.authorizer import Authorizer
from unisono.apiserver.authorization.roles import default_bindings, default_roles
from unisono.apiserver.flow_control import Shares
from unisono.apiserver.server import ApiServer
from unisono.apiserver.types import Deleted, DeleteOptions, Page, StoreEvent, WriteOptions, Written
from unisono.errors import NotFound

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass
class Reply:
    """An answer, read to its end."""

    status: int
    headers: Any
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class WebClient:
    """Requests with the administrator's token, or with the headers that a test gives."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession, token: str) -> None:
        self.server, self.session, self.token = server, session, token

    def open(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The request as a context manager, for answers that stream."""
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Accept-Encoding": "identity",
            **options.pop("headers", {}),
        }
        if "accept" in options:
            headers["Accept"] = options.pop("accept")
        if "type" in options:
            headers["Content-Type"] = options.pop("type")
        if body is not None:
            options["data"] = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        headers = {key: value for key, value in headers.items() if value is not None}
        return self.session.request(method, self.server.url + path, headers=headers, **options)

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        async with self.open(method, path, body, **options) as answer:
            return Reply(answer.status, answer.headers, await answer.read())

    async def get(self, path: str, **options: Any) -> Reply:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any, **options: Any) -> Reply:
        return await self.call("POST", path, body, **options)


def token_of(server: ApiServer) -> str:
    """The token in the kubeconfig that the server wrote."""
    token: str = yaml.safe_load(server.kubeconfig_path.read_text())["users"][0]["user"]["token"]
    return token


def trusting(server: ApiServer) -> ssl.SSLContext:
    """TLS settings of a client that trusts the server's authority and nobody else."""
    return ssl.create_default_context(cafile=str(server.ca_path))


@asynccontextmanager
async def serving(service: Any, data_dir: Path, **options: Any) -> AsyncIterator[WebClient]:
    """Run a server around ``service`` and open a client for it."""
    server = ApiServer(service, data_dir=data_dir, **options)
    await server.start()
    connector = aiohttp.TCPConnector(ssl=trusting(server))
    try:
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            yield WebClient(server, session, token_of(server))
    finally:
        await server.stop()


class DefaultRoles:
    """A view that holds the roles and bindings of every cluster, and nothing else."""

    def all(self, kind: Kind[Any], namespace: str | None = None) -> Iterator[Any]:
        found = {CLUSTER_ROLES: default_roles, CLUSTER_ROLE_BINDINGS: default_bindings}.get(kind)
        return iter(found() if found else ())

    def find(self, kind: Kind[Any], name: str, namespace: str | None = None) -> Any:
        return next((one for one in self.all(kind) if one.metadata.name == name), None)


@dataclass
class ScriptedService:
    """Answers what a test has put in, and remembers what it was asked."""

    view: Any = field(default_factory=DefaultRoles)
    authorizer: Authorizer = field(default_factory=lambda: Authorizer(DefaultRoles(), lambda: 0))
    shares: Shares = field(default_factory=Shares)
    objects: dict[tuple[str, str | None, str], dict[str, Any]] = field(default_factory=dict)
    script: list[Any] = field(default_factory=list)
    failure: Exception | None = None
    warnings: list[str] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    gate: Any = None
    hooks: Any = field(default_factory=lambda: SimpleNamespace(present=False))
    store: Any = field(default_factory=lambda: SimpleNamespace(backup=None, statistics=lambda: {"history_bytes": 0}))

    def put(self, kind: Kind[Any], name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
        metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5"}
        if namespace:
            metadata["namespace"] = namespace
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
        self.objects[kind.plural, namespace, name] = obj
        return obj

    def publish_certificate(self, certificate: str) -> None:
        """Nobody here wants it."""

    async def _called(self, *what: Any) -> None:
        self.asked.append(what)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure

    def follow_kinds(self, follower: Any) -> None:
        follower(())

    async def get(self, kind: Kind[Any], namespace: str | None, name: str, subresource: str = "") -> bytes:
        await self._called("get", kind.api_version, kind.plural, namespace, name)
        found = self.objects.get((kind.plural, namespace, name))
        if found is None:
            raise NotFound(f'{kind.resource} "{name}" not found', details={"name": name, "kind": kind.plural})
        return json.dumps(found).encode()

    async def list(self, kind: Kind[Any], namespace: str | None, **options: Any) -> Page:
        await self._called("list", kind.api_version, kind.plural, namespace, options)
        found = [
            json.dumps(obj).encode()
            for (plural, where, _), obj in self.objects.items()
            if plural == kind.plural and namespace in {None, where}
        ]
        return Page(found, 7, "next" if options.get("limit") else "", 3 if options.get("limit") else None)

    def watch(self, kind: Kind[Any], namespace: str | None, **options: Any) -> AsyncIterator[StoreEvent]:
        self.asked.append(("watch", kind.api_version, kind.plural, namespace, options))
        if self.failure is not None:
            raise self.failure
        return self._play()

    async def _play(self) -> AsyncIterator[StoreEvent]:
        for step in self.script:
            if isinstance(step, Exception):
                raise step
            if hasattr(step, "wait"):
                await step.wait()
                continue
            event_type, obj = step
            version = int(obj["metadata"]["resourceVersion"])
            yield StoreEvent(event_type, json.dumps(obj).encode(), version)

    async def create(
        self, kind: Kind[Any], namespace: str | None, body: dict[str, Any], options: WriteOptions
    ) -> Written:
        await self._called("create", kind.api_version, kind.plural, namespace, body, options)
        return Written(json.dumps(body).encode(), True, self.warnings)

    async def update(
        self,
        kind: Kind[Any],
        namespace: str | None,
        name: str,
        body: dict[str, Any],
        options: WriteOptions,
        subresource: str = "",
    ) -> Written:
        await self._called("update", kind.api_version, kind.plural, namespace, name, body, options, subresource)
        return Written(json.dumps(body).encode(), False, self.warnings)

    async def patch(
        self,
        kind: Kind[Any],
        namespace: str | None,
        name: str,
        patch: Any,
        patch_type: str,
        options: WriteOptions,
        subresource: str = "",
    ) -> Written:
        await self._called("patch", kind.plural, namespace, name, patch, patch_type, options, subresource)
        return Written(b'{"kind":"x","metadata":{}}', patch_type == "apply", self.warnings)

    async def delete(self, kind: Kind[Any], namespace: str | None, name: str, options: DeleteOptions) -> Deleted:
        await self._called("delete", kind.plural, namespace, name, options)
        found = self.objects.get((kind.plural, namespace, name))
        if found is not None:
            return Deleted(object=json.dumps(found).encode())
        return Deleted(details={"name": name, "kind": kind.plural, "uid": "u"})

    async def delete_collection(
        self, kind: Kind[Any], namespace: str | None, options: DeleteOptions, **selectors: str
    ) -> Page:
        await self._called("delete_collection", kind.plural, namespace, options, selectors)
        return Page([], 9)

    async def bind(self, namespace: str, pod: str, binding: dict[str, Any], options: WriteOptions) -> list[str]:
        await self._called("bind", namespace, pod, binding["target"]["name"], options)
        return self.warnings

    async def evict(self, namespace: str, pod: str, eviction: dict[str, Any], options: WriteOptions) -> list[str]:
        await self._called("evict", namespace, pod, options)
        return self.warnings
