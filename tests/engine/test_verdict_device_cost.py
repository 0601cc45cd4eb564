"""What a claim lacks is found out by kinds of devices, not by asking each device of each node for each way."""

from __future__ import annotations

from typing import Any

import pytest

from engine.test_plugins_claims import SETTINGS, claim, device, device_class, slice_of, user, world
from support.build import cluster, group, node, pod, schedule
from unisono.api.core import PersistentVolumeClaimVolumeSource, Volume
from unisono.engine.plugins.predicates import claim_allocator
from unisono.engine.plugins.predicates.device_inventory import Unit
from unisono.engine.verdicts import claim_causes, explain, trial


def test_equal_devices_of_many_nodes_are_asked_about_once_for_each_way(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"all": 0, "explaining": 0}
    real_matcher, real_drafts = claim_allocator.matcher_of, explain.Drafts.of

    def counting(*given: Any) -> Any:
        matches = real_matcher(*given)

        def counted(unit: Unit) -> bool:
            asked["all"] += 1
            return matches(unit)

        return counted

    def drafts(self: Any, *given: Any) -> Any:
        before = asked["all"]
        try:
            return real_drafts(self, *given)
        finally:
            asked["explaining"] += asked["all"] - before

    monkeypatch.setattr(claim_allocator, "matcher_of", counting)
    monkeypatch.setattr(explain.Drafts, "of", drafts)
    ways = [{"name": f"s{n}", "deviceClassName": "gpu", "count": 1 + n % 2} for n in range(8)]
    requests = [{"name": f"r{n}", "firstAvailable": ways} for n in range(8)]
    impossible = [{"requests": [], "matchAttribute": "gpu.example.com/nothing"}]
    hosts = [f"n{n:03}" for n in range(30)]
    cards = [device(f"g{n}", model="A100") for n in range(8)]
    state = world(
        *(node(name, cpu=8) for name in hosts),
        *(slice_of(name, *cards) for name in hosts),
        device_class(),
        claim("c", *requests, constraints=impossible),
        *user("p", "c"),
    )
    (verdict,) = schedule(state, SETTINGS).verdicts.values()
    assert "30 cannot allocate all claims" in verdict.message
    assert 0 < asked["explaining"] <= 20 * len(ways) * len(requests)


def test_changes_are_tried_less_often_where_claims_can_be_met_in_many_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = [0]
    real = trial.Trials._carried_out

    def counted(self: Any, *given: Any, **more: Any) -> bool:
        tries[-1] += 1
        return real(self, *given, **more)

    monkeypatch.setattr(trial.Trials, "_carried_out", counted)
    ways = [{"name": f"s{n}", "deviceClassName": "gpu", "count": 9} for n in range(8)]
    requests = [{"name": f"r{n}", "firstAvailable": ways} for n in range(8)]
    cards = [device(f"g{n}", model="A100") for n in range(8)]
    waiting = [thing for n in range(20) for thing in (claim(f"c{n}", *requests), *user(f"p{n}", f"c{n}"))]
    things = (node("n1", cpu=64), slice_of("n1", *cards), device_class(), *waiting)
    assert len(schedule(world(*things), SETTINGS).verdicts) == 20
    tries.append(0)
    monkeypatch.setattr(trial, "WAY_COST", 0)
    schedule(world(*things), SETTINGS)
    dear, cheap = tries
    assert dear < cheap


def test_of_hundreds_of_missing_volume_claims_some_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    real = claim_causes.absent

    def counted(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        return real(*given)

    monkeypatch.setattr(claim_causes, "absent", counted)
    one = pod("p", "g")
    one.spec.volumes = [
        Volume(name=f"v{n}", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=f"c{n}"))
        for n in range(300)
    ]
    (verdict,) = schedule(cluster(node("a", cpu=8), group("g"), one), SETTINGS).verdicts.values()
    assert "c0" in verdict.message
    assert 0 < asked <= 6 * claim_causes.MOST_LACKS
