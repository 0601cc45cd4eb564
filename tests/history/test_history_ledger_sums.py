"""For random lives the sum of intervals is what counting the lives themselves gives, whatever happens on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from support.histories import ZERO, Story, a_group, a_job, a_pod, owner
from unisono.api.base import Object
from unisono.api.kinds import JOBS, PODS
from unisono.history.records import Interval, gpus, overlap

Trouble = Literal["none", "twice", "stored", "crash", "relist"]


@dataclass(frozen=True)
class Life:
    """One pod: seconds at which it is made, gets its node, ends and is deleted."""

    job: int
    created: int
    waits: int
    runs: int
    lingers: int
    cards: int
    killed: bool

    @property
    def bound(self) -> int:
        return self.created + self.waits

    @property
    def end(self) -> int:
        return self.bound + self.runs

    @property
    def deleted(self) -> int:
        return self.end + (0 if self.killed else self.lingers)


LIVES = st.lists(
    st.builds(
        Life,
        job=st.integers(0, 2),
        created=st.integers(0, 50),
        waits=st.integers(0, 50),
        runs=st.integers(0, 200),
        lingers=st.integers(0, 50),
        cards=st.integers(0, 8),
        killed=st.booleans(),
    ),
    max_size=6,
)
TROUBLES: st.SearchStrategy[list[Trouble]] = st.lists(
    st.sampled_from(["none", "none", "none", "twice", "stored", "stored", "crash", "relist"]), max_size=40
)


def events_of(lives: list[Life]) -> list[tuple[int, Object, bool]]:
    """All that happens, in its order."""
    found: list[tuple[int, int, Object, bool]] = []
    for job in {life.job for life in lives}:
        mine = [life for life in lives if life.job == job]
        found.append((min(life.created for life in mine), 0, a_job(f"j{job}"), False))
        group = a_group(f"j{job}", parent=owner(JOBS, f"j{job}"))
        found.append((min(life.created for life in mine), 1, group, False))
        found.append((max(life.deleted for life in mine), 9, a_job(f"j{job}", "Completed"), True))
    for number, life in enumerate(lives):
        made = {"job": f"j{life.job}", "gang": f"j{life.job}", "created": life.created}
        made["resources"] = {"cpu": 1, "gpu": life.cards}
        name = f"p{number}"
        last = {} if life.killed else {"phase": "Succeeded", "ended": life.end}
        found.append((life.created, 2, a_pod(name, node="", phase="Pending", bound=None, **made), False))  # type: ignore[arg-type]
        found.append((life.bound, 3, a_pod(name, bound=life.bound, **made), False))  # type: ignore[arg-type]
        if not life.killed:
            found.append((life.end, 4, a_pod(name, bound=life.bound, **last, **made), False))  # type: ignore[arg-type]
        found.append((life.deleted, 5, a_pod(name, bound=life.bound, **last, **made), True))  # type: ignore[arg-type]
    return [(at, obj, gone) for at, _, obj, gone in sorted(found, key=lambda each: each[:2])]


def held(intervals: list[Interval], low: int, high: int) -> int:
    return sum(
        gpus(each.resources) * overlap(each.start, each.end or high, ZERO + low * 1000, ZERO + high * 1000)
        for each in intervals
    )


def counted(lives: list[Life], low: int, high: int) -> int:
    """Second by second, without any interval."""
    return sum(
        life.cards * 1000 * 1000 for life in lives for second in range(low, high) if life.bound <= second < life.end
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
                story.ledger.tick(ZERO + low * 1000)
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
