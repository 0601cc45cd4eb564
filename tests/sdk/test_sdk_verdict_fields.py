"""The SDK's verdict has everything that the scheduler writes."""

from __future__ import annotations

import json

import msgspec

from unisono.api.annotations import VERDICT
from unisono.api.verdict import verdict_in
from unisono.engine.changes import AddNodes, LowerMinAvailable
from unisono.engine.verdict import Cause, Holder, Verdict
from unisono.scheduler.explain import render

FULL = Verdict(
    "ns/j",
    Cause.NODES_FULL,
    "no node takes it",
    need={"cpu": 1000},
    have={"cpu": 500},
    tasks_placeable=1,
    tasks_needed=2,
    reasons={"Insufficient cpu": 3},
    nodes=3,
    holders=(Holder("Queue", "q", {"cpu": 1000}),),
    suggestion="add 1 node like n1",
    task="ns/j-0",
    queue="q",
    changes=(AddNodes("n1", 1), LowerMinAvailable(1)),
    untried=(AddNodes("n2", 1),),
    candidates=(AddNodes("n3", 1),),
    position=2,
    ahead=("ns/before",),
    would_run_after=tuple(f"ns/x-{at}" for at in range(20)),
    spared="1 of 1 pod has run for less than its minimum",
    plugins_off=("prices",),
)


def test_nothing_that_the_scheduler_writes_is_lost() -> None:
    text = render(FULL)
    read = verdict_in({VERDICT: text})
    assert read is not None
    assert read.spared == FULL.spared
    assert json.loads(msgspec.json.encode(read)) == json.loads(text)
