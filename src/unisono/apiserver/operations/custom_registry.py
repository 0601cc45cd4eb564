"""All user-defined kinds that are served, kept up to date by the store's events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import structlog

from unisono.api.core.crd import CustomResourceDefinition
from unisono.api.kind import Kind
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from unisono.apiserver.custom.kinds import CustomKind, Definition
from unisono.apiserver.custom.naming import established
from unisono.apiserver.encoding import codec
from unisono.apiserver.storage.entry import Entry, Event
from unisono.apiserver.storage.store import Store

_log = structlog.get_logger(__name__)


class Registry:
    """Definitions by name.

    Args:
        store: holds the definitions.
        kinds: served kinds by ``Kind.resource``; user-defined ones are added here and taken away.

    """

    def __init__(self, store: Store, kinds: dict[str, Kind[Any]]) -> None:
        self._store, self._kinds = store, kinds
        self._built_in = frozenset(kinds)
        self._definitions: dict[str, Definition] = {}
        self._followers: list[Callable[[], None]] = []
        for entry in store.scan(CUSTOM_RESOURCE_DEFINITIONS.resource):
            self._adopt(entry)
        store.listen(self._on_event)

    def follow(self, follower: Callable[[], None]) -> None:
        """Call ``follower`` now and after every change of what is served."""
        self._followers.append(follower)
        follower()

    def definitions(self) -> list[Definition]:
        """What is served, by name."""
        return [self._definitions[name] for name in sorted(self._definitions)]

    def served(self) -> Iterator[CustomKind]:
        """Every kind under every version that is served."""
        for definition in self.definitions():
            yield from definition.served()

    def find(self, api_version: str, kind: str) -> CustomKind | None:
        """The kind that ``apiVersion`` and ``kind`` of an object name."""
        group, _, version = api_version.rpartition("/")
        for definition in self._definitions.values():
            found = definition.at(version)
            if found is not None and (found.group, found.kind) == (group, kind):
                return found
        return None

    def current(self, kind: Kind[Any]) -> CustomKind | None:
        """The kind as its definition is now; None when that version is neither served nor stored."""
        definition = self._definitions.get(kind.resource)
        if definition is None:
            return None
        # Housekeeping reaches objects through the storage version, which need not be served.
        stored = definition.storage if kind.version == definition.storage.version else None
        return definition.at(kind.version) or stored

    def is_built_in(self, name: str) -> bool:
        """Whether a definition describes a kind that the server has anyway."""
        return name in self._built_in

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource != CUSTOM_RESOURCE_DEFINITIONS.resource or self.is_built_in(entry.name):
            return
        changed = self._drop(entry.name) if event.type == "DELETED" else self._adopt(entry)
        if changed:
            # Watches of the kind end, so that their clients come back to what it is now.
            self._store.wake(entry.name)
            for follower in self._followers:
                follower()

    def _adopt(self, entry: Entry) -> bool:
        if self.is_built_in(entry.name):
            return False
        crd: CustomResourceDefinition = codec.read(CUSTOM_RESOURCE_DEFINITIONS, entry.data)
        if not established(crd):
            return self._drop(entry.name)
        before = self._definitions.get(entry.name)
        if before is not None and _equal(before, crd):
            return False
        try:
            definition = Definition(crd)
        except Exception:
            # A definition from another version of this program must not keep the server from starting.
            _log.exception("definition cannot be served", definition=entry.name)
            return self._drop(entry.name)
        self._definitions[entry.name] = definition
        self._kinds[entry.name] = definition.storage
        return True

    def _drop(self, name: str) -> bool:
        self._kinds.pop(name, None)
        return self._definitions.pop(name, None) is not None


def _equal(before: Definition, crd: CustomResourceDefinition) -> bool:
    terminating = crd.metadata.deletion_timestamp is not None
    return before.uid == crd.metadata.uid and before.spec == crd.spec and before.terminating == terminating
