"""Numbers or percentages of replicas."""

from __future__ import annotations

import math

from unisono.api.base import IntOrString
from unisono.controllers.texts import whole_number


def amount(value: IntOrString | None, total: int, *, up: bool) -> int:
    """``value``, or that percentage of ``total`` rounded up or down; 0 where it is nothing readable."""
    if isinstance(value, int):
        return value
    percent = whole_number(value[:-1]) if value is not None and value.endswith("%") else None
    if percent is None:
        return 0
    share = percent * total / 100
    return math.ceil(share) if up else math.floor(share)
