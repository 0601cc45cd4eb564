"""``topology.volcano.sh``: HyperNode, and the network topology constraints of jobs and pod groups."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Object
from unisono.api.fields import NAME_PATTERN, LongName, Natural
from unisono.api.meta import Condition, LabelSelector

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
