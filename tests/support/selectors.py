"""Label and field selectors over decoded JSON, for the in-memory client."""

from __future__ import annotations

import re
from typing import Any

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*$")


def split_terms(selector: str) -> list[str]:
    return [term.strip() for term in re.split(r",(?![^(]*\))", selector) if term.strip()]


def match_labels(selector: str, labels: dict[str, str]) -> bool:
    return all(_label(term, labels) for term in split_terms(selector))


def _label(term: str, labels: dict[str, str]) -> bool:
    found = _SET.match(term)
    if found:
        key, operator, values = found.groups()
        wanted = {value.strip() for value in values.split(",")}
        return (labels.get(key) in wanted) if operator == "in" else (labels.get(key) not in wanted)
    if "!=" in term:
        key, value = term.split("!=", 1)
        return labels.get(key.strip()) != value.strip()
    if "=" in term:
        key, value = term.replace("==", "=").split("=", 1)
        return labels.get(key.strip()) == value.strip()
    if term.startswith("!"):
        return term[1:].strip() not in labels
    return term in labels


def match_fields(selector: str, obj: dict[str, Any]) -> bool:
    return all(_field(term, obj) for term in split_terms(selector))


def _field(term: str, obj: dict[str, Any]) -> bool:
    negative = "!=" in term
    path, value = term.split("!=", 1) if negative else term.replace("==", "=").split("=", 1)
    found: Any = obj
    for part in path.strip().split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return ((str(found) if found is not None else "") == value.strip()) != negative
