"""Numbers of things in sentences."""

from __future__ import annotations


def counted(number: int, word: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {plural(number, word)}"


def plural(number: int, word: str) -> str:
    """The word as it stands behind the number."""
    return word if number == 1 else f"{word}s"
