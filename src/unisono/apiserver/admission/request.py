"""What a rule sees: the request, and the objects of the store as the next write must see them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.pod_limit import MOST_PODS
from unisono.apiserver.flow_control import NAMESPACE_BYTES

T = TypeVar("T", bound=Object)
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class View(Protocol):
    """Typed reads; objects are copies."""

    def find(self, kind: Kind[T], name: str, namespace: str | None = None) -> T | None:
        """One object, or None."""
        ...

    def all(self, kind: Kind[T], namespace: str | None = None) -> Iterable[T]:
        """All objects, of one namespace or of all, in no order."""
        ...


class Clocked(View, Protocol):
    """What the rules of writes see: objects, and what time it is."""

    def now(self) -> str:
        """The time as objects carry it."""
        ...


@dataclass(slots=True)
class Request:
    """One write.

    Attributes:
        object: the object to be stored; for DELETE the one to be deleted. What a subresource takes that has a kind of
            its own, such as a Binding, is JSON values, and only webhooks see such a request.
        old: the object before an UPDATE, else None.
        subresource: for example ``status``; empty for the object itself.
        user: who writes; empty for the server itself.
        groups: the user's groups.
        shown_as: apiVersion and kind of what a subresource takes, where that has a kind of its own.
    """

    operation: Operation
    kind: Kind[Any]
    namespace: str | None
    name: str
    object: Any
    old: Any = None
    subresource: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    shown_as: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be chosen; the first two are Volcano's switches of the same names, with its defaults.

    Attributes:
        enable_queue_allocated_pods_check: refuse to delete a queue while pods are allocated from it.
        max_queue_depth: how many queues may lie on the way from a queue up to (excluding) root.
        most_pods: pods that one object may ask for.
        namespace_bytes: bytes that the objects of one namespace may take in the store.
    """

    enable_queue_allocated_pods_check: bool = False
    max_queue_depth: int = 5
    most_pods: int = MOST_PODS
    namespace_bytes: int = NAMESPACE_BYTES


Rule = Callable[[Request, Clocked], None]
Adviser = Callable[[Request], Awaitable[list[str]]]
