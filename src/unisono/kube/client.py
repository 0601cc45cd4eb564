"""The one door through which every component reads and writes objects.

``Client`` is implemented over HTTPS (``kube.http``, any API server) and in process (``apiserver.local``, the
embedded store). One contract test suite runs on both.

There is deliberately no ``update``: components hold partial structs, and a PUT of a decoded object would drop
the fields that the struct does not know. Components create, patch and delete.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.kube.pace import WritePace

T = TypeVar("T", bound=Object)

PatchType = Literal["merge", "json", "strategic", "apply"]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
Propagation = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A consistent list and the resourceVersion to watch from.

    Attributes:
        items: all objects that could be decoded.
        resource_version: to watch from.
        unread: the others: what of each could be read, and why the rest could not.
    """

    items: list[T]
    resource_version: str
    unread: Sequence[tuple[T, str]] = ()


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One change. ``BOOKMARK`` events carry an object of which only the resourceVersion is set.

    Where ``error`` says why, the object could not be decoded, and ``object`` has only what could be read of it.
    """

    type: EventType
    object: T
    error: str = ""


class Client(Protocol):
    """Typed access to an API server; every method raises an ``errors.ApiError`` on failure."""

    @property
    def pace(self) -> WritePace:
        """How fast writes of this client may go; the client measures each of its writes with it."""
        ...

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Read one object."""
        ...

    async def list(
        self, kind: Kind[T], namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> Listing[T]:
        """Read all objects of a kind (of one namespace, or of all), pages joined."""
        ...

    def watch(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[WatchEvent[T]]:
        """Changes after ``resource_version``, bookmarks too; ends on time-out, raises ``Gone`` if too old."""
        ...

    async def create(self, kind: Kind[T], obj: T, *, dry_run: bool = False) -> T:
        """Create; ``obj.metadata.namespace`` says where."""
        ...

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
        ...

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
        ...

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """POST the pod's ``binding``: it runs on ``node`` from now on."""
        ...

    async def evict(
        self, namespace: str, pod: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """POST the pod's ``eviction``: delete it, unless a disruption budget forbids that now.

        ``Unavailable`` with code 429 means that a budget is spent.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
