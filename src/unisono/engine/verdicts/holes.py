"""What nodes have free for the pods of a gang, in words: sums, the largest hole, and rests that are not together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from unisono.api.messages import counted
from unisono.api.resources import readable
from unisono.cluster.resources import Matrix
from unisono.engine.changes import amounts_text
from unisono.engine.verdicts.demand import Kind

_MOST_SHOWN = 2
_PODS = "pods"


def asked_text(need: Mapping[str, int], names: Sequence[str]) -> str:
    """``cpu 8, memory 32Gi is asked for``."""
    if list(names) == [_PODS]:
        return f"places for {counted(need[_PODS], 'pod')} are asked for"
    return f"{amounts_text({name: need[name] for name in names})} is asked for"


def has_text(there: Mapping[str, int], names: Sequence[str]) -> str:
    """``cpu 8, memory 32Gi``."""
    return str(there[_PODS]) if list(names) == [_PODS] else amounts_text({name: there[name] for name in names}, "down")


def free_text(free: Mapping[str, int], there: Mapping[str, int], names: Sequence[str]) -> str:
    """``cpu 2 of 8, memory 4Gi of 32Gi is free``."""
    if list(names) == [_PODS]:
        return f"{free[_PODS]} of the {there[_PODS]} that nodes with room offer are free"
    told = readable({name: free[name] for name in names}, "down")
    whole = readable({name: there[name] for name in names}, "down")
    return ", ".join(f"{name} {told[name]} of {whole[name]}" for name in told) + " is free"


def largest_hole(kinds: list[Kind], most: Mapping[str, int], free: Mapping[str, int], names: Iterable[str]) -> str:
    """The largest hole, where one pod asks for more than that; ``most``: what one node has free at most."""
    for name in names:
        large = [kind for kind in kinds if kind.requests.get(name, 0) > most[name]]
        if large and free[name]:
            asked = amounts_text({name: large[0].requests[name]})
            hole = f", at most {readable({name: most[name]}, 'down')[name]} on one node"
            alone = len(kinds) == 1 and kinds[0].count == 1
            return hole if alone else f"{hole}; {large[0].who} asks for {asked}"
    return ""


def never_together(kinds: list[Kind], idle: Matrix, nodes: Sequence[str], short: Mapping[str, int]) -> str:
    """That no node has all free together that a pod asks for: what the nodes have that come nearest to it.

    Args:
        kinds: what the pods ask for.
        idle: ``[R, N]`` what is free, 0 on nodes that they cannot use.
        nodes: their names.
        short: resources of which some node has too little, with their rows.

    """
    for kind in kinds:
        parts = (idle[kind.rows] / kind.amounts[:, None]).clip(max=1)
        if len(short) < 2 or (parts.min(axis=0) >= 1).any() or (parts.max(axis=1) < 1).any():
            continue
        nearest = np.argsort(-parts.sum(axis=0), kind="stable")[:_MOST_SHOWN].tolist()
        told = [
            f"{nodes[at]} has {amounts_text({name: int(idle[row, at]) for name, row in short.items()}, 'down')}"
            for at in nearest
        ]
        return f", but not together on one node ({'; '.join(told)})"
    return ""
