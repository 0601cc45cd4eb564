"""Macros: calls that bind names or look at fields without reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from unisono.api.cel.budget import Meter
from unisono.api.cel.errors import CompileError, EvaluationError, no_overload
from unisono.api.cel.syntax import Call, Expression, Ident, Select
from unisono.api.cel.values import Optional

Run = Callable[[Meter], Any]


class Compiler(Protocol):
    """What compiles the expressions inside of a macro."""

    def run(self, tree: Expression) -> Run:
        """The function that answers a tree's value."""
        ...

    def bound(self, names: tuple[str, ...], tree: Expression) -> Run:
        """The function of a tree inside of which more names are bound."""
        ...


Macro = Callable[[Compiler, Call], Run]


def find(tree: Call) -> Macro | None:
    """The macro that a call is; None for a function."""
    if tree.target is None:
        return _has if tree.name == "has" else None
    if isinstance(tree.target, Ident) and (tree.target.name, tree.name) == ("cel", "bind"):
        return _bind
    expected = _MACROS.get(tree.name)
    if expected is None:
        return None
    macro, numbers = expected
    return macro if len(tree.arguments) in numbers else None


def bound_names(tree: Call) -> tuple[str, ...]:
    """The names that a macro binds, in the order of its arguments."""
    last = 2 if tree.name == "map" and len(tree.arguments) == 3 else 1
    pairs = tree.name.startswith("transform")
    number = 2 if pairs or (len(tree.arguments) == 3 and tree.name in _PREDICATES) else 1
    names = tree.arguments[: min(number, len(tree.arguments) - (1 if pairs else last))]
    if not all(isinstance(each, Ident) for each in names):
        raise CompileError(f"argument of macro {tree.name} must be a simple name")
    return tuple(each.name for each in names if isinstance(each, Ident))


def _has(compiler: Compiler, tree: Call) -> Run:
    if len(tree.arguments) != 1 or not isinstance(tree.arguments[0], Select):
        raise CompileError("invalid argument to has() macro")
    field = tree.arguments[0]
    operand, name = compiler.run(field.operand), field.name

    def present(meter: Meter) -> bool:
        owner = operand(meter)
        meter.spend(1)
        if isinstance(owner, Optional):
            owner = owner.value
        if not isinstance(owner, dict):
            if owner is None:
                return False
            raise no_overload("has")
        return name in owner

    return present


def _bind(compiler: Compiler, tree: Call) -> Run:
    if len(tree.arguments) != 3 or not isinstance(tree.arguments[0], Ident):
        raise CompileError("cel.bind() takes a name, a value and an expression")
    name = tree.arguments[0].name
    value, body = compiler.run(tree.arguments[1]), compiler.bound((name,), tree.arguments[2])
    return lambda meter: _with(meter, (name,), (value(meter),), body)


def _with(meter: Meter, names: tuple[str, ...], values: tuple[Any, ...], body: Run) -> Any:
    outer = meter.variables
    meter.variables = {**outer, **dict(zip(names, values, strict=True))}
    try:
        return body(meter)
    finally:
        meter.variables = outer


def _pairs(owner: Any, number: int) -> Iterable[tuple[Any, ...]]:
    if isinstance(owner, list):
        return enumerate(owner) if number == 2 else ((each,) for each in owner)
    if isinstance(owner, dict):
        return list(owner.items()) if number == 2 else [(key,) for key in owner]
    raise EvaluationError("no such overload: comprehension over what is neither a list nor a map")


class _Loop:
    """What all comprehensions have in common: the range, the names and the body."""

    def __init__(self, compiler: Compiler, tree: Call, bodies: Iterable[Expression]) -> None:
        assert tree.target is not None  # ``find`` looks only at methods
        self.names = bound_names(tree)
        if len(set(self.names)) != len(self.names):
            raise CompileError(f"the names of macro {tree.name} must differ")
        self._range = compiler.run(tree.target)
        self.bodies = [compiler.bound(self.names, each) for each in bodies]

    def each(self, meter: Meter) -> Iterable[tuple[Any, ...]]:
        """Bind the names to one entry after the other; the caller runs the bodies."""
        owner = self._range(meter)
        outer = meter.variables
        inner: dict[str, Any] = dict(outer)
        try:
            for values in _pairs(owner, len(self.names)):
                meter.spend(1)
                inner.update(zip(self.names, values, strict=True))
                meter.variables = inner
                yield values
        finally:
            meter.variables = outer


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise no_overload("_&&_")
    return value


def _quantifier(deciding: bool) -> Macro:
    def compile_one(compiler: Compiler, tree: Call) -> Run:
        loop = _Loop(compiler, tree, tree.arguments[-1:])
        (body,) = loop.bodies

        def run(meter: Meter) -> bool:
            failure: EvaluationError | None = None
            entries = loop.each(meter)
            for _ in entries:
                try:
                    if _truth(body(meter)) is deciding:
                        entries.close()  # type: ignore[attr-defined]
                        return deciding
                except EvaluationError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return not deciding

        return run

    return compile_one


def _exists_one(compiler: Compiler, tree: Call) -> Run:
    loop = _Loop(compiler, tree, tree.arguments[-1:])
    (body,) = loop.bodies
    return lambda meter: sum(_truth(body(meter)) for _ in loop.each(meter)) == 1


def _filter(compiler: Compiler, tree: Call) -> Run:
    loop = _Loop(compiler, tree, tree.arguments[-1:])
    (body,) = loop.bodies
    return lambda meter: [values[0] for values in loop.each(meter) if _truth(body(meter))]


def _map(compiler: Compiler, tree: Call) -> Run:
    loop = _Loop(compiler, tree, tree.arguments[len(bound_names(tree)) :])
    *conditions, body = loop.bodies

    def run(meter: Meter) -> list[Any]:
        return [body(meter) for _ in loop.each(meter) if all(_truth(each(meter)) for each in conditions)]

    return run


def _transform_map(compiler: Compiler, tree: Call) -> Run:
    loop = _Loop(compiler, tree, tree.arguments[2:])
    *conditions, body = loop.bodies

    def run(meter: Meter) -> dict[Any, Any]:
        return {
            values[0]: body(meter) for values in loop.each(meter) if all(_truth(each(meter)) for each in conditions)
        }

    return run


def _opt_map(*, flat: bool) -> Macro:
    def compile_one(compiler: Compiler, tree: Call) -> Run:
        assert tree.target is not None  # ``find`` looks only at methods
        names = bound_names(tree)
        owner, body = compiler.run(tree.target), compiler.bound(names, tree.arguments[1])

        def run(meter: Meter) -> Any:
            value = owner(meter)
            if not isinstance(value, Optional):
                raise no_overload(tree.name)
            if not value.present:
                return value
            found = _with(meter, names, (value.value,), body)
            return found if flat else Optional(found, present=True)

        return run

    return compile_one


_PREDICATES = ("all", "exists", "exists_one", "existsOne")
_MACROS: dict[str, tuple[Macro, tuple[int, ...]]] = {
    "all": (_quantifier(deciding=False), (2, 3)),
    "exists": (_quantifier(deciding=True), (2, 3)),
    "exists_one": (_exists_one, (2, 3)),
    "existsOne": (_exists_one, (2, 3)),
    "filter": (_filter, (2,)),
    "map": (_map, (2, 3)),
    "transformList": (_map, (3, 4)),
    "transformMap": (_transform_map, (3, 4)),
    "optMap": (_opt_map(flat=False), (2,)),
    "optFlatMap": (_opt_map(flat=True), (2,)),
}
