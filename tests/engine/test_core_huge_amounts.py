"""Jobs that ask for absurd amounts wait with a verdict, and everybody else is served."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import cluster, config, gang, group, node, nodes, pod, queue, schedule
from unisono.engine.config.model import SchedulerConfig

INT64 = "9223372036854775807"
TIERS = (("priority", "gang", "conformance", "sla"), ("predicates", "nodeorder", "binpack", "drf"))
ACTIONS = "enqueue, allocate, backfill, reclaim, preempt, gangpreempt, gangreclaim"
SETTINGS = {
    "proportion": config(TIERS[0], (*TIERS[1], "proportion", "overcommit"), actions=ACTIONS),
    "capacity": config(TIERS[0], (*TIERS[1], "capacity", "overcommit"), actions=ACTIONS),
    "resourcequota": config(TIERS[0], (*TIERS[1], "resourcequota"), actions=ACTIONS),
}
HOSTILE: dict[str, list[Any]] = {
    "many pods at the bound": gang("h", 300, queue="q", mem=INT64, cpu=INT64, gpu=INT64),
    "one large gang": [
        group("h", 2**31 - 1, queue="q", phase="Pending", resources={"mem": INT64, "cpu": INT64, "pods": INT64}),
        pod("h-w-0", "h", mem=INT64),
    ],
    "admitted without bounds": [
        *[group(f"h{at}", 1, queue="q", phase="Inqueue", resources={"mem": INT64, "cpu": INT64}) for at in range(300)],
    ],
    "bound past the scheduler": [pod(f"h-{at}", "h", node="n000", mem=INT64, cpu=INT64) for at in range(300)],
    "roles without end": [
        group("h", 2**31 - 1, queue="q", roles={"w": 2**31 - 1, "x": 2**31 - 1}),
        pod("h-w-0", "h", role="w", mem=INT64),
    ],
    "nodes without end": [node(f"x{at:03}", mem=INT64, cpu=INT64, unschedulable=True) for at in range(300)],
    "priorities": [pod("h-1", "h", priority=2**31 - 1), group("h", 2**31 - 1, queue="q")],
    "queues": [
        queue("h", capability={"mem": INT64, "cpu": INT64}, deserved={"mem": INT64}),
        *gang("h", 2, queue="h", mem=INT64),
    ],
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_bystander_is_served(hostile: list[Any], settings: SchedulerConfig) -> None:
    state = cluster(nodes(3), queue("q"), hostile, gang("by", 2, cpu=1, mem="1Gi", min_resources=True))
    decisions = schedule(state, settings)
    assert not decisions.plugins_off
    assert not decisions.violations
    assert {bind.job for bind in decisions.binds if bind.pod.startswith("by-")} == {"ns/by"}
    assert all(not bind.pod.startswith("h") for bind in decisions.binds if hostile is not HOSTILE["priorities"])
