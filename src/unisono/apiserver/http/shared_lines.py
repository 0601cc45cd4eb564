"""Events of watches as they are sent, encoded once for all watchers who see an event in the same form."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from unisono.apiserver.types import StoreEvent

# Watchers hear of an event at about the same time: what the newest ones share is all that has to be kept.
_MOST_BYTES = 4 * 1024 * 1024
# What a line costs besides its bytes and those of the object that it is found by.
_OVERHEAD = 300


class SharedLines:
    """The newest lines by event and form; the oldest go when there are too many bytes.

    Args:
        most_bytes: how much may be kept.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._lines: dict[Hashable, bytes] = {}
        self._owners: dict[Hashable, object] = {}
        self._bytes, self._most = 0, most_bytes

    def line(self, event: StoreEvent, form: Hashable, kind: object, encode: Callable[[StoreEvent], bytes]) -> bytes:
        """The line of ``event``.

        Args:
            event: found by what it holds, so that it is right for every conversion.
            form: how the watcher wants to read it; equal forms of one kind must give equal lines.
            kind: as it was asked for; held, so that no other one takes its identity.
            encode: makes the line for the first watcher.
        """
        key = (event.type, event.resource_version, event.object, id(kind), form)
        found = self._lines.get(key)
        if found is None:
            found = encode(event)
            self._keep(key, kind, found, len(event.object))
        return found

    def _keep(self, key: tuple[str, int, bytes, int, Hashable], kind: object, line: bytes, source: int) -> None:
        size = len(line) + source + _OVERHEAD
        if size > self._most:
            return
        self._lines[key], self._owners[key] = line, kind
        self._bytes += size
        while self._bytes > self._most:
            oldest = next(iter(self._lines))
            assert isinstance(oldest, tuple)
            self._bytes -= len(self._lines.pop(oldest)) + len(oldest[2]) + _OVERHEAD
            del self._owners[oldest]
