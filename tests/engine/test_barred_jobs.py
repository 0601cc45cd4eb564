"""Jobs in queues that are not for their author get nothing, however they came there."""

from __future__ import annotations

import pytest

from support.build import cluster, config, group, nodes, placed, pod, queue, schedule
from unisono.api.annotations import ADMITTED_QUEUES, QUEUE_NAMESPACES, QUEUE_USERS, USER
from unisono.engine.verdict import Cause

GOLD = {QUEUE_USERS: "alice, group:ml"}


@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "allocate", "backfill"])
@pytest.mark.parametrize(
    ("notes", "of_job", "runs"),
    [
        (GOLD, {USER: "alice"}, True),
        (GOLD, {USER: "bob"}, False),
        (GOLD, {}, False),
        (GOLD, {USER: "bob", ADMITTED_QUEUES: "gold"}, True),
        (GOLD, {USER: "bob", ADMITTED_QUEUES: "silver"}, False),
        ({QUEUE_USERS: ""}, {USER: "alice"}, False),
        ({QUEUE_NAMESPACES: "other"}, {USER: "alice"}, False),
        ({QUEUE_NAMESPACES: "n*"}, {}, True),
        ({}, {}, True),
    ],
)
def test_a_job_runs_where_its_author_may(
    actions: str, notes: dict[str, str], of_job: dict[str, str], runs: bool
) -> None:
    queues = [queue("gold", annotations=notes), queue("leaf", parent="gold")]
    jobs = []
    for name in ("gold", "leaf"):
        waits = "Pending" if "enqueue" in actions else "Inqueue"
        resources = {"cpu": 1} if "enqueue" in actions else None
        cpu = 0 if actions == "backfill" else 1
        given = of_job | ({ADMITTED_QUEUES: "leaf"} if of_job.get(ADMITTED_QUEUES) == "gold" and name == "leaf" else {})
        jobs += [
            group(name, queue=name, phase=waits, resources=resources, annotations=given),
            pod(f"{name}-0", name, cpu=cpu),
        ]
    settings = config(("gang",), ("predicates",), actions=actions)
    decisions = schedule(cluster(nodes(2), queues, jobs), settings)
    assert bool(placed(decisions)) is runs
    if not runs:
        assert {each.cause for each in decisions.verdicts.values()} == {Cause.QUEUE_FORBIDDEN}


def test_a_job_that_runs_already_goes_on_and_is_not_evicted_for_it() -> None:
    running = [group("j", queue="gold", phase="Running"), pod("j-0", "j", node="n000", phase="Running")]
    decisions = schedule(
        cluster(nodes(1), queue("gold", annotations=GOLD), running), config(("gang",), ("predicates",))
    )
    assert not decisions.evictions
    assert not decisions.verdicts
