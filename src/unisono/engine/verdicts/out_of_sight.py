"""Nodes that would have what a job asks for and cannot be used: not ready, cordoned, or without healthy devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from unisono.cluster.nodes import NodeFacts
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle


def out_of_sight(cycle: Cycle, rows: list[int]) -> list[str]:
    """``2 of 3 nodes are cordoned (a and b)``, of nodes that have what is asked for."""
    nodes = cycle.session.nodes
    table, has = nodes.table, (nodes.allocatable[rows] > 0).all(axis=0)
    parts = []
    for mask, word in ((~table.ready, "not ready"), (table.ready & table.unschedulable, "cordoned")):
        away = np.flatnonzero(mask & has)
        if away.size:
            are = "is" if away.size == 1 else "are"
            which = listed(tuple(table.names[index] for index in away.tolist()))
            parts.append(f"{away.size} of {int(has.sum())} nodes {are} {word} ({which})")
    return parts


def bringing_back(cycle: Cycle, names: Iterable[str]) -> str:
    """What to do, in words, with the nodes out of sight that have all of some resources; empty where none are."""
    nodes, registry = cycle.session.nodes, cycle.session.registry
    asked = [name for name in names if registry.find(name) is not None]
    table = nodes.table
    has = (nodes.allocatable[[registry.requested(name) for name in asked]] > 0).all(axis=0) & bool(asked)
    cordoned = np.flatnonzero(has & table.ready & table.unschedulable).tolist()
    unready = np.flatnonzero(has & ~table.ready).tolist()
    lost = [at for at, facts in enumerate(table.facts) if facts.unhealthy and _lost(facts, asked)]
    parts = (
        (cordoned, "uncordon {}"),
        (unready, "see why {} {} not ready"),
        (lost, "see to the device plug-in of {}"),
    )
    told = []
    for columns, text in parts:
        if columns:
            which = listed(tuple(table.names[at] for at in columns))
            told.append(text.format(which, "is" if len(columns) == 1 else "are"))
    return listed(tuple(told)) if told else ""


def _lost(facts: NodeFacts, asked: Sequence[str]) -> bool:
    """Whether devices that are asked for are there, and none of them is healthy."""
    dead = [name for name in asked if name in facts.unhealthy]
    return bool(dead) and not any(facts.allocatable.get(name, 0) for name in dead)
