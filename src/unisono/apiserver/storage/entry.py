"""One stored object and one change of it, as the store keeps them in memory: encoded, with lazily decoded facts."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Key = tuple[str, str, str]


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Labels


_LABELS = msgspec.json.Decoder(_Labelled)
_NONE: dict[str, str] = {}


class Entry:
    """An encoded object under its key and revision; never changed, only replaced."""

    __slots__ = ("_labels", "data", "fields", "name", "namespace", "resource", "revision")

    def __init__(self, resource: str, namespace: str, name: str, revision: int, data: bytes) -> None:
        self.resource, self.namespace, self.name = resource, namespace, name
        self.revision, self.data = revision, data
        self._labels: dict[str, str] | None = None
        # Filled by field_selector.fields_of when a selector first asks, so that 200 watchers decode an event once.
        self.fields: tuple[str, ...] | None = None

    @property
    def key(self) -> Key:
        """``(resource, namespace, name)``; the namespace of cluster-scoped objects is empty."""
        return self.resource, self.namespace, self.name

    @property
    def labels(self) -> dict[str, str]:
        """``metadata.labels``, decoded on first use."""
        if self._labels is None:
            self._labels = _LABELS.decode(self.data).metadata.labels or _NONE
        return self._labels


class Event(NamedTuple):
    """One committed change.

    Attributes:
        type: what happened to the object.
        entry: the object after the change; for DELETED its last state, under the revision of the deletion.
        previous: the object before the change; None for ADDED.
        at: wall clock seconds.
        complete: False when ``previous`` is unknown (history that was read back after a restart).

    """

    type: ChangeType
    entry: Entry
    previous: Entry | None
    at: float
    complete: bool = True
