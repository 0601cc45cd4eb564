"""Runs expressions: a tree becomes functions that call each other and count what they cost; macros bind names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from unisono.api.cel import functions
from unisono.api.cel.syntax import Call, Expression, Ident, ListOf, Literal, MapOf, Select, parse
from unisono.api.cel.values import (
    Budget,
    CompileError,
    CostError,
    EvaluationError,
    EvaluationMeter,
    MissingError,
    Optional,
    Type,
    no_overload,
)

# Macros: calls that bind names or look at fields without reading them.

Run = Callable[[EvaluationMeter], Any]


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

    def present(meter: EvaluationMeter) -> bool:
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


def _with(meter: EvaluationMeter, names: tuple[str, ...], values: tuple[Any, ...], body: Run) -> Any:
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

    def each(self, meter: EvaluationMeter) -> Iterable[tuple[Any, ...]]:
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

        def run(meter: EvaluationMeter) -> bool:
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

    def run(meter: EvaluationMeter) -> list[Any]:
        return [body(meter) for _ in loop.each(meter) if all(_truth(each(meter)) for each in conditions)]

    return run


def _transform_map(compiler: Compiler, tree: Call) -> Run:
    loop = _Loop(compiler, tree, tree.arguments[2:])
    *conditions, body = loop.bodies

    def run(meter: EvaluationMeter) -> dict[Any, Any]:
        return {
            values[0]: body(meter) for values in loop.each(meter) if all(_truth(each(meter)) for each in conditions)
        }

    return run


def _opt_map(*, flat: bool) -> Macro:
    def compile_one(compiler: Compiler, tree: Call) -> Run:
        assert tree.target is not None  # ``find`` looks only at methods
        names = bound_names(tree)
        owner, body = compiler.run(tree.target), compiler.bound(names, tree.arguments[1])

        def run(meter: EvaluationMeter) -> Any:
            value = owner(meter)
            if not isinstance(value, Optional):
                raise no_overload(tree.name)
            if not value.present:
                return value
            result = _with(meter, names, (value.value,), body)
            return result if flat else Optional(result, present=True)

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

_TYPE_NAMES = ("bool", "bytes", "double", "int", "list", "map", "null_type", "optional_type", "string", "type", "uint")
TYPES = {name: Type(name) for name in _TYPE_NAMES}
_ABSENT = object()


class Program:
    """An expression that can be run.

    Attributes:
        tree: the expression.
    """

    __slots__ = ("_run", "tree")

    def __init__(self, tree: Expression, run: Run) -> None:
        self.tree = tree
        self._run = run

    def evaluate(self, variables: Mapping[str, Any], budget: Budget) -> Any:
        """The expression's value.

        Args:
            variables: JSON values and those of this package.
            budget: what the evaluation is counted against.

        Raises:
            EvaluationError: there is none.
            CostError: it would cost more than it may.
        """
        meter = EvaluationMeter(budget, variables)
        try:
            return self._run(meter)
        except RecursionError:
            raise CostError("the values are nested too deeply") from None
        finally:
            meter.finish()


@lru_cache(maxsize=2048)
def compile_expression(text: str, variables: frozenset[str]) -> Program:
    """Read an expression.

    Args:
        text: the expression.
        variables: names that it may use.

    Raises:
        CompileError: it is no CEL, is too long or too deep, or uses what does not exist.
    """
    tree = parse(text)
    return Program(tree, _Compiler(variables).run(tree))


class _Compiler:
    """Makes functions of trees; knows which names are bound where."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = set(names)

    def run(self, tree: Expression) -> Run:
        """The function that answers a tree's value."""
        match tree:
            case Literal(value):
                return lambda meter: value
            case Ident(name):
                return self._ident(name)
            case Select():
                return self._select(tree)
            case Call():
                return self._call(tree)
            case ListOf():
                return self._list(tree)
            case MapOf():
                return self._map(tree)

    def bound(self, names: tuple[str, ...], tree: Expression) -> Run:
        """The function of a tree inside of which more names are bound."""
        before = self._names
        self._names = before | set(names)
        try:
            return self.run(tree)
        finally:
            self._names = before

    def _ident(self, name: str) -> Run:
        if name in self._names:

            def read(meter: EvaluationMeter) -> Any:
                meter.left -= 1
                try:
                    return meter.variables[name]
                except KeyError:
                    raise EvaluationError(f"no such attribute: {name}") from None

            return read
        if name in TYPES:
            kind = TYPES[name]
            return lambda meter: kind
        raise CompileError(f"undeclared reference to '{name}' (in container '')")

    def _select(self, tree: Select) -> Run:
        operand, name = self.run(tree.operand), tree.name
        if tree.optional:
            return lambda meter: optional_item(operand(meter), name, meter)

        def read(meter: EvaluationMeter) -> Any:
            owner = operand(meter)
            meter.left -= 1
            if isinstance(owner, dict) and name in owner:
                return owner[name]
            if isinstance(owner, Optional):
                return optional_item(owner, name, meter)
            return item(owner, name)

        return read

    def _call(self, tree: Call) -> Run:
        name, arguments = tree.name, tree.arguments
        macro = find(tree)
        if macro is not None:
            return macro(self, tree)
        if name in ("_&&_", "_||_"):
            return _logical([self.run(each) for each in arguments], absorbing=name == "_||_")
        if name == "_?_:_":
            return self._conditional(*arguments)
        if name == "_[?_]":
            owner, key = (self.run(each) for each in arguments)
            return lambda meter: optional_item(owner(meter), key(meter), meter)
        if name == "_[_]":
            return self._index(*arguments)
        # Functions of a namespace look like methods: sets.contains(a, b), optional.of(x).
        if isinstance(tree.target, Ident) and tree.target.name not in self._names:
            qualified = functions.QUALIFIED.get(f"{tree.target.name}.{name}")
            if qualified is not None:
                return self._applied(qualified, name, None, arguments)
        table = functions.METHODS if tree.target is not None else functions.GLOBAL
        function = table.get(name)
        if function is None:
            raise CompileError(f"undeclared reference to '{name}' (in container '')")
        return self._applied(function, name, tree.target, arguments)

    def _applied(
        self, function: functions.Function, name: str, target: Expression | None, arguments: tuple[Expression, ...]
    ) -> Run:
        given = arguments if target is None else (target, *arguments)
        if not function.fewest <= len(given) <= function.most:
            raise CompileError(f"found no matching overload for '{name}' applied to {len(arguments)} arguments")
        parts = [self.run(each) for each in given]
        call, cost = function.call, function.cost
        if len(parts) == 2:
            left, right = parts

            def apply_two(meter: EvaluationMeter) -> Any:
                first, second = left(meter), right(meter)
                meter.left -= 1
                if cost is not None:
                    meter.left -= cost(first, second)
                if meter.left < meter.floor:
                    meter.look()
                return call(first, second)

            return _guarded(apply_two, name)

        def apply(meter: EvaluationMeter) -> Any:
            values = [part(meter) for part in parts]
            meter.spend(1 if cost is None else cost(*values))
            return call(*values)

        return _guarded(apply, name)

    def _conditional(self, condition: Expression, then: Expression, otherwise: Expression) -> Run:
        decide, first, second = self.run(condition), self.run(then), self.run(otherwise)

        def choose(meter: EvaluationMeter) -> Any:
            chosen = decide(meter)
            if not isinstance(chosen, bool):
                raise no_overload("_?_:_")
            return first(meter) if chosen else second(meter)

        return choose

    def _index(self, owner: Expression, key: Expression) -> Run:
        whole, at = self.run(owner), self.run(key)

        def read(meter: EvaluationMeter) -> Any:
            value, key = whole(meter), at(meter)
            meter.left -= 1
            if isinstance(value, Optional):
                return optional_item(value, key, meter)
            return item(value, key)

        return read

    def _list(self, tree: ListOf) -> Run:
        entries = [(self.run(each), index in tree.optional) for index, each in enumerate(tree.entries)]

        def build(meter: EvaluationMeter) -> list[Any]:
            meter.spend(10)
            values = []
            for entry, optional in entries:
                value = entry(meter)
                if not optional:
                    values.append(value)
                elif isinstance(value, Optional) and value.present:
                    values.append(value.value)
            return values

        return build

    def _map(self, tree: MapOf) -> Run:
        entries = [(self.run(key), self.run(each), at in tree.optional) for at, (key, each) in enumerate(tree.entries)]

        def build(meter: EvaluationMeter) -> dict[Any, Any]:
            meter.spend(30)
            result: dict[Any, Any] = {}
            for read_key, entry, optional in entries:
                key, value = read_key(meter), entry(meter)
                if not isinstance(key, str | int):
                    raise EvaluationError("unsupported key type")
                if optional and isinstance(value, Optional):
                    if not value.present:
                        continue
                    value = value.value
                if key in result:
                    raise EvaluationError(f"Failed with repeated key: {key}")
                result[key] = value
            return result

        return build


def item(owner: Any, key: Any) -> Any:
    """``owner[key]`` and ``owner.key``.

    Raises:
        EvaluationError: it has none.
    """
    if isinstance(owner, dict):
        if isinstance(key, float) and key.is_integer():
            key = int(key)
        try:
            return owner[key]
        except (KeyError, TypeError):
            raise MissingError(f"no such key: {functions.shown(key)}") from None
    if isinstance(owner, list) and isinstance(key, int | float) and not isinstance(key, bool):
        if key == int(key) and 0 <= key < len(owner):
            return owner[int(key)]
        raise MissingError(f"index out of bounds: {functions.shown(key)}")
    raise no_overload("_[_]")


def optional_item(owner: Any, key: Any, meter: EvaluationMeter) -> Optional:
    """``owner[?key]`` and ``owner.?key``."""
    meter.spend(1)
    if isinstance(owner, Optional):
        if not owner.present:
            return owner
        owner = owner.value
    if isinstance(owner, dict):
        member = owner.get(key, _ABSENT)
        return Optional() if member is _ABSENT else Optional(member, present=True)
    if isinstance(owner, list) and isinstance(key, int) and not isinstance(key, bool):
        return Optional(owner[key], present=True) if 0 <= key < len(owner) else Optional()
    raise no_overload("_[?_]")


def _guarded(run: Run, name: str) -> Run:
    def call(meter: EvaluationMeter) -> Any:
        try:
            return run(meter)
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise EvaluationError(functions.reason(error, name)) from None

    return call


def _logical(parts: list[Run], *, absorbing: bool) -> Run:
    """``||`` and ``&&``: an operand that decides alone decides even where another one fails."""

    def decide(meter: EvaluationMeter) -> bool:
        failure: EvaluationError | None = None
        value: Any
        outer = meter.variables
        for part in parts:
            try:
                value = part(meter)
            except EvaluationError as error:
                failure = failure or error
                meter.variables = outer  # a macro that failed has left its own
                continue
            if value is absorbing:
                return bool(absorbing)
            if not isinstance(value, bool):
                failure = failure or no_overload("_||_" if absorbing else "_&&_")
        if failure is not None:
            raise failure
        return not absorbing

    return decide
