"""What exactly a filter refuses: the taint, label, port, claim, class or rule, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice

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
from unisono.engine.plugins.deviceshare.table import CORES, MEMORY
from unisono.engine.plugins.numa_aware import REFUSED, NumaBook, whole_cpus
from unisono.engine.plugins.predicates.plugin import AFFINITY, CORDONED, DEAD, PORTS, TAINTS
from unisono.engine.session.limit import tasks_fitting
from unisono.engine.session.once import once
from unisono.engine.verdict import reference
from unisono.engine.verdicts.claim_causes import claim_lacks
from unisono.engine.verdicts.company_causes import company, uneven
from unisono.engine.verdicts.holders import daemonset_of, port_holders
from unisono.engine.verdicts.lack import Lack
from unisono.engine.verdicts.nodes_away import untolerated
from unisono.engine.verdicts.selector_causes import selector_cause


def numa_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What the NUMA nodes lack for pods of a class; ``counts``: nodes by the reason that refuses them."""
    policy, book = pod_class.notes.get(keys.NUMA_TOPOLOGY_POLICY, ""), NumaBook(cycle.session)
    if any(reason.startswith(f"task topology policy[{policy}]") for reason in counts):
        others = sorted({node.policy for node in book.nodes.values()} - {policy})
        what = f"the pods ask for topology policy {policy}, and nodes have {listed(tuple(others))}"
        yield Lack(what, f"ask for topology policy {' or '.join(others)}, or add nodes with {policy}")
    requested = max((whole_cpus(one) for one in pod_class.containers), default=0)
    candidates = [
        ((cpus & book.free(column)).bit_count(), cpus.bit_count(), cycle.session.snapshot.nodes.names[column])
        for column, node in book.nodes.items()
        if node.topology is not None and node.policy in (SINGLE, RESTRICTED)
        for _, cpus in node.topology.numa
    ]
    if REFUSED.text in counts and requested and candidates:
        free, whole, name = max(candidates)
        most = f"the NUMA node with most free (of {name}) has {free} of {whole}"
        alone = len(pod_class.containers) == 1 and not pod_class.init_containers
        change = RequestAtMost({"cpu": free * 1000}) if alone and free else None
        remedy = f"ask for at most {free} CPUs per container" if free else "wait until CPUs are free"
        yield Lack(f"a container asks for {requested} CPUs of one NUMA node, and {most}", remedy, change)


_CHOICES = frozenset(
    (keys.VGPU_MODE, keys.VGPU_USE_TYPE, keys.VGPU_NO_USE_TYPE, keys.VGPU_USE_UUID, keys.VGPU_NO_USE_UUID)
)
"""Annotations of a pod that choose cards."""
_MOST_MODELS = 4


def card_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What the cards lack for pods of a class; ``counts``: nodes by the reason that refuses them."""
    for book in DeviceBook.of(cycle.session).books(pod_class):
        parts, table = book.family.parts(pod_class), book.table
        if not book.columns or not parts or not (UNSUITABLE.text in counts or book.family.short.text in counts):
            continue
        allowed = book.allowed(pod_class)
        usable = table.usable if allowed is None else table.usable & allowed
        if not usable.any() and table.usable.any():
            yield _not_allowed(book, pod_class)
        else:
            part = max(parts, key=lambda one: (one.memory, one.percent, one.count))
            yield from _card_lack(cycle, book, part, usable, alone=len(parts) == 1)


def _not_allowed(book: FamilyBook, pod_class: PodClass) -> Lack:
    """The pod's annotations leave no card of any node."""
    notes = listed(tuple(f"{key}={pod_class.notes[key]}" for key in sorted(_CHOICES & pod_class.notes.keys())))
    cards = [card for node in book.table.nodes for card in node.cards]
    models = sorted({card.model for card in cards if card.model and card.usable})[:_MOST_MODELS]
    there = f" (they are {listed(tuple(models))})" if models else ""
    what = f"the pod's annotation {notes} allows none of the cards of any node{there}"
    return Lack(what, f"change or remove the annotation {notes}")


def _card_lack(cycle: Cycle, book: FamilyBook, part: Part, usable: BoolArray, *, alone: bool) -> Iterator[Lack]:
    """What the card that comes nearest lacks, and who uses the cards; ``usable``: ``[n, C]`` those that may be used."""
    table = book.table
    loads = table.loads(np.arange(len(table.nodes)), future=False)
    whole, free = (np.where(usable, amounts, 0) for amounts in (table.memory, table.memory - loads[MEMORY]))
    never = part.memory > whole.max()
    row, card = np.unravel_index(int((whole if never else free).argmax()), free.shape)
    left, number = int(free[row, card]), int(usable.sum(axis=1).max())
    cores = int(np.where(usable & (free >= part.memory), FULL_CORES - loads[CORES], 0).max())
    cards = "one card" if part.count == 1 else f"each of {counted(part.count, 'card')}"
    asked = f"{part.percent}% of the memory of {cards}" if part.percent else counted(part.count, "idle card")
    asked = f"{book.family.resource} {part.memory} of {cards}" if part.memory else asked
    if part.count > number:
        has = f"the most that a node has is {number}"
    elif part.memory > left:
        node = cycle.session.snapshot.nodes.names[book.columns[row]]
        has = f"the {'largest card' if never else 'card with most free'} (of {node}) has {left} of {whole[row, card]}"
    elif part.cores > cores:
        has = f"{part.cores}% of its cores, of which cards with so much free have at most {cores}% left"
    elif part.memory:
        has = "cards with so much free are in use by as many pods as may share them, or not to be shared with this pod"
    else:
        return
    users = listed(tuple(sorted(reference(key, "pod") for key in book.holds)))
    used = f"; in use by {users}" if book.holds and not never else ""
    most = int(whole.max()) if never else left
    less = alone and part.memory > most >= (1 if never else part.memory // 2)
    remedy = "wait until a card has so much free, or ask for less"
    remedy = "ask for less of each card, or for fewer" if never or part.count > number else remedy
    change = RequestAtMost({book.family.resource: most * 1000}) if less else None
    yield Lack(f"the pod asks for {asked}, and {has}{used}", remedy, change)


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
        sentence = self._known.get(key)
        if sentence is None:
            if len(self._known) >= MOST_CLASSES:
                return ""
            sentence = self._known[key] = filter_causes(self.cycle, pod_class, fit, namespace)
        return sentence


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
    causes = list(islice((text for text in chain.from_iterable(made) if text), _MOST_CAUSES))
    text = "; ".join(dict.fromkeys(causes))
    return f" {text[0].upper()}{text[1:]}{'' if text.endswith('?') else '.'}" if text else ""


def lacks_of(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What claims, cards and NUMA nodes lack for a class; ``counts``: nodes by the reason that refuses them."""
    yield from claim_lacks(cycle, pod_class, counts)
    yield from card_lacks(cycle, pod_class, counts)
    yield from numa_lacks(cycle, pod_class, counts)


@once
def allowed_nowhere(cycle: Cycle, pod_class: PodClass) -> FitErrors | None:
    """Why labels and taints alone keep the class off every node that has what it asks for at all.

    That includes nodes that are cordoned or not ready, and devices that are not healthy.
    """
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
    ports = {(protocol, port) for protocol, _, port in pod_class.host_ports}
    held = port_holders(cycle)
    for protocol, port in sorted(ports):
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
