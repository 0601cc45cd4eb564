"""A cycle of the random clusters hangs on what is there alone: not on an order, nor on what was worked out before."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from benchmarks.check import life, world

from unisono import engine
from unisono.api.decode import decode
from unisono.api.kinds import find
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.state import ClusterState
from unisono.engine.candidates.table import CandidateTable
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import Decisions

_SEEDS = range(0, 20, 4)


def outcome(decisions: Decisions) -> Any:
    return (
        sorted((bind.pod, bind.node) for bind in decisions.binds),
        sorted((each.pod, each.node) for each in decisions.pipelined),
        sorted((each.namespace, each.pod, each.reason, each.beneficiary) for each in decisions.evictions),
        sorted(decisions.pod_groups, key=lambda each: each.key),
        sorted(decisions.pod_conditions, key=lambda each: (each.namespace, each.pod)),
        sorted(decisions.queues, key=str),
        decisions.verdicts,
    )


def state_of(objects: list[Any]) -> ClusterState:
    state = ClusterState()
    for obj in objects:
        kind = find(obj["apiVersion"], obj["kind"])
        assert kind is not None
        state.apply("ADDED", kind, decode(kind, obj).obj)
    return state


def one_by_one(self: CandidateTable, wanted: int) -> list[int]:
    """The slow way: every placement looks at every node afresh, and no memo is used."""
    if wanted < 1:
        return []
    self._build()
    if not len(self.total):
        return []
    column = int(self.total.argmax())
    if self.total[column] == float("-inf"):
        return []
    self.session.matrix[:, column] += self.change
    self.session.touched.append(column)
    return [column]


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_cycle_hangs_on_what_is_there_alone(seed: int) -> None:
    made = world.World(seed)
    lived, random = life.Life(seed, made, made.objects()), Random(seed)

    def compared(snapshot: Snapshot, config: SchedulerConfig, now: float, seed: int, **options: Any) -> Decisions:
        def decided(there: Snapshot) -> Any:
            return outcome(engine.run(there, config, now, seed, **options))

        objects = list(lived.objects.values())
        fresh = state_of(objects)
        first, version = decided(fresh.snapshot()), fresh.version
        assert decided(fresh.snapshot()) == first
        assert fresh.version == version, "a cycle changes nothing of what it looks at"
        random.shuffle(objects)
        assert decided(state_of(objects).snapshot()) == first
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CandidateTable, "take", one_by_one)
            assert decided(state_of(objects).snapshot()) == first
        decisions = engine.run(snapshot, config, now, seed, **options)
        all_that_waits_has_a_verdict(snapshot, decisions)
        return decisions

    lived.decide = compared
    assert lived.run() is None


def all_that_waits_has_a_verdict(snapshot: Snapshot, decisions: Decisions) -> None:
    placed = {f"{each.namespace}/{each.pod}" for each in (*decisions.binds, *decisions.pipelined)}
    for key, job in snapshot.jobs.items():
        waiting = {f"{key.partition('/')[0]}/{task.name}" for task in job.pending.values()}
        if waiting and not waiting & placed:
            assert decisions.verdicts[key].message, key
