"""JSON that users write into annotations."""

from __future__ import annotations

import json
from typing import Any


def decoded(text: str) -> Any:
    """The value of a JSON text; ValueError for every text that has none, too deep a nesting included."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
