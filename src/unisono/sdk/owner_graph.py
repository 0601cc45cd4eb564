"""Which followed object a pod belongs to, also after the objects between the two are deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from unisono.api.base import Object

T = TypeVar("T")


class OwnerGraph(Generic[T]):
    """Remembers owner references.

    Args:
        roots: what to find, by the UID of its object.

    """

    def __init__(self, roots: Iterable[tuple[str, T]]) -> None:
        self._roots = dict(roots)
        self._owners: dict[str, tuple[str, ...]] = {}

    def add(self, obj: Object) -> None:
        """Remember the owners of an object that may stand between a root and its pods."""
        self._owners[obj.metadata.uid or ""] = _owner_uids(obj)

    def root_of(self, obj: Object) -> T | None:
        """The root that is the object or owns it, directly or through others; None without one."""
        uids = [obj.metadata.uid or "", *_owner_uids(obj)]
        for uid in uids:
            if uid in self._roots:
                return self._roots[uid]
            uids += [owner for owner in self._owners.get(uid, ()) if owner not in uids]
        return None


def _owner_uids(obj: Object) -> tuple[str, ...]:
    return tuple(owner.uid for owner in obj.metadata.owner_references or ())
