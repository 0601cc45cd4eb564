"""What a cycle leaves in memory: nothing that plug-ins and actions keep beside it outlives it."""

from __future__ import annotations

import gc

import pytest
from eviction_world import BOTH, Plane, running_pods
from topology_world import TOPOLOGY, racks

from support.build import gang, group, node, priority_class
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.session import Session
from unisono.engine.verdicts.trial import Trials


@pytest.mark.parametrize("config", [BOTH, TOPOLOGY])
def test_sessions_and_cycles_end_with_their_decisions(config: SchedulerConfig) -> None:
    plane = Plane(
        config,
        priority_class("high", 100),
        racks({"rack": 2}),
        node("n1", cpu=4),
        group("low", 1, phase="Running"),
        running_pods("low", ["n1"] * 4),
        gang("fits", 2, priority_class="high"),
        gang("waits", 40),
    )
    gc.collect()
    before = _alive()
    gc.disable()  # it searches what a cycle made only when it searches everything, which may be minutes later
    try:
        for _ in range(5):
            plane.cycle()
        assert _alive() == before
    finally:
        gc.enable()


def _alive() -> int:
    return sum(type(one) in (Session, Cycle, Trials) for one in gc.get_objects())
