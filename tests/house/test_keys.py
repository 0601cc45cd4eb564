"""A key of a label, an annotation or a taint, and any such well-known name, is spelled in one module."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import unisono
from unisono.api import annotations, keys

SOURCES = Path(unisono.__file__).parent
KEY = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?\.(sh|io|com|org|run|ai)/[A-Za-z0-9._/-]*[A-Za-z0-9]")
HOMES = {module.__name__: set(vars(module)) for module in (keys, annotations)}


class Read(NamedTuple):
    """What is looked at of a module; its tree is large, and is not kept."""

    spelled: set[str]
    """Keys that stand in it as texts."""
    imports: list[ast.ImportFrom]
    passed_on: set[str]
    """Keys that it imports at its top."""
    aliases: list[str]
    """Places where it gives one of these a second name."""


def read(module: str, tree: ast.Module) -> Read:
    nodes = list(ast.walk(tree))
    spelled = {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.fullmatch(node.value)
    }
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    from_homes = {each.name for node in imports if node.module in HOMES for each in node.names}
    from_homes |= {f"{module.rpartition('.')[2]}.{name}" for module, names in HOMES.items() for name in names}
    at_top = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module in HOMES]
    aliases = [
        f"{module}:{node.lineno}"
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Name | ast.Attribute)
        if ast.unparse(node.value) in from_homes
    ]
    return Read(spelled, imports, {each.name for node in at_top for each in node.names}, aliases)


@cache
def modules() -> dict[str, Read]:
    """What every module says, by its dotted name."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        name = ".".join(("unisono", *path.relative_to(SOURCES).with_suffix("").parts))
        found[name] = read(name, ast.parse(path.read_text()))
    return found


def test_no_key_is_spelled_in_two_modules():
    found = defaultdict(set)
    for module, said in modules().items():
        for key in said.spelled:
            found[key].add(module)
    spelled_twice = {key: sorted(where) for key, where in found.items() if len(where) > 1}
    assert not spelled_twice, "move them to unisono/api/keys.py"


def test_a_key_has_one_name():
    """A module that uses a key imports it under its own name, and gives it no second one."""
    for module, said in modules().items():
        taken = [each for node in said.imports if node.module in HOMES for each in node.names]
        assert not [each.name for each in taken if each.asname], module
        assert not said.aliases


def test_keys_come_from_where_they_are_defined():
    passed_on = {(module, name) for module, said in modules().items() for name in said.passed_on}
    for module, said in modules().items():
        for node in said.imports:
            found = {each.name for each in node.names if (node.module, each.name) in passed_on}
            assert not found, f"{module} takes them from {node.module}"
