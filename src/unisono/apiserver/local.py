"""``kube.Client`` in the process of the store: no sockets, the same semantics and the same errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from unisono.api.base import Object
from unisono.api.keys import MASTERS
from unisono.api.kind import Kind
from unisono.apiserver import encoding
from unisono.apiserver.operations.service import ObjectService
from unisono.apiserver.types import DeleteOptions, WriteOptions
from unisono.kube.client import Listing, PatchType, Propagation, WatchEvent
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.pace import WritePace

T = TypeVar("T", bound=Object)


class LocalClient:
    """A client of ``service``; objects that it answers are the caller's own copies.

    Args:
        user: name under which admission sees the writes.
        field_manager: name of the writer.
        clock: by which writes are measured.
    """

    def __init__(
        self,
        service: ObjectService,
        *,
        user: str = "system:admin",
        field_manager: str = "unisono",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._service = service
        self._user, self._manager = user, field_manager
        self._turns = service.shares.components
        self.pace = WritePace(clock)

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Read one object."""
        return encoding.read(kind, await self._service.get(kind, namespace, name))

    async def list(
        self, kind: Kind[T], namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> Listing[T]:
        """Read all objects of a kind."""
        page = await self._service.list(kind, namespace, label_selector=label_selector, field_selector=field_selector)
        return Listing([encoding.read(kind, item) for item in page.items], str(page.resource_version))

    async def watch(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[WatchEvent[T]]:
        """Changes after ``resource_version``, bookmarks included.

        The stream keeps no queue: a consumer that falls behind the store's history gets ``Gone`` and lists again.
        """
        stream = self._service.watch(
            kind,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
            bookmarks=True,
        )
        turns = self._service.shares.events
        async for event in stream:
            await turns.take()
            yield WatchEvent(event.type, encoding.read(kind, event.object))

    async def create(self, kind: Kind[T], obj: T, *, dry_run: bool = False) -> T:
        """Create; ``obj.metadata.namespace`` says where. ``obj`` is not changed."""
        body = msgspec.to_builtins(obj)
        body["apiVersion"], body["kind"] = kind.api_version, kind.kind
        with self.pace.write():
            await self._turns.take()
            written = await self._service.create(kind, obj.metadata.namespace, body, self._options(dry_run=dry_run))
        return encoding.read(kind, written.object)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        patch_type: PatchType = "merge",
    ) -> T:
        """Patch; a ``metadata.resourceVersion`` in a merge patch makes it compare-and-set."""
        # Through JSON's types: the patch may hold structs and tuples.
        change = msgspec.to_builtins(dict(patch) if isinstance(patch, Mapping) else list(patch))
        with self.pace.write():
            await self._turns.take()
            written = await self._service.patch(
                kind, namespace, name, change, patch_type, self._options(), subresource or ""
            )
        return encoding.read(kind, written.object)

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """Delete; with ``uid`` only that incarnation."""
        options = DeleteOptions(
            grace_period_seconds=grace_seconds,
            propagation_policy=propagation,
            uid=uid,
            user=self._user,
            groups=(MASTERS,),
        )
        with self.pace.write():
            await self._turns.take()
            await self._service.delete(kind, namespace, name, options)

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Assign a pod to a node."""
        metadata: dict[str, Any] = {"name": pod, "annotations": dict(annotations or {})}
        if uid:
            metadata["uid"] = uid
        binding = {"metadata": metadata, "target": {"kind": "Node", "name": node}}
        with self.pace.write():
            await self._turns.take()
            await self._service.bind(namespace, pod, binding, self._options())

    async def evict(
        self, namespace: str, pod: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """Delete a pod for a client that needs its node."""
        options: dict[str, Any] = {"preconditions": {"uid": uid}} if uid else {}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        eviction = {"metadata": {"name": pod, "namespace": namespace}, "deleteOptions": options}
        with self.pace.write():
            await self._turns.take()
            await self._service.evict(namespace, pod, eviction, self._options())

    async def close(self) -> None:
        """Nothing to release; the store belongs to the code that opened it."""

    def _options(self, *, dry_run: bool = False) -> WriteOptions:
        # Components create objects by the thousand; recording their owner costs half as much again (decision 5).
        return WriteOptions(
            dry_run=dry_run, field_manager=self._manager, user=self._user, groups=(MASTERS,), track_fields=False
        )
