"""Switches that serve the same nodes are one domain: what a gang sees of a network with several rails (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NOT_CONNECTED = frozenset({"", "na", "n/a", "none", "unknown"})
"""What managers of networks write for a port without a neighbour."""


def connected(name: str | None) -> bool:
    """Whether this is the name of a neighbour."""
    return name is not None and name.strip().lower() not in NOT_CONNECTED


def merged(members: Mapping[str, Iterable[str]]) -> list[tuple[str, tuple[str, ...]]]:
    """Switches that share a member, directly or through others, as one.

    Args:
        members: of each switch.

    Returns:
        The first name of each set of switches, and all members of the set, both in the order of names.

    """
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    owner: dict[str, str] = {}
    for switch in sorted(members):
        for member in members[switch]:
            one, other = root(switch), root(owner.setdefault(member, switch))
            # The first name stands for all.
            parent[max(one, other)] = min(one, other)
    found: dict[str, set[str]] = {}
    for member, switch in owner.items():
        found.setdefault(root(switch), set()).add(member)
    return [(name, tuple(sorted(found[name]))) for name in sorted(found)]
