"""Troubles of a hub's objects, as events: each is told once for as long as it lasts, and again when it comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from unisono.api.base import Object
from unisono.controllers.recorder import Recorder

_MOST: Final = 256
"""Troubles of one object that are remembered."""


class Telling:
    """What was told at the last look at each object, by key."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._before: dict[str, frozenset[str]] = {}
        self._now: dict[str, set[str]] = {}

    @contextmanager
    def look(self, key: str) -> Iterator[None]:
        """One look at an object: troubles that are not told inside are over, unless the look fails."""
        now = self._now[key] = set()
        try:
            yield
        except BaseException:
            now |= self._before.get(key, frozenset())
            raise
        finally:
            self._now.pop(key, None)
            if now:
                self._before[key] = frozenset(sorted(now)[:_MOST])
            else:
                self._before.pop(key, None)

    def tell(self, obj: Object, reason: str, message: str) -> None:
        """Record a warning, unless it has been told at this look or the last one."""
        now = self._now.setdefault(obj.key, set())
        if message not in now and message not in self._before.get(obj.key, ()):
            self._recorder.event(obj, "Warning", reason, message)
        now.add(message)
