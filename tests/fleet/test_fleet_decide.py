"""What a hub does about a job and its copies, as tables."""

from __future__ import annotations

import pytest

from unisono.api.kinds import JOBS
from unisono.fleet.jobs.copies import Copy, Placement
from unisono.fleet.jobs.decide import JobView, MemberView, decide, is_trusted, may_take_work

UP, DOWN, LOST = MemberView(True), MemberView(False, 60.0), MemberView(False, 1000.0)
BOTH = {"a": UP, "b": UP}


def copy(cluster: str, generation: int, *, deleting: bool = False) -> Copy:
    return Copy(cluster, JOBS, "default", "j", f"{cluster}-{generation}", "uid", generation, deleting)


def job(cluster: str = "", generation: int = 0, *, wanted: bool = True, ended: bool = False) -> JobView:
    return JobView(wanted, ended, Placement(cluster, generation), 900.0)


@pytest.mark.parametrize(
    ("name", "view", "copies", "members", "create", "deleted", "mirrored", "placed"),
    [
        ("waits", job(), [], BOTH, "", [], None, None),
        ("is sent", job("a", 1), [], BOTH, "a", [], None, None),
        ("runs", job("a", 1), [copy("a", 1)], BOTH, "", [], "a-1", None),
        ("ended, copy gone", job("a", 1, ended=True), [], BOTH, "", [], None, None),
        ("ended, copy there", job("a", 1, ended=True), [copy("a", 1)], BOTH, "", [], "a-1", None),
        ("ended, lost member", job("a", 1, ended=True), [copy("a", 1)], {"a": LOST, "b": UP}, "", [], None, None),
        ("is gone", job("a", 1, wanted=False), [copy("a", 1)], BOTH, "", ["a-1"], None, None),
        ("is gone, going there", job("a", 1, wanted=False), [copy("a", 1, deleting=True)], BOTH, "", [], None, None),
        ("is gone, lost member", job("a", 1, wanted=False), [copy("a", 1)], {"a": LOST, "b": UP}, "", [], None, None),
        ("was taken back", job("", 2), [copy("a", 1)], BOTH, "", ["a-1"], None, None),
        ("moves: old first", job("b", 3), [copy("a", 1)], BOTH, "", ["a-1"], None, None),
        ("moves: old ending", job("b", 3), [copy("a", 1, deleting=True)], BOTH, "", [], None, None),
        ("moves: old lost", job("b", 3), [copy("a", 1)], {"a": LOST, "b": UP}, "b", [], None, None),
        ("returns: two copies", job("b", 3), [copy("a", 1), copy("b", 3)], BOTH, "", ["a-1"], "b-3", None),
        ("same member again", job("a", 3), [copy("a", 1)], BOTH, "", ["a-1"], None, None),
        ("short loss", job("a", 1), [copy("a", 1)], {"a": DOWN, "b": UP}, "", [], None, None),
        ("long loss", job("a", 1), [copy("a", 1)], {"a": LOST, "b": UP}, "", [], None, Placement("", 2)),
        ("member has left", job("a", 1), [], {"b": UP}, "", [], None, Placement("", 2)),
        ("hub restored", job("", 0), [copy("a", 3)], BOTH, "", [], None, Placement("a", 3)),
    ],
)
def test_steps(name, view, copies, members, create, deleted, mirrored, placed):
    steps = decide(view, copies, members)
    assert (steps.create, [each.uid for each in steps.delete], steps.place) == (create, deleted, placed), name
    assert (steps.mirror.uid if steps.mirror else None) == mirrored, name


@pytest.mark.parametrize(
    ("cluster", "members", "create", "kept"),
    [("b", BOTH, "", ("a",)), ("b", {"a": LOST, "b": UP}, "b", ()), ("a", BOTH, "a", ())],
)
def test_pods_that_have_not_ended_are_waited_for_where_their_copy_is_gone(cluster, members, create, kept):
    steps = decide(JobView(True, False, Placement(cluster, 3), pods_in=("a",)), [], members)
    assert (steps.create, steps.kept_by) == (create, kept)


def test_a_short_loss_is_looked_at_when_it_has_become_long():
    assert decide(job("a", 1), [], {"a": DOWN, "b": UP}).again == 840.0


def test_nothing_is_taken_away_while_most_members_are_lost():
    members = {"a": LOST, "b": LOST, "c": UP}
    assert not is_trusted(members)
    steps = decide(job("a", 1), [copy("a", 1)], members, trusted=False)
    assert steps.place is None
    assert steps.lost
    assert steps.again


@pytest.mark.parametrize(
    ("members", "trusted"),
    [
        ({}, True),
        ({"a": UP}, True),
        ({"a": LOST}, False),
        ({"a": LOST, "b": UP}, True),
        ({"a": LOST, "b": LOST}, False),
    ],
)
def test_trust(members, trusted):
    assert is_trusted(members) is trusted


@pytest.mark.parametrize(
    ("copies", "clean"),
    [([copy("a", 1)], False), ([copy("a", 2)], True), ([copy("b", 1)], True), ([], True)],
)
def test_a_member_takes_work_again_without_old_copies(copies, clean):
    assert may_take_work("a", {"uid": copies}, {"uid": Placement("b", 2)}) is clean
    assert may_take_work("a", {"other": copies}, {"uid": Placement("b", 2)})
