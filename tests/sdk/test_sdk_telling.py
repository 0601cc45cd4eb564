"""What the SDK shows while a call waits."""

from __future__ import annotations

import io

import pytest

from unisono.sdk.follow.events import Teller, line_of, telling
from unisono.sdk.state.views import JobView, Steps, slowest, steps_of_annotations, steps_of_line


class Out(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


class World:
    def __init__(self, terminal: bool = False) -> None:
        self.now, self.out = 100.0, Out(terminal)
        self.teller = Teller(self.out, lambda: self.now)

    def after(self, seconds: float, view: JobView | None = None) -> str:
        """What is written when so many seconds later a view is seen."""
        self.now += seconds
        if view is not None:
            self.teller.see(view)
        before = len(self.out.getvalue())
        self.teller.tick()
        return self.out.getvalue()[before:]


def view(phase: str = "Pending", waiting: str = "", **more: object) -> JobView:
    return JobView("train", "default", "Job", phase, waiting=waiting, gang=4, **more)  # type: ignore[arg-type]


def test_lines_come_when_they_change_and_every_minute() -> None:
    world = World()
    assert world.after(1, view(waiting="no room")) == ""
    assert world.after(2) == "job/train waits: no room (3 s)\n"
    assert world.after(30) == ""
    assert world.after(30) == "job/train waits: no room (63 s)\n"
    assert world.after(1, view(waiting="quota")) == "job/train waits: quota (64 s)\n"
    assert world.after(90, view("Running")) == ""


def test_on_a_terminal_one_line_is_written_over_and_taken_away() -> None:
    world = World(terminal=True)
    assert world.after(5, view(waiting="no room")) == "\r\x1b[Kjob/train (5 s) waits: no room"
    assert world.after(1) == "\r\x1b[Kjob/train (6 s) waits: no room"
    assert len(world.after(1, view(waiting="x" * 500))) < 200
    assert world.after(1, view("Running")) == "\r\x1b[K"
    assert world.after(1) == ""


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (view(), "job/train waits for its 4 pods"),
        (view("Running"), ""),
        (view("Running", progress=Steps(3, 10)), "job/train progress: 3/10"),
        (view("Completed", waiting="old"), ""),
    ],
)
def test_what_there_is_to_say(seen: JobView, line: str) -> None:
    assert line_of(seen) == line


async def test_nothing_is_shown_where_nobody_looks() -> None:
    async with telling(False) as tell:
        assert tell is None
    async with telling(True) as tell:
        assert tell is not None
        tell(view())


@pytest.mark.parametrize(
    ("line", "steps"),
    [
        ("progress: 30/100", Steps(30, 100)),
        ("12:00 INFO Progress: 3 / 7 loss 0.1", Steps(3, 7)),
        ("progress: 1/9 progress: 2/9", Steps(2, 9)),
        ("progress: 12/10", Steps(10, 10)),
        ("progress: 1/0", None),
        ("in progress: 1/x", None),
        ("progress 1/2", None),
        ("progress: " + "9" * 5000 + "/1", None),
    ],
)
def test_steps_of_a_log_line(line: str, steps: Steps | None) -> None:
    assert steps_of_line(line) == steps


def test_steps_of_annotations_and_of_the_slowest() -> None:
    assert steps_of_annotations({"unisono.io/progress": " 3/4 "}) == Steps(3, 4)
    assert steps_of_annotations({"unisono.io/progress": "three"}) is None
    assert steps_of_annotations(None) is None
    assert slowest([Steps(9, 10), Steps(30, 100), Steps(1, 2)]) == Steps(30, 100)
    assert slowest([]) is None
