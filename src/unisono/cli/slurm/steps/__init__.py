"""Batches inside of their pods: the script on the first node, and tasks of its steps on all.

`program_text` is what pods get on the command line; nothing else of Unisono is there.
"""

from __future__ import annotations

import ast
import base64
import zlib
from functools import cache
from pathlib import Path

_MODULES = ("words", "link", "mounts", "node", "head", "programs")


@cache
def command_text() -> str:
    """The program for ``python3 -c``, packed: every pod of a job carries it."""
    packed = base64.b64encode(zlib.compress(program_text().encode(), 9)).decode()
    return f'import base64, zlib\nPROGRAM = zlib.decompress(base64.b64decode("{packed}")).decode()\nexec(PROGRAM)\n'


@cache
def program_text() -> str:
    """The modules of this package as one program, without what only people read."""
    body: list[ast.stmt] = []
    for name in _MODULES:
        tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            own = getattr(node, "body", None)
            if isinstance(own, list):
                own[:] = [each for each in own if not _is_text(each)] or [ast.Pass()]
        body += [each for each in tree.body if not _is_ours(each)]
    future = "from __future__ import annotations"
    return f"{future}\n{ast.unparse(ast.Module(body, []))}\n"


def _is_text(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_ours(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(("unisono", "__future__"))
