"""Hooks of plug-ins that tell of placements, and ask what goes with a bind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.cluster.podclass import PodClass
    from unisono.cluster.records import Task
    from unisono.cluster.status import TaskStatus
    from unisono.engine.decisions import Preparation
    from unisono.engine.session.job_state import JobState


class EventHooks:
    """Notices, and what is written besides binds."""

    # ---- events

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """``len(nodes)`` tasks of one class of ``job`` were allocated or pipelined, one on each entry of ``nodes``.

        ``job.claimed`` and ``queue.claimed`` contain them already, so share-based plug-ins need no event at all.
        """
        raise NotImplementedError

    def removed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """The same tasks were taken back (undo) or evicted."""
        raise NotImplementedError

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Equal tasks changed their state, ``tasks[i]`` on ``nodes[i]``: placed, evicted, or either taken back.

        For plug-ins that keep books by pod, such as which card it holds: PENDING to ALLOCATED or PIPELINED places,
        anything to RELEASING evicts, and the reverse is the undoing, last first. ``placed`` and ``removed`` say less.
        """
        raise NotImplementedError

    def preparations(self, task: Task, node: int) -> Sequence[Preparation]:
        """What must be written before ``task``, which has claims, is bound to ``node``.

        Asked after the last action; when it raises, the pod's job is not bound in this cycle.
        """
        raise NotImplementedError

    def annotations(self, task: Task, node: int) -> Mapping[str, str] | None:
        """What the pod is told with its bind to ``node``, such as its cards; None: nothing."""
        raise NotImplementedError
