"""``dequeueStrategy`` of queues: with ``fifo`` nobody passes a first job that cannot start, with ``traverse`` all may.

The cases follow the field's description in Volcano's API: where the first job cannot be scheduled, others are not tried
(``fifo``), or it is skipped (``traverse``).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import START, cluster, config, gang, group, nodes, pod, priority_class, queue, schedule
from support.examples import examples
from unisono.engine.decisions import Decisions

PLAIN = config(("priority", "gang"), ("predicates", "nodeorder"))
NO_GATE = config(("priority", "gang"), ("predicates", "nodeorder"), actions="allocate, backfill")


URGENT = priority_class("urgent", 9)


def decide(*things: Any, fifo: bool, setting: Any = PLAIN) -> Decisions:
    return schedule(cluster([queue("q", fifo=fifo), *things]), setting)


def jobs(decisions: Decisions) -> set[str]:
    return {bind.job.partition("/")[2] for bind in decisions.binds}


def waiting(name: str, size: int, created: float, **options: Any) -> Any:
    return gang(name, size, queue="q", created=created, **options)


LARGE_THEN_SMALL = [nodes(2, cpu=2), waiting("large", 5, 0), waiting("small", 1, 10), waiting("smaller", 1, 20)]


@pytest.mark.parametrize(("fifo", "started"), [(True, set()), (False, {"small", "smaller"})], ids=["fifo", "traverse"])
@pytest.mark.parametrize("setting", [PLAIN, NO_GATE], ids=["with-enqueue", "without-enqueue"])
def test_a_first_job_that_does_not_fit(fifo: bool, started: set[str], setting: Any) -> None:
    assert jobs(decide(*LARGE_THEN_SMALL, fifo=fifo, setting=setting)) == started


def test_those_before_it_start_and_those_behind_it_say_for_whom_they_wait() -> None:
    decisions = decide(nodes(2, cpu=2), waiting("a", 1, 0), waiting("b", 5, 10), waiting("c", 1, 20), fifo=True)
    assert jobs(decisions) == {"a"}
    verdict = decisions.verdicts["ns/c"]
    assert verdict.cause == "NotTried"
    assert "job ns/b comes first in queue q, whose dequeueStrategy is fifo" in verdict.message
    assert decisions.verdicts["ns/b"].cause in ("NodesFull", "TooLarge")


def test_order_is_that_of_the_plug_ins_and_not_age_alone() -> None:
    decisions = decide(
        nodes(2, cpu=2), waiting("old", 5, 0), URGENT, waiting("urgent", 1, 10, priority_class="urgent"), fifo=True
    )
    assert jobs(decisions) == {"urgent"}


def test_a_queue_that_stands_still_stops_no_other() -> None:
    other = gang("other", 1, queue="free", created=50)
    assert jobs(decide(*LARGE_THEN_SMALL, queue("free"), other, fifo=True)) == {"other"}


def test_a_job_that_is_not_admitted_stops_those_that_were_admitted_before_it() -> None:
    """A job of higher priority came, and its gate is closed: whoever is behind it has no turn before it."""
    gate = config(("priority", "gang"), ("overcommit", "predicates", "nodeorder"))
    first = waiting("first", 40, 30, priority_class="urgent", phase="Pending", min_resources=True)
    for fifo, started in ((True, set()), (False, {"small"})):
        assert jobs(decide(nodes(2, cpu=2), URGENT, waiting("small", 1, 0), first, fifo=fifo, setting=gate)) == started


def test_spare_pods_of_a_running_job_stop_nobody() -> None:
    elastic = [
        group("elastic", 1, queue="q", phase="Running"),
        pod("e-0", "elastic", node="n000", cpu=1),
        pod("e-1", "elastic", cpu=4),
    ]
    assert jobs(decide(nodes(1, cpu=2), elastic, waiting("next", 1, 10), fifo=True)) == {"next"}


def test_a_group_without_pods_stops_nobody_for_ever() -> None:
    """Its pods may be on their way, so it is waited for; after a minute it counts as an object that nobody fills."""
    state = cluster(
        [
            queue("q", fifo=True),
            nodes(2, cpu=2),
            group("empty", 3, queue="q", phase="Inqueue", created=0, resources={"cpu": 3}),
            waiting("next", 1, 10),
        ]
    )
    assert jobs(schedule(state, PLAIN, now=START + 100)) == set()
    assert jobs(schedule(state, PLAIN, now=START + 170)) == {"next"}


@settings(max_examples=examples(40), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    cpus=st.integers(1, 8),
    split=st.integers(1, 3),
)
def test_what_starts_is_a_prefix_of_the_line(sizes: list[int], cpus: int, split: int) -> None:
    things = [waiting(f"j{at}", size, at) for at, size in enumerate(sizes)]
    started = jobs(decide(nodes(split, cpu=cpus), *things, fifo=True))
    assert started == {f"j{at}" for at in range(len(started))}
    every = jobs(decide(nodes(split, cpu=cpus), *things, fifo=False))
    assert started <= every
