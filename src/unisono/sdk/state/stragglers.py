"""Which process of a gang is slower than the others, by the progress lines of their logs (pure).

A process says ``progress: 30/100``, and if it likes how long its own part of a step took: ``progress: 30/100 1.5 s``.
Where processes wait for each other in each step, only the latter tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from unisono.sdk.state.views import Steps, steps_of_line

_OWN = re.compile(r"\bprogress: ?\d{1,12} ?/ ?\d{1,12} +\(?(\d{1,9}(?:\.\d{1,9})?) ?(ms|s)\b", re.IGNORECASE)
_LEAST_STEPS = 3
_LEAST_RANKS = 3
_TIMES = 1.3
"""So many times as long as those of the others are the steps of a slow process."""
_ALIKE = 1.15
"""The others are alike where the slowest of them takes no more than so many times their median."""


class Line(NamedTuple):
    """A line of a log: when it was written, seconds since 1970, and its text."""

    time: float
    text: str


class Straggler(NamedTuple):
    """A slow process: its pod, seconds of one of its steps, and of one of the others'."""

    pod: str
    seconds: float
    others: float


def step_seconds(lines: Sequence[Line]) -> float | None:
    """How long a step of a process takes, as it says itself, else by its lines; None where they do not tell."""
    own = [_seconds(*found[-1]) for line in lines if (found := _OWN.findall(line.text))]
    if len(own) >= _LEAST_STEPS:
        return median(own)
    said: list[tuple[float, Steps]] = []
    for line in lines:
        steps = steps_of_line(line.text)
        if steps is not None:
            # What was before it began again says nothing.
            said = [*said, (line.time, steps)] if not said or steps.done >= said[-1][1].done else [(line.time, steps)]
    if len(said) < 2:
        return None
    (began, first), (ended, last) = said[0], said[-1]
    done = last.done - first.done
    return (ended - began) / done if done >= _LEAST_STEPS and ended > began else None


def straggler(lines: Mapping[str, Sequence[Line]]) -> Straggler | None:
    """The one process of a gang that is clearly slower than all others, which are alike; None where there is none.

    Args:
        lines: the last lines of each pod, in their order.
    """
    seconds_by_pod = {pod: seconds for pod, each in lines.items() if (seconds := step_seconds(each)) is not None}
    if len(seconds_by_pod) < max(_LEAST_RANKS, len(lines) // 2):
        return None
    slow = max(seconds_by_pod, key=lambda pod: (seconds_by_pod[pod], pod))
    others = [seconds for pod, seconds in seconds_by_pod.items() if pod != slow]
    usual = median(others)
    if seconds_by_pod[slow] < _TIMES * usual or max(others) > _ALIKE * usual:
        return None
    return Straggler(slow, seconds_by_pod[slow], usual)


def _seconds(number: str, unit: str) -> float:
    return float(number) / (1000 if unit.lower() == "ms" else 1)
