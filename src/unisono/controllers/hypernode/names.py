"""Nodes by the names that a network knows them by (pure)."""

from __future__ import annotations

from collections.abc import Iterable


class Resolver:
    """The nodes of a cluster.

    A network may write a host in capitals, or without its domain where the node's name has one, or the other way round.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        short: dict[str, str | None] = {}
        for name in sorted(self.names):
            head = name.partition(".")[0]
            # Two nodes that share a first part are told apart by their full names alone.
            short[head] = None if head in short else name
        self._short = short

    def node(self, name: str) -> str | None:
        """The node that is meant, None for a system that is no node."""
        lower = name.lower()
        if lower in self.names:
            return lower
        return self._short.get(lower.partition(".")[0])
