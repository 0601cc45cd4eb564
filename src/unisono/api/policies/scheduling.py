"""Rules of pod groups and queues in CEL."""

from __future__ import annotations

from unisono.api.defaulting.scheduling import ROOT_QUEUE
from unisono.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from unisono.api.membership import DEFAULT_QUEUE
from unisono.api.messages import TOPOLOGY_EXCLUSIVE, protected_queue
from unisono.api.policies.job import exclusive_tier
from unisono.api.policies.rule import Rule, entries, given, text

_SPEC = "variables.spec"
_OFFICIAL, _ALIAS = "object.spec.guarantee", "object.spec.guaranteed"
QUEUE_VARIABLES = {
    "spec": "object.spec",
    "guarantee": (
        f"has({_OFFICIAL}) ? (has({_OFFICIAL}.resource) ? {_OFFICIAL}.resource : {{}}) : "
        f"has({_ALIAS}) ? {_ALIAS} : {{}}"
    ),
}
"""Of ``queue_rules``; a guarantee has two spellings."""


def pod_group_rules() -> tuple[Rule, ...]:
    """Sizes and topology of a gang."""
    minimum, groups = f"{_SPEC}.minTaskMember", entries(f"{_SPEC}.subGroupPolicy")
    below = "g.networkTopology"
    return (
        Rule(
            f"!has({minimum}) || {minimum}.all(t, {minimum}[t] >= 0)",
            text("spec.minTaskMember: must be greater than or equal to 0"),
        ),
        exclusive_tier(f"{_SPEC}.networkTopology", "spec.networkTopology"),
        Rule(
            f"{groups}.all(g, !has({below}) || !has({below}.highestTierAllowed) || "
            f"!{given(f'{below}.highestTierName')})",
            text(f"spec.subGroupPolicy.networkTopology: {TOPOLOGY_EXCLUSIVE}"),
        ),
    )


def queue_rules() -> tuple[Rule, ...]:
    """Amounts and their order, the parent, the hierarchy annotations, and what stays as it is in the root queue."""
    name = "object.metadata.name"
    amounts = {
        "capability": (f"has({_SPEC}.capability)", f"{_SPEC}.capability"),
        "deserved": (f"has({_SPEC}.deserved)", f"{_SPEC}.deserved"),
        "guarantee": ("(size(variables.guarantee) > 0)", "variables.guarantee"),
    }
    return (
        *(_amounts(title, *place) for title, place in amounts.items()),
        _ordered(amounts, "guarantee", "deserved"),
        _ordered(amounts, "guarantee", "capability"),
        _ordered(amounts, "deserved", "capability"),
        _guaranteed(amounts),
        Rule(
            f"!has({_SPEC}.parent) || {_SPEC}.parent != {name}",
            f"'spec.parent: queue ' + {name} + ' cannot use itself as parent'",
        ),
        _hierarchy(),
        _root(),
    )


_Amounts = dict[str, tuple[str, str]]


def _parsed(place: str, key: str = "r") -> str:
    return f"quantity(string({place}[{key}]))"


def _amounts(title: str, there: str, place: str) -> Rule:
    shown = "spec.guarantee.resource" if title == "guarantee" else f"spec.{title}"
    return Rule(
        f"!{there} || {place}.all(r, isQuantity(string({place}[r])) && !{_parsed(place)}.isLessThan(quantity('0')))",
        text(f"{shown}: every amount must be a quantity such as 500m or 16Gi, and not below 0"),
    )


def _good(place: str) -> str:
    return f"isQuantity(string({place}[r]))"


def _ordered(amounts: _Amounts, least: str, most: str) -> Rule:
    """What is in both maps is in order; amounts that are none are told by their own rule."""
    (low_there, low), (high_there, high) = amounts[least], amounts[most]
    # A guarantee is measured by deserved where there is one, and else by the capability.
    instead = "" if (least, most) != ("guarantee", "capability") else f"has({_SPEC}.deserved) || "
    smaller = f"{_parsed(high)}.isLessThan({_parsed(low)})"
    bad = f"(r in {high}) && {_good(low)} && {_good(high)} && {smaller}"
    first = f"{low}.filter(r, {bad})[0]"
    if least == "guarantee":
        message = f"'spec.{most}[' + {first} + ']: {most} must be >= guarantee'"
    else:
        message = f"'spec.deserved[' + {first} + ']: deserved must be <= capability'"
    return Rule(f"{instead}!{low_there} || !{high_there} || {low}.all(r, !({bad}))", message)


def _guaranteed(amounts: _Amounts) -> Rule:
    (low_there, low), (high_there, high) = amounts["guarantee"], amounts["deserved"]
    return Rule(
        f"!{low_there} || !{high_there} || size({high}) == 0 || {low}.all(r, r in {high})",
        f"'spec.deserved[' + {low}.filter(r, !(r in {high}))[0] + ']: deserved must be >= guarantee'",
    )


def _hierarchy() -> Rule:
    notes = "object.metadata.annotations"
    path, weights = (f"({text(key)} in {notes} ? {notes}[{text(key)}] : '')" for key in (HIERARCHY, HIERARCHY_WEIGHTS))
    return Rule(
        f"!has({notes}) || size({path}.split('/')) == size({weights}.split('/'))",
        text(f"metadata.annotations: {HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}"),
    )


def _root() -> Rule:
    same = " && ".join(
        f"has(object.spec.{field}) == has(oldObject.spec.{field}) && "
        f"(!has(object.spec.{field}) || object.spec.{field} == oldObject.spec.{field})"
        for field in ("capability", "deserved", "guarantee")
    )
    return Rule(
        f"object.metadata.name != {text(ROOT_QUEUE)} || request.operation != 'UPDATE' || ({same})",
        text("spec: root queue's resource attributes (capability, deserved, guarantee) cannot be modified"),
    )


def queue_removal_rules() -> tuple[Rule, ...]:
    """``root`` and ``default`` stay."""
    return tuple(
        Rule(f"oldObject.metadata.name != {text(name)}", text(protected_queue(name)))
        for name in (DEFAULT_QUEUE, ROOT_QUEUE)
    )
