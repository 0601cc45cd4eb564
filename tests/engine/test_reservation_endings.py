"""When pods end is kept from cycle to cycle, and is what looking at all of them again finds."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import START, cluster, group, node, nodes, pod
from support.examples import examples
from unisono.api import kinds
from unisono.cluster.state import ClusterState
from unisono.engine.plugins.reservation.plan import Endings, KnownEnds, found_in_full
from unisono.engine.session.run_times import RunEstimates
from unisono.engine.session.session import Session

RUN_SECONDS = "unisono.io/run-seconds"
NODES = 4


def listed(endings: Endings) -> list[tuple[float, int, list[int]]]:
    vectors = endings.vectors[endings.classes].tolist()
    return list(zip(endings.times.tolist(), endings.columns.tolist(), vectors, strict=True))


class Cluster:
    """Pods come and go on a few nodes, which come and go as well."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.state: ClusterState = cluster(nodes(NODES), group("g", 1, annotations={RUN_SECONDS: "40"}))
        self.there: dict[str, Any] = {}
        self.number = 0

    def some_node(self) -> str:
        return f"n{self.draw.randrange(NODES + 1):03}"  # of which one is not there at first

    def put(self) -> None:
        """A pod starts; few of them say nothing of how long they run, and many end at the same moment."""
        draw = self.draw
        self.number += 1
        seconds = draw.choice((None, "10", "20", "20", "30"))
        gpus = {f"example.com/{draw.choice('ab')}": 1} if not draw.randrange(8) else {}
        one = pod(
            f"p{self.number}",
            draw.choice(("", "g")),
            node=self.some_node(),
            cpu=draw.choice((1, 2)),
            created=float(10 * draw.randrange(3)),
            annotations=None if seconds is None else {RUN_SECONDS: seconds},
            **gpus,
        )
        self.there[one.key] = one
        self.state.apply("ADDED", kinds.PODS, one)

    def step(self) -> None:
        draw, state = self.draw, self.state
        chance = draw.randrange(10)
        if chance < 5 or not self.there:
            self.put()
        elif chance < 8:
            state.apply("DELETED", kinds.PODS, self.there.pop(draw.choice(sorted(self.there))))
        elif chance == 8:
            seconds = draw.choice(("15", "40", ""))
            state.apply("MODIFIED", kinds.POD_GROUPS, group("g", 1, annotations={RUN_SECONDS: seconds}))
        else:
            state.apply(draw.choice(("ADDED", "DELETED")), kinds.NODES, node(self.some_node()))


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 60))
def test_what_is_kept_is_what_is_found_in_full(seed: int, steps: int) -> None:
    live = Cluster(seed)
    for at in range(steps):
        live.step()
        if live.draw.randrange(2):
            snapshot = live.state.snapshot()
            if not live.draw.randrange(8):  # as trials of changes lay pods over those that are there
                snapshot = replace(snapshot, tasks_on=dict(reversed(snapshot.tasks_on.items())))
            session = Session(snapshot, START + at)
            estimates = RunEstimates(session, learned=False)
            kept = live.state.memo.of(KnownEnds, KnownEnds).at(session, estimates)
            assert listed(kept) == listed(found_in_full(session, estimates))


@settings(max_examples=examples(60), deadline=None)
@given(
    times=st.lists(st.integers(0, 5), max_size=8),
    more=st.lists(st.integers(0, 5), max_size=5),
)
def test_what_starts_comes_after_what_ends_at_the_same_moment(times: list[int], more: list[int]) -> None:
    class One:
        id, vector = 1, np.array([1], dtype=np.int64)

    one: Any = One()
    running = sorted((float(each), 0, one) for each in times)
    starting = [(float(each), at + 1, one) for at, each in enumerate(more)]
    found = Endings.of(running, 1).with_more(starting)
    expected = sorted([*running, *starting], key=lambda each: each[0])
    assert [(at, column) for at, column, _ in listed(found)] == [(at, column) for at, column, _ in expected]
