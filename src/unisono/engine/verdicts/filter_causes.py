"""What exactly a filter refuses: the taint, label, port, claim, class or rule, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from unisono.api.core import Taint
from unisono.api.near_names import nearest
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import TOO_MANY_PODS, FitErrors
from unisono.engine.plugins.common.node_selectors import match_pod
from unisono.engine.plugins.common.pod_affinity import NOT_NEAR, TOO_NEAR, UNWANTED
from unisono.engine.plugins.common.taints import STATES, per_node, repels, tolerated
from unisono.engine.plugins.common.topology_spread import UNEVEN, UNLABELLED
from unisono.engine.plugins.predicates.plugin import AFFINITY, PORTS, TAINTS
from unisono.engine.verdicts.claim_causes import claim_lacks
from unisono.engine.verdicts.company_causes import company, uneven
from unisono.engine.verdicts.port_holders import port_holders
from unisono.engine.verdicts.selector_causes import selector_cause

MOST_CLASSES = 100
"""Pod classes for which causes are put into words in one cycle."""
_MOST_CAUSES = 4
_REPELLING = ("NoSchedule", "NoExecute")


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
    asked: tuple[tuple[tuple[str, ...], Callable[[], Iterator[str]]], ...] = (
        ((AFFINITY.text,), lambda: iter((selector_cause(pod_class, cycle.session.nodes),))),
        ((TAINTS.text,), lambda: _taints(cycle, pod_class)),
        ((PORTS.text,), lambda: _ports(cycle, pod_class)),
        (
            (NOT_NEAR.text, TOO_NEAR.text, UNWANTED.text),
            lambda: company(cycle, pod_class, fit.counts, namespace),
        ),
        ((UNEVEN.text, UNLABELLED.text), lambda: uneven(cycle, pod_class)),
        (("Insufficient pods", TOO_MANY_PODS), lambda: _pod_limit(cycle)),
    )
    made = [make() for texts, make in asked if any(text in fit.counts for text in texts)]
    made.append(lack.text_after(fit.counts) for lack in claim_lacks(cycle, pod_class, fit.counts))
    found = list(islice((text for text in chain.from_iterable(made) if text), _MOST_CAUSES))
    text = "; ".join(dict.fromkeys(found))
    return f" {text[0].upper()}{text[1:]}{'' if text.endswith('?') else '.'}" if text else ""


@dataclass(slots=True)
class _Nowhere:
    """What `allowed_nowhere` has answered in this session, by the class."""

    by_class: dict[int, FitErrors | None] = field(default_factory=dict)


def allowed_nowhere(cycle: Cycle, pod_class: PodClass) -> FitErrors | None:
    """Why labels and taints alone keep the class off every node, also off those that are cordoned or not ready."""
    known = cycle.session.shared.of(_Nowhere, _Nowhere).by_class
    if pod_class.id not in known:
        known[pod_class.id] = _allowed_nowhere(cycle, pod_class)
    return known[pod_class.id]


def _allowed_nowhere(cycle: Cycle, pod_class: PodClass) -> FitErrors | None:
    nodes = cycle.session.nodes
    outside = ~match_pod(pod_class, nodes)
    outside |= per_node(nodes, lambda taints: repels(_of_users(taints), pod_class.tolerations)) != 0
    return cycle.fits.whatever_is_free(pod_class) if nodes.size and outside.all() else None


def _of_users(taints: Iterable[Taint]) -> list[Taint]:
    """Without those that tell a node's state, which passes."""
    return [taint for taint in taints if not (taint.key or "").startswith(STATES)]


def taint_text(key: str, value: str, effect: str) -> str:
    """``key=value:effect``."""
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _taints(cycle: Cycle, pod_class: PodClass) -> Iterator[str]:
    """Taints that are not tolerated on nodes that the selector allows, those on most nodes first."""
    nodes, where = cycle.session.nodes, dict[tuple[str, str, str], list[int]]()
    allowed = match_pod(pod_class, nodes)
    codes = np.where(allowed, nodes.taint_codes, -1) if allowed.any() else nodes.taint_codes
    for code in np.unique(codes[codes >= 0]).tolist():
        for taint in nodes.table.taint_sets[code]:
            if taint.effect in _REPELLING and not tolerated(taint, pod_class.tolerations):
                name = taint.key or "", taint.value or "", taint.effect or ""
                where.setdefault(name, []).extend(np.flatnonzero(codes == code).tolist())
    for (key, value, effect), columns in sorted(where.items(), key=lambda item: (-len(item[1]), item[0])):
        others = [one.value or "" for one in pod_class.tolerations if one.key == key and one.operator != "Exists"]
        keys = [one.key or "" for one in pod_class.tolerations if one.key != key]
        told = ""
        if others:
            told = f" (they tolerate {key}={others[0]})"
        elif near := nearest(key, keys):
            told = f" (they tolerate {near})"
        names = tuple(nodes.table.names[at] for at in sorted(columns))
        yield f"the pods do not tolerate the taint {taint_text(key, value, effect)} of {listed(names)}{told}"


def _ports(cycle: Cycle, pod_class: PodClass) -> Iterator[str]:
    wanted = {(protocol, port) for protocol, _, port in pod_class.host_ports}
    held = port_holders(cycle)
    for protocol, port in sorted(wanted):
        pods: dict[str, list[str]] = {}
        for node in sorted(held.keys() & cycle.session.nodes.table.index.keys()):
            for key, other in held[node].items():
                if any((protocol, port) == (one, number) for one, _, number in other.host_ports):
                    pods.setdefault(key, []).append(node)
        if pods:
            on = listed(tuple(sorted({node for nodes in pods.values() for node in nodes})))
            yield f"host port {port}/{protocol} is held by pod {listed(tuple(sorted(pods)))} on {on}"
        elif cycle.session.nodes.size:
            count = cycle.session.nodes.size
            yield f"host port {port}/{protocol} goes to one pod per node, and there {_are(count, 'node')}"


def _are(count: int, noun: str) -> str:
    return f"is {count} {noun}" if count == 1 else f"are {count} {noun}s"


def _pod_limit(cycle: Cycle) -> Iterator[str]:
    nodes = cycle.session.nodes
    full = np.flatnonzero((nodes.future_idle[PODS] <= 0) & (nodes.allocatable[PODS] > 0)).tolist()
    if full:
        names = listed(tuple(nodes.table.names[at] for at in full))
        most = int(nodes.allocatable[PODS, full[0]])
        yield f"{int(nodes.used[PODS, full[0]])} of at most {most} pods are on {names}"
