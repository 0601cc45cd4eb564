"""Troubles of a hub's objects are told once for as long as they last."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.base import ObjectMeta
from unisono.api.groups.batch import Job
from unisono.fleet.telling import Telling

JOB = Job(metadata=ObjectMeta(name="j", namespace="ns"))
OTHER = Job(metadata=ObjectMeta(name="k", namespace="ns"))


class Recorded(list[str]):
    def event(self, obj: Any, type_: str, reason: str, message: str) -> None:
        self.append(f"{obj.key} {type_} {reason}: {message}")


def look(telling: Telling, *troubles: str, job: Job = JOB) -> None:
    with telling.look(job.key):
        for trouble in troubles:
            telling.tell(job, "Refused", trouble)


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([("a",), ("a",), ("a",)], ["a"]),
        ([("a",), (), ("a",)], ["a", "a"]),  # it came back
        ([("a", "b"), ("b", "a"), ("a", "b")], ["a", "b"]),  # two at once are no news each time
        ([("a",), ("a", "b"), ("b",), ("a",)], ["a", "b", "a"]),
        ([("a", "a")], ["a"]),
    ],
)
def test_a_trouble_is_told_once_for_as_long_as_it_lasts(looks: list[tuple[str, ...]], told: list[str]):
    recorded = Recorded()
    telling = Telling(recorded)
    for troubles in looks:
        look(telling, *troubles)
    assert recorded == [f"ns/j Warning Refused: {trouble}" for trouble in told]


def test_a_look_that_fails_does_not_end_a_trouble():
    recorded = Recorded()
    telling = Telling(recorded)
    look(telling, "a")
    with pytest.raises(OSError, match="down"), telling.look(JOB.key):
        raise OSError("down")
    look(telling, "a")
    assert len(recorded) == 1


def test_objects_do_not_share_what_was_told_and_leave_nothing_behind():
    recorded = Recorded()
    telling = Telling(recorded)
    look(telling, "a")
    look(telling, "a", job=OTHER)
    assert len(recorded) == 2
    look(telling)
    look(telling, job=OTHER)
    assert not telling._before
    assert not telling._now
