"""Logs are limited by cause."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from unisono.standalone.logs import LogLimit


class Log:
    """What passes a limit, at a time that the test says."""

    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.limit = LogLimit(10.0, monotonic=lambda: self.now, tell=self._tell, after=self._after, **options)
        self.lines: list[dict[str, Any]] = []

    def _tell(self, outline: dict[str, Any]) -> None:
        self.say(**outline)

    def _after(self, seconds: float, function: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, function))

    def wait(self, until: float) -> None:
        """Let time pass, and timers ring."""
        while due := sorted((at, n) for n, (at, _) in enumerate(self.timers) if at <= until):
            self.now, function = self.timers.pop(due[0][1])
            function()
        self.now = until

    def say(self, event: str, level: str = "warning", **fields: Any) -> None:
        with contextlib.suppress(structlog.DropEvent):
            self.lines.append(dict(self.limit(None, level, {"event": event, "level": level, **fields})))


def test_the_first_line_comes_at_once_and_the_others_as_a_number() -> None:
    log = Log()
    for second in range(25):
        log.now = float(second)
        log.say("watch.broken", resource="pods", error=str(second))
    assert [(line["error"], line.get("suppressed")) for line in log.lines] == [("0", None), ("10", 9), ("20", 9)]


def test_causes_do_not_silence_each_other() -> None:
    log = Log()
    for resource in ("pods", "nodes"):
        log.say("watch.broken", resource=resource)
    log.say("watch.failed", resource="pods")
    assert len(log.lines) == 3


def test_objects_of_one_cause_share_a_line() -> None:
    log = Log()
    for number in range(1000):
        log.say("object.rejected", kind="Pod", key=f"ns/{number}")
    assert len(log.lines) == 1


@pytest.mark.parametrize("level", ["debug", "info"])
def test_what_is_no_trouble_is_not_limited(level: str) -> None:
    log = Log()
    for _ in range(3):
        log.say("cycle.decided", level)
    assert len(log.lines) == 3


def test_the_number_of_causes_is_bounded() -> None:
    log = Log(most=100)
    for number in range(1000):
        log.say(f"event {number}")
    assert len(log.limit._seen) == 100


def test_what_was_dropped_is_told_after_silence_too() -> None:
    log = Log()
    for number in range(5):
        log.say("object.rejected", kind="Pod", key=f"ns/{number}", error="odd")
    log.now = 3.0
    for _ in range(3):
        log.say("watch.broken", resource="pods", level="error")
    assert len(log.lines) == 2
    log.wait(9.9)
    assert len(log.lines) == 2
    log.wait(100.0)
    assert log.lines[2:] == [
        {"event": "object.rejected", "level": "warning", "kind": "Pod", "suppressed": 4},
        {"event": "watch.broken", "level": "error", "resource": "pods", "suppressed": 2},
    ]
    assert not log.timers


def test_one_timer_serves_all_causes_and_none_runs_without_need() -> None:
    log = Log()
    for number in range(100):
        log.say(f"event {number}")
    assert not log.timers
    for number in range(100):
        log.now = number / 50
        log.say(f"event {number}")
        assert len(log.timers) == 1
    log.wait(50.0)
    assert len(log.lines) == 200


def test_a_line_that_comes_in_time_takes_the_number_along() -> None:
    log = Log()
    for second in (0.0, 1.0, 10.0):
        log.now = second
        log.say("watch.broken")
    log.wait(60.0)
    assert [line.get("suppressed") for line in log.lines] == [None, 1]
