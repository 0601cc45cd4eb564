"""What is wrong with a field, as a value, worded as Kubernetes words it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Reason = Literal[
    "FieldValueRequired",
    "FieldValueInvalid",
    "FieldValueNotSupported",
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueTypeInvalid",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueNotFound",
]
_TITLES: dict[Reason, str] = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueNotFound": "Not found",
}
# The value of an error that does not show it.
OMITTED: Any = object()
_WITHOUT_VALUE = frozenset(("FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong"))


@dataclass(frozen=True, slots=True)
class FieldError:
    """One broken rule.

    Attributes:
        path: the field, such as ``spec.tasks[0].replicas``; empty for the whole object.
        reason: the ``reason`` of the Status cause.
        value: the offending value.
        detail: what is wrong and what would be right.
    """

    path: str
    reason: Reason
    value: Any = None
    detail: str = ""

    def body(self) -> str:
        """The message without the field, as a Status cause carries it."""
        text = _TITLES[self.reason]
        if self.reason not in _WITHOUT_VALUE and self.value is not OMITTED:
            text += f": {msgspec.json.encode(self.value, order='deterministic').decode()}"
        return f"{text}: {self.detail}" if self.detail else text

    def message(self) -> str:
        """``spec.minAvailable: Invalid value: 5: ...``."""
        return f"{self.path}: {self.body()}" if self.path else self.body()

    def cause(self) -> dict[str, str]:
        """The entry of ``details.causes`` in a Status."""
        return {"reason": self.reason, "message": self.body(), "field": self.path}


def required(path: str, detail: str = "") -> FieldError:
    """The field is missing or empty."""
    return FieldError(path, "FieldValueRequired", "", detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """The value breaks a rule."""
    return FieldError(path, "FieldValueInvalid", value, detail)


def duplicate(path: str, value: Any, detail: str = "") -> FieldError:
    """The value must be unique and is not."""
    return FieldError(path, "FieldValueDuplicate", value, detail)


def not_found(path: str, value: Any) -> FieldError:
    """The value names something that is not there."""
    return FieldError(path, "FieldValueNotFound", value)


def forbidden(path: str, detail: str) -> FieldError:
    """The field may not be set, or not be changed."""
    return FieldError(path, "FieldValueForbidden", "", detail)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """The value is not one of a closed list."""
    listed = ", ".join(f'"{each}"' for each in supported)
    return FieldError(path, "FieldValueNotSupported", value, f"supported values: {listed}")


def too_long(path: str, value: Any, limit: int) -> FieldError:
    """The text has more than ``limit`` bytes."""
    return FieldError(path, "FieldValueTooLong", value, f"may not be more than {limit} bytes")


def type_invalid(path: str, value: Any, expected: str) -> FieldError:
    """The value has another JSON type."""
    actual = json_type(value)
    return FieldError(
        path, "FieldValueTypeInvalid", actual, f'{path or "value"} in body must be of type {expected}: "{actual}"'
    )


def json_type(value: Any) -> str:
    """Name of a decoded value's JSON type: null, boolean, integer, number, string, array or object."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case dict():
            return "object"
        case _:
            return "array"


# Errors of reading untrusted JSON.

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Its form, its bytes, and its depth: msgspec has an error of its own for the first alone."""
