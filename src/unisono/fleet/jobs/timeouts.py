"""How long a hub waits for members, as annotations of an object say it (pure)."""

from __future__ import annotations

from unisono.api.base import Object
from unisono.api.times import duration_or_none


def annotated_seconds(obj: Object, key: str, default: float) -> float:
    """Seconds that an annotation names, no fewer than 0; ``default`` without it, and for a text that is no duration."""
    given = duration_or_none((obj.metadata.annotations or {}).get(key))
    return default if given is None else max(0.0, given)
