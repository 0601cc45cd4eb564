"""What a rule of a schema may cost at most, estimated from what the schema says about sizes, as Kubernetes does.

Sizes that the schema does not bound are those that fit into one request. What the estimate does not know (values that
functions make) counts as small: the budget at run time bounds that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unisono.api.cel import program
from unisono.api.cel.syntax import Call, Expression, Ident, ListOf, Literal, MapOf, Select, children
from unisono.api.structural.node import Node

RULE_LIMIT = 10_000_000
"""Of one rule over one object; Kubernetes' ``StaticEstimatedCostLimit``."""
DEFINITION_LIMIT = 100_000_000
"""Of all rules of one version; Kubernetes' ``StaticEstimatedCRDCostLimit``."""
_REQUEST = 3 * 1024 * 1024
_SHORT_FORMATS = {"date-time": 30, "date": 12, "duration": 32}
_SCANS = frozenset(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_+_", "startsWith", "endsWith"))
_SEARCHES = frozenset(("contains", "indexOf", "lastIndexOf", "split", "replace", "lowerAscii", "upperAscii"))
_CEILING = 1e18


@dataclass(frozen=True, slots=True)
class Sized:
    """What is known about a value.

    Attributes:
        node: its schema; None where there is none.
        size: characters of a text, entries of a list or map.
        inner: what is known about its entries, where no schema says it.
    """

    node: Node | None = None
    size: float = 0.0
    inner: Sized | None = None

    def entries(self) -> Sized:
        """What is known about each entry."""
        below = None if self.node is None else self.node.items or self.node.additional
        return sized(below) if below is not None else self.inner or Sized()


def sized(node: Node | None) -> Sized:
    """What a schema says about a value."""
    return Sized(node, 0.0 if node is None else _size(node))


def _size(node: Node) -> float:
    bounds = node.bounds
    if node.type == "array":
        below = _least_bytes(node.items)
        return float(bounds.get("maxItems", _REQUEST // (below + 1)))
    if node.type == "object" and node.additional is not None:
        return float(bounds.get("maxProperties", _REQUEST // (_least_bytes(node.additional) + 5)))
    if node.type == "string" or node.int_or_string:
        if "enum" in bounds:
            return float(max((len(str(each)) for each in bounds["enum"]), default=0))
        return float(bounds.get("maxLength", _SHORT_FORMATS.get(node.format, _REQUEST)))
    return 0.0


def _least_bytes(node: Node | None) -> int:
    """Length of the shortest JSON of a value."""
    if node is None:
        return 1
    match node.type:
        case "boolean":
            return 4
        case "string" | "array":
            return 2
        case "object":
            below = (len(name) + 4 + _least_bytes(node.properties.get(name)) for name in node.required)
            return 2 + sum(below)
        case _:
            return 1


def estimate(tree: Expression, known: Mapping[str, Sized]) -> float:
    """Cost units that an expression takes at most.

    Args:
        tree: the expression.
        known: what is known about its variables.
    """
    return _cost(tree, known)[0]


def _cost(tree: Expression, known: Mapping[str, Sized]) -> tuple[float, Sized]:
    match tree:
        case Literal(value):
            return 0.0, Sized(size=float(len(value)) if isinstance(value, str | bytes) else 0.0)
        case Ident(name):
            return 1.0, known.get(name, Sized())
        case Select(operand=operand, name=name):
            cost, owner = _cost(operand, known)
            return cost + 1, sized(owner.node.child(_plain(name))) if owner.node is not None else Sized()
        case Call():
            return _call(tree, known)
        case ListOf() | MapOf():
            parts = [_cost(each, known) for each in children(tree)]
            below = max((each[1] for each in parts), key=lambda each: each.size, default=None)
            return 10 + sum(each[0] for each in parts), Sized(size=float(len(parts)), inner=below)


def _plain(name: str) -> str:
    """The name of a field as the schema has it."""
    for escaped, char in (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__")):
        name = name.replace(escaped, char)
    return name


def _call(tree: Call, known: Mapping[str, Sized]) -> tuple[float, Sized]:
    if program.find(tree) is not None and tree.target is not None:
        return _macro(tree, known)
    parts = [_cost(each, known) for each in children(tree)]
    total = 1 + sum(cost for cost, _ in parts)
    seen = [each for _, each in parts]
    first = seen[0] if seen else Sized()
    second = seen[1] if len(seen) > 1 else Sized()
    match tree.name:
        case "_[_]" | "_[?_]" | "orValue" | "value":
            return total, first.entries() if tree.name.startswith("_[") else first
        case "_?_:_":
            return total, max(seen[1:], key=lambda each: each.size)
        case "_in_":
            return total + (second.size if second.node is None or second.node.type != "object" else 0), Sized()
        case "matches" | "find" | "findAll":
            return total + max(1.0, first.size / 10) * max(1.0, second.size / 4), Sized(size=first.size)
        case "_+_":
            return total + (first.size + second.size) / 10, Sized(size=first.size + second.size, inner=first.inner)
        case name if name in _SCANS:
            return total + min(first.size, second.size) / 10, Sized()
        case name if name in _SEARCHES:
            return total + first.size / 10 * max(1.0, second.size / 10), Sized(size=first.size, inner=Sized())
        case _:
            return total, Sized()


def _macro(tree: Call, known: Mapping[str, Sized]) -> tuple[float, Sized]:
    assert tree.target is not None  # its only caller has looked
    if tree.name == "bind":
        name, value, body = tree.arguments
        cost, seen = _cost(value, known)
        inside, result = _cost(body, {**known, name.name: seen} if isinstance(name, Ident) else known)
        return cost + inside, result
    names = program.bound_names(tree)
    cost, owner = _cost(tree.target, known)
    entry = owner.entries()
    if owner.node is not None and owner.node.type == "object" and len(names) == 1:
        entry = Sized()  # keys of a map
    times = 1.0 if tree.name.startswith("opt") else owner.size
    inner = {**known, **dict(zip(names, (Sized(), entry) if len(names) == 2 else (entry,), strict=True))}
    bodies = [_cost(each, inner) for each in tree.arguments[len(names) :]]
    total = min(_CEILING, cost + 1 + times * (1 + sum(each for each, _ in bodies)))
    if tree.name == "filter":
        return total, owner
    return total, Sized(size=times, inner=bodies[-1][1]) if tree.name in ("map", "transformList") else Sized()
