"""What exactly a filter refuses: the taint, label, port, claim, class or rule, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from unisono.api import keys
from unisono.api.core import Taint
from unisono.api.messages import counted, plural
from unisono.api.numa import RESTRICTED, SINGLE
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS
from unisono.cluster.taints import repels
from unisono.engine.answers import BoolArray
from unisono.engine.changes import RequestAtMost, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import TOO_MANY_PODS, FitErrors
from unisono.engine.plugins.common.node_selectors import is_state, match_pod, per_node
from unisono.engine.plugins.common.topology_spread import NOT_NEAR, TOO_NEAR, UNEVEN, UNLABELLED, UNWANTED
from unisono.engine.plugins.deviceshare.book import DeviceBook, FamilyBook
from unisono.engine.plugins.deviceshare.model import FULL_CORES, Part
from unisono.engine.plugins.deviceshare.plugin import UNSUITABLE
from unisono.engine.plugins.deviceshare.table import CORES, COUNT, MEMORY, CardTable, Ints
from unisono.engine.plugins.numa_aware import REFUSED, NumaBook, whole_cpus
from unisono.engine.plugins.predicates.plugin import AFFINITY, CORDONED, DEAD, PORTS, TAINTS
from unisono.engine.session.limit import tasks_fitting
from unisono.engine.verdict import reference
from unisono.engine.verdicts.claim_causes import claim_lacks
from unisono.engine.verdicts.company_causes import company, uneven
from unisono.engine.verdicts.holders import daemonset_of, port_holders
from unisono.engine.verdicts.lack import Lack
from unisono.engine.verdicts.selector_causes import selector_cause
from unisono.engine.verdicts.taint_causes import untolerated


class _Best(NamedTuple):
    """CPUs of one NUMA node: free ones, how many it has, and its machine."""

    free: int = 0
    whole: int = 0
    name: str = ""


def numa_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What the NUMA nodes lack for pods of a class; ``counts``: nodes by the reason that refuses them."""
    policy = pod_class.notes.get(keys.NUMA_TOPOLOGY_POLICY, "")
    if any(reason.startswith(f"task topology policy[{policy}]") for reason in counts):
        others = sorted({node.policy for node in NumaBook(cycle.session).nodes.values()} - {policy})
        what = f"the pods ask for topology policy {policy}, and nodes have {listed(tuple(others))}"
        yield Lack(what, f"ask for topology policy {' or '.join(others)}, or add nodes with {policy}")
    wanted = max((whole_cpus(one) for one in pod_class.containers), default=0)
    if REFUSED.text not in counts or not wanted:
        return
    book, names = NumaBook(cycle.session), cycle.session.snapshot.nodes.names
    best, largest = _Best(), _Best()
    for column, node in book.nodes.items():
        if node.topology is None or node.policy not in (SINGLE, RESTRICTED):
            continue
        for _, cpus in node.topology.numa:
            one = _Best((cpus & book.free(column)).bit_count(), cpus.bit_count(), names[column])
            best, largest = max(best, one), max(largest, one, key=lambda each: each.whole)
    if not largest.name:
        return
    asks = f"a container asks for {wanted} CPUs of one NUMA node"
    if wanted > largest.whole:
        what = f"{asks}, and the largest NUMA node (of {largest.name}) has {largest.whole}"
    else:
        what = f"{asks}, and the NUMA node with most free (of {best.name}) has {best.free} of {best.whole}"
    most = largest.whole if wanted > largest.whole else best.free
    alone = len(pod_class.containers) == 1 and not pod_class.init_containers
    change = RequestAtMost({"cpu": most * 1000}) if alone and most else None
    yield Lack(what, f"ask for at most {most} CPUs per container" if most else "wait until CPUs are free", change)


_CHOICES = frozenset(
    (keys.VGPU_MODE, keys.VGPU_USE_TYPE, keys.VGPU_NO_USE_TYPE, keys.VGPU_USE_UUID, keys.VGPU_NO_USE_UUID)
)
"""Annotations of a pod that choose cards."""
_MOST_MODELS = 4


def card_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What the cards lack for pods of a class; ``counts``: nodes by the reason that refuses them."""
    for book in DeviceBook.of(cycle.session).books(pod_class):
        parts = book.family.parts(pod_class)
        if not book.columns or not parts or not (UNSUITABLE.text in counts or book.family.short.text in counts):
            continue
        part = max(parts, key=lambda one: (one.memory, one.percent, one.count))
        usable = _usable(book, pod_class)
        lack = _not_allowed(book, pod_class, usable) or _too_large(cycle, book, part, usable, alone=len(parts) == 1)
        lack = lack or _too_full(cycle, book, part, usable, alone=len(parts) == 1)
        if lack is not None:
            yield lack


def _asked(book: FamilyBook, part: Part) -> str:
    """``aliyun.com/gpu-mem 12 of one card``."""
    cards = "one card" if part.count == 1 else f"each of {counted(part.count, 'card')}"
    if part.memory:
        return f"{book.family.resource} {part.memory} of {cards}"
    return f"{part.percent}% of the memory of {cards}" if part.percent else counted(part.count, "idle card")


def _usable(book: FamilyBook, pod_class: PodClass) -> BoolArray:
    """``[n, C]`` healthy cards that the pod's annotations permit."""
    allowed = book.allowed(pod_class)
    return book.table.usable if allowed is None else book.table.usable & allowed


def _not_allowed(book: FamilyBook, pod_class: PodClass, usable: BoolArray) -> Lack | None:
    """The pod's annotations leave no card of any node."""
    if usable.any() or not book.table.usable.any():
        return None
    notes = listed(tuple(f"{key}={pod_class.notes[key]}" for key in sorted(_CHOICES & pod_class.notes.keys())))
    cards = [card for node in book.table.nodes for card in node.cards]
    models = sorted({card.model for card in cards if card.model and card.usable})[:_MOST_MODELS]
    there = f" (they are {listed(tuple(models))})" if models else ""
    what = f"the pod's annotation {notes} allows none of the cards of any node{there}"
    return Lack(what, f"change or remove the annotation {notes}")


def _too_large(cycle: Cycle, book: FamilyBook, part: Part, usable: BoolArray, *, alone: bool) -> Lack | None:
    """No card is so large, or no node has so many cards."""
    names, table = cycle.session.snapshot.nodes.names, book.table
    memory = np.where(usable, table.memory, 0)
    row, card = np.unravel_index(int(memory.argmax()), memory.shape)
    largest = int(memory[row, card])
    if part.memory > largest:
        what = (
            f"the pod asks for {_asked(book, part)}, and the largest card (of {names[book.columns[row]]}) has {largest}"
        )
        change = RequestAtMost({book.family.resource: largest * 1000}) if alone and largest else None
        return Lack(what, change.text() if change is not None else "ask for less of each card", change)
    if part.cores > FULL_CORES:
        what = f"the pod asks for {part.cores}% of the cores of one card, and a card has {FULL_CORES}%"
        return Lack(what, f"ask for at most {FULL_CORES}% of the cores of each card")
    numbers = usable.sum(axis=1)
    if part.count > numbers.max():
        most = names[book.columns[int(numbers.argmax())]]
        what = f"the pod asks for {_asked(book, part)}, and the most that a node has is {int(numbers.max())} ({most})"
        return Lack(what, "ask for fewer cards")
    return None


def _busy(part: Part, table: CardTable, loads: Ints, usable: BoolArray, free: Ints) -> str:
    """What cards with enough free memory lack: cores, or places for one more pod."""
    roomy = usable & (free >= part.memory)
    cores = int(np.where(roomy, FULL_CORES - loads[CORES], 0).max())
    if part.cores > cores:
        return f"{part.cores}% of its cores, of which cards with so much free have at most {cores}% left"
    if not (roomy & (loads[COUNT] < table.slots)).any():
        return "cards with so much free have as many pods as may share them"
    return "cards with so much free are in use as a whole, or not to be shared with this pod"


def _too_full(cycle: Cycle, book: FamilyBook, part: Part, usable: BoolArray, *, alone: bool) -> Lack | None:
    """Which card comes nearest, and who uses the cards."""
    names, table = cycle.session.snapshot.nodes.names, book.table
    if not part.memory:
        return None
    loads = table.loads(np.arange(len(table.nodes)), future=False)
    free = np.where(usable, table.memory - loads[MEMORY], -1)
    row, card = np.unravel_index(int(free.argmax()), free.shape)
    users = listed(tuple(sorted(reference(key, "pod") for key in book.holds)))
    asked, node = _asked(book, part), names[book.columns[row]]
    if int(free[row, card]) >= part.memory:
        what = f"the pod asks for {asked}, and {_busy(part, table, loads, usable, free)}"
    else:
        most = f"the card with most free (of {node}) has {int(free[row, card])} of {int(table.memory[row, card])}"
        what = f"the pod asks for {asked}, and {most}"
    what, left = f"{what}; in use by {users}" if book.holds else what, int(free[row, card])
    less = alone and part.memory > left >= part.memory // 2
    change = RequestAtMost({book.family.resource: left * 1000}) if less else None
    return Lack(what, "wait until a card has so much free, or ask for less", change)


MOST_CLASSES = 100
"""Pod classes for which causes are put into words in one cycle."""
_MOST_CAUSES = 4


class FilterCauses:
    """Answers of one cycle, kept by pod class; at most `MOST_CLASSES` are looked at, the rest keep their counts."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self._known: dict[tuple[int, str, frozenset[str]], str] = {}

    def text(self, pod_class: PodClass, fit: FitErrors, namespace: str) -> str:
        """What `filter_causes` answers."""
        key = pod_class.id, namespace, frozenset(fit.counts)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_CLASSES:
                return ""
            found = self._known[key] = filter_causes(self.cycle, pod_class, fit, namespace)
        return found


def filter_causes(cycle: Cycle, pod_class: PodClass, fit: FitErrors, namespace: str) -> str:
    """One sentence about what refuses a pod of ``namespace``, ``""`` where the counts say it all."""
    table = cycle.session.snapshot.nodes
    asked: tuple[tuple[tuple[str, ...], Callable[[], Iterator[str]]], ...] = (
        ((AFFINITY.text,), lambda: iter((selector_cause(pod_class, cycle.session.nodes),))),
        ((CORDONED.text,), lambda: _away(cycle, pod_class, table.ready & table.unschedulable, "cordoned")),
        ((DEAD.text,), lambda: _away(cycle, pod_class, ~table.ready, "not ready")),
        ((TAINTS.text,), lambda: untolerated(cycle, pod_class)),
        ((PORTS.text,), lambda: _ports(cycle, pod_class)),
        (
            (NOT_NEAR.text, TOO_NEAR.text, UNWANTED.text),
            lambda: company(cycle, pod_class, fit.counts, namespace),
        ),
        ((UNEVEN.text, UNLABELLED.text), lambda: uneven(cycle, pod_class)),
        (("Insufficient pods", TOO_MANY_PODS), lambda: _pod_limit(cycle)),
    )
    made = [make() for texts, make in asked if any(text in fit.counts for text in texts)]
    lacks = lacks_of(cycle, pod_class, fit.counts)
    made.append(lack.text_after(fit.counts) for lack in lacks)
    found = list(islice((text for text in chain.from_iterable(made) if text), _MOST_CAUSES))
    text = "; ".join(dict.fromkeys(found))
    return f" {text[0].upper()}{text[1:]}{'' if text.endswith('?') else '.'}" if text else ""


@dataclass(slots=True)
class _Nowhere:
    """What `allowed_nowhere` has answered in this session, by the class."""

    by_class: dict[int, FitErrors | None] = field(default_factory=dict)


def lacks_of(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What claims, cards and NUMA nodes lack for a class; ``counts``: nodes by the reason that refuses them."""
    yield from claim_lacks(cycle, pod_class, counts)
    yield from card_lacks(cycle, pod_class, counts)
    yield from numa_lacks(cycle, pod_class, counts)


def allowed_nowhere(cycle: Cycle, pod_class: PodClass) -> FitErrors | None:
    """Why labels and taints alone keep the class off every node that has what it asks for at all.

    That includes nodes that are cordoned or not ready, and devices that are not healthy.
    """
    known = cycle.session.shared.of(_Nowhere, _Nowhere).by_class
    if pod_class.id not in known:
        known[pod_class.id] = _allowed_nowhere(cycle, pod_class)
    return known[pod_class.id]


def _allowed_nowhere(cycle: Cycle, pod_class: PodClass) -> FitErrors | None:
    nodes = cycle.session.nodes
    outside = ~match_pod(pod_class, nodes)
    outside |= per_node(nodes, lambda taints: repels(_of_users(taints), pod_class.tolerations)) != 0
    having = _having(cycle, pod_class)
    return cycle.fits.whatever_is_free(pod_class) if having.any() and outside[having].all() else None


def _having(cycle: Cycle, pod_class: PodClass) -> BoolArray:
    """``[N]`` nodes that have some of each resource that a class asks for."""
    nodes, registry = cycle.session.nodes, cycle.session.registry
    there = nodes.allocatable[pod_class.rows] > 0
    for at, name in enumerate(pod_class.resource_names(registry)):
        if "/" in name:
            there[at] |= np.array([name in facts.unhealthy for facts in nodes.table.facts], dtype=np.bool_)
    return np.asarray(there.all(axis=0), dtype=np.bool_)


def _of_users(taints: Iterable[Taint]) -> list[Taint]:
    """Without those that tell a node's state, which passes."""
    return [taint for taint in taints if not is_state(taint)]


def _away(cycle: Cycle, pod_class: PodClass, mask: BoolArray, state: str) -> Iterator[str]:
    """The nodes of ``mask`` that the selector allows: those that could hold the pod, where some of them could."""
    nodes = cycle.session.nodes
    away = match_pod(pod_class, nodes) & mask
    able = away & (tasks_fitting(nodes.allocatable, pod_class) > 0)
    names = tuple(nodes.table.names[at] for at in np.flatnonzero(able if able.any() else away).tolist())
    if names:
        yield f"{plural(len(names), 'node')} {listed(names)} {'is' if len(names) == 1 else 'are'} {state}"


def _ports(cycle: Cycle, pod_class: PodClass) -> Iterator[str]:
    wanted = {(protocol, port) for protocol, _, port in pod_class.host_ports}
    held = port_holders(cycle)
    for protocol, port in sorted(wanted):
        pods: dict[str, list[str]] = {}
        for node in sorted(held.keys() & cycle.session.snapshot.nodes.index.keys()):
            for key, other in held[node].items():
                if any((protocol, port) == (one, number) for one, _, number in other.host_ports):
                    pods.setdefault(key, []).append(node)
        if pods:
            on = listed(tuple(sorted({node for nodes in pods.values() for node in nodes})))
            yield f"host port {port}/{protocol} is held by {_whose(cycle, pods)} on {on}"
        elif cycle.session.nodes.size:
            count = cycle.session.nodes.size
            yield f"host port {port}/{protocol} goes to one pod per node, and there {_are(count, 'node')}"


def _whose(cycle: Cycle, pods: Iterable[str]) -> str:
    """``pod ns/a and pod ns/b``, or ``daemonset ns/exporter`` where a DaemonSet has such a pod on every node."""
    daemons = {daemonset_of(cycle, key) for key in pods}
    if daemons and "" not in daemons:
        return listed(tuple(reference(key, "daemonset") for key in sorted(daemons)))
    return listed(tuple(reference(key, "pod") for key in sorted(pods)))


def _are(count: int, noun: str) -> str:
    return f"is {count} {noun}" if count == 1 else f"are {count} {noun}s"


def _pod_limit(cycle: Cycle) -> Iterator[str]:
    nodes = cycle.session.nodes
    full = np.flatnonzero((nodes.future_idle[PODS] <= 0) & (nodes.allocatable[PODS] > 0)).tolist()
    if full:
        names = listed(tuple(nodes.table.names[at] for at in full))
        most = int(nodes.allocatable[PODS, full[0]])
        yield f"{int(nodes.used[PODS, full[0]])} of at most {most} pods are on {names}"
