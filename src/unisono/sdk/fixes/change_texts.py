"""Changes as they stand in a verdict's JSON, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unisono.engine.verdict import change_of


def change_text(told: Mapping[str, Any]) -> str:
    """For people."""
    if told.get("kind") == "SetField":  # which no scheduler suggests
        return f"set {told['field']} to {told['value']}"
    if told.get("kind") == "Together":
        return " and ".join(change_text(one) for one in told["changes"])
    change = change_of(told)
    return change.text() if change is not None else str(told.get("text") or told.get("kind") or "")
