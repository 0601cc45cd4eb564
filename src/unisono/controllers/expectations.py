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
