"""Networks and CPUs of nodes: HyperNode and the constraints of jobs (``topology.volcano.sh``), Numatopology."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import NAME_PATTERN, Base, Condition, LabelSelector, LongName, Natural, Object, Quantity

MemberName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 253, "pattern": NAME_PATTERN})]


class NetworkTopologySpec(Base):
    """How close pods must be in the network.

    Attributes:
        mode: "hard" must hold, "soft" is a preference.
        highest_tier_allowed: the highest HyperNode tier that may join the pods.
        highest_tier_name: the same by name; excludes ``highestTierAllowed``.
    """

    mode: Annotated[str, Meta(extra_json_schema={"enum": ["hard", "soft"], "default": "hard"})] | None = None
    highest_tier_allowed: Annotated[int, Meta(extra_json_schema={"minimum": 0})] | None = None
    highest_tier_name: LongName | None = None


class ExactMatch(Base):
    """One member by its name."""

    name: MemberName | None = None


class RegexMatch(Base):
    """Nodes whose name a regular expression matches somewhere; ``^`` and ``$`` anchor it."""

    pattern: Annotated[str, Meta(extra_json_schema={"minLength": 1})] | None = None


class MemberSelector(Base):
    """Exactly one of its fields is set.

    Attributes:
        exact_match: one member by name; the only form for members that are HyperNodes.
        regex_match: nodes by name.
        label_match: nodes by labels; an empty selector matches none.
    """

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class MemberSpec(Base):
    """Nodes, or a HyperNode, below a HyperNode.

    Attributes:
        type: "Node" or "HyperNode".
        selector: which ones.
    """

    type: Annotated[str, Meta(extra_json_schema={"enum": ["Node", "HyperNode"]}, extra={"required": True})] = ""
    selector: MemberSelector | None = None


class HyperNodeSpec(Base):
    """A performance domain of the network: nodes below one switch, or domains below a higher one.

    Attributes:
        tier: the lower, the better the network between its nodes.
        tier_name: a name that jobs may use instead of the number.
        members: what is below.
    """

    tier: Natural | None = None
    tier_name: LongName | None = None
    members: list[MemberSpec] | None = None


class HyperNodeStatus(Base):
    """State of a HyperNode.

    Attributes:
        node_count: members that exist: nodes, or HyperNodes.
    """

    conditions: list[Condition] | None = None
    node_count: Annotated[int, Meta(extra_json_schema={"minimum": 0})] | None = None


class HyperNode(Object):
    """A performance domain of the network; HyperNodes form trees."""

    spec: HyperNodeSpec = msgspec.field(default_factory=HyperNodeSpec)
    status: HyperNodeStatus = msgspec.field(default_factory=HyperNodeStatus)


# ``nodeinfo.volcano.sh``: Numatopology, what a node's CPUs look like and which are free.


class ResourceInfo(Base):
    """One resource of a node.

    Attributes:
        allocatable: what is free: for ``cpu`` numbers and ranges such as ``0-3,8``.
        capacity: how many there are.
    """

    allocatable: str | None = None
    capacity: int | None = None


class CPUInfo(Base):
    """Where one CPU sits.

    Attributes:
        numa, socket, core: ids of its NUMA node, socket and core.
    """

    numa: int | None = None
    socket: int | None = None
    core: int | None = None


class ContainerAllocation(Base):
    """What the node gave to one container, by resource: for ``cpu`` numbers and ranges."""

    name: str | None = None
    allocations: dict[str, str] | None = None


class PodAllocation(Base):
    """What the node gave to one pod."""

    uid: str | None = None
    name: str | None = None
    namespace: str | None = None
    container_allocations: list[ContainerAllocation] | None = None


class NumatopologySpec(Base):
    """Topology of one node, as its exporter sees it.

    Attributes:
        policies: the kubelet's, ``CPUManagerPolicy`` and ``TopologyManagerPolicy``.
        res_reserved: amounts that the kubelet keeps for the system.
        numares: what is free, by resource.
        cpu_detail: by CPU number.
        pod_allocations: pods that ``numares`` takes into account already.
    """

    policies: dict[str, str] | None = None
    res_reserved: dict[str, Quantity] | None = None
    numares: dict[str, ResourceInfo] | None = None
    cpu_detail: dict[str, CPUInfo] | None = None
    pod_allocations: list[PodAllocation] | None = None


class Numatopology(Object):
    """NUMA nodes and CPUs of the node of the same name."""

    spec: NumatopologySpec = msgspec.field(default_factory=NumatopologySpec)
