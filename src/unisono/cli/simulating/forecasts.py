"""Forecasts as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unisono.cli.printing import columns
from unisono.cli.simulating.text import percent, seconds

if TYPE_CHECKING:
    from unisono.simulator.forecast.forecast import Forecast, Start
    from unisono.simulator.forecast.whatif import Moved, WhatIf

_SHOWN = 40


def start_lines(found: Forecast, until: float) -> list[str]:
    """When waiting jobs start."""
    if not found.starts:
        return ["No job waits."]
    rows = [
        (each.key, each.queue, f"{each.gpus:g}", when(each), between(each), percent(each.chance))
        for each in found.starts[:_SHOWN]
    ]
    told = columns(("PodGroup", "queue", "gpus", "starts in", "80 %", f"within {seconds(until)}"), rows)
    if len(found.starts) > _SHOWN:
        told.append(f"... and {len(found.starts) - _SHOWN} more (-o json lists all)")
    unknown = sum(not each.known for each in found.starts)
    if unknown:
        told += ["", f"Of {unknown} of these jobs nothing says how long they run (annotation unisono.io/run-seconds)."]
    return told


def when(start: Start) -> str:
    """The median, or that it comes later."""
    return "later" if start.median is None else seconds(start.median)


def between(start: Start) -> str:
    """The 80 % interval."""
    low = "later" if start.low is None else seconds(start.low)
    return f"{low} to {'later' if start.high is None else seconds(start.high)}"


def whatif_lines(found: WhatIf) -> list[str]:
    """What a change does."""
    told = [*found.told, "", f"In {found.futures} possible futures of the next {seconds(found.until)}:", ""]
    rows = [
        (
            each.name,
            f"{each.before:,.4g}",
            f"{each.after:,.4g}",
            f"{each.difference.mean:+,.3g}",
            "" if each.difference.half is None else f"±{each.difference.half:,.2g}",
        )
        for each in found.figures
    ]
    told += columns(("figure", "now", "changed", "difference", "95 %"), rows, empty="")
    rows = [_row(each) for each in found.moved[:_SHOWN]]
    if rows:
        told += ["", *columns(("PodGroup", "starts in", "changed", "moves", ""), rows, empty="")]
    if len(found.moved) > _SHOWN:
        told.append(f"... and {len(found.moved) - _SHOWN} more (-o json lists all)")
    if found.evicted:
        told += ["", f"Evicted by the change: {', '.join(found.evicted[:_SHOWN])}"]
    return told


def _row(each: Moved) -> tuple[str, str, str, str, str]:
    before = "-" if each.before is None else when(each.before)
    after = "-" if each.after is None else when(each.after)
    later = each.later
    if later is None:
        won = each.before is not None and each.before.median is None and each.after is not None
        lost = each.after is not None and each.after.median is None and each.before is not None
        sign = "wins" if won and not lost else "loses" if lost and not won else ""
        return each.key, before, after, "", sign
    move = f"{'+' if later >= 0 else '-'}{seconds(abs(later))}"
    return each.key, before, after, move, "wins" if later < -1 else "loses" if later > 1 else ""


def calibration_lines(result: Mapping[str, Any]) -> list[str]:
    """How good estimated starts are."""
    rows = [
        (
            name,
            each["estimates"],
            percent(each["coverage"]),
            seconds(each["medianError"]),
            seconds(each["medianErrorByLimits"]),
            seconds(each["medianWait"]),
            f"{each['laterRight']} of {each['later']}" if each["later"] else "",
        )
        for name, each in (("all", result), *result["bySize"].items())
    ]
    head = ("jobs", "estimates", "within 80 %", "median error", "by limits", "median wait", "later, rightly")
    return columns(head, rows, empty="")
