"""How deep JSON values of users may be nested."""

from __future__ import annotations

from typing import Any

DEEPEST = 200
"""Levels of a value. Schemas of real definitions have up to 60."""


def too_deep(value: Any) -> bool:
    """Whether a value is nested deeper than all code that reads it recursively can handle."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            return True
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below.extend(one for one in each.values() if isinstance(one, dict | list))
            elif isinstance(each, list):
                below.extend(one for one in each if isinstance(one, dict | list))
        level = below
    return False
