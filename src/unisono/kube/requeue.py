"""When a controller looks at an object again."""

from __future__ import annotations


def sooner(*seconds: float | None) -> float | None:
    """The smallest of these times until the next look; None where all of them are None."""
    return min((each for each in seconds if each is not None), default=None)
