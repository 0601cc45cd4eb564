"""node-checks: nodes take no jobs while they wait for a NodeCheck.

What a node has passed is told by its annotation, which the controllers keep (`unisono.api.node_checks`). A node that
was in use and is not any more is closed here at once, before a controller has seen it. Nodes that failed have a taint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.annotations import QUARANTINE
from unisono.api.core import Taint
from unisono.api.node_checks import CheckRule, Mark, book_of
from unisono.cluster.podclass import PodClass
from unisono.cluster.taints import tolerated
from unisono.engine.answers import BoolArray, Reason, Veto
from unisono.engine.config.arguments import Argument
from unisono.engine.contract.plugin import Plugin
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.node_view import NodeView
    from unisono.engine.session.session import Session

_AUTO = Argument("node-checks.AutoEnable", "bool", False, "nothing without NodeChecks")


class NodeChecksPlugin(Plugin):
    """Keeps jobs from nodes that wait for a check."""

    name = "node-checks"
    steady = True
    known_arguments = (_AUTO,)

    @classmethod
    def used(cls, session: Session) -> bool:
        """Where there is a NodeCheck."""
        return bool(session.snapshot.catalogue.node_checks)

    def open(self, session: Session) -> None:
        """Find the nodes that wait, by check."""
        self.waiting = waiting_nodes(session)
        self._reasons = [(reason_of(rule.name), columns) for rule, columns in self.waiting]

    def concerns(self, pod_class: PodClass) -> bool:
        """Pods that may go to nodes which have failed may go to those that wait."""
        return bool(self._reasons) and not passes(pod_class)

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Nodes that wait for a check."""
        return [Veto(closed[nodes.columns], reason) for reason, closed in self._reasons]


def passes(pod_class: PodClass) -> bool:
    """Whether pods of a class go to nodes in quarantine, as those that look after nodes may."""
    return any(
        (one.operator == "Exists" and not one.key) or one.key == QUARANTINE for one in pod_class.tolerations
    ) and tolerated(Taint(key=QUARANTINE, effect="NoSchedule"), pod_class.tolerations)


def reason_of(name: str) -> Reason:
    """What is said of nodes that wait for a check."""
    return Reason(f"node(s) wait for NodeCheck {name}", unresolvable=True, cause=Cause.FILTERS)


@dataclass(slots=True)
class _Books:
    """What the books of nodes said when they were read last.

    Attributes:
        at: the version of the checks, and of what is static about nodes.
        meant: by check ``[N]``, which nodes it is about.
        marks: by check and column.
    """

    at: tuple[int, int, int] = (-1, -1, -1)
    meant: list[tuple[CheckRule, BoolArray]] = field(default_factory=list)
    marks: list[dict[str, Mark]] = field(default_factory=list)


def waiting_nodes(session: Session) -> list[tuple[CheckRule, BoolArray]]:
    """Checks for which nodes wait, in order of their names, and ``[N]`` which nodes of the table these are."""
    snapshot = session.snapshot
    rules, table = snapshot.catalogue.node_checks, snapshot.nodes
    books, at = snapshot.memo.of(_Books, _Books), (rules.version, table.generation, len(table))
    if books.at != at:
        books.at, books.marks = at, [book_of(facts.annotations) for facts in table.facts]
        books.meant = [
            (rule, np.array([rule.means(one.name, one.labels) for one in table.facts], dtype=np.bool_))
            for _, rule in sorted(rules.items())
        ]
    waiting = []
    for rule, meant in books.meant:
        rows = [row for row, name in enumerate(session.registry.names) if rule.uses(name)]
        used: list[bool] = np.any(table.used[rows], axis=0).tolist() if rows else [False] * len(table)
        closed = np.zeros(len(table), dtype=np.bool_)
        for column in np.flatnonzero(meant).tolist():
            closed[column] = rule.closes(books.marks[column].get(rule.name), used=used[column])
        if closed.any():
            waiting.append((rule, closed))
    return waiting
