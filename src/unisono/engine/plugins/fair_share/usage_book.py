"""What accounts have used, with a half-life, kept from cycle to cycle.

An account that holds the dominant share ``h`` of the cluster uses ``h`` seconds of the whole cluster in a second. Use
counts half after each half-life ``H``. So with ``k = H / ln 2`` the sum of an account that holds ``h`` all the time
comes to ``h k``, and its *average* ``sum / k`` to ``h``: history and present are measured in the same unit. (Slurm's
multifactor priority decays use in the same way.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log

import msgspec

from unisono.api.times import parse_time, rfc3339

Line = tuple[str, str]
"""A queue and an account."""

MOST_KEPT = 500
"""Accounts of one queue that are kept: an annotation has a limited size."""
_LEAST_WRITTEN = 0.001
_FORGOTTEN = 1e-9
"""An average below this is none."""


@dataclass(slots=True)
class Use:
    """Cluster-seconds of one account in one queue as of ``at`` (seconds since the epoch), and what it held then."""

    seconds: float = 0.0
    held: float = 0.0
    at: float = 0.0

    def upto(self, now: float, scale: float) -> float:
        """The decayed sum at ``now``; ``scale`` is the half-life over ln 2, and time never goes back."""
        left: float = 2.0 ** (-max(now - self.at, 0.0) / (scale * log(2.0)))
        return self.seconds * left + self.held * scale * (1.0 - left)


class UsageBook:
    """Decayed use by queue and account."""

    def __init__(self) -> None:
        self._uses: dict[Line, Use] = {}
        self._scale = 1.0

    def look(self, held: Mapping[Line, float], now: float, half_life: float) -> None:
        """Note who holds what from ``now`` on."""
        scale = self._scale = half_life / log(2.0)
        uses: dict[Line, Use] = {}
        for line in {**self._uses, **held}:
            use = self._uses.get(line)
            seconds = use.upto(now, scale) if use is not None else 0.0
            share = held.get(line, 0.0)
            if share or seconds / scale > _FORGOTTEN:
                uses[line] = Use(seconds, share, max(now, use.at) if use is not None else now)
        self._uses = uses

    def averages(self, half_life: float) -> dict[Line, float]:
        """By line the average share over the half-life, as of the last look."""
        scale = half_life / log(2.0)
        return {line: use.seconds / scale for line, use in self._uses.items()}

    def kept(self, now: float) -> dict[str, dict[str, Use]]:
        """Use as of ``now`` by queue and account, to be kept somewhere: the most first, `MOST_KEPT` of a queue at most.

        What is held counts up to now: while nothing changes there may have been no look for long.
        """
        found: dict[str, dict[str, Use]] = {}
        uses = {line: Use(use.upto(now, self._scale), use.held, max(now, use.at)) for line, use in self._uses.items()}
        for (queue, account), use in sorted(uses.items(), key=lambda item: (-item[1].seconds, item[0])):
            of_queue = found.setdefault(queue, {})
            if len(of_queue) < MOST_KEPT:
                of_queue[account] = use
        return found

    def restore(self, entries: Iterable[tuple[str, str, float, float]]) -> None:
        """Go on from what an earlier scheduler has kept: queue, account, cluster-seconds and when that was."""
        for queue, account, seconds, at in entries:
            if (queue, account) not in self._uses and seconds >= 0.0:
                self._uses[queue, account] = Use(seconds, 0.0, at)


def written(uses: Mapping[str, Use]) -> str:
    """What a queue's accounts have used, as JSON for an annotation: one moment for all of them."""
    at = max((use.at for use in uses.values()), default=0.0)
    amounts = {name: round(use.seconds, 3) for name, use in uses.items() if use.seconds >= _LEAST_WRITTEN}
    return msgspec.json.encode({"at": rfc3339(at), "use": amounts}, order="sorted").decode()


def read(queue: str, text: str) -> list[tuple[str, str, float, float]]:
    """Entries for `UsageBook.restore`; none where the text is not what `written` writes."""
    try:
        found = msgspec.json.decode(text, type=_Written)
        at = parse_time(found.at)
    except (msgspec.DecodeError, UnicodeError, ValueError):
        return []
    amounts = [(name, seconds) for name, seconds in found.use.items() if 0.0 <= seconds < float("inf")]
    return [(queue, name, seconds, at) for name, seconds in amounts[:MOST_KEPT]]


class _Written(msgspec.Struct):
    at: str
    use: dict[str, float]
