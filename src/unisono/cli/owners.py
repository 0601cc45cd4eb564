"""Which followed job an object belongs to, also when both are gone by the time somebody asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Lineage:
    """Remembers who made whom.

    Args:
        targets: resource (``Job`` and ``Pod`` for those two kinds), namespace and name of what is followed.

    """

    def __init__(self, targets: Iterable[tuple[str, str, str]]) -> None:
        self._targets = frozenset(targets)
        self._roots: dict[str, str] = {}
        self._makers: dict[str, tuple[str, ...]] = {}

    def saw(self, resource: str, obj: Any) -> None:
        """Take note of an object that may stand between a job and its pods."""
        uid, name = obj.metadata.uid or "", obj.metadata.name
        self._makers[uid] = tuple(owner.uid for owner in obj.metadata.owner_references or ())
        if (resource, obj.metadata.namespace or "default", name) in self._targets:
            self._roots[uid] = name

    def job_of(self, obj: Any) -> str | None:
        """Name of the followed job that made the object, by itself or through others; None if none did."""
        todo = [owner.uid for owner in obj.metadata.owner_references or ()]
        for uid in todo:
            if uid in self._roots:
                return self._roots[uid]
            todo += [maker for maker in self._makers.get(uid, ()) if maker not in todo]
        return None
