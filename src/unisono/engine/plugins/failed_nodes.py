"""failed-nodes: pods of a job keep away from nodes on which pods of it have failed again and again.

The book is an annotation of the PodGroup (`unisono.api.failed_nodes`), which the controllers keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.annotations import FAILED_NODES
from unisono.api.failed_nodes import book_of
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import Parts, Reason, Scope, Veto
from unisono.engine.config.arguments import Argument
from unisono.engine.contract.plugin import Plugin
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.cluster.waiting_jobs import Alike
    from unisono.engine.session.node_view import NodeView
    from unisono.engine.session.session import Session

_AUTO = Argument("failed-nodes.AutoEnable", "bool", False, "nothing where no job that waits has such nodes")
AVOIDED = Reason(
    f"node(s) failed pods of this job lately (annotation {FAILED_NODES})", unresolvable=True, cause=Cause.FILTERS
)


class FailedNodesPlugin(Plugin):
    """Refuses the nodes that the book of the present job says to avoid."""

    name = "failed-nodes"
    scope = Scope.JOB
    steady = True
    known_arguments = (_AUTO,)

    @classmethod
    def used(cls, session: Session) -> bool:
        """Where a job that waits avoids a node."""
        return bool(_nodes_by_job(session))

    def open(self, session: Session) -> None:
        """Read the books of the jobs that wait."""
        self.session = session
        self.nodes = _nodes_by_job(session)

    def concerns(self, pod_class: PodClass) -> bool:
        """Only jobs that avoid nodes."""
        subject = self.session.subject
        return subject is not None and subject.key in self.nodes

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Nodes in the book of the present job."""
        subject = self.session.subject
        columns = self.nodes.get(subject.key) if subject is not None else None
        return (Veto(np.isin(nodes.columns, columns), AVOIDED),) if columns else ()

    def answers_alike(self, pod_class: PodClass) -> str:
        """The columns of the nodes that the job avoids; jobs that avoid none share all answers."""
        subject = self.session.subject
        return ",".join(map(str, self.nodes.get(subject.key, ()))) if subject is not None else ""

    def answers_in_parts(self, pod_class: PodClass, jobs: Alike) -> Parts | None:
        """Of jobs none of which avoids a node; others are asked about one by one."""
        avoiding = (self.session.job(key) for key in self.nodes)
        return None if any(job is not None and job.kin == jobs.kin for job in avoiding) else Parts("", (), "")


@dataclass(slots=True)
class _Books:
    """What the books said when they were read last, by job: thousands of them are the same in most cycles.

    Attributes:
        read: their texts, and until when nodes are avoided.
        at: the moment and the state for which ``nodes`` are the columns to avoid, by job.
    """

    read: dict[str, tuple[str, tuple[tuple[str, float], ...]]] = field(default_factory=dict)
    at: tuple[float, int] | None = None
    nodes: dict[str, list[int]] = field(default_factory=dict)


def _nodes_by_job(session: Session) -> dict[str, list[int]]:
    """Columns of nodes to avoid, by job; none of a job that has failed on all: that is its own fault, not theirs."""
    index, avoided, now = session.snapshot.nodes.index, dict[str, list[int]](), session.now
    books, at = session.snapshot.memo.of(_Books, _Books), (now, session.snapshot.version)
    if books.at == at:
        return books.nodes
    before, books.read = books.read, {}
    waiting = [job for job in session.active if job.record.annotations.get(FAILED_NODES) and job.record.pending]
    nodes = session.snapshot.nodes
    usable = set(np.flatnonzero(nodes.ready & ~nodes.unschedulable).tolist()) if waiting else set[int]()
    for job in waiting:
        text = job.record.annotations[FAILED_NODES]
        cached = before.get(job.key)
        if cached is None or cached[0] != text:
            cached = text, tuple((name, each.until) for name, each in book_of(text).items())
        books.read[job.key] = cached
        columns = [index[name] for name, until in cached[1] if until > now and name in index]
        if columns and not (len(columns) >= len(usable) and usable.issubset(columns)):
            avoided[job.key] = columns
    books.at, books.nodes = at, avoided
    return avoided
