"""Reservations as ``scontrol`` writes them."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.kinds import RESERVATIONS
from unisono.api.times import parse_time
from unisono.api.validation import validate
from unisono.cli.slurm.reserving import fields_of, reservation_of
from unisono.cli.slurm.script import BadScript, batch_of

NOW = parse_time("2026-03-02T12:00:00Z")
HERE = "ReservationName=r StartTime=now+1hour "


@pytest.mark.parametrize(
    ("words", "spec", "note"),
    [
        (
            "Duration=120 Nodes=n[1-2] Users=alice,bob",
            {"duration": "2h0m0s", "nodes": ["n1", "n2"], "users": ["alice", "bob"]},
            "",
        ),
        ("Duration=1-0 NodeCnt=2 Accounts=team", {"duration": "24h0m0s", "count": 2, "queues": ["team"]}, ""),
        (
            "EndTime=now+3hours TRES=gres/gpu:a100=16,cpu=4 user=alice",
            {"duration": "2h0m0s", "amounts": {"nvidia.com/gpu": 16, "cpu": 4}, "users": ["alice"]},
            "",
        ),
        (
            "Duration=10:00:00 TRES=node=2,cpu=64,gres/gpu=16 Users=bob",
            {"duration": "10h0m0s", "count": 2, "users": ["bob"]},
            "whole nodes are reserved: cpu and nvidia.com/gpu beside their number count for nothing",
        ),
        ("Duration=30 TRES=node=3 Users=a Flags=IGNORE_JOBS", {"duration": "30m0s", "count": 3, "users": ["a"]}, ""),
        (
            "Duration=60 Nodes=ALL Users=root Flags=MAINT,IGNORE_JOBS",
            {"duration": "1h0m0s", "nodes": ["*"], "purpose": "Maintenance"},
            "nobody may use nodes in maintenance",
        ),
        (
            "Duration=60 Nodes=a Users=b Flags=WEEKLY",
            {"duration": "1h0m0s", "nodes": ["a"], "users": ["b"], "schedule": "0 13 * * 1"},
            "flag WEEKLY repeats in UTC",
        ),
        (
            "Duration=60 Nodes=a Users=b Flags=weekday,odd",
            {"duration": "1h0m0s", "nodes": ["a"], "users": ["b"], "schedule": "0 13 * * 1-5"},
            "flag ODD has no meaning here",
        ),
    ],
)
def test_what_words_ask_for(words: str, spec: dict[str, Any], note: str) -> None:
    made, notes = reservation_of((HERE + words).split(), NOW)
    told = {
        name: getattr(made.spec, name) for name in made.spec.__struct_fields__ if getattr(made.spec, name) is not None
    }
    assert told == {"start": "2026-03-02T13:00:00Z", **spec}
    assert note in "; ".join(notes) and bool(notes) is bool(note)
    assert validate(RESERVATIONS, made) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("StartTime=now Duration=60 Nodes=a Users=b", "needs a name"),
        (f"{HERE} Nodes=a Users=b", "needs an end"),
        (f"{HERE} Duration=infinite Nodes=a Users=b", "needs an end"),
        (f"{HERE} Duration=long Nodes=a Users=b", "Duration=long"),
        (f"{HERE} Duration=0 Nodes=a Users=b", "needs an end"),
        (f"{HERE} Duration=60 NodeCnt=none Users=b", "NodeCnt=none"),
        (f"{HERE} Duration=60 TRES=license/a=1 Users=b", "nodes, cpu and gres/gpu are counted"),
        (f"{HERE} Duration=60 Nodes=a Users=-b", "nobody else may"),
        (f"{HERE} Duration=60 Nodes=a Users+=b", "with all of them"),
        (f"{HERE} Duration=60 Nodes=a Users=b Features=fast", "write NAME=VALUE, of ReservationName"),
        ("ReservationName=r StartTime=soon Duration=60 Nodes=a Users=b", "StartTime=soon: give now"),
    ],
)
def test_what_is_refused(words: str, said: str) -> None:
    with pytest.raises(BadScript, match=said.replace("+", "\\+")):
        reservation_of(words.split(), NOW)


def test_a_batch_may_name_one() -> None:
    assert batch_of([("reservation", "Big_Run,other")]).reservation == "big-run"


def test_what_is_shown() -> None:
    made, _ = reservation_of(f"{HERE} Duration=60 Nodes=a Users=b".split(), NOW)
    told = fields_of(made)
    assert (told["State"], told["Nodes"], told["Users"]) == ("INACTIVE", "(null)", "b")
    made.status.phase, made.status.nodes, made.status.node_count = "Active", ["a"], 1
    told = fields_of(made)
    assert (told["State"], told["Nodes"], told["NodeCnt"]) == ("ACTIVE", "a", 1)
