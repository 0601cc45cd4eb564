"""What a job asks of its cluster, taken out of its copy: in the chosen member it is met (pure).

A hub gives the nodes of its state the labels of their AttachedCluster. The member's own nodes do not have them, and
its scheduler would find no node for a pod that asks for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from unisono.api.meta import LabelSelector, LabelSelectorRequirement
from unisono.api.selecting import selects

_DEEPEST: Final = 40
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def without_labels(value: Any, labels: Mapping[str, str], depth: int = 0) -> Any:
    """JSON whose pod templates do not ask for these labels any more, where a node with them meets what is asked."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [without_labels(each, labels, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("containers"), list):
        return _spec(value, labels)
    return {key: without_labels(each, labels, depth + 1) for key, each in value.items()}


def _spec(spec: dict[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    found = dict(spec)
    selector = found.get("nodeSelector")
    if isinstance(selector, dict):
        found["nodeSelector"] = {key: each for key, each in selector.items() if labels.get(key) != each}
    nodes = (found.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    if terms:
        left = [each for each in (_term(term, labels) for term in terms) if each is not None]
        nodes = {key: each for key, each in nodes.items() if key != _REQUIRED}
        # One term that is met is enough; where none can be, the terms stay as they are.
        if all(_asks(each) for each in left):
            nodes[_REQUIRED] = {"nodeSelectorTerms": left or terms}
        found["affinity"] = {**found["affinity"], "nodeAffinity": nodes}
    return found


def _term(term: dict[str, Any], labels: Mapping[str, str]) -> dict[str, Any] | None:
    """The rest of a term; None for one that no node of the member meets."""
    if not _asks(term):
        return None
    expressions = term.get("matchExpressions") or []
    about = [each for each in expressions if each.get("key") in labels and each.get("operator") in _OPERATORS]
    asked = [LabelSelectorRequirement(each["key"], each["operator"], each.get("values")) for each in about]
    if not selects(LabelSelector(match_expressions=asked), labels):
        return None
    return {**term, "matchExpressions": [each for each in expressions if each not in about]}


def _asks(term: dict[str, Any]) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))
