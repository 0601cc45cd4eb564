"""A key of a label, an annotation or a taint, and any such well-known name, is spelled in one module."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import unisono
from unisono.api import annotations, keys

SOURCES = Path(unisono.__file__).parent
KEY = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?\.(sh|io|com|org|run|ai)/[A-Za-z0-9._/-]*[A-Za-z0-9]")
HOMES = {module.__name__: set(vars(module)) for module in (keys, annotations)}


@cache
def trees():
    """The syntax tree of every module, by its dotted name."""
    return {
        ".".join(("unisono", *path.relative_to(SOURCES).with_suffix("").parts)): ast.parse(path.read_text())
        for path in sorted(SOURCES.rglob("*.py"))
    }


def test_no_key_is_spelled_in_two_modules():
    found = defaultdict(set)
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.fullmatch(node.value):
                found[node.value].add(module)
    spelled_twice = {key: sorted(modules) for key, modules in found.items() if len(modules) > 1}
    assert not spelled_twice, "move them to unisono/api/keys.py"


def test_a_key_has_one_name():
    """A module that uses a key imports it under its own name, and gives it no second one."""
    for module, tree in trees().items():
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in HOMES:
                renamed = [each.name for each in node.names if each.asname]
                assert not renamed, module
                imported |= {each.name for each in node.names}
        aliases = [
            f"{module}:{node.lineno}"
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Name)
            if node.value.id in imported
        ]
        assert not aliases


def test_keys_come_from_where_they_are_defined():
    passed_on = {(module, name) for module, tree in trees().items() for name in _imported_keys(tree)}
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                found = {each.name for each in node.names if (node.module, each.name) in passed_on}
                assert not found, f"{module} takes them from {node.module}"


def _imported_keys(tree):
    return {
        each.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module in HOMES
        for each in node.names
    }
