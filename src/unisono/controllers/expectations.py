"""Objects that were created and that the cache does not show yet.

Only a saving of requests: what is forgotten here, by a restart for instance, is created once more and found to exist.
"""

from __future__ import annotations

# After so long an object that never showed up is looked for again.
PATIENCE_SECONDS = 60.0


class Expectations:
    """Names of created objects by owner, until they are seen."""

    def __init__(self) -> None:
        self._due: dict[str, dict[str, float]] = {}

    def expect(self, owner: str, name: str, now: float) -> None:
        """``name`` is being created for ``owner``; ``now`` in monotonic seconds."""
        self._due.setdefault(owner, {})[name] = now + PATIENCE_SECONDS

    def settle(self, owner: str, name: str) -> None:
        """``name`` was seen, or was not created after all."""
        names = self._due.get(owner)
        if names is not None:
            names.pop(name, None)
            if not names:
                del self._due[owner]

    def pending(self, owner: str, now: float) -> frozenset[str]:
        """Names that are still to be seen."""
        return frozenset(name for name, due in self._due.get(owner, {}).items() if due > now)

    def forget(self, owner: str) -> None:
        """The owner is gone."""
        self._due.pop(owner, None)


class Deletions:
    """Objects that the server was asked to delete, until the watch has had time to say so.

    An informer that is a moment behind still shows them; asking again would find them gone.
    """

    def __init__(self) -> None:
        # In the order of their times, since each waits equally long.
        self._until: dict[str, float] = {}

    def note(self, uid: str, now: float) -> None:
        """The server took the request; ``now`` in monotonic seconds."""
        for old in [each for each, until in self._until.items() if until <= now]:
            del self._until[old]
        self._until.pop(uid, None)
        self._until[uid] = now + PATIENCE_SECONDS

    def pending(self, uid: str, now: float) -> bool:
        """Whether it was asked for not long ago."""
        return self._until.get(uid, now) > now
