"""Shares of queues on clusters without a history, and windows of the table that pages share."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api.core import Node
from unisono.api.groups.scheduling import Queue
from unisono.dashboard.live.jobs import Jobs, Signal, Tables
from unisono.dashboard.live.world import Samples, shares
from unisono.dashboard.views.table import Query
from unisono.dashboard.views.wire import JobRow
from unisono.history.records import CLUSTER

GPU = "nvidia.com/gpu"
T0 = 1_800_000_000_000


def queue(name: str, used: Any = 0, parent: str = "root", **spec: Any) -> Queue:
    value = {
        "metadata": {"name": name},
        "spec": {"parent": parent, **spec},
        "status": {"allocated": {GPU: used} if used else {}},
    }
    return msgspec.convert(value, Queue)


def node(gpus: int) -> Node:
    return msgspec.convert({"metadata": {"name": "n"}, "status": {"allocatable": {GPU: gpus}}}, Node)


def test_what_was_taken_is_drawn_and_parents_do_not_count_twice() -> None:
    samples = Samples()
    research = queue("research", 6)
    for at, used in ((0, 2), (10, 6), (20, 0)):
        one = queue("llm", used, "research", deserved={GPU: 4})
        samples.take([research, one], [node(8)], T0 + 1000 * at)
    times = {"from": str(T0 / 1000), "to": str(T0 / 1000 + 30), "points": "3", "resource": GPU}
    told = shares(samples, times, T0 + 30_000)
    by_queue = {each.queue: each for each in told.lines}
    assert set(by_queue) == {CLUSTER, "llm"}
    assert (by_queue["llm"].used, by_queue["llm"].deserved) == ([2000, 6000, 0], [4000, 4000, 4000])
    assert by_queue[CLUSTER].capacity == [8000, 8000, 8000]


def test_a_queue_that_was_deleted_uses_nothing_from_then_on() -> None:
    samples = Samples()
    samples.take([queue("q", 3)], [], T0)
    samples.take([], [], T0 + 10_000)
    told = shares(samples, {"from": str(T0 / 1000), "points": "2"}, T0 + 20_000)
    assert told.lines[0].used == [3000, 0]


def test_amounts_that_are_none_leave_out_their_queue_alone() -> None:
    samples = Samples()
    samples.take([queue("broken", "many"), queue("fine", 1)], [], T0)
    assert [each.queue for each in shares(samples, {}, T0 + 1000).lines] == ["fine"]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unisono.dashboard.live.world._MOST_SHARES", 5)
    monkeypatch.setattr("unisono.dashboard.live.world._MOST_LINES", 3)
    samples = Samples()
    for at in range(50):
        samples.take([queue(f"q{number}", at + 1) for number in range(10)], [], T0 + 1000 * at)
    assert len(samples._lines) == 3
    assert all(len(line) <= 5 for line in samples._lines.values())


class Rows(Jobs):
    """Rows that were made elsewhere; counts how often they are asked for."""

    def __init__(self) -> None:
        super().__init__({})
        self.there = {
            f"k{n}": JobRow(key=f"k{n}", api_version="", kind="Job", namespace="a", name=f"j{n}") for n in range(9)
        }
        self.asked = 0

    def rows(self) -> dict[str, JobRow]:
        self.asked += 1
        return self.there


def test_a_window_is_made_once_for_all_until_something_changes() -> None:
    rows, signal = Rows(), Signal()
    tables = Tables(rows, signal)
    first = tables.view(Query(), ready=True)
    assert tables.view(Query(), ready=True) is first
    other = tables.view(Query(q="j3"), ready=True)
    assert (other.matched, other.states is first.states, rows.asked) == (1, True, 2)
    signal.tell("nodes")
    assert tables.view(Query(), ready=True) is first
    rows.there.pop("k3")
    signal.tell("jobs")
    assert (tables.view(Query(), ready=True).total, tables.view(Query(q="j3"), ready=True).matched) == (8, 0)
    assert tables.view(Query(), ready=False).ready is False


def test_windows_that_are_kept_are_bounded() -> None:
    tables = Tables(Rows(), Signal())
    for number in range(500):
        tables.view(Query(q=str(number)), ready=True)
    assert len(tables._views) <= 64
