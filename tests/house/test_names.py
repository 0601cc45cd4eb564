"""Names of variables say what they hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
SAY_NOTHING = frozenset({"found", "res", "ret", "tmp", "temp", "val"})
# What may stand behind a name that is assigned; to parse a module takes a hundred times as long as to look for it.
_ASSIGNED = re.compile(rf"\b(?:{'|'.join(SAY_NOTHING)})\b\s*(?:[=,:)\]]|[^\w\s]{{1,3}}=|in\b)")


def _variables(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Name]:
    """What statements of a function assign, but what belongs to a comprehension, and but its parameters."""
    parameters = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(
            node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.FunctionDef | ast.Lambda
        ):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in parameters:
            yield node
        waiting += ast.iter_child_nodes(node)


def test_no_variable_has_a_name_that_says_nothing() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{name.lineno} {name.id}"
        for path in sorted(SOURCE.rglob("*.py"))
        if _ASSIGNED.search(text := path.read_text())
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in _variables(function)
        if name.id in SAY_NOTHING
    ]
    assert wrong == [], "name them by what they hold"
