"""hot-spares: empty nodes wait for pods that replace lost ones of running gangs.

A Queue says with annotation ``unisono.io/hot-spares`` how many. Gangs that lose members, or are made again whole, get a
node at once in a full cluster; all others keep away from these nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.annotations import HOT_SPARES
from unisono.api.queues import spares_of
from unisono.api.selecting import lineage
from unisono.cluster.interning import Memory
from unisono.cluster.podclass import PodClass
from unisono.cluster.status import READY_STATES, count
from unisono.engine.answers import Reason, Scope, Veto
from unisono.engine.config.arguments import Argument
from unisono.engine.contract.plugin import Plugin
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.cluster.records import Job
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.node_view import NodeView
    from unisono.engine.session.session import Session

_AUTO = Argument("hot-spares.AutoEnable", "bool", False, "nothing where no Queue asks for spare nodes")
RETURN_SECONDS = 900.0
"""How long after a gang ran whole its pods still count as replacements."""
_SMALL = frozenset(("cpu", "memory", "pods", "ephemeral-storage"))
"""Resources that do not tell kinds of nodes apart: machines of one kind differ a little in them."""


@dataclass(slots=True)
class _Before(Memory):
    """What is known from the cycles before.

    Attributes:
        whole: when gangs of queues with spares ran whole last, by job.
        kept: names of the spare nodes of each queue.
    """

    whole: dict[str, float] = field(default_factory=dict)
    kept: dict[str, tuple[str, ...]] = field(default_factory=dict)


class HotSparesPlugin(Plugin):
    """Keeps jobs that start away from the spare nodes."""

    name = "hot-spares"
    scope = Scope.JOB
    steady = True
    known_arguments = (_AUTO,)

    @classmethod
    def used(cls, session: Session) -> bool:
        """Where a Queue asks for spare nodes."""
        return bool(_asked(session))

    def open(self, session: Session) -> None:
        """Choose the spare nodes, and note which gangs run whole."""
        self.session = session
        self._parents = {name: queue.record.parent for name, queue in session.queues.items()}
        self.kept: dict[str, list[int]] = {}
        asked = _asked(session)
        before = session.snapshot.memo.of(_Before, _Before)
        members: dict[str, list[Job]] = {name: [] for name in asked}
        for job in session.snapshot.jobs.values() if asked else ():
            for name in self._above(job.queue):
                if name in members:
                    members[name].append(job)
        before.whole = self._whole(before.whole, members)
        self._returning = frozenset(before.whole)
        taken: set[int] = set()
        for name in sorted(asked):
            columns = self._spares(members[name], asked[name], before.kept.get(name, ()), taken)
            taken.update(columns)
            self.kept[name] = columns
        names = session.snapshot.nodes.names
        before.kept = {name: tuple(names[at] for at in columns) for name, columns in self.kept.items()}
        self._reasons = {name: _reason(name) for name in asked}

    def _above(self, queue: str) -> list[str]:
        return lineage(queue, self._parents)

    def _whole(self, before: Mapping[str, float], members: Mapping[str, Sequence[Job]]) -> dict[str, float]:
        """When gangs ran whole last, of those for which it was not long ago."""
        now, last_whole = self.session.now, dict[str, float]()
        for job in (job for jobs in members.values() for job in jobs):
            ready = count(job.counts, READY_STATES)
            if ready and ready >= job.min_member:
                last_whole[job.key] = now
            elif ready or now - before.get(job.key, -RETURN_SECONDS) < RETURN_SECONDS:
                last_whole[job.key] = before.get(job.key, now)
        return last_whole

    def _spares(self, jobs: Sequence[Job], number: int, before: Sequence[str], taken: set[int]) -> list[int]:
        """Empty nodes of the kind on which most pods of these jobs run, those that were spares before first."""
        nodes = self.session.snapshot.nodes
        kinds = Counter(
            self._kind(nodes.index[task.node])
            for job in jobs
            for task in job.tasks.values()
            if task.node in nodes.index and task.status in READY_STATES
        )
        if not kinds:
            return []
        kind = min(kinds, key=lambda each: (-kinds[each], each))
        held = (nodes.used - nodes.outside).any(axis=0)
        free = np.flatnonzero(nodes.opens() & ~held).tolist()
        able = [at for at in free if at not in taken and self._kind(at) == kind]
        return sorted(able, key=lambda at: (nodes.names[at] not in before, -at))[:number]

    def _kind(self, column: int) -> tuple[tuple[str, int], ...]:
        amounts = self.session.snapshot.nodes.allocatable[:, column].tolist()
        pairs = zip(self.session.registry.names, amounts, strict=False)
        return tuple(sorted((name, amount) for name, amount in pairs if amount and name not in _SMALL))

    # ---- nodes

    def concerns(self, pod_class: PodClass) -> bool:
        """Only while there are spare nodes."""
        return any(self.kept.values())

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Spare nodes of queues for which the present job's pods are no replacements."""
        subject = self.session.subject
        return [
            Veto(np.isin(nodes.columns, self.kept[name]), self._reasons[name])
            for name in self.kept
            if self.kept[name] and not self._may_use(subject, name)
        ]

    def _may_use(self, job: JobState | None, queue: str) -> bool:
        if job is None or job.key not in self._returning or queue not in self._above(job.record.queue):
            return False
        return count(job.record.counts, READY_STATES) < job.min_member

    def answers_alike(self, pod_class: PodClass) -> str:
        """The queues whose spare nodes the job may use."""
        subject = self.session.subject
        return ",".join(name for name in self.kept if self._may_use(subject, name))


def _asked(session: Session) -> dict[str, int]:
    """How many nodes queues want to be spare; what cannot be read counts as none, as admission refuses it."""
    spares: dict[str, int] = {}
    for name, queue in session.queues.items():
        text = queue.record.annotations.get(HOT_SPARES)
        number = spares_of(text) if text is not None else 0
        if number:
            spares[name] = number
    return spares


def _reason(queue: str) -> Reason:
    text = f"node(s) were kept as spares of queue {queue} (annotation {HOT_SPARES})"
    return Reason(text, unresolvable=True, cause=Cause.FILTERS)
