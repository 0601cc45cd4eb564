"""Objects that could not be taken in: which, and why."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from unisono.api.base import Object
from unisono.api.core import ObjectReference
from unisono.api.kind import Kind


@dataclass(frozen=True, slots=True)
class Rejection:
    """One object that counts as absent.

    Attributes:
        kind: its kind.
        key: ``namespace/name``, or ``name``.
        reference: the object, for events.
        message: why it could not be taken in.
    """

    kind: str
    key: str
    reference: ObjectReference
    message: str


class RejectionBook:
    """Rejections by kind and key; ``"Kind key" in book`` asks for one.

    Attributes:
        any: whether there is one; asked for each object that comes.
    """

    def __init__(self) -> None:
        self.any = False
        self._known: dict[tuple[str, str], Rejection] = {}

    def note(self, kind: Kind[Any], obj: Object, why: str) -> bool:
        """Note that an object was rejected; False when that is known, with the same reason."""
        meta = obj.metadata
        message = why if len(why) <= _MOST else f"{why[: _MOST - 3]}..."
        reference = ObjectReference(
            api_version=kind.api_version,
            kind=kind.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        old = self._known.get((kind.kind, obj.key))
        self.any = True
        self._known[kind.kind, obj.key] = Rejection(kind.kind, obj.key, reference, message)
        return old is None or (old.message, old.reference.uid) != (message, meta.uid)

    def forget(self, kind: Kind[Any], key: str) -> None:
        """The object was taken in, or is gone."""
        self._known.pop((kind.kind, key), None)
        self.any = bool(self._known)

    def keys(self, kind: Kind[Any]) -> Set[str]:
        """Keys of the rejected objects of a kind."""
        return {key for name, key in self._known if name == kind.kind}

    def all(self) -> list[Rejection]:
        """All that are rejected now."""
        return list(self._known.values())

    def __contains__(self, name: object) -> bool:
        kind, _, key = str(name).partition(" ")
        return (kind, key) in self._known

    def __len__(self) -> int:
        return len(self._known)


_MOST = 500
"""Characters of a reason that are kept."""
