"""How much history is kept, and what a reader of it finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.apiserver.storage.objects import Event, History, Retention, StoredEntry


def event(revision: int, at: float = 0.0, size: int = 10) -> Event:
    return Event("ADDED", StoredEntry("things", "ns", f"n{revision}", revision, b"x" * size), None, at)


def filled(retention: Retention, count: int, *, seconds: float = 1.0, size: int = 10) -> History:
    history = History(retention, 0)
    for revision in range(1, count + 1):
        history.append(event(revision, revision * seconds, size))
    return history


def test_everything_is_kept_at_first():
    history = filled(Retention(events=100), 50)
    assert len(history) == 50
    assert [e.entry.revision for e in history.read(history.position_after(47), 10)] == [48, 49, 50]


def test_old_events_beyond_the_count_are_dropped():
    history = filled(Retention(events=100, seconds=5), 1000)
    assert 100 <= len(history) <= 113
    assert history.position_after(10) is None
    assert history.position_after(history.compacted) is not None
    assert history.position_after(history.compacted - 1) is None


def test_young_events_are_kept_beyond_the_count():
    history = filled(Retention(events=100, seconds=10_000), 1000)
    assert len(history) == 1000


def test_young_events_are_dropped_when_they_take_too_much_memory():
    history = filled(Retention(events=100, seconds=10_000, max_bytes=20_000), 1000, size=100)
    assert 100 <= len(history) <= 230


def test_a_position_that_was_dropped_is_noticed():
    history = filled(Retention(events=10, seconds=0), 10)
    position = history.position_after(3)
    for revision in range(11, 40):
        history.append(event(revision, 1000.0 + revision))
    assert history.read(position, 5) is None
    assert history.read(history.end, 5) == []


@pytest.mark.parametrize(("since", "first"), [(0, 2), (1, 2), (2, 5), (4, 5), (5, 9), (9, None), (100, None)])
def test_revisions_have_gaps_because_all_resources_share_the_counter(since, first):
    history = History(Retention(), 0)
    for revision in (2, 5, 9):
        history.append(event(revision))
    found = history.read(history.position_after(since), 1)
    assert [e.entry.revision for e in found] == ([] if first is None else [first])


@given(
    st.lists(st.integers(1, 5), max_size=120),
    st.integers(1, 20),
    st.integers(0, 30),
    st.integers(0, 400),
)
def test_a_reader_misses_nothing_or_is_told(steps, events, seconds, since):
    history = History(Retention(events=events, seconds=seconds, max_bytes=300), 0)
    revisions, revision = [], 0
    for step in steps:
        revision += step
        revisions.append(revision)
        history.append(event(revision, float(revision)))
    position = history.position_after(since)
    if position is None:
        assert since < history.compacted
    else:
        found = [e.entry.revision for e in history.read(position, 1000)]
        assert found == [one for one in revisions if one > since]
    assert len(history) >= min(events, len(steps))
