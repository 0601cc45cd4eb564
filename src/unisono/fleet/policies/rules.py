"""Where a job may go now, why nowhere else, and which of those clusters it had better go to (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from unisono.api.annotations import FLEET, LAST_CLUSTER
from unisono.api.meta import LabelSelector, LabelSelectorRequirement
from unisono.api.propagation import ClusterAffinityTerm
from unisono.api.selecting import selects
from unisono.api.times import duration_or_none
from unisono.fleet.policies.choosing import Policy
from unisono.fleet.policies.clusters import Cluster, meant
from unisono.fleet.policies.data import DataWish
from unisono.fleet.policies.subject import Subject

FALLBACK_SECONDS: Final = 15.0
"""How long a job waits in the groups before one that does not say ``burstAfter``."""

TIER, DATA, AFFINITY, STICKINESS = "tier", "data", "affinity", "stickiness"
"""Reasons for points."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What follows for one job.

    Attributes:
        outside: clusters that it may not go to, and why.
        points: 0 to 100 by reason and cluster.
        again: the rules change by themselves after so many seconds; None when they do not.
        bound: something bounds the job to clusters, also to those that join later.

    """

    outside: Mapping[str, str] = field(default_factory=dict)
    points: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    again: float | None = None
    bound: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known when the rules are asked for.

    Attributes:
        subject: the job.
        clusters: all members.
        policy: the PropagationPolicy that is about it.
        fleet: members of the Fleet that it names; None where it names none.
        data: what it needs of data.
        waited: seconds that it has waited for a cluster.
        avoided: clusters that have failed it lately, and for how many seconds they are still avoided.

    """

    subject: Subject
    clusters: Sequence[Cluster]
    policy: Policy | None = None
    fleet: Collection[str] | None = None
    data: Sequence[DataWish] = ()
    waited: float = 0.0
    avoided: Mapping[str, float] = field(default_factory=dict)


def rules_of(asked: Asked) -> Rules:
    """The rules of a job now."""
    outside: dict[str, str] = {}
    points: dict[str, dict[str, float]] = {}
    again: list[float] = []
    if asked.fleet is not None:
        name = asked.subject.annotations.get(FLEET, "")
        why = f"is not in Fleet {name}" if asked.fleet else f"there is no Fleet {name}, or it has no members"
        outside |= {each.name: why for each in asked.clusters if each.name not in asked.fleet}
    for wish in asked.data:
        outside |= wish.outside(asked.clusters, outside)
    moves = [each.seconds(asked.clusters) for each in asked.data if each.can_move]
    if moves:
        points[DATA] = {
            each.name: 100.0 / (1.0 + sum(one.get(each.name, 0.0) for one in moves) / 600.0) for each in asked.clusters
        }
    if asked.policy is not None:
        ranks, after = _groups(asked, outside, again)
        if len(set(ranks.values())) > 1:
            last = max(ranks.values())
            points[TIER] = {name: 100.0 * (last - rank) / last for name, rank in ranks.items()}
        outside |= after
    for name, seconds in asked.avoided.items():
        if name not in outside:
            outside[name] = f"has failed this job and is not asked again for {seconds:.0f} s"
            again.append(seconds)
    wished = _wished(asked)
    if wished:
        points[AFFINITY] = wished
    last_one = asked.subject.annotations.get(LAST_CLUSTER)
    if last_one and any(each.name == last_one for each in asked.clusters):
        points[STICKINESS] = {last_one: 100.0}
    bound = asked.fleet is not None or asked.policy is not None or bool(asked.data)
    return Rules(outside, points, min(again) if again else None, bound)


def _groups(asked: Asked, before: Mapping[str, str], again: list[float]) -> tuple[dict[str, int], dict[str, str]]:
    """Rank of each cluster that the policy means, and why not the others; ``again`` hears when a group opens."""
    assert asked.policy is not None
    placement, name = asked.policy.spec.placement, asked.policy.metadata.name
    terms = placement.cluster_affinities or ()
    if not terms:
        inside = set(meant(placement.cluster_affinity, asked.clusters))
        return {}, {
            each.name: f"is not meant by PropagationPolicy {name}" for each in asked.clusters if each.name not in inside
        }
    usable = {each.name for each in asked.clusters if not each.gone and each.name not in before}
    ranks: dict[str, int] = {}
    after: dict[str, str] = {}
    opens, earlier = 0.0, False
    for rank, term in enumerate(terms):
        own = [each for each in meant(term, asked.clusters) if each not in ranks]
        # Groups that have no cluster to offer hold nothing up.
        opens += _wait(term) if rank and earlier else 0.0
        earlier = earlier or any(each in usable for each in own)
        ranks |= dict.fromkeys(own, rank)
        if opens > asked.waited:
            again.append(opens - asked.waited)
            left = f"in {opens - asked.waited:.0f} s"
            after |= dict.fromkeys(
                own, f"opens {left}: it is of group {term.affinity_name} of PropagationPolicy {name}"
            )
    others = (each.name for each in asked.clusters if each.name not in ranks)
    return ranks, after | dict.fromkeys(others, f"is not meant by PropagationPolicy {name}")


def _wait(term: ClusterAffinityTerm) -> float:
    seconds = duration_or_none(term.burst_after)
    return FALLBACK_SECONDS if seconds is None else max(0.0, seconds)


def _wished(asked: Asked) -> dict[str, float]:
    """Preferred node affinity that is about labels of clusters: the share of its weight that each cluster meets."""
    found: dict[str, float] = {}
    total = 0.0
    known = {key for each in asked.clusters for key in each.labels}
    for term in asked.subject.preferred:
        wanted = [
            LabelSelectorRequirement(each.key, each.operator, each.values)
            for each in (term.preference.match_expressions if term.preference is not None else None) or ()
        ]
        if not wanted or any(each.key not in known for each in wanted):
            continue
        weight = float(term.weight or 0)
        total += max(weight, 0.0)
        for each in asked.clusters:
            if selects(LabelSelector(match_expressions=wanted), each.labels):
                found[each.name] = found.get(each.name, 0.0) + weight
    return {name: 100.0 * weight / total for name, weight in found.items()} if total > 0 else {}
