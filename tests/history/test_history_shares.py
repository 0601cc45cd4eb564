"""Shares of queues over time: a chart draws what was sampled, for users with the rights to see it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.histories import ZERO
from unisono.errors import ApiError
from unisono.history.database import Database
from unisono.history.queue_shares import MOST_POINTS, line, steps
from unisono.history.reading import Reader, StoredHistory
from unisono.history.records import CLUSTER, Changes, Share
from unisono.history.report import Window
from unisono.history.storage import Storage

GPU = "nvidia.com/gpu"


def seconds(low: float, high: float, now: float | None = None) -> Window:
    return Window(*(ZERO + round(1000 * each) for each in (low, high, high if now is None else now)))


def share(at: float, used: int, queue: str = "q", resource: str = GPU, **more: int) -> Share:
    return Share(ZERO + round(1000 * at), queue, resource, used, **more)


@pytest.mark.parametrize(
    ("shares", "used"),
    [
        ([(0, 4)], [4, 4, 4, 4]),
        ([(-100, 4)], [4, 4, 4, 4]),
        ([(10, 4)], [0, 4, 4, 4]),
        ([(0, 4), (5, 8)], [6, 8, 8, 8]),
        ([(0, 4), (20, 0)], [4, 4, 0, 0]),
        ([(0, 4), (12, 8), (14, 0), (18, 4)], [4, 3, 4, 4]),
        ([(-9, 1), (-5, 2), (35, 4)], [2, 2, 2, 3]),
        ([(40, 9)], [0, 0, 0, 0]),
    ],
)
def test_each_point_is_the_mean_of_its_step(shares: list[tuple[float, int]], used: list[int]) -> None:
    found = line([share(*each) for each in shares], steps(seconds(0, 40), 4))
    assert found.used == used


@given(
    st.lists(st.tuples(st.integers(-50, 150), st.integers(0, 1000)), min_size=1, unique_by=lambda each: each[0]),
    st.integers(1, 40),
)
def test_the_sum_of_all_points_is_what_was_used(told: Sequence[tuple[int, int]], points: int) -> None:
    shares = [share(*each) for each in sorted(told)]
    times = steps(seconds(0, 100), points)
    found = line(shares, times)
    summed = sum(each * (high - low) for each, (low, high) in zip(found.used, times, strict=True))
    edges = [max(0, min(100_000, each.at - ZERO)) for each in shares] + [100_000]
    exact = sum(each.used * (until - begin) for each, begin, until in zip(shares, edges, edges[1:], strict=False))
    assert abs(summed - exact) <= 100_000  # half a unit in each point, at most, by rounding
    assert times[0][0] == ZERO
    assert times[-1][1] == ZERO + 100_000


@pytest.mark.parametrize(
    ("window", "points", "number"),
    [
        (seconds(0, 3600), 60, 60),
        (seconds(0, 3600), 10**5, MOST_POINTS),
        (seconds(0, 10), 60, 10),
        (seconds(0, 0.5), 60, 1),
        (seconds(0, 100, now=50), 10, 10),
        (seconds(100, 200, now=50), 10, 0),
    ],
)
def test_points_are_bounded_and_end_now(window: Window, points: int, number: int) -> None:
    found = steps(window, points)
    assert len(found) == number
    assert all(high > low for low, high in found)
    if found:
        assert found[-1][1] == min(window.end, window.now)


@pytest.fixture
def filled(storage: Storage) -> Storage:
    database = Database(storage)
    database.open()
    changes = Changes()
    changes.shares += [
        share(-50, 1000, deserved=4000),
        share(20, 3000, deserved=8000, capability=9000),
        share(0, 500, "other"),
        share(10, 64, resource="cpu"),
        share(-99, 0, CLUSTER, capacity=16_000),
        share(0, 0, "idle"),
    ]
    database.store(changes)
    database.close()
    return storage


def test_what_is_stored_is_read_by_queue_and_resource(filled: Storage) -> None:
    found = Reader(filled).shares(seconds(0, 40), "", GPU, 2, capacity=True)
    assert found.times == [(ZERO + each) / 1000 for each in (20_000, 40_000)]
    by_queue = {each.queue: each for each in found.lines}
    assert set(by_queue) == {"q", "other", CLUSTER}
    assert (by_queue["q"].used, by_queue["q"].deserved, by_queue["q"].capability) == (
        [1000, 3000],
        [4000, 8000],
        [0, 9000],
    )
    assert by_queue[CLUSTER].capacity == [16_000, 16_000]
    assert {each.resource for each in Reader(filled).shares(seconds(0, 40), "q", "", 2, capacity=True).lines} == {
        GPU,
        "cpu",
    }


@pytest.mark.parametrize(("start", "since"), [(0, 0.0), (-98, 0.0), (-300, (ZERO - 99_000) / 1000)])
def test_a_chart_knows_where_the_history_begins(filled: Storage, start: int, since: float) -> None:
    found = Reader(filled).shares(seconds(start, 40), "", GPU, 8, capacity=True)
    assert found.since == since


def test_who_may_not_list_nodes_does_not_see_how_large_the_cluster_is(filled: Storage) -> None:
    found = Reader(filled).shares(seconds(0, 40), "", "", 2, capacity=False)
    assert CLUSTER not in {each.queue for each in found.lines}


@pytest.mark.parametrize("points", ["0", "-1", "many", "1e3", "9" * 30, "١"])
async def test_points_that_are_no_number_are_refused(filled: Storage, points: str) -> None:
    with pytest.raises(ApiError, match="points must be"):
        await StoredHistory(filled).answer("shares", {"points": points}, [], capacity=True, queues=True)


async def test_who_may_not_list_queues_sees_no_shares(filled: Storage) -> None:
    with pytest.raises(ApiError, match="that can list queues"):
        await StoredHistory(filled).answer("shares", {}, [], capacity=True, queues=False)
    assert b'"lines"' in (await StoredHistory(filled).answer("shares", {}, [], capacity=True, queues=True) or b"")
