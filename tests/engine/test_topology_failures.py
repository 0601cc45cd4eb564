"""A bound of the network holds even where the plug-in that keeps it has failed."""

from __future__ import annotations

from typing import Any

import pytest
from topology_world import TOPOLOGY, job, racks, spine, used_racks, wish, world

from support.build import schedule
from unisono.engine.plugins.network_topology_aware.plugin import NetworkTopologyAwarePlugin
from unisono.engine.verdict import Cause

TWO = [racks({"a": 3, "b": 3}), spine("s", "a", "b")]


@pytest.mark.parametrize("hook", ["domain_gradients", "open"])
def test_a_job_with_a_hard_bound_waits_and_others_go_on(monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(NetworkTopologyAwarePlugin, hook, broken)
    state = world(TWO, job("bound", 4, wish(1)), job("free", 2, created=1))
    decisions = schedule(state, TOPOLOGY)
    assert decisions.plugins_off == (["network-topology-aware"] if hook == "open" else [])
    assert decisions.verdicts["ns/bound"].cause is Cause.PLUGIN_FAILED
    assert decisions.verdicts["ns/bound"].message.startswith("plug-in network-topology-aware failed in ")
    assert used_racks(decisions, "bound") == {}
    assert sum(used_racks(decisions, "free").values()) == 2
