"""What of a member counts where machines are looked for: nodes, their room and price, and nodes that are to come."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from unisono.api.annotations import PROMISED_TO
from unisono.api.base import ObjectMeta
from unisono.api.core import Node, NodeSpec, NodeStatus, Taint
from unisono.api.node_usage import cost_per_hour, parse_prices
from unisono.api.resources import to_wire
from unisono.controllers.node_scaling.decide import Demand, Pool, Room
from unisono.fleet.hub_state import HubState
from unisono.fleet.jobs.translation import is_to_come, own_name, within

_MOST_ROOMS: Final = 1000
"""Nodes of a member, the emptiest first, whose room counts for the rest of a gang."""
_PODS: Final = "110"


def columns_in(state: HubState, cluster: str) -> list[int]:
    """Nodes of a member that are there and take pods."""
    table = state.feed.state.nodes
    start, end = (bisect_left(table.names, within(cluster, edge)) for edge in ("", "\U0010ffff"))
    return [
        at
        for at in range(start, end)
        if table.ready[at] and not table.unschedulable[at] and not is_to_come(table.names[at])
    ]


def rooms_in(state: HubState, cluster: str) -> list[Room]:
    """What is free on the nodes of a member that are there, the emptiest first."""
    table = state.feed.state.nodes
    columns = np.array(columns_in(state, cluster), dtype=np.intp)
    if not len(columns):
        return []
    free = (table.allocatable[:, columns] - table.used[:, columns]).clip(min=0)
    use = (table.used[:, columns] / table.allocatable[:, columns].clip(min=1)).sum(axis=0)
    rooms = []
    for position in np.argsort(use, kind="stable")[:_MOST_ROOMS].tolist():
        facts = table.facts[columns[position]]
        amounts = {name: int(free[row, position]) for row, name in enumerate(table.registry.names[: len(free)])}
        pool = Pool(own_name(facts.name), 1, 0, 1, facts.allocatable, facts.labels, tuple(facts.taints))
        rooms.append(Room(pool, amounts))
    return rooms


def cost_in(state: HubState, cluster: str, gang: Iterable[Demand]) -> float:
    """What room that is there costs a job in an hour, by the prices of the member."""
    asked: Counter[str] = Counter()
    for pods in gang:
        asked.update({name: amount * pods.count for name, amount in pods.requests.items()})
    try:
        return cost_per_hour(asked, parse_prices(state.prices(cluster)))
    except ValueError:
        return 0.0


def node_to_come(name: str, pool: Pool, uid: str) -> Node:
    """What stands for a machine of a group, for one job."""
    amounts = {"pods": _PODS, **to_wire(pool.offers)}
    taint = Taint(key=PROMISED_TO, value=uid, effect="NoSchedule")
    return Node(
        metadata=ObjectMeta(name=name, labels={**pool.labels, PROMISED_TO: uid}),
        spec=NodeSpec(taints=[*pool.taints, taint]),
        status=NodeStatus(allocatable=dict(amounts), capacity=dict(amounts)),
    )
