"""CEL rules of schemas (``x-kubernetes-validations``); checked where the extra ``cel`` is installed."""

from __future__ import annotations

from typing import Any

from unisono.api.field_error import FieldError
from unisono.apiserver.custom.kinds import CustomKind


def check_rules(kind: CustomKind, value: Any, old: Any) -> list[FieldError]:
    """What the rules of the kind's schema say about an object."""
    return []


def available() -> bool:
    """Whether an engine is installed."""
    return False
