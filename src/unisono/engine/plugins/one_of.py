"""one-of: all pods of a gang get nodes of one kind, of several that it names (annotation ``unisono.io/one-of``).

Which kind is tried when is a matter of `unisono.engine.session.choices` and of what places gangs; the plug-in keeps
pods away from nodes of other kinds, and tells them what they got.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unisono.api.annotations import GOT, ONE_OF
from unisono.api.one_of import MOST
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import Parts, Scope, Veto
from unisono.engine.changes import AddAnnotation, Change
from unisono.engine.config.arguments import Argument
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.choices import Choices, Part, not_of

if TYPE_CHECKING:
    from unisono.cluster.waiting_jobs import Alike
    from unisono.engine.session.node_view import NodeView
    from unisono.engine.session.session import Session

_AUTO = Argument("one-of.AutoEnable", "bool", False, "nothing where no job names kinds of nodes")
_OFFERED = 2
"""Further kinds that are offered to a job that waits."""


class OneOfPlugin(Plugin):
    """Refuses the nodes that are not of the kind which is tried for the present job."""

    name = "one-of"
    scope = Scope.JOB
    steady = True
    known_arguments = (_AUTO,)

    @classmethod
    def used(cls, session: Session) -> bool:
        """Where a job names kinds of nodes."""
        return bool(session.snapshot.calendar.choosing)

    def open(self, session: Session) -> None:
        """Find the jobs that choose."""
        self.session = session
        self.choices = Choices(session)
        session.shared.put(self.choices)

    def _part(self, pod_class: PodClass) -> Part | None:
        job = self.session.subject
        return self.choices.part(job, pod_class) if job is not None else None

    def concerns(self, pod_class: PodClass) -> bool:
        """Only jobs that choose."""
        return self._part(pod_class) is not None

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Nodes of other kinds."""
        part = self._part(pod_class)
        if part is None:
            return ()
        return (Veto(~self.choices.nodes(part.kind)[nodes.columns], not_of(part.kind.name)),)

    def answers_alike(self, pod_class: PodClass) -> str:
        """What is tried, and in which order: jobs that choose nothing share all answers."""
        part = self._part(pod_class)
        return "" if part is None else f"{part.said.text} {part.order} {part.now}"

    def answers_in_parts(self, pod_class: PodClass, jobs: Alike) -> Parts | None:
        """Of jobs none of which chooses; others are asked about one by one."""
        choosing = (self.session.job(key) for key in self.choices.jobs)
        return None if any(job is not None and job.kin == jobs.kin for job in choosing) else Parts("", (), "")

    def annotations(self, task: Task, node: int) -> Mapping[str, str] | None:
        """The kind of nodes that the pod got."""
        job = self.session.job(task.job)
        part = self.choices.part(job, task.pod_class) if job is not None else None
        return {GOT: part.kind.name} if part is not None else None

    def relax(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Change]:
        """One more kind: another value that nodes have of the label by which the last one is chosen."""
        part = self._part(pod_class)
        if part is None or part.held or len(part.said.kinds) >= MOST:
            return ()
        key, _ = part.said.kinds[-1].labels[0]
        named = {value for kind in part.said.kinds for label, value in kind.labels if label == key}
        others = [value for value in self.session.snapshot.nodes.present_values(key) if value not in named]
        return [AddAnnotation(ONE_OF, f"{part.said.text}, {key}={value}") for value in others[:_OFFERED]]
