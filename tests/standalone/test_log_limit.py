"""Logs are limited by cause."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import structlog

from unisono.standalone.log_limit import LogLimit


class Log:
    """What passes a limit, at a time that the test says."""

    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.limit = LogLimit(10.0, monotonic=lambda: self.now, **options)
        self.lines: list[dict[str, Any]] = []

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
