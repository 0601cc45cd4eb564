"""A cluster as Applications need it: any kind of object, read, applied and deleted by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from unisono.errors import AlreadyExists, NotFound
from unisono.fleet.applications.bundle import Ref
from unisono.fleet.members.member import Member
from unisono.kube.clock import Clock
from unisono.kube.discovery import Resource, ResourceMap, UnknownKind, discover, request_json

FIELD_MANAGER: Final = "unisono-application"
# Seconds for which what a member serves is taken as known; an unknown kind has it asked at once, but not more often.
_KNOWN_SECONDS, _UNKNOWN_SECONDS = 300.0, 2.0


class ClusterTarget(Protocol):
    """One cluster; all methods raise ``ApiError`` on refusal, and ``UnknownKind`` for a kind that it does not serve."""

    async def locate(self, manifest: Mapping[str, Any], namespace: str) -> Ref:
        """Name of a manifest's object; one of a namespaced kind that says none is in ``namespace``."""
        ...

    async def get(self, ref: Ref) -> dict[str, Any] | None:
        """The object as it is, None where there is none."""
        ...

    async def apply(self, ref: Ref, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side apply; the fields of the manifest are ours from then on."""
        ...

    async def delete(self, ref: Ref, uid: str) -> None:
        """Delete this incarnation; one that is gone is no error."""
        ...

    @property
    def version(self) -> str:
        """What the cluster's API server calls itself."""
        ...

    async def need_namespace(self, name: str) -> None:
        """Make a namespace that is not there."""
        ...


Targets = Callable[[Member, Clock], ClusterTarget]


class HttpTarget:
    """A member behind its API server."""

    def __init__(self, member: Member, clock: Clock) -> None:
        """Requests go through the bounded writes of the member."""
        self._member, self._clock = member, clock
        self._resources: ResourceMap | None = None
        self._read = -float("inf")

    async def locate(self, manifest: Mapping[str, Any], namespace: str) -> Ref:
        """See `Target`."""
        api_version, kind, meta = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        resource = await self._resource(api_version, kind)
        where = (meta.get("namespace") or namespace) if resource.namespaced else ""
        return Ref(api_version, kind, where, meta["name"])

    async def get(self, ref: Ref) -> dict[str, Any] | None:
        """See `Target`."""
        path = await self._path(ref)
        try:
            async with self._member.writing() as client:
                found: dict[str, Any] = await request_json(client, "GET", path)
        except NotFound:
            return None
        return found

    async def apply(self, ref: Ref, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """See `Target`."""
        path = await self._path(ref)
        meta = dict(manifest["metadata"])
        meta.pop("namespace", None)
        if ref.namespace:
            meta["namespace"] = ref.namespace
        params = {"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
        async with self._member.writing() as client:
            done: dict[str, Any] = await request_json(
                client,
                "PATCH",
                path,
                body={**manifest, "metadata": meta},
                params=params,
                content_type="application/apply-patch+yaml",
            )
        return done

    async def delete(self, ref: Ref, uid: str) -> None:
        """See `Target`."""
        path = await self._path(ref)
        options = {"propagationPolicy": "Background", **({"preconditions": {"uid": uid}} if uid else {})}
        try:
            async with self._member.writing() as client:
                await request_json(client, "DELETE", path, body=options)
        except NotFound:
            return

    @property
    def version(self) -> str:
        """See `Target`."""
        return self._member.version

    async def need_namespace(self, name: str) -> None:
        """See `Target`."""
        ref = Ref("v1", "Namespace", "", name)
        if await self.get(ref) is not None:
            return
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            async with self._member.writing() as client:
                await request_json(client, "POST", "/api/v1/namespaces", body=body)
        except AlreadyExists:
            pass

    async def _path(self, ref: Ref) -> str:
        resource = await self._resource(ref.api_version, ref.kind)
        return resource.path(ref.namespace or None, ref.name)

    async def _resource(self, api_version: str, kind: str) -> Resource:
        age = self._clock.monotonic() - self._read
        if self._resources is None or age > _KNOWN_SECONDS:
            await self._discover()
        for attempt in (0, 1):
            assert self._resources is not None
            try:
                return self._resources.of(api_version, kind)
            except UnknownKind:
                if attempt or age < _UNKNOWN_SECONDS:
                    raise
                await self._discover()
        raise AssertionError("unreachable")

    async def _discover(self) -> None:
        async with self._member.writing() as client:
            self._resources = await discover(client)
        self._read = self._clock.monotonic()
