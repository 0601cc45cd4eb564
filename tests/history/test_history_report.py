"""Counting records: windows, days, percentiles, sizes, capacity and outcomes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.conditions import pod_failure
from unisono.api.kinds import NODE_CHECKS
from unisono.history.records import HOUR, Hour, Interval, JobRecord, Share, ended_as, hours_of_interval, pieces, worse
from unisono.history.report import BY, By, Counting, Window, accounts, size_of, waiting

DAY = 24 * HOUR
T0 = 19_000 * DAY  # a midnight: 2022-01-08


def job(name: str = "j", **given: Any) -> JobRecord:
    values = {"queue": "q", "user": "ann", "created": T0, "started": T0 + HOUR, **given}
    resource = values.pop("resource", "jobs.batch.volcano.sh")
    return JobRecord(name, "v1", "Job", resource, "ns", name, **values)


def held(start: float, end: float, *, cards: int = 1, queue: str = "q", outcome: str = "Succeeded") -> Interval:
    """Hours after the midnight; ``end`` 0 goes on."""
    stop = T0 + round(end * HOUR) if end else 0
    return Interval(
        "p", T0 + round(start * HOUR), "j", "p", "n", queue, {"nvidia.com/gpu": cards * 1000}, stop, outcome
    )


def window(start: float, end: float, now: float = 1000.0) -> Window:
    return Window(*(T0 + round(each * HOUR) for each in (start, end, now)))


def gpu_hours(at: Window, by: By, *intervals: Interval) -> dict[str, float]:
    counting = Counting(at, by)
    for interval in intervals:
        counting.interval(interval, job())
    return {row.key: row.gpu_hours for row in counting.report(0).rows}


CLIPPED = [
    (held(2, 5), window(0, 10), 3),
    (held(2, 5), window(3, 10), 2),
    (held(2, 5), window(0, 4), 2),
    (held(2, 5), window(3, 4), 1),
    (held(2, 5, cards=8), window(0, 10), 24),
    (held(2, 0), window(0, 10), 8),
    (held(2, 0), window(0, 10, now=6), 4),
    (held(2, 0), window(5, 10, now=4), None),
    (held(2, 5), window(5, 10), None),
    (held(2, 5), window(0, 2), None),
    (held(2, 2), window(0, 10), None),
]


@pytest.mark.parametrize(("interval", "at", "expected"), CLIPPED)
def test_a_window_clips(interval: Interval, at: Window, expected: float | None) -> None:
    assert gpu_hours(at, "queue", interval) == ({} if expected is None else {"q": expected})


def test_days_get_their_parts() -> None:
    assert gpu_hours(window(0, 100), "day", held(20, 50)) == {"2022-01-08": 4, "2022-01-09": 24, "2022-01-10": 2}


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("summed", [False, True])
def test_node_checks_have_a_row_of_their_own_and_no_part_in_the_totals(by: By, summed: bool) -> None:
    counting = Counting(window(0, 24), by)
    lives = [(job(), held(2, 5)), (job("check", queue="", resource=NODE_CHECKS.resource), held(1, 2, outcome="Failed"))]
    for record, interval in lives:
        if summed:
            for hour, amount in hours_of_interval(interval, record):
                counting.hour(hour, amount)
            continue
        record.ended, record.outcome = interval.end, interval.outcome
        counting.job(record)
        counting.interval(interval, record)
    report = counting.report(0)
    assert (report.total.gpu_hours, report.total.failures) == (3, 0)
    assert sum(report.total.ended.values()) == report.total.waiting.jobs == (0 if summed else 1)
    assert {each.queue for each in report.sizes} == (set() if summed else {"q"})
    (own,) = [row for row in report.rows if row.key == "(node checks)"]
    assert (own.gpu_hours, own.failures, len(report.rows)) == (1, 1, 2)


def test_jobs_that_wait_at_the_end_of_a_time_are_counted() -> None:
    """Times are hours after the midnight at which each was made."""
    lives = {"waits": (0, 0), "starts later": (9, 0), "runs": (2, 0), "gave up": (0, 3), "gives up later": (0, 9)}
    for end, expected in ((1, 5), (2, 5), (4, 3), (10, 1), (2000, 1)):
        counting = Counting(window(0, end), "queue")
        for name, (started, ended) in lives.items():
            at = {key: T0 + hour * HOUR if hour else 0 for key, hour in (("started", started), ("ended", ended))}
            counting.job(job(name, **at))
        found = counting.report(0)
        assert (found.total.pending, [row.pending for row in found.rows]) == (expected, [expected]), end
    before = Counting(window(-5, 0), "queue")
    before.job(job(started=0))
    assert before.report(0).total.pending == 0


def test_each_queue_is_charged_for_its_part() -> None:
    parts = held(0, 2, outcome="Moved"), held(2, 5, queue="r")
    assert gpu_hours(window(0, 9), "queue", *parts) == {"q": 2, "r": 3}
    assert gpu_hours(window(0, 9), "job", *parts) == {"ns/j": 5}
    assert gpu_hours(window(0, 9), "namespace", *parts) == {"ns": 5}
    assert gpu_hours(window(0, 9), "user", *parts) == {"ann": 5}


def test_ends_and_starts_are_of_the_window_that_they_are_in() -> None:
    counting = Counting(window(2, 4), "queue")
    counting.job(job("before", started=T0 + HOUR, ended=T0 + 2 * HOUR - 1, outcome="Completed"))
    counting.job(job("first", started=T0 + HOUR, ended=T0 + 2 * HOUR, outcome="Completed"))
    counting.job(job("last", started=T0 + 3 * HOUR, ended=T0 + 4 * HOUR, outcome="Failed"))
    counting.job(job("waits", started=0))
    report = counting.report(0)
    assert report.total.ended == {"Completed": 1}
    assert (report.total.waiting.jobs, report.total.waiting.max) == (1, 3 * 3600)


def test_evictions_and_failures_count_where_they_happen() -> None:
    counting = Counting(window(0, 4), "queue")
    for end, outcome in ((1, "Evicted"), (2, "Failed"), (3, "Failed"), (3, "Deleted"), (9, "Failed")):
        counting.interval(held(0, end, outcome=outcome), job())
    assert (counting.report(0).total.evictions, counting.report(0).total.failures) == (1, 2)


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ([], (0, 0, 0, 0)),
        ([5], (1, 5, 5, 5)),
        ([1, 2], (2, 1, 2, 2)),
        (range(1, 21), (20, 10, 19, 20)),
        (range(1, 101), (100, 50, 95, 100)),
        ([0, 0, 0, 90], (4, 0, 90, 90)),
    ],
)
def test_percentiles_are_times_of_jobs(waits: Any, expected: tuple[int, ...]) -> None:
    found = waiting([each * 1000 for each in reversed(waits)])
    assert (found.jobs, found.p50, found.p95, found.max) == expected


@pytest.mark.parametrize(
    ("cards", "name"),
    [(0, "no GPU"), (0.5, "1 GPU"), (1, "1 GPU"), (2, "2-8 GPUs"), (8, "2-8 GPUs"), (9, "9-64 GPUs"), (64, "9-64 GPUs"),
     (65, "65-512 GPUs"), (513, "more than 512 GPUs")],
)  # fmt: skip
def test_sizes(cards: float, name: str) -> None:
    assert size_of(job(gpus=round(cards * 1000)))[1] == name


def test_sizes_are_told_from_small_to_large() -> None:
    counting = Counting(window(0, 9), "queue")
    for cards in (600, 9, 0, 1):
        counting.job(job(gpus=cards * 1000))
    assert [row.size for row in counting.report(0).sizes] == ["no GPU", "1 GPU", "9-64 GPUs", "more than 512 GPUs"]


def test_capacity_holds_until_it_changes() -> None:
    shares = [
        Share(T0 + at * HOUR, "", "nvidia.com/gpu", capacity=cards * 1000) for at, cards in ((0, 8), (4, 16), (6, 0))
    ]
    for at, expected in ((window(0, 8), 64), (window(2, 5), 32), (window(7, 9), 0), (window(5, 99, now=6), 16)):
        counting = Counting(at, "queue")
        counting.capacity(shares)
        assert counting.report(0).capacity.get("nvidia.com/gpu", 0) == expected


def test_each_day_has_the_capacity_of_that_day() -> None:
    counting = Counting(window(12, 60), "day")
    counting.interval(held(20, 50), job())
    counting.capacity([Share(T0, "", "nvidia.com/gpu", capacity=8000), Share(T0 + DAY, "", "nvidia.com/gpu")])
    report = counting.report(0)
    assert [row.capacity.get("nvidia.com/gpu") for row in report.rows] == [96, 0, 0]
    assert report.capacity == {"nvidia.com/gpu": 96}


def test_of_an_hour_at_the_edge_the_part_within_counts() -> None:
    hour = Hour(T0, "q", "ns", "jobs.batch.volcano.sh", "", "nvidia.com/gpu")
    counting = Counting(window(0.5, 9), "user")
    counting.hour(hour, 3600 * 4000.0)
    counting.hour(hour._replace(measure="ended/Failed"), 3)
    counting.hour(hour._replace(hour=T0 + HOUR, measure="ended/Failed"), 2)
    [row] = counting.report(0).rows
    assert (row.key, row.gpu_hours, row.ended) == ("(unknown)", 2, {"Failed": 2})


@given(start=st.integers(0, 10 * DAY), length=st.integers(0, 3 * DAY))
def test_pieces_make_the_whole(start: int, length: int) -> None:
    found = list(pieces(start, start + length))
    assert sum(end - begin for _, begin, end in found) == length
    assert all(hour <= begin < end <= hour + HOUR and hour % HOUR == 0 for hour, begin, end in found)
    interval = Interval("p", start, "j", "p", "n", "q", {"cpu": 2000}, start + length, "Succeeded")
    assert sum(amount for _, amount in hours_of_interval(interval, job())) == pytest.approx(2 * length)


ENDS = [
    ("Completed", 0, "Completed"),
    ("Failed", 1, "Failed"),
    ("Terminated", 3, "Failed"),
    ("Aborted", 3, "Failed"),
    ("Terminated", 143, "Terminated"),
    ("Aborted", 137, "Aborted"),
    ("Terminated", None, "Terminated"),
    ("Deleted", 3, "Deleted"),
]


@pytest.mark.parametrize(("outcome", "code", "expected"), ENDS)
def test_who_stopped_a_job(outcome: str, code: int | None, expected: str) -> None:
    assert ended_as(job(outcome=outcome, exit_code=code)) == expected


@pytest.mark.parametrize(
    ("message", "code", "expected"),
    [
        (pod_failure("a-0", [137], None), 137, "Failed"),
        (pod_failure("a-0", [143], "DeadlineExceeded"), 143, "Failed"),
        ("Job was active longer than specified deadline", 143, "Failed"),
        ("asked for by command a-terminatejob-x", 143, "Terminated"),
        ("", 137, "Terminated"),
    ],
)
def test_want_of_memory_and_time_limits_are_failures(message: str, code: int, expected: str) -> None:
    assert ended_as(job(outcome="Terminated", exit_code=code, message=message)) == expected


@pytest.mark.parametrize(
    ("known", "found", "kept"),
    [(None, 0, 0), (0, None, 0), (None, None, None), (0, 143, 143), (143, 3, 3), (3, 143, 3), (3, 4, 3), (3, 0, 3)],
)
def test_the_exit_code_that_explains_more(known: int | None, found: int | None, kept: int | None) -> None:
    assert worse(known, found) == kept


def test_a_line_of_accounts() -> None:
    record = job(started=T0 + HOUR, gpus=4000, pods=2, exit_code=0)
    [line] = accounts(window(0, 9, now=6), [(record, [held(1, 4, cards=4), held(4, 0, cards=4)])]).jobs
    assert (line.state, line.elapsed, line.gpu_hours, line.gpus, line.pods) == ("Running", 5 * 3600, 20, 4, 2)
    [line] = accounts(window(0, 9, now=6), [(job(started=0), [])]).jobs
    assert (line.state, line.elapsed) == ("Pending", 0)


def test_of_a_node_check_alone_it_is_said_what_it_used() -> None:
    (line,) = accounts(window(0, 10), [(job("check", resource=NODE_CHECKS.resource), [held(1, 3)])]).jobs
    assert line.gpu_hours == 2
