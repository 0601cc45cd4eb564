"""Whether a template may run on a node, and how long a node that refuses pods is left alone (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unisono.api.core import (
    DeviceTaint,
    DeviceToleration,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Taint,
    Toleration,
)
from unisono.controllers.pod_facts import created, has_failed, has_started

# Whether a template may run on a node, as far as labels, names and taints tell (pure).


def fits(spec: PodSpec, node: Node) -> bool:
    """Whether node selector and required node affinity of the pod allow the node."""
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or allows(required, node.metadata.name, labels)


def allows(required: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether required node affinity allows a node of that name with these labels."""
    return any(_term_fits(term, name, labels) for term in required.node_selector_terms or ())


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(covers(each, taint) for each in tolerations)


def covers(toleration: Toleration | DeviceToleration, taint: Taint | DeviceTaint) -> bool:
    """Whether the toleration covers the taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def blocking(spec: PodSpec, node: Node, effects: tuple[str, ...]) -> list[Taint]:
    """Taints of the node with one of these effects that the pod does not tolerate."""
    taints = [taint for taint in node.spec.taints or () if taint.effect in effects]
    return [taint for taint in taints if not tolerates(spec.tolerations or (), taint)]


def _term_fits(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return all(_holds(each, labels.get(each.key)) for each in term.match_expressions or ()) and all(
        _holds(each, fields.get(each.key)) for each in term.match_fields or ()
    )


def _holds(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or len(values) != 1:
                return False
            try:
                left, right = int(value), int(values[0])
            except ValueError:
                return False
            return left > right if requirement.operator == "Gt" else left < right
        case _:
            return False


# Pods that their node refused: the longer a node keeps refusing, the longer their successors wait (pure).

# The second try after a refusal waits so long, each further one twice as long as the one before.
FIRST_SECONDS = 1.0
LONGEST_SECONDS = 300.0
# A refused pod whose successor has the same name keeps that name for so long.
NAMED_SECONDS = 10.0


def was_refused(pod: Pod) -> bool:
    """Whether the pod failed before any of its containers began: its node had no room for it, or not its labels."""
    return has_failed(pod) and not has_started(pod)


def refused_for(pod: Pod, now: float) -> float:
    """Seconds until a refused pod makes room for its successor of the same name; 0 for any other pod."""
    return max(0.0, created(pod) + NAMED_SECONDS - now) if was_refused(pod) else 0.0


def refusal_wait(pods: Sequence[Pod], missing: int, now: float) -> float:
    """Seconds until pods are made in the place of refused ones; 0 where that is now.

    The first is made at once: most refusals come from a scheduler that did not know yet how full the node was. The pods
    themselves are the memory, so that a restart of the controller starts no new rush.

    Args:
        pods: the pods of a workload whose names are drawn, failed ones too.
        missing: how many are to be made.
        now: seconds since 1970.

    """
    accepted = max((created(pod) for pod in pods if has_started(pod)), default=0.0)
    refused = [created(pod) for pod in pods if was_refused(pod) and created(pod) >= accepted]
    rounds = math.ceil(len(refused) / missing) if missing > 0 else 0
    if rounds < 2:
        return 0.0
    delay = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(rounds - 2, 16))
    return max(0.0, max(refused) + delay - now)
