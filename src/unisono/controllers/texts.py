"""Numbers and JSON in texts that users write: labels, annotations, flags, messages of containers (pure)."""

from __future__ import annotations

import json
from typing import Any, Final

LARGEST: Final = 2**63 - 1
"""The largest number that is told from larger ones, as in Kubernetes' int64."""
_DIGITS = len(str(LARGEST))


def whole_number(text: str | None) -> int | None:
    """The number that ASCII digits name, `LARGEST` at most; None for every other text.

    Python's ``isdigit`` and ``isdecimal`` are true for texts that ``int`` refuses: ``²``, and more than 4,300 digits.
    """
    if not text or not text.isascii() or not text.isdigit():
        return None
    digits = text.lstrip("0")
    return LARGEST if len(digits) > _DIGITS else min(int(digits or "0"), LARGEST)


def json_object(text: str | None) -> dict[str, Any]:
    """The JSON object that a text holds; empty where it holds none, or one that is nested too deep to be read."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
