"""What is held, promised and allowed is summed in one place: a second tally would not know of the first."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import unisono

ENGINE = Path(unisono.__file__).parent / "engine"
BOOK = ENGINE / "session" / "book.py"
SUMS = {"inqueue", "standing", "elastic"}

ADMITTED = {
    "plugins/proportion/claims.py": "what queues ask for, of which weights make shares",
    "plugins/admission_limits.py": "the number of jobs of a user, which no promise changes",
}
"""Modules beside the book that look for admitted jobs, and for what."""

AMOUNTS = {"allocated", "claimed", "held", "leaving", "promised"}

TALLIES = {
    "cycle/transaction.py": "writes what the book reads: every placement goes through it",
    "plugins/capacity/tree.py": "sums of queues over a branch; a test holds them equal to the queues' own",
    "plugins/drf.py": "amounts of jobs weighed by a tree, for shares and no limit",
    "plugins/network_topology_aware/fewest_domains.py": "pods of one gang by domain",
    "plugins/nodegroup.py": "amounts by queue and node group",
    "plugins/rescheduling/single_pods.py": "pods of a trial",
    "plugins/admission_limits.py": "a limit of the session, which the transaction moves",
    "session/floating.py": "limits of the session, opened from nodes and moved by the transaction",
    "session/job_state.py": "what one job holds",
    "session/limit.py": "what is held under one limit; a test holds it equal to the queues' own",
    "session/node_view.py": "what leaves one node",
    "session/queue_limits.py": "opens the limits",
    "actions/evicting.py": "placements of one trial",
}
"""Modules beside the book with amounts of their own, and why the book is not asked for them."""


def _nodes(*words: str) -> Iterator[tuple[str, ast.AST]]:
    """Modules and what stands in them, of those in whose text one of the words is."""
    for path in sorted(ENGINE.rglob("*.py")):
        if path != BOOK and any(word in (text := path.read_text()) for word in words):
            yield from ((path.relative_to(ENGINE).as_posix(), node) for node in ast.walk(ast.parse(text)))


def test_only_the_book_reads_what_queues_have_promised():
    found = {
        f"{name}: {node.attr}"
        for name, node in _nodes(*SUMS)
        if isinstance(node, ast.Attribute) and node.attr in SUMS and isinstance(node.value, ast.Attribute)
        if node.value.attr == "record"
    }
    assert not found, "ask session.book"


def test_only_the_book_looks_for_admitted_jobs():
    """Whoever adds up what they are promised misses what lapses, and what this session promises."""
    found = {
        name
        for name, node in _nodes("Inqueue")
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "phase"
        if any(isinstance(one, ast.Constant) and one.value == "Inqueue" for one in ast.walk(node))
    }
    assert found == ADMITTED.keys(), "ask session.book.grouped or session.book.counted"


def test_every_tally_beside_the_book_says_why():
    found = {name for name, node in _nodes(*AMOUNTS) if _counts(node)}
    assert found == TALLIES.keys(), "ask session.book, or say why it cannot know the amounts"


def _counts(node: ast.AST) -> bool:
    """Whether an attribute that is named like an amount is set or added to."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return False
    for target in targets:
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute) and target.attr.lstrip("_") in AMOUNTS:
            return True
    return False
