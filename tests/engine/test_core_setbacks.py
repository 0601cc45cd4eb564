"""What the engine makes of jobs whose binds failed lately."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.build import (
    START,
    bound_per_job,
    cluster,
    config,
    gang,
    group,
    nodes,
    placed,
    pod,
    priority_class,
    queue,
    schedule,
)
from unisono.cli.explaining import verdict_lines
from unisono.cluster.recent import Setback
from unisono.cluster.state import ClusterState
from unisono.engine.decisions import Decisions
from unisono.engine.verdict import Cause
from unisono.scheduler.explain import on_wire

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "verdicts.md").read_text(encoding="utf-8")
SHARES = config(("priority", "gang"), ("predicates", "proportion", "nodeorder"))
PROMISING = config(("gang",), ("predicates", "overcommit"))
PREEMPTING = config(("priority", "gang"), ("predicates",), actions="allocate, preempt")
KEEPING = config(
    ("priority", "gang", "reservation"),
    ("predicates", "nodeorder"),
    arguments={"reservation": {"reservation.after": "30s", "reservation.gangs": 1}},
)
PLAIN = config(("gang",), ("predicates", "nodeorder"))


def setback(*, waiting: bool = True, refused: tuple[str, ...] = ("n000",)) -> Setback:
    why = 'node n000: admission webhook "quota.example" denied the request: project is out of money'
    return Setback(4, why, waiting, START + 108, START + 408, frozenset(refused))


def world(*things: Any, **setbacks: Setback) -> ClusterState:
    state = cluster(*things)
    state.set_back({f"ns/{name}": one for name, one in setbacks.items()})
    return state


def run(state: ClusterState, settings: Any = PLAIN) -> Decisions:
    return schedule(state, settings)


def test_a_job_that_waits_leaves_its_place_to_the_next_one() -> None:
    things = [nodes(1, cpu=2), gang("j", 2), gang("k", 2, created=1)]
    assert bound_per_job(run(world(*things))) == {"j": 2}
    assert bound_per_job(run(world(*things, j=setback()))) == {"k": 2}
    assert bound_per_job(run(world(*things, j=setback(waiting=False)))) == {"j": 2}


def test_the_example_of_the_page_is_true() -> None:
    verdict = run(world(nodes(1), gang("j", 1), j=setback())).verdicts["ns/j"]
    assert verdict.cause is Cause.BIND_FAILED
    assert "\n".join(verdict_lines(on_wire(verdict))) in PAGE


def test_its_share_is_lent_to_other_queues_while_it_waits() -> None:
    things = [nodes(1, cpu=8), queue("a"), queue("b"), gang("j", 4, queue="a")]
    things += [gang(f"k{i}", 1, queue="b", created=i) for i in range(8)]
    assert len(run(world(*things), SHARES).binds) == 8
    assert bound_per_job(run(world(*things), SHARES))["j"] == 4
    lent = bound_per_job(run(world(*things, j=setback()), SHARES))
    assert sum(lent.values()) == 8 and "j" not in lent


def test_what_it_was_promised_is_free_while_it_waits() -> None:
    things = [nodes(1, cpu=4), gang("j", 4, min_resources=True), gang("k", 4, phase="Pending", min_resources=True)]
    waits = run(world(*things), PROMISING)
    assert waits.verdicts["ns/k"].cause is Cause.CLUSTER_OVERCOMMITTED
    assert bound_per_job(run(world(*things, j=setback()), PROMISING)) == {"k": 4}


@pytest.mark.parametrize("waiting", [True, False])
def test_nobody_is_evicted_for_it(waiting: bool) -> None:
    things = [nodes(1, cpu=2), priority_class("high", 100), group("low", 1)]
    things += [pod(f"low-{i}", "low", node="n000", cpu=1) for i in range(2)]
    things.append(gang("j", 1, priority_class="high"))
    assert run(world(*things), PREEMPTING).evictions
    assert not run(world(*things, j=setback(waiting=waiting)), PREEMPTING).evictions


def test_no_room_is_kept_for_it() -> None:
    things = [nodes(2, cpu=4), group("running", 2), gang("j", 2, cpu=4), gang("k", 1, created=5)]
    things += [pod(f"running-{i}", "running", node=f"n00{i}", cpu=2) for i in range(2)]
    assert run(world(*things), KEEPING).verdicts["ns/k"].cause is Cause.RESERVED
    assert bound_per_job(run(world(*things, j=setback(waiting=False)), KEEPING)) == {"k": 1}


def test_a_node_that_refused_it_comes_last_for_it_alone() -> None:
    things = [nodes(2, cpu=4), gang("j", 6), gang("k", 1, created=1)]
    where = list(placed(run(world(*things, j=setback(waiting=False)))).items())
    assert [node for name, node in where if name.startswith("j")].count("n001") == 4
    assert dict(where)["k-w-0"] == "n000"


def test_it_asks_for_its_part_again_afterwards() -> None:
    state = world(nodes(1, cpu=8), queue("a"), gang("j", 4, queue="a"), j=setback())
    state.snapshot()
    assert not state.book.queues["a"].request.any()
    version = state.version
    state.set_back({})
    state.snapshot()
    assert state.version > version
    assert state.book.queues["a"].request[state.registry.row("cpu")] == 4000
