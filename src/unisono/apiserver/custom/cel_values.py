"""JSON values as CEL sees them: typed by the schema, field names escaped as Kubernetes escapes them."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from typing import Any

from unisono.api.cel.timestamps import parse_duration
from unisono.api.structural import Node

_KEYWORDS = frozenset(
    (
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    )
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile("__|[./-]")


def escape(name: str) -> str:
    """A field's name in an expression."""
    return f"__{name}__" if name in _KEYWORDS else _ESCAPED.sub(lambda found: _ESCAPES[found.group()], name)


def to_cel(node: Node | None, value: Any) -> Any:
    """The value for the engine; what the schema does not describe stays as it is."""
    match value:
        case dict():
            return {_key(node, name): to_cel(node.child(name) if node else None, each) for name, each in value.items()}
        case list():
            return [to_cel(node.items if node else None, each) for each in value]
        case bool():
            return value
        case int() if node is not None and node.type == "number":
            return float(value)
        case str() if node is not None and node.type == "string":
            return _text(node.format, value)
        case _:
            return value


def _key(node: Node | None, name: str) -> str:
    # Keys of maps are data, only names of fields are escaped.
    return escape(name) if node is not None and node.additional is None else name


def _text(form: str, value: str) -> Any:
    try:
        match form:
            case "date-time":
                return datetime.fromisoformat(value)
            case "date":
                return datetime.fromisoformat(value).replace(tzinfo=UTC)
            case "duration":
                found = parse_duration(value)
                return value if found is None else found
            case "byte":
                return base64.b64decode(value)
    except ValueError:
        return value
    return value
