"""The default configuration enforces what objects state; strictly as Volcano's it does not."""

from __future__ import annotations

from typing import Any

import pytest
from plugins_world import World, a_pod

from support.build import bound_per_job, cluster, gang, group, node, nodes, queue, schedule
from unisono.api.annotations import USER, USER_LIMITS
from unisono.api.decode import decode
from unisono.api.kinds import find
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import default_config, load_config
from unisono.engine.plugin_host.tiers import PluginTiers
from unisono.engine.plugins.proportion.division import Share, fill_above
from unisono.engine.plugins.registry import find as lookup
from unisono.engine.session.session import Session

STRICT = load_config("--volcano-strict=true")


def rack(state: ClusterState, name: str, members: list[str]) -> None:
    value = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": n}}} for n in members]},
    }
    kind = find(value["apiVersion"], "HyperNode")
    assert kind is not None
    state.apply("ADDED", kind, decode(kind, value).obj)


@pytest.mark.parametrize(("config", "bound"), [(default_config(), 0), (STRICT, 3)], ids=["default", "strict"])
def test_a_hard_bound_on_the_network_is_kept(config: Any, bound: int) -> None:
    things = gang("g", 3, cpu=3)
    things[0].spec.network_topology = _hard(1)
    state = cluster([node(name, cpu=4) for name in ("a1", "a2", "b1")], things)
    rack(state, "r1", ["a1", "a2"])
    rack(state, "r2", ["b1"])
    decisions = schedule(state, config)
    assert sum(bound_per_job(decisions).values()) == bound
    assert told(decisions) == ([] if config is not STRICT else ["networkTopology: hard"])


def told(decisions: Any) -> list[str]:
    """Bounds that are said not to be enforced."""
    events = [event for update in decisions.pod_groups for event in update.events]
    return [message.partition(" is not enforced")[0] for _, reason, message in events if reason == "NotEnforced"]


def _hard(tier: int) -> Any:
    from unisono.api.groups.topology import NetworkTopologySpec

    return NetworkTopologySpec(mode="hard", highest_tier_allowed=tier)


@pytest.mark.parametrize(("config", "bound"), [(default_config(), 2), (STRICT, 6)], ids=["default", "strict"])
def test_limits_of_users_hold(config: Any, bound: int) -> None:
    things = [gang(f"j{at}", 1, queue="q") for at in range(6)]
    for each in things:
        each[0].metadata.annotations = {USER: "alice"}
    state = cluster(nodes(1, cpu=8), queue("q", annotations={USER_LIMITS: "pods=2"}), things)
    decisions = schedule(state, config)
    assert sum(bound_per_job(decisions).values()) == bound
    assert set(told(decisions)) == (set() if config is not STRICT else {f"{USER_LIMITS} of queue q"})


@pytest.mark.parametrize(
    ("config", "bound"), [(default_config(), {"a": 7, "b": 2}), (STRICT, {"a": 4, "b": 4})], ids=["default", "strict"]
)
def test_queues_get_what_they_deserve(config: Any, bound: dict[str, int]) -> None:
    waiting = [gang(f"{q}-{at}", 1, queue=q) for q in "ab" for at in range(9)]
    state = cluster(nodes(1, cpu=9), queue("a", deserved={"cpu": 7}), queue("b"), waiting)
    found: dict[str, int] = {"a": 0, "b": 0}
    for job, number in bound_per_job(schedule(state, config)).items():
        found[job[0]] += number
    assert found == bound


def deserved(world: World) -> dict[str, int]:
    _, plugin = world.open("proportion", proportion__deserved=True)
    return {name: amounts[0] for name, amounts in plugin.deserved.items()}


def flood(*names: str, **shares: Any) -> World:
    world = World().node("n1")
    for name in names:
        world.job(f"j{name}", *[a_pod("1", "1Mi")] * 20, queue=name)
    for name, spec in shares.items():
        world.queue(name, **spec)
    return world


def cpu(amount: int) -> dict[str, Any]:
    return {"deserved": {"cpu": str(amount)}}


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (flood("a", "b", a=cpu(8), b={}), {"a": 8_000, "b": 2_000}),
        (flood("a", "b", a=cpu(2), b={}), {"a": 5_000, "b": 5_000}),
        (flood("a", "b", "c", a=cpu(6), b={"weight": 3}, c={}), {"a": 6_000, "b": 3_000, "c": 1_000}),
        (flood("a", "b", a=cpu(30), b=cpu(10)), {"a": 7_500, "b": 2_500}),
        (flood("b", a=cpu(8), b={}), {"b": 10_000}),
        (
            flood("b", "c", "d", a=cpu(8), b={"parent": "a"}, c={"parent": "a", "weight": 3}, d={}),
            {"b": 2_000, "c": 6_000, "d": 2_000},
        ),
    ],
    ids=["first", "less than by weight", "weights divide the rest", "more than there is", "idle", "family"],
)
def test_what_queues_state_comes_before_weights(world: World, expected: dict[str, int]) -> None:
    found = deserved(world)
    assert sum(found.values()) <= 10_000
    assert found == expected


def test_floors_are_kept_and_nothing_is_given_twice() -> None:
    shares = [Share(1, 100), Share(1, 100), Share(2, 5)]
    assert fill_above(60, shares, [40, 0, 50]) == [40, 15, 5]


def test_what_nothing_uses_takes_no_part() -> None:
    state = cluster(nodes(1, cpu=8), queue("q"), group("j", queue="q"))
    hooks = PluginTiers(default_config(), lookup, Session(state.snapshot(), now=0.0))
    taking_part = {plugin.name for plugin in hooks.plugins()}
    assert taking_part.isdisjoint({"user-limits", "network-topology-aware", "deviceshare"})
