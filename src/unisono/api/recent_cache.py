"""What has been found right before: equal parts of objects, such as the specs of a gang's pods, are looked at once."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

_MARK_BYTES = 16


class Known:
    """Remembers which values were right, by a digest of their bytes.

    Args:
        most: how many are remembered; the one that was met longest ago goes first.

    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._marks: OrderedDict[tuple[type, bytes], None] = OrderedDict()

    def met(self, owner: type, encoded: bytes) -> bool:
        """Whether this value was right as a part of an ``owner``."""
        mark = _mark(owner, encoded)
        if mark not in self._marks:
            return False
        self._marks.move_to_end(mark)
        return True

    def add(self, owner: type, encoded: bytes) -> None:
        """Remember that this value is right."""
        self._marks[_mark(owner, encoded)] = None
        if len(self._marks) > self._most:
            self._marks.popitem(last=False)


def _mark(owner: type, encoded: bytes) -> tuple[type, bytes]:
    return owner, blake2b(encoded, digest_size=_MARK_BYTES).digest()
