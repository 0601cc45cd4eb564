"""Resources that no node has: which, what was probably meant, and what would help."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.api.near_names import did_you_mean, nearest
from unisono.engine.cycle.context import Cycle


def unoffered(cycle: Cycle, names: Iterable[str]) -> tuple[str, ...]:
    """Those of some resources that no node has at all, not even as unhealthy devices; none where there are no nodes."""
    nodes, registry = cycle.session.nodes, cycle.session.registry
    if not nodes.size:
        return ()
    rows = [(name, registry.find(name)) for name in names]
    absent = (name for name, row in rows if row is None or not nodes.allocatable[row].any())
    return tuple(name for name in absent if not any(name in facts.unhealthy for facts in nodes.table.facts))


def unoffered_text(cycle: Cycle, names: Iterable[str]) -> str:
    """``no node offers nvidia.com/gpus (did you mean nvidia.com/gpu?)``."""
    offered = _offered(cycle)
    return f"no node offers {' or '.join(f'{name}{did_you_mean(name, offered)}' for name in names)}"


def remedy(cycle: Cycle, names: Iterable[str]) -> str:
    """What to do, in words: the resource that was meant, or nodes that have it."""
    offered, parts, without = _offered(cycle), [], []
    for name in names:
        near = nearest(name, offered)
        if near:
            parts.append(f"request {near} in place of {name}")
        else:
            without.append(name)
    if without:
        parts.append(f"add a node that has {' and '.join(without)}")
    return " and ".join(parts)


def _offered(cycle: Cycle) -> list[str]:
    """Resources that some node has."""
    registry, nodes = cycle.session.registry, cycle.session.nodes
    return [
        name for name in registry.names if (row := registry.find(name)) is not None and nodes.allocatable[row].any()
    ]
