"""Conditions of ``meta.k8s.io/v1``: one entry per type, in the order in which the types were first set."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.api.base import Condition
from unisono.api.conditions import find_condition


def set_condition(
    conditions: Iterable[Condition] | None, type: str, status: str, reason: str, message: str, now: str
) -> list[Condition]:
    """The list with one condition set; the time of transition changes with the status only.

    Args:
        conditions: the list as it was; it is not changed.
        type: type of the condition.
        status: "True" or "False".
        reason: one word.
        message: one sentence.
        now: time in RFC 3339.

    """
    old = list(conditions or ())
    same = find_condition(old, type)
    since = same.last_transition_time if same is not None and same.status == status else now
    entry = Condition(type=type, status=status, reason=reason, message=message, last_transition_time=since)
    if same is None:
        return [*old, entry]
    return [entry if each is same else each for each in old]
