"""What a PodGroup says about topology and sub-groups, and which sub-group a pod belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unisono.api.base import LabelSelector
from unisono.api.groups.scheduling import MOST_LEVELS, SubGroupPolicySpec, policies_above
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.selecting import selects


class TopologyWish(NamedTuple):
    """A network topology as it was asked for.

    Attributes:
        hard: it must hold; otherwise it is a preference.
        tier: highest tier allowed, None when not given.
        tier_name: the same by name, ``""`` when not given.
    """

    hard: bool
    tier: int | None
    tier_name: str


class SubGroupPolicy:
    """Pods that form gangs within the gang.

    Attributes:
        name: of the policy.
        keys: labels whose values tell sub-groups apart; without any the policy covers no pod.
        size: pods that each sub-group needs at least.
        minimum: sub-groups that the gang needs; of a policy that others name as their parent, of the groups below it.
        wish: topology of each sub-group, None for none.
        parent: name of the policy that its sub-groups are part of, ``""`` without one.
        part: the PodGroup of ``scheduling.k8s.io`` whose pods are its one sub-group, ``""`` where labels tell.
    """

    __slots__ = ("keys", "minimum", "name", "parent", "part", "selector", "size", "wish")

    def __init__(self, spec: SubGroupPolicySpec) -> None:
        self.name = spec.name or ""
        self.selector: LabelSelector | None = spec.label_selector
        self.keys = spec.splitting_keys
        self.size = 1 if spec.sub_group_size is None else spec.sub_group_size
        self.minimum = spec.min_sub_groups or 0
        self.wish = wish_of(spec.network_topology)
        self.parent = spec.parent or ""
        self.part = spec.pod_group_name or ""

    def allowing(self, tier: int) -> SubGroupPolicy:
        """The same policy with another highest tier, unless its own is as high."""
        other = SubGroupPolicy(SubGroupPolicySpec())
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        if self.wish is not None and (self.wish.tier is None or self.wish.tier < tier):
            other.wish = TopologyWish(True, tier, "")
        return other

    def values(self, labels: Mapping[str, str], part: str = "") -> tuple[str, ...] | None:
        """Values that name a pod's sub-group; None when the policy does not cover it.

        Args:
            labels: of the pod.
            part: the PodGroup of ``scheduling.k8s.io`` that the pod names.
        """
        if self.part:
            return (part,) if part == self.part else None
        if not self.keys or (self.selector is not None and not selects(self.selector, labels)):
            return None
        label_values = tuple(labels.get(key, "") for key in self.keys)
        return label_values if all(label_values) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubGroupPolicy) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]


def wish_of(spec: NetworkTopologySpec | None) -> TopologyWish | None:
    """A topology from the wire; the mode is hard when it is not given."""
    if spec is None:
        return None
    return TopologyWish((spec.mode or "hard") == "hard", spec.highest_tier_allowed, spec.highest_tier_name or "")


def policies_of(specs: Sequence[SubGroupPolicySpec] | None) -> tuple[SubGroupPolicy, ...]:
    """Policies from the wire, in order.

    Raises:
        ValueError: they are nested too deep.
    """
    parents = {spec.name: spec.parent for spec in specs or ()}
    if any(len(policies_above(name, parents)) == MOST_LEVELS for name in parents):
        raise ValueError(f"spec.subGroupPolicy: policies may be nested {MOST_LEVELS} levels deep at most")
    return tuple(SubGroupPolicy(spec) for spec in specs or ())
