"""Label selectors applied to labels, and written as text."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.base import LabelSelector, LabelSelectorRequirement


def selects(selector: LabelSelector | None, labels: Mapping[str, str] | None) -> bool:
    """Whether the selector fits the labels; no selector fits nothing, an empty one everything."""
    if selector is None:
        return False
    have = labels or {}
    if any(have.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    return all(_holds(requirement, have) for requirement in selector.match_expressions or ())


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement.key), requirement.values or []
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


def is_empty(selector: LabelSelector) -> bool:
    """Whether the selector fits everything."""
    return not selector.match_labels and not selector.match_expressions


def selector_text(selector: LabelSelector | None) -> str:
    """The selector as kubectl and the ``scale`` subresource write it: ``a=b,c in (d,e),!f``."""
    if selector is None:
        return ""
    parts = [(key, f"{key}={value}") for key, value in (selector.match_labels or {}).items()]
    parts += [(one.key, _text(one)) for one in selector.match_expressions or ()]
    return ",".join(text for _, text in sorted(parts))


def _text(requirement: LabelSelectorRequirement) -> str:
    values = ",".join(sorted(requirement.values or ()))
    match requirement.operator:
        case "In":
            return f"{requirement.key} in ({values})"
        case "NotIn":
            return f"{requirement.key} notin ({values})"
        case "DoesNotExist":
            return f"!{requirement.key}"
        case _:
            return requirement.key
