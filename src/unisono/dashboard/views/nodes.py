"""Nodes by their place in the topology, with what is used of each and by whom (pure)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from unisono.api.membership import pod_group_of
from unisono.api.resources import add, pod_requests, resource_list
from unisono.api.verdict import job_name
from unisono.dashboard.views.table import counted, windowed
from unisono.dashboard.views.units import amount_text, amounts_text, ordered, quantity
from unisono.dashboard.views.wire import Held, NodeCell, NodesView
from unisono.fleet.members.summary import accelerator_type
from unisono.sdk.overview import Found, overview
from unisono.simulator.clusters.kubernetes import paths_of

if TYPE_CHECKING:
    from unisono.api.topology import HyperNode

_ENDED = ("Succeeded", "Failed")
_NO_DEVICES = ("cpu", "memory", "pods", "ephemeral-storage")
_MOST_HELD = 20
# Longer ones are no numbers that people count by.
_NUMBERS = re.compile(r"(\d{1,18})")


class NodeQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which nodes are shown: words that are in name or HyperNode, a state, and a window."""

    q: str = ""
    state: str = ""
    offset: int = 0
    limit: int = 500


def nodes_view(
    found: Found,
    hyper_nodes: Iterable[HyperNode],
    query: NodeQuery,
    now: float,
    *,
    cordons: bool,
    ready: bool = True,
) -> NodesView:
    """The nodes that a query asks for.

    Args:
        found: nodes and pods that the viewer may see.
        hyper_nodes: of the cluster.
        query: what is asked for.
        now: seconds since 1970.
        cordons: whether the viewer may change nodes.
        ready: everything was listed once.

    """
    by_name = {node.metadata.name: node for node in found.nodes}
    paths = paths_of(hyper_nodes, by_name)
    used: dict[str, dict[str, int]] = defaultdict(dict)
    pods: Counter[str] = Counter()
    holders: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for pod in found.pods:
        name = pod.spec.node_name
        if name in by_name and pod.status.phase not in _ENDED:
            asked = pod_requests(pod.spec)
            add(used[name], asked)
            pods[name] += 1
            group = pod_group_of(pod)
            add(holders[name][job_name(group) if group else f"pod {pod.key}"], asked)
    lines = overview(found, now).nodes
    cells = []
    for line in lines:
        path = list(reversed(paths.get(line.name, ())))
        text = f"{line.name} {' '.join(path)}".lower()
        if (query.state and line.state != query.state) or not all(word in text for word in query.q.lower().split()):
            continue
        node, taken = by_name[line.name], used[line.name]
        there = resource_list(node.status.allocatable)
        devices = _devices(there)
        cards, cards_used, share = _parts(there, taken, devices)
        cells.append(
            NodeCell(
                name=line.name,
                state=line.state,
                cpus=_of("cpu", taken, there),
                memory=_of("memory", taken, there),
                devices=", ".join(
                    f"{quantity(name, taken.get(name, 0))} of {amount_text(name, there[name])}" for name in devices
                ),
                model=accelerator_type(node.metadata.labels or {}) if devices else "",
                cards=cards,
                cards_used=cards_used,
                share=share,
                pods=pods[line.name],
                path=path,
                held=_held(holders[line.name], devices),
            )
        )
    cells.sort(key=lambda cell: (not cell.path, _natural(" ".join(cell.path)), _natural(cell.name)))
    offset, window = windowed(cells, query.offset, query.limit)
    return NodesView(
        ready=ready,
        total=len(lines),
        matched=len(cells),
        offset=offset,
        order=[cell.name for cell in window],
        rows={cell.name: cell for cell in window},
        states=counted(Counter(line.state for line in lines)),
        cordons=cordons,
    )


def _devices(there: Mapping[str, int]) -> list[str]:
    """Devices of a node, cards first."""
    names = {
        name: amount
        for name, amount in there.items()
        if amount and name not in _NO_DEVICES and not name.startswith("hugepages-")
    }
    return ordered(names)


def _of(name: str, used: Mapping[str, int], there: Mapping[str, int]) -> str:
    return f"{quantity(name, used.get(name, 0))} of {quantity(name, there.get(name, 0))}"


def _parts(there: Mapping[str, int], used: Mapping[str, int], devices: Sequence[str]) -> tuple[float, float, float]:
    """Devices, used devices, and the used part of them, or of the cores where the node has no devices."""
    cards = sum(there[name] for name in devices)
    taken = sum(used.get(name, 0) for name in devices)
    of, amount = (cards, taken) if cards else (there.get("cpu", 0), used.get("cpu", 0))
    return cards / 1000, taken / 1000, round(min(1.0, amount / of), 4) if of else 0.0


def _held(holders: Mapping[str, Mapping[str, int]], devices: Sequence[str]) -> list[Held]:
    def cards(amounts: Mapping[str, int]) -> int:
        return sum(amounts.get(name, 0) for name in devices)

    found = sorted(holders.items(), key=lambda each: (-cards(each[1]), -each[1].get("cpu", 0), each[0]))
    return [
        Held(job=job, amount=amounts_text(amounts), cards=cards(amounts) / 1000) for job, amounts in found[:_MOST_HELD]
    ]


def _natural(text: str) -> list[tuple[int, str]]:
    """Sorts ``node-2`` before ``node-10``."""
    return [(int(each), "") if each.isascii() and each.isdigit() else (-1, each) for each in _NUMBERS.split(text)]
