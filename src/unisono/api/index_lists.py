"""Lists of indexes on the wire: ``0,2-5`` (``completedIndexes`` and the like)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Indexes are 32-bit numbers: more digits are a mistake, and arithmetic with them is work.
_MOST_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Indexes:
    """Indexes as ranges: ``0-2147483647`` is eleven characters and must not become as many numbers.

    Attributes:
        firsts: first index of each range, ascending.
        lasts: last index of each range.

    """

    firsts: tuple[int, ...]
    lasts: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.lasts) - sum(self.firsts) + len(self.firsts)

    def __contains__(self, index: int) -> bool:
        """Whether the list has the index."""
        place = bisect_right(self.firsts, index) - 1
        return place >= 0 and index <= self.lasts[place]

    def __iter__(self) -> Iterator[int]:
        """Each index, ascending, one at a time."""
        for first, last in zip(self.firsts, self.lasts, strict=True):
            yield from range(first, last + 1)


def parse_indexes(text: str, below: int | None = None) -> Indexes:
    """The indexes of a list.

    Args:
        text: ascending numbers and ranges, joined by commas; empty for none.
        below: every index must be smaller; None for any.

    Raises:
        ValueError: the list is malformed, out of order or out of range.

    """
    firsts: list[int] = []
    lasts: list[int] = []
    last = -1
    for part in text.split(",") if text else ():
        first_text, dash, end_text = part.partition("-")
        if not first_text.isdecimal() or (dash and not end_text.isdecimal()):
            raise ValueError(f'cannot convert string to integer for index: "{part}"')
        if max(len(first_text), len(end_text)) > _MOST_DIGITS:
            raise ValueError(f'too large index: "{part[:40]}"')
        first, end = int(first_text), int(end_text or first_text)
        if below is not None and end >= below:
            raise ValueError(f'too large index: "{end}"')
        if first <= last:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        if dash and first >= end:
            raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
        firsts.append(first)
        lasts.append(end)
        last = end
    return Indexes(tuple(firsts), tuple(lasts))


def format_indexes(indexes: Iterable[int]) -> str:
    """The list as Kubernetes writes it: three or more in a row become a range."""
    parts: list[list[int]] = []
    for index in sorted(set(indexes)):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(
        f"{first}" if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}"
        for first, last in parts
    )
