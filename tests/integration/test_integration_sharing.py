"""Borrowing and giving back in a tree of queues, and users who take turns: the benchmark's worlds, small."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples

sys.path.append(str(Path(__file__).parents[2]))
sharing: Any = import_module("benchmarks.sharing")


def test_a_sibling_gives_back_what_it_borrowed_and_no_more() -> None:
    before, after = sharing.reclaim(8, ""), sharing.reclaim(8, ", reclaim")
    assert before["teamB"] == 0, "without reclaim the borrower keeps all"
    assert after["teamB"] == after["capability"] // 2
    assert after["teamA"] == after["leastOfTeamA"] == after["capability"] // 2
    assert after["mostOfTheOrganisation"] <= after["capability"]
    assert after["evictions"] == after["capability"] // 2, "nothing is evicted twice"


def test_users_take_turns_and_nothing_stays_idle_for_it() -> None:
    before, after = sharing.turns(4, ""), sharing.turns(4, sharing.FAIR)
    assert before["lightShareOfGpuTime"] == 0.0, "without turns the older jobs go first"
    assert after["lightWaitsMinutesMost"] <= 60.0, "the next place that becomes free"
    assert after["gpusInUse"] >= before["gpusInUse"]
    assert after["evictions"] == 0


@pytest.mark.more
@given(
    sizes=st.lists(st.integers(1, 4), min_size=4, max_size=14),
    asked=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    nodes=st.integers(2, 3),
    share=st.integers(1, 3),
)
@settings(max_examples=examples(4), deadline=None)
def test_limits_hold_nothing_flaps_and_it_ends(sizes: list[int], asked: list[int], nodes: int, share: int) -> None:
    """Whatever gangs come, in whatever sizes."""
    org = nodes * 8 * 3 // 4
    deserved = {"team-a": org * share // 4, "team-b": org - org * share // 4}
    queues = [sharing.queue("org", "", org, org), *(sharing.queue(name, "org", deserved[name]) for name in deserved)]
    world = sharing.World(nodes, sharing.RECLAIM.format(more=", reclaim"), *queues)
    for number, size in enumerate(sizes):
        world.submit(f"a-{number}", "team-a", "", size)
    for _ in range(4):
        world.cycle()
    for number, size in enumerate(asked):
        world.submit(f"b-{number}", "team-b", "", size)
    held: list[tuple[int, int, int]] = []
    for _ in range(20):
        world.cycle()
        held.append((world.held(queue="team-a"), world.held(queue="team-b"), world.evictions))
        assert sum(held[-1][:2]) <= org
        for job in world.jobs.values():
            assert len(job.placed) in (0, job.pods), "no gang runs in part"
    assert held[-1] == held[-10], "it has come to rest"
    b = held[-1][1]
    waiting = [job.pods for job in world.jobs.values() if job.queue == "team-b" and not job.placed]
    if waiting:
        assert b + min(waiting) > deserved["team-b"], "what it deserves is full"
