"""Borrowing and giving back in a tree of queues, and users who take turns: the benchmark's worlds, small."""

from __future__ import annotations

from benchmarks import sharing


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
