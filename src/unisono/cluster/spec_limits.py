"""How much a pod may ask of the scheduler: each term, toleration and value is looked at for each node, again and again.

Kubernetes has no bounds here beyond the size of an object, which is enough for tens of thousands of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from unisono.api.core import NodeSelectorTerm, PodAffinityTerm, PodSpec
from unisono.api.meta import LabelSelector

MOST_TERMS: Final = 64
"""Terms about other pods, spread constraints included, and terms about nodes."""
MOST_VALUES: Final = 8192
"""Namespaces, labels and values in all those terms."""
MOST_TOLERATIONS: Final = 512
MOST_PORTS: Final = 1024
"""Ports of the node's address."""
MOST_VOLUMES: Final = 512


def weight_of(spec: PodSpec) -> int:
    """Number of things that filters and scores look at for each node.

    Raises:
        ValueError: they are more than the scheduler looks at; the text names the field and the way out.

    """
    terms, nodes, spread = _pod_terms(spec), _node_terms(spec), spec.topology_spread_constraints or ()
    selectors = [*(one.label_selector for one in (*terms, *spread)), *(one.namespace_selector for one in terms)]
    values = (
        sum(len(one.namespaces or ()) for one in terms) + sum(map(_labels, selectors)) + sum(map(_requirements, nodes))
    )
    ports = sum(port.host_port is not None for each in spec.containers or () for port in each.ports or ())
    tolerations = len(spec.tolerations or ())
    about = "spec.affinity and spec.topologySpreadConstraints"
    for number, most, what, instead in (
        (len(terms) + len(spread), MOST_TERMS, f"terms about other pods in {about}", "join them into fewer selectors"),
        (
            len(nodes),
            MOST_TERMS,
            "terms in spec.affinity.nodeAffinity",
            "select nodes by a label of their own",
        ),
        (values, MOST_VALUES, f"namespaces, labels and values in {about}", "give what is meant a label of its own"),
        (tolerations, MOST_TOLERATIONS, "spec.tolerations", "one without a key tolerates all taints"),
        (ports, MOST_PORTS, "ports with hostPort in spec.containers", "use a Service"),
    ):
        _check(number, most, what, instead)
    return len(terms) + len(nodes) + len(spread) + values + tolerations + ports


def check_volumes(spec: PodSpec) -> None:
    """Volumes tie pods of one class to claims of their own, so they are counted for each pod.

    Raises:
        ValueError: there are more than `MOST_VOLUMES`.

    """
    _check(len(spec.volumes or ()), MOST_VOLUMES, "spec.volumes", "join them into fewer volumes")


def _check(number: int, most: int, what: str, instead: str) -> None:
    if number > most:
        raise ValueError(f"{number} {what} are too many to be scheduled, {most} at most: {instead}")


def _pod_terms(spec: PodSpec) -> list[PodAffinityTerm]:
    found: list[PodAffinityTerm] = []
    sides = (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity) if spec.affinity else ()
    for side in sides:
        if side is not None:
            found += side.required_during_scheduling_ignored_during_execution or ()
            preferred = side.preferred_during_scheduling_ignored_during_execution or ()
            found += [each.pod_affinity_term for each in preferred if each.pod_affinity_term is not None]
    return found


def _node_terms(spec: PodSpec) -> list[NodeSelectorTerm]:
    side = spec.affinity.node_affinity if spec.affinity else None
    if side is None:
        return []
    required = side.required_during_scheduling_ignored_during_execution
    preferred = side.preferred_during_scheduling_ignored_during_execution or ()
    found = [*((required.node_selector_terms if required else None) or ())]
    return found + [each.preference for each in preferred if each.preference is not None]


def _labels(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels or ()) + _values(selector.match_expressions)


def _requirements(term: NodeSelectorTerm) -> int:
    return _values(term.match_expressions) + _values(term.match_fields)


def _values(requirements: Iterable[Any] | None) -> int:
    return sum(1 + len(one.values or ()) for one in requirements or ())
