"""How often plug-ins are asked while victims are chosen: about a job that nothing has happened to once a cycle."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from support.build import START, cluster, config, gang, group, node, pod, priority_class
from unisono import engine
from unisono.engine.answers import Reach
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session
from unisono.engine.session.victims import VictimIndex

RANKS = [priority_class("high", 100), *(priority_class(f"low{at}", at) for at in range(8))]


def counting(*, stays: bool) -> tuple[type[Plugin], Counter[str]]:
    """A plug-in that counts how often it is asked about each job."""
    asked: Counter[str] = Counter()

    class Counting(Plugin):
        name = "counting"
        order_reach = Reach.ROW if stays else Reach.CLUSTER

        def job_key(self, job: JobState) -> int:
            asked[job.name] += 1
            return 0

    return Counting, asked


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
@pytest.mark.parametrize("once", [True, False])
def test_jobs_that_stay_are_asked_about_once_where_the_answer_cannot_change(action: str, once: bool) -> None:
    state = cluster(
        RANKS,
        [node(f"n{at}", cpu=4) for at in range(2)],
        [group(f"low{at}", 0, phase="Running", priority_class=f"low{at}") for at in range(8)],
        [pod(f"low{at}-0", f"low{at}", node=f"n{at % 2}", cpu=1, priority=at) for at in range(8)],
        [gang(f"high{at}", 1, cpu=1, priority_class="high") for at in range(3)],
    )
    kind, asked = counting(stays=once)
    settings = config(["priority", "counting"], ["predicates", "nodeorder"], actions=f"allocate, {action}")
    decisions = engine.run(state.snapshot(), settings, START, plugins={"counting": kind})
    gone = {eviction.pod.rpartition("-")[0] for eviction in decisions.evictions}
    assert len(gone) == 3
    staying = [number for name, number in asked.items() if name.startswith("low") and name not in gone]
    assert staying
    assert (max(staying) == 1) is once


def test_the_tasks_of_a_job_are_found_without_looking_at_others() -> None:
    placed = [pod(f"p{at}", f"j{at % 3}", node=f"n{at % 4}", cpu=1) for at in range(11)]
    state = cluster([node(f"n{at}", cpu=8) for at in range(4)], [group(f"j{at}", 0) for at in range(3)], placed)
    index = VictimIndex(Session(state.snapshot(), START))
    for number in range(len(index.jobs)):
        assert index.of_job(number).tolist() == np.flatnonzero(index.job == number).tolist()
