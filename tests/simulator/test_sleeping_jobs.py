"""Jobs that a cycle leaves asleep fare as they do where it looks at each of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.state import ClusterState
from unisono.engine.actions import allocate
from unisono.engine.config_file.reader import load_config
from unisono.engine.cycle import sleeping_jobs
from unisono.engine.placement.waiting_line import WaitingLine
from unisono.simulator.clusters import Cluster, make_node, make_queue
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

GANG, PREDICATES, PRIORITY = {"name": "gang"}, {"name": "predicates"}, {"name": "priority"}
Tiers = list[list[dict[str, Any]]]


def keeping(after: str, **more: Any) -> dict[str, Any]:
    """The plug-in that keeps room for gangs that have waited so long."""
    return {"name": "reservation", "arguments": {"reservation.after": after, **more}}


PLUGINS: dict[str, Tiers] = {
    "first come": [[GANG], [PREDICATES]],
    "easy": [[keeping("0s"), GANG], [PREDICATES]],
    "two reservations": [[PRIORITY, keeping("30s", **{"reservation.gangs": 2}), GANG], [PREDICATES]],
    "learnt": [[keeping("10s", **{"reservation.learnRunTimes": True}), GANG], [PREDICATES]],
    "shares": [[GANG], [PREDICATES, {"name": "proportion"}]],
    "easy in queues": [[keeping("0s"), GANG], [PREDICATES, {"name": "proportion"}, {"name": "nodeorder"}]],
    "drf": [[PRIORITY, GANG], [{"name": "overcommit"}, {"name": "drf"}, PREDICATES, {"name": "proportion"}]],
    "short first": [
        [{"name": "service-order", "arguments": {"service-order.by": "time", "service-order.preempt": False}}, GANG],
        [PREDICATES],
    ],
}
ACTIONS = ("allocate", "enqueue, allocate", "enqueue, allocate, backfill", "enqueue, allocate, preempt")

jobs = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 5, 40]),  # seconds after the one before
        st.sampled_from([10, 10, 60, 60, 61, 300]),  # run time
        st.sampled_from([1.0, 1.0, 2.0, None]),  # what is stated of it
        st.sampled_from([(1, 1), (1, 1), (1, 1), (1, 2), (2, 2), (3, 1), (4, 2)]),  # pods, and GPUs of each
        st.sampled_from(["a", "a", "b"]),  # queue
        st.sampled_from([0, 0, 0, 10]),  # priority
        st.booleans(),  # starts with one pod
    ),
    min_size=10,
    max_size=60,
)


def workload(rows: list[Any], users: int = 2) -> list[Job]:
    """The jobs, whose users take turns; each has a namespace."""
    found, at = [], 0.0
    for number, (after, seconds, factor, (count, gpus), queue, priority, elastic) in enumerate(rows):
        at += after
        found.append(
            Job(
                name=f"job-{number}",
                submit=at,
                run_seconds=float(seconds),
                roles=(Role(name="worker", count=count, cpu_milli=1000, memory_mib=64, gpus=gpus),),
                gang=1 if elastic else None,
                elastic=elastic,
                queue=queue,
                user=f"user-{number % users}",
                priority=priority,
                estimate=None if factor is None else seconds * factor,
            )
        )
    return found


def outcome(rows: list[Any], config: str, *, asleep: bool, strict: bool = False, users: int = 2) -> tuple[Any, int]:
    """What became of the jobs, and how many lines had sleeping jobs in them; ``strict``: queue ``a`` is fifo."""
    nodes = tuple(make_node(f"n{number}", cpu=64, memory="64Gi", gpus=4) for number in range(3))
    queues = make_queue("a", 2, dequeue_strategy="fifo" if strict else None), make_queue("b", 1)
    lines: list[WaitingLine] = []
    real: Any = ClusterState.snapshot

    def snapshot(state: ClusterState) -> Snapshot:
        found: Snapshot = real(state)
        return found if asleep else replace(found, waiting=None)

    def line(*arguments: Any) -> WaitingLine:
        lines.append(WaitingLine(*arguments))
        return lines[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterState, "snapshot", snapshot)
        patch.setattr(allocate, "WaitingLine", line)
        patch.setattr(sleeping_jobs, "_FEWEST", 2)
        settings_ = Settings(recheck=20.0, until=100_000.0)
        run = World(Cluster(nodes, queues), workload(rows, users), load_config(config), settings_).run()
    assert not run.violations
    stretches = [[(one.start, one.end, one.nodes, one.cause) for one in each.stretches] for each in run.outcomes]
    return ([(each.state, each.started, each.ended) for each in run.outcomes], stretches, run.cycles), len(lines)


def configuration(plugins: str, actions: str) -> str:
    return json.dumps({"actions": actions, "tiers": [{"plugins": tier} for tier in PLUGINS[plugins]]})


@settings(max_examples=examples(60), deadline=None)
@given(jobs, st.sampled_from(sorted(PLUGINS)), st.sampled_from(ACTIONS), st.booleans())
def test_asleep_is_as_awake(rows: list[Any], plugins: str, actions: str, strict: bool) -> None:
    config = configuration(plugins, actions)
    here, there = (outcome(rows, config, asleep=asleep, strict=strict)[0] for asleep in (True, False))
    assert here == there


@pytest.mark.parametrize(
    ("plugins", "actions", "sleep"),
    [
        ("first come", "enqueue, allocate", True),
        ("easy", "enqueue, allocate", True),
        ("easy in queues", "enqueue, allocate, backfill", True),
        ("shares", "allocate", True),
        ("short first", "enqueue, allocate", False),  # the order is not that of shapes
        ("first come", "enqueue, allocate, preempt", False),  # evictions are for any of them
    ],
)
def test_who_is_left_asleep(plugins: str, actions: str, sleep: bool) -> None:
    rows = [(0, 60, 1.0, (1, 2), "a", 0, False)] * 30
    assert (outcome(rows, configuration(plugins, actions), asleep=True)[1] > 0) is sleep


def test_those_behind_the_first_of_a_strict_queue_are_left_asleep() -> None:
    rows = [(0, 60, 1.0, (4, 2), "a", 0, False)] * 30
    config = configuration("first come", "enqueue, allocate")
    here, lines = outcome(rows, config, asleep=True, strict=True)
    assert lines and here == outcome(rows, config, asleep=False, strict=True)[0]


def test_jobs_of_many_namespaces_sleep_together() -> None:
    rows = [(0, 60, 1.0, (1, 2), "a", 0, False)] * 30
    config = configuration("easy", "enqueue, allocate")
    here, lines = outcome(rows, config, asleep=True, users=30)
    assert lines and here == outcome(rows, config, asleep=False, users=30)[0]
