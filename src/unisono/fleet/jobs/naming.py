"""Names in the state of a hub: a member's nodes and namespaces carry its name in front (pure).

``:`` is in no Kubernetes name, so that no two members' names, and no name of the hub, are ever the same.
"""

from __future__ import annotations

SEPARATOR = ":"
CLUSTER_TIER, REGION_TIER = 1000, 2000
"""Tiers of clusters and regions: above all tiers of the members' own networks."""
CLUSTER_TIER_NAME, REGION_TIER_NAME = "cluster", "region"


def within(cluster: str, name: str) -> str:
    """A member's node or namespace as the hub's state calls it."""
    return f"{cluster}{SEPARATOR}{name}"


def cluster_of(name: str) -> str:
    """The member that a name belongs to; empty for a name of the hub."""
    cluster, found, _ = name.partition(SEPARATOR)
    return cluster if found else ""


def own_name(name: str) -> str:
    """The name within its member."""
    return name.partition(SEPARATOR)[2] or name
