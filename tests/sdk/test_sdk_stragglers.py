"""Which process of a gang is slow: by what it says of its own steps, or by its lines."""

from __future__ import annotations

import pytest

from unisono.sdk.state.running import slow
from unisono.sdk.state.stragglers import Line, Straggler, step_seconds, straggler


def lines(step: float, number: int = 10, *, own: str = "", first: int = 0, start: float = 1000.0) -> list[Line]:
    """A process that writes a line after each step."""
    return [Line(start + at * step, f"loss 0.1 progress: {first + at}/500{own}") for at in range(number)]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (lines(2.0), 2.0),
        (lines(2.0, 4), 2.0),
        (lines(2.0, 3), None),
        ([], None),
        ([Line(1.0, "hello")] * 5, None),
        # What it says itself counts before its lines, and needs a few of them.
        (lines(2.0, own=" 0.5 s"), 0.5),
        (lines(2.0, own=" (750 ms)"), 0.75),
        (lines(2.0, 2, own=" 0.5 s"), None),
        # A line each tenth step.
        ([Line(1000.0 + at * 20, f"progress: {at * 10}/500") for at in range(4)], 2.0),
        # It has begun again from a checkpoint.
        ([*lines(1.0, 5, first=90), *lines(3.0, 5, first=50, start=2000.0)], 3.0),
    ],
)
def test_how_long_a_step_takes(written: list[Line], seconds: float | None) -> None:
    assert step_seconds(written) == seconds


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([1.0, 1.0, 1.0, 2.0], Straggler("w-3", 2.0, 1.0)),
        ([1.0, 1.05, 1.0, 1.1], None),
        ([1.0, 1.0, 1.0, 1.25], None),
        # Two are slow: then it is not one node.
        ([1.0, 1.0, 2.0, 2.1], None),
        ([1.0, 2.0], None),
        ([], None),
    ],
)
def test_who_is_slower_than_all_others(steps: list[float], found: Straggler | None) -> None:
    by_time = {f"w-{at}": lines(step) for at, step in enumerate(steps)}
    assert straggler(by_time) == found
    # In step with each other, as in a collective, they tell only by their own times.
    own = {f"w-{at}": lines(5.0, own=f" {step} s") for at, step in enumerate(steps)}
    assert straggler(own) == found
    assert straggler({pod: lines(5.0) for pod in own}) is None


def test_most_of_a_gang_that_says_nothing_names_nobody() -> None:
    quiet: dict[str, list[Line]] = {f"q-{at}": [] for at in range(6)}
    assert straggler({**quiet, **{f"w-{at}": lines(step) for at, step in enumerate([1.0, 1.0, 2.0])}}) is None


def test_the_note_names_the_pod_and_its_node() -> None:
    found = slow({f"w-{at}": lines(step) for at, step in enumerate([1.0, 1.0, 2.5])}, {"w-2": "gpu-7"})
    assert [(one.kind, str(one)) for one in found] == [
        ("Slow", "pod/w-2 on node gpu-7 is slower than the others: 2.5 s a step, theirs take 1 s")
    ]
    assert slow({}, {}) == []
