"""Prints the circles of imports inside the package: modules that import each other when they are loaded.

``python scripts/import_cycles.py`` lists them and exits with 1 when there is one. Imports for types alone and imports
inside functions do not count: they do not run while a module loads.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def graph(source: Path = SOURCE) -> dict[str, set[str]]:
    """Module to the modules that it imports while it loads, for all modules below ``source``."""
    paths = {_name(path.relative_to(source)): path for path in source.rglob("*.py")}
    return {name: set(_imports(ast.parse(path.read_text()).body, set(paths))) - {name} for name, path in paths.items()}


def circles(uses: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules of which each reaches every other, each sorted; the strongly connected parts of the graph."""
    reached = {name: _reached(uses, name) for name in uses}
    groups = {
        tuple(sorted({name} | {other for other in reached[name] if name in reached[other]}))
        for name in uses
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imports(body: list[ast.stmt], modules: set[str]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                full = f"{node.module}.{each.name}"
                if full in modules:
                    yield full
                elif node.module in modules:
                    yield node.module
        elif not _is_for_types(node) and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)], modules)


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _reached(uses: dict[str, set[str]], start: str) -> set[str]:
    """All modules that ``start`` imports, directly or not; itself only when it is in a circle."""
    found: set[str] = set()
    open_ends = list(uses[start])
    while open_ends:
        name = open_ends.pop()
        if name not in found:
            found.add(name)
            open_ends += uses[name]
    return found


def main() -> int:
    """Print one circle per line; 1 when there is any."""
    found = circles(graph())
    for group in found:
        print(" <-> ".join(group))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
