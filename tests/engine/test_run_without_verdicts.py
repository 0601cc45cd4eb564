"""Without verdicts a cycle decides the same: binds, evictions, phases, promised places."""

from __future__ import annotations

import json

import pytest
from benchmarks.check import settings
from benchmarks.check import world as worlds

from support.build import GANG, START, cluster, gang, node
from unisono import engine
from unisono.api.groups.scheduling import PodGroupCondition
from unisono.engine.config_file.reader import load_config
from unisono.engine.decisions import Decisions
from unisono.engine.verdict import Asked
from unisono.scheduler.offline import read_cluster


def _decided(decisions: Decisions) -> object:
    phases = {update.key: (update.phase, update.running, update.succeeded) for update in decisions.pod_groups}
    return decisions.binds, decisions.evictions, decisions.pipelined, phases


@pytest.mark.parametrize("seed", range(40))
def test_a_cycle_without_verdicts_decides_the_same(seed: int) -> None:
    world = worlds.World(seed)
    state = read_cluster((value, "world") for value in world.objects()).state
    config = load_config(json.dumps(settings.CONFIGS[world.config]))
    now = worlds.START + 1000
    whole = engine.run(state.snapshot(), config, now)
    brief = engine.run(state.snapshot(), config, now, verdicts=False)
    assert brief.verdicts == {}
    binds, evictions, pipelined, phases = _decided(whole)
    told = _decided(brief)
    assert told[:3] == (binds, evictions, pipelined)
    # The whole cycle also lists PodGroups of which only conditions change.
    changed = {key: value for key, value in phases.items() if key in told[3]}
    assert told[3] == changed


@pytest.mark.parametrize("seed", range(40))
def test_a_cycle_that_is_asked_for_one_job_decides_the_same_and_explains_that_one(seed: int) -> None:
    world = worlds.World(seed)
    state = read_cluster((value, "world") for value in world.objects()).state
    config = load_config(json.dumps(settings.CONFIGS[world.config]))
    now = worlds.START + 1000
    whole = engine.run(state.snapshot(), config, now)
    brief = engine.run(state.snapshot(), config, now, verdicts=False)
    conditions = {update.key: update.conditions for update in whole.pod_groups}
    for key in [*whole.verdicts][-3:]:
        one = engine.run(state.snapshot(), config, now, verdicts=Asked(lambda other, key=key: other == key))
        assert [*one.verdicts] == [key]
        assert (one.verdicts[key].cause, one.verdicts[key].queue) == (
            whole.verdicts[key].cause,
            whole.verdicts[key].queue,
        )
        assert _decided(one)[:3] == _decided(brief)[:3]
        told = {update.key: update.conditions for update in one.pod_groups}
        assert set(told) - {key} == {update.key for update in brief.pod_groups} - {key}
        if one.verdicts[key] == whole.verdicts[key]:  # for one job more can be tried
            assert told.get(key) == conditions.get(key)


def test_a_gang_that_runs_is_said_to_be_scheduled_by_a_cycle_without_verdicts_too() -> None:
    """It is not looked at again, so what it waited for would stand there for ever."""
    head, *pods = gang("g", 2, cpu=1, node="n0")
    for each in pods:
        each.status.phase = "Running"
    head.status.conditions = [PodGroupCondition(type="Unschedulable", status="True", reason="NotEnoughResources")]
    decisions = engine.run(cluster(node("n0"), head, *pods).snapshot(), GANG, START + 100.0, verdicts=False)
    (update,) = decisions.pod_groups
    assert update.phase == "Running"
    assert [(one.type, one.status) for one in update.conditions] == [("Scheduled", "True")]
    assert ("Normal", "Scheduled", "pod group is ready") in update.events
