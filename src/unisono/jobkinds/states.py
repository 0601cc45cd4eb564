"""How objects of different kinds tell that they run, have ended, and how: always in the words of Volcano's Jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from unisono.api.conditions import SUCCEEDED, SUSPENDED
from unisono.jobkinds.paths import first, walk

Tells = Callable[[Any, bool], tuple[str, str]]

_GOOD = ("Succeeded", "Complete", "Completed")
_ENDS = (*_GOOD, "Failed")
_END_TIMES = ("status.completionTime", "status.endTime", "status.state.lastTransitionTime")


def by_conditions(obj: Any, running: bool) -> tuple[str, str]:
    """Of kinds whose conditions say it; not all of them say that pods run."""
    said = {
        str(first(each, "type")): str(first(each, "message") or first(each, "reason") or "")
        for _, each in walk(obj, "status.conditions[*]")
        if first(each, "status") == "True"
    }
    for good in _GOOD:
        if good in said:
            return SUCCEEDED, said[good]
    for name in ("Failed", SUSPENDED, "Restarting"):
        if name in said:
            return name, said[name]
    return ("Running" if "Running" in said or running else "Pending"), ""


def ran_before(obj: Any) -> bool:
    """Whether the object tells that pods of it have run, now or earlier."""
    told = any(first(each, "type") == "Running" for _, each in walk(obj, "status.conditions[*]"))
    return told or bool(first(obj, "status.failed"))


def by_field(path: str, phases: Mapping[str, Collection[str]], message: str = "") -> Tells:
    """Of kinds that have a field for it.

    Args:
        path: of the field.
        phases: its values, by what they mean; any other means Pending.
        message: path of what the object says of it.

    """
    meant = {value: phase for phase, values in phases.items() for value in values}

    def tells(obj: Any, _: bool) -> tuple[str, str]:
        phase = meant.get(str(first(obj, path) or ""), "Pending")
        return phase, str(first(obj, message) or "") if message and phase != "Pending" else ""

    return tells


def ended_at(obj: Any) -> str | None:
    """The time on the wire at which an object that has ended did so; None where it does not say."""
    for path in _END_TIMES:
        if isinstance(time := first(obj, path), str) and time:
            return time
    ends = [
        str(first(each, "lastTransitionTime"))
        for _, each in walk(obj, "status.conditions[*]")
        if first(each, "type") in _ENDS and first(each, "status") == "True" and first(each, "lastTransitionTime")
    ]
    return max(ends, default=None)
