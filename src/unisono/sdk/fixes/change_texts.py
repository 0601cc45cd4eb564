"""Changes as they stand in a verdict's JSON, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from unisono.engine import changes

_BY_NAME = {one.__name__: one for one in changes.Change.__args__}


def change_of(told: Mapping[str, Any]) -> changes.Change | None:
    """The engine's change; None for a kind, or fields, that this version does not know."""
    kind = _BY_NAME.get(str(told.get("kind")))
    if kind is None:
        return None
    names = {one.name for one in structs.fields(kind)}
    given = {key: _value(value) for key, value in told.items() if key in names}
    if given.keys() != names or None in (given.get("changes") or ()):
        return None
    found: changes.Change = kind(**given)
    return found


def change_text(told: Mapping[str, Any]) -> str:
    """For people."""
    if told.get("kind") == "SetField":  # which no scheduler suggests
        return f"set {told['field']} to {told['value']}"
    if told.get("kind") == "Together":
        return " and ".join(change_text(one) for one in told["changes"])
    found = change_of(told)
    return found.text() if found is not None else str(told.get("text") or told.get("kind") or "")


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(change_of(one) if isinstance(one, Mapping) else one for one in value)
    return value
