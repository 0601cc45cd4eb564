"""What is promised in queues is summed in one module: a second tally would not know of the first."""

from __future__ import annotations

import ast
from pathlib import Path

import unisono

ENGINE = Path(unisono.__file__).parent / "engine"
BOOK = ENGINE / "session" / "book.py"
SUMS = {"inqueue", "standing", "elastic"}


def test_only_the_book_reads_what_queues_have_promised():
    found = {
        f"{path.relative_to(ENGINE)}: {node.attr}"
        for path in ENGINE.rglob("*.py")
        if path != BOOK
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in SUMS and isinstance(node.value, ast.Attribute)
        if node.value.attr == "record"
    }
    assert not found, "ask session.book"
