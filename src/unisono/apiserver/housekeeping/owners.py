"""Who owns what: an index of owner references by the owner's uid, kept up to date by the store's events."""

from __future__ import annotations

from unisono.api.base import OwnerReference
from unisono.apiserver.storage.entry import Key


class OwnerIndex:
    """Dependents by owner uid."""

    def __init__(self) -> None:
        self._dependents: dict[str, dict[Key, None]] = {}
        self._owners: dict[Key, tuple[str, ...]] = {}

    def set(self, key: Key, references: list[OwnerReference] | None) -> bool:
        """Note the references of an object (None: it has none, or is gone); True when they differ from before."""
        uids = tuple(dict.fromkeys(reference.uid for reference in references or ()))  # one may be given twice
        before = self._owners.get(key, ())
        if uids == before:
            return False
        for uid in before:
            known = self._dependents[uid]
            known.pop(key, None)
            if not known:
                del self._dependents[uid]
        for uid in uids:
            self._dependents.setdefault(uid, {})[key] = None
        if uids:
            self._owners[key] = uids
        else:
            self._owners.pop(key, None)
        return True

    def owners(self, key: Key) -> tuple[str, ...]:
        """Uids that an object names as its owners."""
        return self._owners.get(key, ())

    def dependents(self, uid: str) -> tuple[Key, ...]:
        """Objects that name ``uid`` as an owner, in the order in which they did."""
        return tuple(self._dependents.get(uid, ()))

    def has_dependents(self, uid: str) -> bool:
        """Whether any object names ``uid`` as an owner."""
        return uid in self._dependents
