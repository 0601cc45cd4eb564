"""Circuit breakers: an address that does not answer several times in a row is not asked for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Addresses that fail at the same time and are remembered; beyond that the oldest is forgotten, and asked again.
_REMEMBERED = 1024


@dataclass(slots=True)
class _Broken:
    failures: int = 0
    until: float = 0.0


class Circuits:
    """The circuit breakers of all addresses that one component calls.

    After ``failures`` calls in a row without an answer an address rests for a second, then for twice as long each
    time, up to ``longest`` seconds. After each rest one call tries it; an answer ends the rest for all.
    """

    def __init__(self, monotonic: Callable[[], float], *, failures: int, longest: float) -> None:
        """``monotonic`` gives seconds that only grow."""
        self._monotonic, self._most, self._longest = monotonic, failures, longest
        self._broken: dict[str, _Broken] = {}

    def rest(self, address: str) -> str:
        """Why the address is not to be asked now; empty where it is, and then the caller must tell how it went."""
        broken = self._broken.get(address)
        if broken is None or broken.failures < self._most:
            return ""
        now = self._monotonic()
        if now < broken.until:
            return f"{broken.failures} calls in a row got no answer; asked again in {broken.until - now:.1f} s"
        # This caller tries; the others wait for what it finds.
        broken.until = now + self._pause(broken)
        return ""

    def resting(self, address: str) -> bool:
        """Whether `rest` would give a reason now; the caller does not mean to ask."""
        broken = self._broken.get(address)
        return broken is not None and broken.failures >= self._most and self._monotonic() < broken.until

    def failed(self, address: str) -> None:
        """The address gave no answer."""
        if address not in self._broken and len(self._broken) >= _REMEMBERED:
            del self._broken[next(iter(self._broken))]
        broken = self._broken.setdefault(address, _Broken())
        broken.failures += 1
        if broken.failures >= self._most:
            broken.until = self._monotonic() + self._pause(broken)

    def answered(self, address: str) -> None:
        """The address gave an answer, whether a good one or not."""
        self._broken.pop(address, None)

    def clear(self) -> None:
        """Forget all failures."""
        self._broken.clear()

    def _pause(self, broken: _Broken) -> float:
        return min(float(1 << min(broken.failures - self._most, 20)), self._longest)
