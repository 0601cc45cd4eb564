"""Which part of a node selector or required node affinity no node meets, and what was probably meant."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

import numpy as np

from unisono.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from unisono.api.messages import plural
from unisono.api.names import did_you_mean, nearest
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray
from unisono.engine.changes import listed
from unisono.engine.plugins.common.node_selectors import (
    match_labels,
    match_pod,
    match_selector,
    match_term,
    parse_integer,
    required_of,
)
from unisono.engine.session.node_view import NodeView

_MOST_PARTS = 3
_MOST_VALUES = 3
_SAME = (frozenset(("true", "yes", "y", "on", "1", "enabled")), frozenset(("false", "no", "n", "off", "0", "disabled")))
"""Words that say the same."""
_MOST_NEAR = 64
"""Values that are compared with one that no node has."""
_SHORTEST_WORD = 3
_MOST_APART = 8
"""Labels of a selector up to which each is compared with all the others."""


def _around(value: str, values: list[str]) -> list[str]:
    """The values that stand near in order: hundreds of jobs may ask about the labels of thousands of nodes."""
    if len(values) <= _MOST_NEAR:
        return values
    at = bisect_left(values, value)
    return values[max(at - _MOST_NEAR // 2, 0) : at + _MOST_NEAR // 2]


def meant_label(nodes: NodeView, key: str, value: str) -> tuple[str, str] | None:
    """The label of some node that ``key=value``, which no node has, is a near miss of."""
    values = nodes.table.present_values(key)
    if value in values:
        return None
    if values:
        near = _near_value(value, values)
        return (key, near) if near else None
    near = nearest(key, nodes.table.label_keys())
    if not near:
        return None
    near_values = nodes.table.present_values(near)
    return near, value if value in near_values else _near_value(value, near_values) or value


@lru_cache(maxsize=512)
def _nearest(value: str, values: tuple[str, ...]) -> str:
    """As `nearest`; several parts of a verdict ask about the same label."""
    return nearest(value, values)


def _near_value(value: str, values: list[str]) -> str:
    """The value that ``value`` is a near miss of, or another word for the same yes or no; ``""`` without one."""
    near = _nearest(value, tuple(_around(value, values))) or _only_one_of(value, values)
    alike = next((words for words in _SAME if value.casefold() in words), frozenset())
    return near or next((one for one in values if one.casefold() in alike), "")


def _only_one_of(value: str, values: list[str]) -> str:
    """The only value with this word among others, as ``H100`` for ``NVIDIA-H100-80GB-HBM3``; ``""`` without one."""
    word = value.casefold()
    if len(word) < _SHORTEST_WORD or len(values) > _MOST_NEAR:
        return ""
    having = [one for one in values if word in _words(one)]
    return having[0] if len(having) == 1 else ""


def _words(value: str) -> list[str]:
    return "".join(each if each.isalnum() else " " for each in value.casefold()).split()


def missing_label(nodes: NodeView, key: str, value: str) -> str:
    """What to say of ``key=value`` where no node has it; ``""`` where one does."""
    values = nodes.table.present_values(key)
    if value in values:
        return ""
    meant = meant_label(nodes, key, value)
    if meant is not None:
        hint = f" (did you mean {meant[1]}?)" if values else f" (did you mean {meant[0]}={meant[1]}?)"
    elif values:
        shown = listed(tuple(values[:_MOST_VALUES])) + (" and others" if len(values) > _MOST_VALUES else "")
        hint = f" (nodes have {shown})"
    else:
        hint = ""
    return f"no node has the label {key}={value}{hint}"


def selector_cause(pod_class: PodClass, nodes: NodeView) -> str:
    """What of the node selector and the required node affinity keeps nodes away; ``""`` where nothing does."""
    matching = np.flatnonzero(match_pod(pod_class, nodes))
    if not nodes.size or len(matching) == nodes.size:
        return ""
    selected = [f"{key}={value}" for key, value in sorted(pod_class.node_selector.items())]
    if len(matching):
        names = listed(tuple(nodes.table.names[at] for at in matching.tolist()))
        requirement = (
            f"the {plural(len(selected), 'label')} {', '.join(selected)}"
            if selected
            else "what the node affinity requires"
        )
        sentences = [f"only {names} {'has' if len(matching) == 1 else 'have'} {requirement}"]
        return "; ".join(
            [*sentences, *(missing_label(nodes, key, value) for key, value in unmatched(pod_class, nodes))]
        )
    parts = list(dict.fromkeys(islice((text for text in _unmet(pod_class, nodes) if text), _MOST_PARTS)))
    if parts:
        return "; ".join(parts)
    required = required_of(pod_class)
    affinity = f"what the node affinity requires ({terms_text(required)})" if required is not None else ""
    together = " together with ".join(filter(None, (", ".join(selected), affinity)))
    others = [
        f"nodes with {_rest(pod_class, key)} have {key}={' or '.join(values[:_MOST_VALUES])}"
        for key in sorted(pod_class.node_selector)[:_MOST_APART]
        if (values := sorted(values_beside(pod_class, nodes, key)))
    ]
    return "; ".join([f"no node has {together}", *others[:_MOST_PARTS]])


def _rest(pod_class: PodClass, key: str) -> str:
    """The labels that are selected beside one."""
    rest = [f"{other}={value}" for other, value in sorted(pod_class.node_selector.items()) if other != key]
    rest += ["what the node affinity requires"] if required_of(pod_class) is not None else []
    return listed(tuple(rest)) if len(rest) <= _MOST_PARTS else "all the others"


def values_beside(pod_class: PodClass, nodes: NodeView, key: str) -> dict[str, BoolArray]:
    """Values of a label on the nodes that match all the rest that pods select, each with its nodes (``[N]``)."""
    asked, required = pod_class.node_selector, required_of(pod_class)
    rest = match_labels({other: value for other, value in asked.items() if other != key}, nodes)
    if required is not None and key in asked:
        rest = rest & match_selector(required, nodes)
    codes, values = nodes.label_codes(key), nodes.table.label_values(key)
    return {values[code]: rest & (codes == code) for code in np.unique(codes[rest]).tolist() if code >= 0}


def terms_text(selector: NodeSelector) -> str:
    """``zone=a and disk In ssd, nvme``, the terms with ``or`` between them."""
    texts = []
    for term in (selector.node_selector_terms or ())[:_MOST_PARTS]:
        parts = [*(term.match_expressions or ()), *(term.match_fields or ())][:_MOST_PARTS]
        texts.append(" and ".join(map(_requirement_text, parts)))
    return " or ".join(filter(None, texts))


def _requirement_text(one: NodeSelectorRequirement) -> str:
    values = one.values or []
    if one.operator == "In" and len(values) == 1:
        return f"{one.key}={values[0]}"
    return f"{one.key} {one.operator} {', '.join(values[:_MOST_VALUES])}".strip()


def unmatched(pod_class: PodClass, nodes: NodeView) -> list[tuple[str, str]]:
    """Labels that no node has, of terms of the node affinity beside others that some node matches."""
    required = required_of(pod_class)
    terms = (required.node_selector_terms or ()) if required is not None else ()
    pairs = [
        (one.key, one.values[0])
        for term in terms[:_MOST_PARTS]
        if not match_term(term, nodes).any()
        for one in term.match_expressions or ()
        if one.operator == "In" and one.values and len(one.values) == 1
    ]
    return [(key, value) for key, value in pairs if value not in nodes.table.present_values(key)]


def _unmet(pod_class: PodClass, nodes: NodeView) -> Iterator[str]:
    for key, value in sorted(pod_class.node_selector.items()):
        yield missing_label(nodes, key, value)
    required = required_of(pod_class)
    for term in (required.node_selector_terms or ()) if required is not None else ():
        for requirement in term.match_expressions or ():
            yield _requirement(requirement, nodes)
        for requirement in term.match_fields or ():
            yield _field(requirement.values or (), nodes) if requirement.operator == "In" else ""


def _requirement(requirement: NodeSelectorRequirement, nodes: NodeView) -> str:
    key, requested = requirement.key, requirement.values or []
    present = nodes.table.present_values(key)
    match requirement.operator:
        case "In" if requested and not set(requested) & set(present):
            if len(requested) == 1:
                return missing_label(nodes, key, requested[0])
            near = next(
                (f" (did you mean {near}?)" for value in requested if (near := _near_value(value, present))), ""
            )
            return f"no node has {key} in ({', '.join(requested[:_MOST_VALUES])}){near}"
        case "Exists" | "Gt" | "Lt" if not present:
            return f"no node has the label {key}{did_you_mean(key, nodes.table.label_keys())}"
        case "NotIn" if present and set(present) <= set(requested):
            return f"the node affinity excludes {key}={listed(tuple(present[:_MOST_VALUES]))}, and every node has that"
        case "DoesNotExist" if present:
            return f"the node affinity excludes the label {key}, and every node has it"
        case "Gt" | "Lt":
            return _bound(requirement, nodes)
    return ""


def _bound(requirement: NodeSelectorRequirement, nodes: NodeView) -> str:
    """``the label cores must be above 16 (the highest of the nodes is 16)``; empty where some node meets the bound."""
    if match_term(NodeSelectorTerm(match_expressions=[requirement]), nodes).any():
        return ""
    above, bound = requirement.operator == "Gt", " ".join(requirement.values or ())
    values = nodes.table.present_values(requirement.key)
    numbers = [number for one in values if (number := parse_integer(one)) is not None]
    if numbers:
        hint = f"the {'highest' if above else 'lowest'} of the nodes is {max(numbers) if above else min(numbers)}"
    else:
        hint = f"nodes have {listed(tuple(values[:_MOST_VALUES]))}, and only whole numbers count"
    return f"the label {requirement.key} must be {'above' if above else 'below'} {bound} ({hint})"


def _field(wanted: Iterable[str], nodes: NodeView) -> str:
    gone = [name for name in wanted if name not in nodes.table.index]
    return f"node {gone[0]} does not exist{did_you_mean(gone[0], nodes.table.names)}" if gone else ""
