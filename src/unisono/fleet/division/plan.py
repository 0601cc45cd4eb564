"""What a policy and the members mean for one replicated workload: which clusters, and how many replicas (pure)."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Final
from zlib import crc32

from unisono.api.groups.propagation import Placement
from unisono.errors import UnisonoError
from unisono.fleet.policies.rules import Cluster, meant

# How replicas are divided over clusters (pure): Karmada's four strategies.
#
# Seats go one by one to the cluster with the largest ``weight / (2 * seats + 1)``, the divisor method of Webster and
# Sainte-Lague. https://en.wikipedia.org/wiki/Sainte-Lagu%C3%AB_method

MOST_SEATS: Final = 100_000
"""Replicas that are divided one by one; of more, all but so many are divided in proportion first."""


class Strategy(StrEnum):
    """What a policy's ``replicaScheduling`` says."""

    DUPLICATED = "Duplicated"
    """Every cluster gets all replicas."""
    STATIC = "StaticWeight"
    """By weights that the policy gives."""
    DYNAMIC = "DynamicWeight"
    """By the replicas that each cluster has room for."""
    AGGREGATED = "Aggregated"
    """In as few clusters as have room for all."""


class NotEnoughRoom(UnisonoError):
    """The clusters have no room for all replicas."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One workload.

    Attributes:
        replicas: wanted.
        strategy: how they are divided.
        clusters: those that may have some, in order of preference.
        weights: by cluster, of `Strategy.STATIC`.
        room: replicas for which each cluster has room, beside those that it has.
        present: replicas by cluster, as they were divided last; none of clusters that may have none any more.
        tie: of two clusters that are equal the same one is taken for the same text.
    """

    replicas: int
    strategy: Strategy
    clusters: Sequence[str]
    weights: Mapping[str, int] = field(default_factory=dict)
    room: Mapping[str, int] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)
    tie: str = ""


def divide(demand: Demand) -> dict[str, int]:
    """Replicas by cluster; clusters that get none are absent.

    What is divided stays where it is: of more replicas only the difference is divided, and fewer are taken away in
    proportion. Static weights are applied from scratch each time.

    Raises:
        NotEnoughRoom: they do not all find room; nothing is to be changed then.
    """
    clusters = demand.clusters
    match demand.strategy:
        case Strategy.DUPLICATED:
            shares = dict.fromkeys(clusters, demand.replicas)
        case Strategy.STATIC:
            weights = {name: demand.weights.get(name, 0) for name in clusters}
            if not any(weights.values()):
                weights = dict.fromkeys(clusters, 1)
            shares = apportion(demand.replicas, weights, demand.tie)
        case _:
            shares = _by_room(demand)
    return {name: count for name, count in shares.items() if count}


def apportion(
    seats: int, weights: Mapping[str, int], tie: str = "", first: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Seats by name, by the divisor method; names without weight get none.

    Args:
        seats: to give away.
        weights: by name.
        tie: which of equal names is first depends on it.
        first: seats that names have already; the answer is about the new ones alone.
    """
    given = {name: weight for name, weight in weights.items() if weight > 0}
    have = {name: (first or {}).get(name, 0) for name in given}
    new = dict.fromkeys(given, 0)
    if not given or seats <= 0:
        return new
    total = sum(given.values())
    if seats > MOST_SEATS and not any(have.values()):
        spare = seats - MOST_SEATS
        new = {name: spare * weight // total for name, weight in given.items()}
    backwards = bool(crc32(tie.encode()) & 1)
    rank = {name: index for index, name in enumerate(sorted(given, reverse=backwards))}

    def entry(name: str) -> tuple[Fraction, int, int, str]:
        taken = have[name] + new[name]
        return -Fraction(given[name], 2 * taken + 1), taken, rank[name], name

    heap = [entry(name) for name in given]
    heapq.heapify(heap)
    for _ in range(seats - sum(new.values())):
        name = heap[0][3]
        new[name] += 1
        heapq.heapreplace(heap, entry(name))
    return new


def _by_room(demand: Demand) -> dict[str, int]:
    present = {name: demand.present.get(name, 0) for name in demand.clusters}
    have = sum(present.values())
    if demand.replicas < have:
        return _shares(demand, demand.replicas, present, present)
    missing = demand.replicas - have
    room = {name: max(0, demand.room.get(name, 0)) for name in demand.clusters}
    if missing > sum(room.values()):
        raise NotEnoughRoom(
            f"its clusters have room for {sum(room.values())} more replicas, and {missing} are missing: "
            "free some room, let the policy name more clusters, or ask for fewer replicas"
        )
    more = _shares(demand, missing, room, present)
    return {name: present[name] + more.get(name, 0) for name in demand.clusters}


def _shares(demand: Demand, seats: int, weights: Mapping[str, int], present: Mapping[str, int]) -> dict[str, int]:
    """Seats in proportion to room, none of them beyond it."""
    names = list(weights)
    if demand.strategy is Strategy.AGGREGATED:
        names = _fewest(demand, seats, weights, present)
    room = {name: weights[name] for name in names}
    shares = apportion(seats, room, demand.tie)
    # The method may round a cluster up beyond its room; what is too much goes to the others.
    while excess := sum(max(0, shares[name] - room[name]) for name in shares):
        shares = {name: min(count, room[name]) for name, count in shares.items()}
        open_ = {name: room[name] for name in shares if shares[name] < room[name]}
        more = apportion(excess, open_, demand.tie, shares)
        shares = {name: count + more.get(name, 0) for name, count in shares.items()}
    return shares


def _fewest(demand: Demand, seats: int, weights: Mapping[str, int], present: Mapping[str, int]) -> list[str]:
    """The shortest list of clusters with enough room: those that have some already first, then the roomiest."""
    order = {name: index for index, name in enumerate(demand.clusters)}
    ranked = sorted(weights, key=lambda name: (not present.get(name), -weights[name], order[name]))
    chosen: list[str] = []
    left = seats
    for name in ranked:
        if left <= 0:
            break
        chosen.append(name)
        left -= weights[name]
    return chosen


# What a policy and the members mean for one replicated workload: which clusters, by which strategy (pure).


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
    weights: dict[str, int] = {}
    for entry in listed or ():
        for name in meant(entry.target_cluster, clusters):
            weights[name] = max(weights.get(name, 0), entry.weight)
    return weights


def plan(wish: Wish, placement: Placement, clusters: Sequence[Cluster], candidates: Candidates) -> dict[str, int]:
    """Replicas by cluster.

    Raises:
        NotEnoughRoom: there are too few clusters, or too little room in them.
    """
    strategy = strategy_of(placement)
    names, present = list(candidates.names), {**candidates.present}
    if strategy is not Strategy.STATIC or wish.together:
        names = chosen_of(wish, placement, candidates)
    if not names:
        raise NotEnoughRoom("no cluster that its policy names takes work")
    present = {name: count for name, count in present.items() if name in names}
    weights = weights_of(placement, clusters) if strategy is Strategy.STATIC else {}
    return divide(Demand(wish.replicas, strategy, names, weights, candidates.room, present, wish.tie))


@dataclass(frozen=True, slots=True)
class Grown:
    """Replicas by cluster where there is room or machines may come.

    Attributes:
        shares: replicas by cluster.
        coming: those of them for which there is no room yet, by cluster.
    """

    shares: Mapping[str, int]
    coming: Mapping[str, int]


def plan_growing(
    wish: Wish, placement: Placement, clusters: Sequence[Cluster], candidates: Candidates, growing: Mapping[str, int]
) -> Grown:
    """Replicas by cluster, where the room that is there is too little: all of it, and machines for the rest.

    Args:
        wish: the workload.
        placement: of its policy.
        clusters: all of them.
        candidates: those that may have replicas, and their room.
        growing: for how many replicas machines may come, the best clusters first.

    Raises:
        NotEnoughRoom: also machines do not serve all.
    """
    names = candidates.names
    most = {name: candidates.room.get(name, 0) + growing.get(name, 0) for name in names}
    if strategy_of(placement) in (Strategy.DYNAMIC, Strategy.AGGREGATED) or wish.together:
        names = chosen_of(wish, placement, Candidates(names, most, candidates.present))
    missing = wish.replicas - sum(candidates.present.get(name, 0) for name in names)
    missing -= sum(candidates.room.get(name, 0) for name in names)
    coming = {}
    for name, count in growing.items():
        if name in names and missing > 0:
            coming[name] = min(count, missing)
            missing -= coming[name]
    room = {name: candidates.room.get(name, 0) + coming.get(name, 0) for name in names}
    return Grown(plan(wish, placement, clusters, Candidates(names, room, candidates.present)), coming)


def chosen_of(wish: Wish, placement: Placement, candidates: Candidates) -> list[str]:
    """The clusters that the policy's constraints leave: those in use first, then the roomiest.

    Raises:
        NotEnoughRoom: they are too few.
    """
    strategy = strategy_of(placement)
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
