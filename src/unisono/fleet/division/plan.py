"""What a policy and the members mean for one replicated workload: which clusters, by which strategy (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unisono.api.propagation import Placement
from unisono.fleet.division.strategies import Demand, NotEnoughRoom, Strategy, divide
from unisono.fleet.policies.clusters import Cluster, meant


@dataclass(frozen=True, slots=True)
class Wish:
    """A workload and what is known of the members.

    Attributes:
        replicas: that it asks for.
        tie: decides between equal clusters.
        together: it cannot be divided and goes to one cluster, unless it is duplicated.

    """

    replicas: int
    tie: str = ""
    together: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """Clusters that may have replicas.

    Attributes:
        names: in order of preference.
        room: replicas for which each has room.
        present: replicas by cluster, as they were divided last.

    """

    names: Sequence[str]
    room: Mapping[str, int] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)


def strategy_of(placement: Placement) -> Strategy:
    """The strategy that a policy names; without one every cluster gets all replicas."""
    given = placement.replica_scheduling
    if given is None or given.replica_scheduling_type != "Divided":
        return Strategy.DUPLICATED
    if given.replica_division_preference == "Aggregated":
        return Strategy.AGGREGATED
    weights = given.weight_preference
    return Strategy.DYNAMIC if weights is not None and weights.dynamic_weight else Strategy.STATIC


def weights_of(placement: Placement, clusters: Sequence[Cluster]) -> dict[str, int]:
    """Weights that the policy gives; the highest of all entries about a cluster."""
    given = placement.replica_scheduling
    listed = given.weight_preference.static_weight_list if given is not None and given.weight_preference else None
    found: dict[str, int] = {}
    for entry in listed or ():
        for name in meant(entry.target_cluster, clusters):
            found[name] = max(found.get(name, 0), entry.weight)
    return found


def plan(wish: Wish, placement: Placement, clusters: Sequence[Cluster], candidates: Candidates) -> dict[str, int]:
    """Replicas by cluster.

    Raises:
        NotEnoughRoom: there are too few clusters, or too little room in them.

    """
    strategy = strategy_of(placement)
    names, present = list(candidates.names), {**candidates.present}
    if strategy is not Strategy.STATIC or wish.together:
        names = _spread(wish, placement, candidates, strategy)
    if not names:
        raise NotEnoughRoom("no cluster that its policy names takes work")
    present = {name: count for name, count in present.items() if name in names}
    weights = weights_of(placement, clusters) if strategy is Strategy.STATIC else {}
    return divide(Demand(wish.replicas, strategy, names, weights, candidates.room, present, wish.tie))


def _spread(wish: Wish, placement: Placement, candidates: Candidates, strategy: Strategy) -> list[str]:
    """The clusters that the policy's constraints leave: those in use first, then the roomiest."""
    names = list(candidates.names)
    limits = [each for each in placement.spread_constraints or () if (each.spread_by_field or "cluster") == "cluster"]
    fewest = max((each.min_groups or 0 for each in limits), default=0)
    most = min((each.max_groups for each in limits if each.max_groups is not None), default=len(names))
    if len(names) < fewest:
        raise NotEnoughRoom(f"its policy asks for {fewest} clusters, and {len(names)} take work")
    if wish.together and strategy is not Strategy.DUPLICATED:
        most = 1
    if len(names) <= most:
        return names
    chosen = sorted(names, key=lambda name: (not candidates.present.get(name), -candidates.room.get(name, 0)))[:most]
    return [name for name in names if name in chosen]
