"""Rules for pods that Volcano schedules."""

from __future__ import annotations

import re

from unisono.api import field_error, messages
from unisono.api.core import Pod
from unisono.api.keys import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import invalid

_BUDGETS = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)
_SCHEDULER = "volcano"


def check_disruption_budget(request: Request, view: View) -> None:
    """The job disruption budget annotations are positive integers or percentages, and at most one is there.

    Raises:
        Invalid: an annotation breaks that.

    """
    pod: Pod = request.object
    if request.operation != "CREATE" or pod.spec.scheduler_name != _SCHEDULER:
        return
    annotations = pod.metadata.annotations or {}
    problems = [
        field_error.invalid(f"metadata.annotations[{key}]", annotations[key], why)
        for key in _BUDGETS
        if key in annotations and (why := _fault(key, annotations[key]))
    ]
    if all(key in annotations for key in _BUDGETS):
        problems.append(field_error.forbidden("metadata.annotations", messages.several_budgets(_BUDGETS)))
    if problems:
        raise invalid(request.kind, request.name, problems)


def _fault(key: str, value: str) -> str:
    if re.fullmatch(r"[0-9]{1,9}%", value):
        if 0 < int(value[:-1]) < 100:
            return ""
        return f'invalid value <"{value}"> for {key}, {messages.BUDGET_SHARE}'
    if re.fullmatch(r"[0-9]{1,9}", value) and int(value) > 0:
        return ""
    return f'invalid value <"{value}"> for {key}, {messages.BUDGET_NUMBER}'
