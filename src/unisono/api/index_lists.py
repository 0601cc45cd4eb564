"""Lists of indexes on the wire: ``0,2-5`` (``completedIndexes`` and the like)."""

from __future__ import annotations

from collections.abc import Iterable


def parse_indexes(text: str, below: int | None = None) -> set[int]:
    """The indexes of a list.

    Args:
        text: ascending numbers and ranges, joined by commas; empty for none.
        below: every index must be smaller; None for any.

    Raises:
        ValueError: the list is malformed, out of order or out of range.

    """
    found: set[int] = set()
    last = -1
    for part in text.split(",") if text else ():
        first_text, dash, end_text = part.partition("-")
        if not first_text.isdecimal() or (dash and not end_text.isdecimal()):
            raise ValueError(f'cannot convert string to integer for index: "{part}"')
        first, end = int(first_text), int(end_text or first_text)
        if below is not None and end >= below:
            raise ValueError(f'too large index: "{end}"')
        if first <= last:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        if dash and first >= end:
            raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
        found.update(range(first, end + 1))
        last = end
    return found


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
