"""The book of nodes on which pods of a job have failed, in an annotation of its PodGroup (pure).

``node-3=2@2026-01-02T03:04:05Z,node-7=1@...``: how often, and when the last time. A count halves each hour, and a node
is avoided while its count is above 1: from the second failure on, and for an hour after it, two hours after the fourth.
Anybody who may write the PodGroup may take an entry out, or write one.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import Final, NamedTuple

from unisono.api.annotations import RETRY_ELSEWHERE
from unisono.api.times import duration_or_none, rfc3339, time_or

HALF_LIFE: Final = 3600.0
"""Seconds in which a count halves."""
MOST_EARLY_SECONDS: Final = 3600.0
_MOST = 32
"""Entries of one book; the least ones are dropped."""
_LONGEST = _MOST * 320
"""Characters of one book, for names of 253 in all entries; anybody may write more, and the scheduler reads it."""
_FORGOTTEN = 0.1
_LARGEST = 1000.0


class Failures(NamedTuple):
    """How often pods of a job failed on a node, as it counts at ``last``, seconds since 1970."""

    number: float
    last: float

    def at(self, now: float, half_life: float = HALF_LIFE) -> float:
        """What is left of the count."""
        return self.number * float(0.5 ** (max(now - self.last, 0.0) / half_life))

    @property
    def until(self) -> float:
        """When the node is avoided no longer; in the past of ``last`` where it never was."""
        return self.last + HALF_LIFE * log2(self.number)

    def settled(self, now: float) -> Failures:
        """The same as it counts now, so that the text changes when a node is avoided no longer."""
        return Failures(self.at(now), now) if self.number > 1 else self


def early_seconds(annotations: Mapping[str, str] | None) -> float:
    """Within how many seconds of its start a pod must fail for its job to start again elsewhere, once; 0.0: never."""
    asked = duration_or_none((annotations or {}).get(RETRY_ELSEWHERE)) or 0.0
    return min(asked, MOST_EARLY_SECONDS)


def book_of(text: str | None) -> dict[str, Failures]:
    """Failures by node; what cannot be read is left out, and what is too long is not read."""
    failures: dict[str, Failures] = {}
    for part in (text or "")[:_LONGEST].split(",")[: 2 * _MOST]:
        name, _, rest = part.strip().partition("=")
        number, _, time = rest.partition("@")
        try:
            count = float(number)
        except ValueError:
            continue
        last = time_or(time, -1.0)
        if name and 0 < count <= _LARGEST and last >= 0:
            failures[name] = Failures(count, last)
        if len(failures) == _MOST:
            break
    return failures


def text_of(book: Mapping[str, Failures], now: float, half_life: float = HALF_LIFE) -> str:
    """The same as text, without what is forgotten; nodes in order of their names."""
    kept = sorted(book, key=lambda name: -book[name].at(now, half_life))[:_MOST]
    lines = {name: book[name] for name in kept if book[name].at(now, half_life) > _FORGOTTEN}
    return ",".join(f"{name}={lines[name].number:.4g}@{rfc3339(lines[name].last)}" for name in sorted(lines))


def failed(book: Mapping[str, Failures], node: str, now: float, half_life: float = HALF_LIFE) -> dict[str, Failures]:
    """The book with one more failure on a node."""
    before = book.get(node)
    left = before.at(now, half_life) if before is not None else 0.0
    return {**book, node: Failures(min(left + 1.0, _LARGEST), now)}


def avoided(book: Mapping[str, Failures], now: float) -> dict[str, float]:
    """Nodes that are avoided now, and until when."""
    return {name: one.until for name, one in book.items() if one.until > now}
