"""JSON values made storable: what cannot be encoded again is replaced as Go's decoder would."""

from __future__ import annotations

from typing import Any

_INT64 = (-(2**63), 2**63 - 1)
_DEEPEST = 200


def plain(value: Any, depth: int = _DEEPEST) -> Any:
    """A copy without lone surrogates, bottomless nesting and numbers that 64 bits do not hold; 3.0 becomes 3."""
    match value:
        case dict():
            return {_text(str(key)): plain(each, depth - 1) for key, each in value.items()} if depth else {}
        case list():
            return [plain(each, depth - 1) for each in value] if depth else []
        case str():
            return _text(value)
        case bool():
            return value
        case int() if not _INT64[0] <= value <= _INT64[1]:
            return float(max(-(10**300), min(10**300, value)))
        case float() if value.is_integer() and _INT64[0] <= value < _INT64[1]:
            return int(value)
        case _:
            return value


def _text(value: str) -> str:
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
