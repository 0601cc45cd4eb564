"""Nodes by their place in the topology, with what is used of each and by whom (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from unisono.api.annotations import QUARANTINE
from unisono.api.node_checks import quarantined_by
from unisono.api.pod_states import has_ended
from unisono.api.resources import pod_requests, resource_list
from unisono.api.selecting import pod_group_of
from unisono.api.verdict import job_name
from unisono.dashboard.views.table import amount_text, amounts_text, counted, natural, ordered, quantity, windowed
from unisono.dashboard.views.why import Choice
from unisono.dashboard.views.wire import Held, JobRow, NodeCell, NodesView
from unisono.fleet.members.member import accelerator_type
from unisono.history.records import is_gpu, is_part_of_gpu
from unisono.sdk.overview.queues import node_state
from unisono.simulator.clusters import paths_of

if TYPE_CHECKING:
    from unisono.api.core import Node, Pod, PodSpec, ResourceRequirements
    from unisono.api.groups.topology import HyperNode

# What pods ask for, and what they hold of each node, kept as pods change: no view has to go through all pods.

Amounts = Mapping[str, int]
# The cache is emptied when it holds this many kinds of pods.
_MOST = 4096
_known: dict[tuple[Any, ...], Mapping[str, int]] = {}


class Holder(NamedTuple):
    """What one job holds of one node: pods, and amounts in engine units that are never changed in place."""

    pods: int
    amounts: Amounts


class _Place(NamedTuple):
    node: str
    job: str
    amounts: Amounts


class Usage:
    """Holders by node and job (``namespace/name``, or ``pod namespace/name`` of a pod without a gang)."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._nodes: dict[str, dict[str, Holder]] = {}
        # Pods of a kind share one mapping.
        self._known: dict[tuple[tuple[str, int], ...], Amounts] = {}

    def note(self, event: str, pod: Pod) -> None:
        """A pod came, changed or went."""
        uid = pod.metadata.uid or pod.key
        before = self._places.pop(uid, None)
        node = pod.spec.node_name
        if event != "DELETED" and node and not has_ended(pod):
            asked = requests_of(pod.spec)
            amounts = self._known.setdefault(tuple(asked.items()), asked)
            group = pod_group_of(pod)
            place = _Place(node, job_name(group) if group else f"pod {pod.key}", amounts)
            self._places[uid] = place
            if place == before:
                return
            self._add(place, 1)
        if before is not None:
            self._add(before, -1)

    def _add(self, place: _Place, sign: int) -> None:
        jobs = self._nodes.setdefault(place.node, {})
        pods, held = jobs.get(place.job, Holder(0, {}))
        if pods + sign <= 0:
            jobs.pop(place.job, None)
            if not jobs:
                del self._nodes[place.node]
            return
        amounts = {name: held.get(name, 0) + sign * place.amounts.get(name, 0) for name in {**held, **place.amounts}}
        jobs[place.job] = Holder(pods + sign, amounts)

    def snapshot(self) -> dict[str, dict[str, Holder]]:
        """Holders by node, for another thread: what is changed later is not changed in it."""
        return {node: dict(jobs) for node, jobs in self._nodes.items()}


def used_by_node(holders: Mapping[str, Mapping[str, Holder]]) -> dict[str, dict[str, int]]:
    """What is held of each node altogether, with ``pods``."""
    totals = {}
    for node, jobs in holders.items():
        total = {"pods": 0}
        for holder in jobs.values():
            total["pods"] += holder.pods
            for name, amount in holder.amounts.items():
                total[name] = total.get(name, 0) + amount
        totals[node] = total
    return totals


def requests_of(spec: PodSpec) -> Mapping[str, int]:
    """`pod_requests` of a pod, in engine units; pods that ask for the same share one mapping, which nobody changes.

    Raises:
        QuantityError: an amount is none.
    """
    if spec.init_containers or spec.resources is not None or spec.overhead:
        return pod_requests(spec)
    key = tuple(_told(each.resources) for each in spec.containers or ())
    requests = _known.get(key)
    if requests is None:
        requests = pod_requests(spec)
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = requests
    return requests


def _told(resources: ResourceRequirements | None) -> tuple[Any, ...]:
    if resources is None:
        return ()
    return tuple((resources.requests or {}).items()), tuple((resources.limits or {}).items())


_NO_DEVICES = ("cpu", "memory", "pods", "ephemeral-storage")
_MOST_HELD = 20
_TAKES_PODS = ("idle", "mix", "alloc")
NOTHING: Mapping[str, Any] = MappingProxyType({})


def _quarantine(node: Node) -> str:
    by, why = quarantined_by(node.spec.taints), (node.metadata.annotations or {}).get(QUARANTINE, "")
    return f"by {by}: {why}" if by and why else f"by {by}" if by else ""


class NodeQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which nodes are shown.

    Attributes:
        q: words that are in name, HyperNode, or job or user of a holder.
        state: of the node.
        model: of its cards.
        free: at least so many cards of it are free, and it takes pods.
        offset, limit: the window.
    """

    q: str = ""
    state: str = ""
    model: str = ""
    free: int = 0
    offset: int = 0
    limit: int = 500


def node_cells(
    nodes: Sequence[Node],
    holders: Mapping[str, Mapping[str, Holder]],
    hyper_nodes: Iterable[HyperNode],
    jobs: Mapping[str, JobRow] = NOTHING,
    quiet: Mapping[str, float] = NOTHING,
    used_cards: Mapping[str, float] = NOTHING,
) -> list[NodeCell]:
    """All nodes that the viewer may see, in the order of their places.

    Args:
        nodes: of the cluster.
        holders: what jobs hold, by node.
        hyper_nodes: of the cluster.
        jobs: rows of those that hold something, by ``namespace/name``.
        quiet: since when jobs have done nothing.
        used_cards: measured mean use of cards, by node.
    """
    by_name = {node.metadata.name: node for node in nodes}
    paths, used = paths_of(hyper_nodes, by_name), used_by_node(holders)
    cells = []
    for name, node in by_name.items():
        there, taken = resource_list(node.status.allocatable), used.get(name, {})
        devices = _devices(there)
        cards, cards_used, share = _parts(there, taken, devices)
        cells.append(
            NodeCell(
                name=name,
                state=node_state(node, there, taken),
                cordoned=bool(node.spec.unschedulable),
                quarantine=_quarantine(node),
                cpus=_of("cpu", taken, there),
                memory=_of("memory", taken, there),
                devices=", ".join(
                    f"{quantity(device, taken.get(device, 0))} of {amount_text(device, there[device])}"
                    for device in devices
                ),
                model=accelerator_type(node.metadata.labels or {}) if devices else "",
                cards=cards,
                cards_used=cards_used,
                share=share,
                pods=taken.get("pods", 0),
                path=list(reversed(paths.get(name, ()))),
                held=_held(holders.get(name, {}), devices, jobs, quiet),
                use=used_cards.get(name, -1.0),
            )
        )
    cells.sort(key=lambda cell: (not cell.path, natural(" ".join(cell.path)), natural(cell.name)))
    return cells


def nodes_view(cells: Sequence[NodeCell], query: NodeQuery, *, cordons: bool, ready: bool = True) -> NodesView:
    """The nodes that a query asks for.

    Args:
        cells: all nodes, in their order.
        query: what is asked for.
        cordons: whether the viewer may change nodes.
        ready: everything was listed once.
    """
    words = query.q.lower().split()
    matches = [
        cell
        for cell in cells
        if query.state in ("", cell.state)
        and query.model in ("", cell.model)
        and (query.free <= 0 or _free(cell) >= query.free)
        and _has(cell, words)
    ]
    offset, window = windowed(matches, query.offset, query.limit)
    return NodesView(
        ready=ready,
        total=len(cells),
        matched=len(matches),
        offset=offset,
        order=[cell.name for cell in window],
        rows={cell.name: cell for cell in window},
        states=counted(Counter(cell.state for cell in cells)),
        models=counted(Counter(cell.model for cell in cells if cell.model)),
        free=_by_free(cells),
        cordons=cordons,
    )


def _has(cell: NodeCell, words: Sequence[str]) -> bool:
    if not words:
        return True
    text = f"{cell.name} {' '.join(cell.path)} {' '.join(f'{each.job} {each.user}' for each in cell.held)}".lower()
    return all(word in text for word in words)


def _free(cell: NodeCell) -> float:
    """Cards that a new pod may have."""
    return cell.cards - cell.cards_used if cell.state in _TAKES_PODS else 0.0


def _by_free(cells: Sequence[NodeCell]) -> list[Choice]:
    """By each number of free cards that a node has, how many have as many or more; the largest number first."""
    counts = Counter(int(free) for cell in cells if (free := _free(cell)) >= 1)
    choices, nodes = [], 0
    for free in sorted(counts, reverse=True):
        nodes += counts[free]
        choices.append(Choice(value=str(free), count=nodes))
    return choices


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


def _counted(devices: Sequence[str]) -> Sequence[str]:
    """Those that are cards; where there are none, all."""
    return [name for name in devices if is_gpu(name)] or devices


def _parts(there: Mapping[str, int], used: Mapping[str, int], devices: Sequence[str]) -> tuple[float, float, float]:
    """Cards, used cards, and the used part of them.

    Of cards that are shared, as many count as used as the resource of which most is in use. Where a node has no cards,
    its other devices stand for them, and where it has none, its cores.
    """
    counted = _counted(devices)
    cards = sum(there[name] for name in counted)
    taken = sum(used.get(name, 0) for name in counted)
    if any(map(is_gpu, counted)):
        parts = [used.get(name, 0) / there[name] for name in devices if is_part_of_gpu(name)]
        taken = max(taken, round(cards * min(1.0, max(parts, default=0.0))))
    of, amount = (cards, taken) if cards else (there.get("cpu", 0), used.get("cpu", 0))
    return cards / 1000, taken / 1000, round(min(1.0, amount / of), 4) if of else 0.0


def _held(
    holders: Mapping[str, Holder], devices: Sequence[str], jobs: Mapping[str, JobRow], quiet: Mapping[str, float]
) -> list[Held]:
    counted = _counted(devices)

    def cards(holder: Holder) -> int:
        return sum(holder.amounts.get(name, 0) for name in counted)

    ranked = sorted(holders.items(), key=lambda each: (-cards(each[1]), -each[1].amounts.get("cpu", 0), each[0]))
    shown = []
    for job, holder in ranked[:_MOST_HELD]:
        held = Held(job=job, amount=amounts_text(holder.amounts), cards=cards(holder) / 1000)
        if (row := jobs.get(job)) is not None:
            held.user, held.since, held.ends = row.user, row.started, row.ends
        held.idle = quiet.get(job, 0.0) if held.cards else 0.0
        shown.append(held)
    return shown
