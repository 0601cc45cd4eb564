"""For random lives the sum of intervals is what counting the lives themselves gives, whatever happens on the way."""

from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from support.histories import ZERO, Story
from support.pod_lives import LIVES, Life, counted, events_of
from unisono.api.base import Object
from unisono.api.kinds import JOBS, PODS
from unisono.history.records import Interval, gpus, overlap

Trouble = Literal["none", "twice", "stored", "crash", "relist"]


TROUBLES: st.SearchStrategy[list[Trouble]] = st.lists(
    st.sampled_from(["none", "none", "none", "twice", "stored", "stored", "crash", "relist"]), max_size=40
)


def held(intervals: list[Interval], low: int, high: int) -> int:
    return sum(
        gpus(each.resources) * overlap(each.start, each.end or high, ZERO + low * 1000, ZERO + high * 1000)
        for each in intervals
    )


@given(lives=LIVES, troubles=TROUBLES, low=st.integers(0, 100), length=st.integers(0, 300))
def test_the_sum_of_intervals(lives: list[Life], troubles: list[Trouble], low: int, length: int) -> None:
    story = Story()
    told: list[tuple[int, Object, bool]] = []
    for number, (at, obj, deleted) in enumerate(events_of(lives)):
        trouble = troubles[number] if number < len(troubles) else "none"
        story.tell(at, obj, deleted=deleted)
        told.append((at, obj, deleted))
        if trouble == "twice":
            story.again(at, obj, deleted=deleted)
        elif trouble == "stored":
            story.store(at)
        elif trouble == "relist":
            story.relist(at, PODS, JOBS)
        elif trouble == "crash":
            story.crash()
            for each in told:
                # What was stored is known to be old; the rest comes again, as a watch sends it.
                story.again(each[0], each[1], deleted=each[2])
    kept = story.store()
    assert held(kept.intervals, low, low + length) == counted(lives, low, low + length)
    assert all(each.end for each in kept.intervals)
    assert all(job.pods == 0 or job.started for job in kept.jobs.values())
    assert len({each.pod for each in kept.intervals}) == len(lives)


@given(lives=LIVES, deaf=st.tuples(st.integers(0, 300), st.integers(0, 300)))
def test_what_is_not_heard_is_never_charged_twice(lives: list[Life], deaf: tuple[int, int]) -> None:
    """Between two moments nothing is heard; then everything is listed."""
    low, high = min(deaf), max(deaf)
    story, listed = Story(), False
    for at, obj, deleted in events_of(lives):
        if low <= at < high:
            if not listed:
                story.alive(low)
            listed = True
            story.miss(obj, deleted=deleted)
            continue
        if at >= high and listed:
            story.relist(high, PODS, JOBS)
            listed = False
        story.tell(at, obj, deleted=deleted)
    story.relist(1000, PODS, JOBS)
    total = held(story.store().intervals, 0, 1000)
    assert total <= counted(lives, 0, 1000)
    assert total >= counted(lives, 0, low)
