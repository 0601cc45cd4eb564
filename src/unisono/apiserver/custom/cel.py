"""CEL rules of schemas (``x-kubernetes-validations``); checked where the extra ``cel`` is installed.

The engine is the package common-expression-language. It does not check types before it runs, and it knows neither
optional field access (``self.?a``) nor all functions of Kubernetes; rules that need more than there is are not checked,
and whoever writes the definition is told so.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from unisono.api.field_error import OMITTED, FieldError, duplicate, forbidden, invalid, required
from unisono.api.structural import Node
from unisono.api.structural.lists import identity, map_key
from unisono.api.structural.node import ABSENT, Rule
from unisono.api.structural.paths import PathError, field_path
from unisono.apiserver.custom.cel_functions import FUNCTIONS, KNOWN
from unisono.apiserver.custom.cel_values import to_cel

_STRINGS = re.compile(r"""[rR]?("([^"\\\n]|\\.)*"|'([^'\\\n]|\\.)*')""")
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_OPTIONAL = re.compile(r"\.\?|\[\?|\{\?")
_LONGEST_MESSAGE = 5 * 1024


class RuleError(ValueError):
    """The expression cannot be read."""


def available() -> bool:
    """Whether an engine is installed."""
    return _engine() is not None


@cache
def _engine() -> Any:
    try:
        return importlib.import_module("cel")
    except ImportError:
        return None


def unsupported(expression: str) -> str:
    """What the engine lacks for an expression; empty when it has everything."""
    text = _STRINGS.sub("''", expression)
    if _OPTIONAL.search(text):
        return "optional field access"
    missing = sorted({name for name in _CALL.findall(text) if name not in KNOWN and name not in FUNCTIONS})
    return f"function {missing[0]}" if missing else ""


@lru_cache(maxsize=4096)
def _program(expression: str) -> Any:
    try:
        return _engine().compile(expression)
    except Exception as error:
        raise RuleError(str(error)) from None


def check_expression(expression: str) -> str:
    """Why an expression cannot be compiled; empty when it can, or when no engine can tell."""
    if not available() or unsupported(expression):
        return ""
    try:
        _program(expression)
    except RuleError as error:
        return f"compilation failed: {error}"
    return ""


def holds(expression: str, variables: dict[str, Any]) -> bool:
    """Whether an expression is true of plain JSON values; True where no engine is installed.

    Raises:
        RuleError: it cannot be read, or needs more than the engine has.
        Exception: whatever the engine raises while it evaluates.

    """
    if not available():
        return True
    missing = unsupported(expression)
    if missing:
        raise RuleError(f"{missing} is not there")
    context = _engine().Context()
    for name, function in FUNCTIONS.items():
        context.add_function(name, function)
    for name, value in variables.items():
        context.add_variable(name, value)
    return _program(expression).execute(context) is True


def check_rules(node: Node, value: Any, old: Any = ABSENT, path: str = "") -> list[FieldError]:
    """What the rules of a schema say about a value that the schema allows otherwise.

    Args:
        node: the schema.
        value: decoded JSON.
        old: the value before an update; ``ABSENT`` for a new one.
        path: of the value, for the errors.

    """
    return [*_walk(node, value, old, path)] if available() else []


def _walk(node: Node, value: Any, old: Any, path: str) -> Iterator[FieldError]:
    if value is None or not node.has_rules:
        return
    for rule in node.rules:
        yield from _rule(rule, node, value, old, path)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) and node.map_type != "atomic" else {}
        for name, each in value.items():
            below = node.properties.get(name)
            if below is not None:
                yield from _walk(below, each, before.get(name, ABSENT), f"{path}.{name}" if path else name)
            elif node.additional is not None:
                yield from _walk(node.additional, each, before.get(name, ABSENT), f"{path}[{name}]")
    elif isinstance(value, list) and node.items is not None:
        known = {}
        if node.list_type == "map" and isinstance(old, list):
            known = {identity(map_key(node, each)): each for each in old}
        for index, each in enumerate(value):
            before = known.get(identity(map_key(node, each)), ABSENT) if known else ABSENT
            yield from _walk(node.items, each, before, f"{path}[{index}]")


def _rule(rule: Rule, node: Node, value: Any, old: Any, path: str) -> Iterator[FieldError]:
    if unsupported(rule.rule):
        return
    transition = re.search(r"\boldSelf\b", _STRINGS.sub("''", rule.rule)) is not None
    if transition and old is ABSENT and not rule.optional_old_self:
        return
    if not transition and old is not ABSENT and identity(old) == identity(value):
        return
    context = _context(rule, node, value, old)
    at = path or "<nil>"
    try:
        result = _program(rule.rule).execute(context)
    except RuleError:
        return
    except Exception as error:
        shown = node.type or "object"
        yield invalid(at, shown, f"{_reason(error)} evaluating rule: {_text(rule)}")
        return
    if result is not True:
        yield _error(rule, node, value, path, _message(rule, context))


def _context(rule: Rule, node: Node, value: Any, old: Any) -> Any:
    engine = _engine()
    context = engine.Context()
    for name, function in FUNCTIONS.items():
        context.add_function(name, function)
    context.add_variable("self", to_cel(node, value))
    before = None if old is ABSENT else to_cel(node, old)
    if rule.optional_old_self:
        optional = engine.OptionalValue
        context.add_variable("oldSelf", optional.none() if old is ABSENT else optional.of(before))
    elif old is not ABSENT:
        context.add_variable("oldSelf", before)
    return context


def _message(rule: Rule, context: Any) -> str:
    if rule.message_expression and not unsupported(rule.message_expression):
        try:
            found = _program(rule.message_expression).execute(context)
        except Exception:
            # The rule is broken whatever its message says; the plain message serves then.
            found = None
        if isinstance(found, str) and found.strip() and "\n" not in found and len(found) <= _LONGEST_MESSAGE:
            return found.strip()
    return rule.message.strip() or f"failed rule: {rule.rule.strip()}"


def _error(rule: Rule, node: Node, value: Any, path: str, text: str) -> FieldError:
    at = path
    if rule.field_path:
        try:
            shown = field_path(rule.field_path, node)[1]
        except PathError:
            shown = ""
        at = f"{path}.{shown}" if path and shown else shown or path
    at = at or "<nil>"
    told = OMITTED if isinstance(value, dict | list) else value
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden(at, text)
        case "FieldValueRequired":
            return required(at, text)
        case "FieldValueDuplicate":
            return duplicate(at, told)
        case _:
            return invalid(at, told, text)


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0] if error.args else ''}"
    if isinstance(error, IndexError):
        return str(error)
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    return " ".join(str(error).split())


def _text(rule: Rule) -> str:
    return rule.message.strip() or rule.rule.strip()
