"""Reading and writing objects with Kubernetes' semantics, on encoded JSON; HTTP and the local client sit on top."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from unisono.api.kind import Kind
from unisono.apiserver.types import (
    Deleted,
    DeleteOptions,
    Page,
    PatchType,
    StoreEvent,
    WriteOptions,
    Written,
)


class ObjectService:
    """All operations; every failure is an ``errors.ApiError`` with Kubernetes' message, code and reason.

    ``kind`` may be a served kind or ``dataclasses.replace(kind, version=alias)``: answers carry that apiVersion.
    ``namespace`` is None for cluster-scoped kinds and for lists over all namespaces.
    """

    async def get(self, kind: Kind[Any], namespace: str | None, name: str) -> bytes:
        """One object."""

    async def list(
        self,
        kind: Kind[Any],
        namespace: str | None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        """A consistent list."""

    def watch(
        self,
        kind: Kind[Any],
        namespace: str | None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float | None = None,
        bookmarks: bool = False,
        send_initial_events: bool = False,
    ) -> AsyncIterator[StoreEvent]:
        """Changes; selector errors (400) are raised by the call, ``Gone`` (410) while iterating."""

    async def create(self, kind: Kind[Any], namespace: str | None, body: dict[str, Any], options: WriteOptions) -> Written:
        """Store a new object."""

    async def update(
        self,
        kind: Kind[Any],
        namespace: str | None,
        name: str,
        body: dict[str, Any],
        options: WriteOptions,
        subresource: str = "",
    ) -> Written:
        """Replace an object or, with ``subresource="status"``, its status."""

    async def patch(
        self,
        kind: Kind[Any],
        namespace: str | None,
        name: str,
        patch: Any,
        patch_type: PatchType,
        options: WriteOptions,
        subresource: str = "",
    ) -> Written:
        """Patch an object; ``patch`` is decoded JSON (a list for ``json``, an object otherwise)."""

    async def delete(self, kind: Kind[Any], namespace: str | None, name: str, options: DeleteOptions) -> Deleted:
        """Delete an object, at once, gracefully or when its finalizers are gone."""

    async def delete_collection(
        self,
        kind: Kind[Any],
        namespace: str | None,
        options: DeleteOptions,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Page:
        """Delete all that match; answers them."""

    async def bind(self, namespace: str, pod: str, binding: dict[str, Any], options: WriteOptions) -> None:
        """Assign a pod to ``binding.target.name``."""

    async def evict(self, namespace: str, pod: str, eviction: dict[str, Any], options: WriteOptions) -> None:
        """Delete a pod by the eviction API."""
