"""Kubernetes' own groups of pods as the one gang that the scheduler knows: a PodGroup, or a tree of groups above some.

The PodGroup of ours has the name of the group at the top. Each group below becomes a policy of it: a PodGroup one of
the pods that name it, a CompositePodGroup one of which others are part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from unisono.api.base import Condition
from unisono.api.conditions import is_true
from unisono.api.core import Pod
from unisono.api.groups import workload
from unisono.api.groups.scheduling import SubGroupPolicySpec
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.pod_states import has_ended

Group = workload.WorkloadPodGroup | workload.CompositePodGroup


@dataclass
class Node:
    """One group of a tree.

    Attributes:
        group: the PodGroup, or the group of groups.
        above: what it is a part of, None for the group at the top.
        parts: the groups that name it as their parent, by name.
        pods: of a PodGroup, those that name it, oldest first.
    """

    group: Group
    above: Node | None = None
    parts: list[Node] = field(default_factory=list)
    pods: Sequence[Pod] = ()

    @property
    def name(self) -> str:
        """Of the object."""
        return self.group.metadata.name

    @property
    def spec(self) -> workload.WorkloadPodGroupSpec | workload.CompositePodGroupSpec:
        """What the group needs."""
        return self.group.spec

    @property
    def is_composite(self) -> bool:
        """Whether its members are groups."""
        return isinstance(self.group, workload.CompositePodGroup)

    @property
    def condition_types(self) -> tuple[str, ...]:
        """Types of the condition that says whether it has been scheduled."""
        return workload.COMPOSITE_SCHEDULED if self.is_composite else workload.SCHEDULED

    @property
    def conditions(self) -> Sequence[Condition]:
        """As they are in its status."""
        return self.group.status.conditions or ()

    @property
    def is_scheduled(self) -> bool:
        """Whether the group has had its minimum on nodes; this is never taken back."""
        return any(is_true(list(self.conditions), name) for name in self.condition_types)

    @property
    def placed(self) -> int:
        """Members that have what they need: pods with a node that have not failed, or groups of which enough are."""
        if self.is_composite:
            return sum(part.placed >= part.spec.minimum for part in self.parts)
        return sum(1 for pod in self.pods if pod.spec.node_name and pod.status.phase != "Failed")

    @property
    def minimum(self) -> int:
        """Members that must run together.

        Where a group can only be disrupted as a whole, these are all that run once it has been scheduled: the scheduler
        takes none out of a gang's minimum.
        """
        needed = self.spec.minimum
        if not any(each.spec.is_disrupted_whole and each.is_scheduled for each in self.lineage):
            return needed
        return max(needed, self._running)

    @property
    def _running(self) -> int:
        if self.is_composite:
            return sum(part._running > 0 for part in self.parts)
        pods = (pod for pod in self.pods if pod.spec.node_name and not pod.metadata.deletion_timestamp)
        return sum(1 for pod in pods if not has_ended(pod))

    @property
    def lineage(self) -> Iterator[Node]:
        """The group, and those that it is part of, from the inside out."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.above

    def walk(self) -> Iterator[Node]:
        """The group and all below it, outer ones first."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def smallest(self) -> list[tuple[Node, int]]:
        """The PodGroups with which the fewest pods would do, and how many of each; of those that exist."""
        if not self.is_composite:
            return [(self, self.minimum)]
        below = sorted((part.smallest() for part in self.parts), key=lambda each: sum(pods for _, pods in each))
        return [each for part in below[: self.minimum] for each in part]


def tree_of(
    group: Group,
    composites: Callable[[str], Iterable[Group]],
    pods: Callable[[workload.WorkloadPodGroup], Sequence[Pod]],
) -> Node:
    """The tree below a group, down to where it is too deep.

    Args:
        group: the one at the top.
        composites: the groups that name a CompositePodGroup, by its key, as their parent.
        pods: those that name a PodGroup.
    """
    seen: set[str] = set()  # of groups that form a circle

    def below(group: Group, above: Node | None, level: int) -> Node:
        node = Node(group, above)
        seen.add(group.metadata.uid or "")
        if isinstance(group, workload.WorkloadPodGroup):
            node.pods = pods(group)
        elif level <= workload.MOST_LEVELS:
            parts = sorted(composites(group.key), key=lambda each: (each.metadata.name, each.kind or ""))
            node.parts = [below(part, node, level + 1) for part in parts if part.metadata.uid not in seen]
        return node

    return below(group, None, 1)


def top_of(group: Group, composite: Callable[[str], workload.CompositePodGroup | None]) -> str:
    """Key of the group at the top of a tree, of one that is missing where a group names such a parent.

    Of groups that name each other in a circle it is the first by name.
    """
    seen: list[str] = []
    at: Group | None = group
    while at is not None and at.spec.parent_composite_pod_group_name:
        key = f"{at.metadata.namespace}/{at.spec.parent_composite_pod_group_name}"
        if key in seen:
            return min(seen[seen.index(key) :])
        seen.append(key)
        at = composite(key)
    return seen[-1] if seen else group.key


def wrong_layout(tree: Node) -> str:
    """What makes a tree no tree that can be scheduled; empty where nothing does."""
    parent = tree.spec.parent_composite_pod_group_name
    if parent:
        return f"the groups form a cycle: {tree.name} is below {parent}, which is below {tree.name}"
    for node in tree.walk():
        if sum(1 for _ in node.lineage) > workload.MOST_LEVELS:
            most = workload.MOST_LEVELS
            return f"{node.name} is on level {most + 1} below {tree.name}; there may be {most} levels"
    workloads = {node.spec.workload_ref.workload_name for node in tree.walk() if node.spec.workload_ref}
    if len(workloads) > 1:
        return f"its groups are of several Workloads: {', '.join(sorted(workloads))}"
    return ""


def policies_of(tree: Node) -> list[SubGroupPolicySpec]:
    """The policies of our PodGroup for a tree; none for a PodGroup alone."""
    if not tree.is_composite:
        return []
    names = {node.name for node in tree.walk() if not node.is_composite}

    def named(node: Node) -> str:
        return f"compositepodgroup/{node.name}" if node.is_composite and node.name in names else node.name

    return [
        SubGroupPolicySpec(
            name=named(node),
            parent=named(node.above) if node.above is not None else None,
            min_sub_groups=node.minimum if node.is_composite else None,
            sub_group_size=None if node.is_composite else node.minimum,
            pod_group_name=None if node.is_composite else node.name,
            # The topology of the whole is that of our PodGroup.
            network_topology=bound_of(node) if node is not tree else None,
        )
        for node in tree.walk()
    ]


def bound_of(node: Node) -> NetworkTopologySpec | None:
    """One domain of the label: HyperNodes that are discovered by labels have the label as the name of their tier."""
    key = node.spec.topology_key
    return NetworkTopologySpec(mode="hard", highest_tier_name=key) if key else None
