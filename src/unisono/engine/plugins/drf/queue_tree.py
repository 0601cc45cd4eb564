"""drf with ``enableHierarchy``: queues form a tree, and fairness holds on each of its levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, Key, Purpose, Reach
from unisono.engine.plugins.drf.jobs import JobDrf
from unisono.engine.plugins.drf.tree import Amounts, Tree, path_of
from unisono.engine.session.amounts import aligned

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session


class QueueTreeDrf(JobDrf):
    """Adds the order of queues by the tree of their annotations, and reclaiming along it."""

    order_reach = Reach.CLUSTER

    def open(self, session: Session) -> None:
        """Build the tree from every job's queue."""
        super().open(session)
        self.paths = {name: path_of(queue.record.annotations) for name, queue in session.queues.items()}
        self.depth = max((len(path) for path, _ in self.paths.values()), default=0)
        self.tree = Tree(np.array(self.total, dtype=np.float64))
        self.held: Amounts = np.zeros(len(self.total))
        self.leaves: dict[str, Amounts] = {}
        for job in session.jobs:
            self._put(job, self._claimed(job))
        self.stale = True

    def _claimed(self, job: JobState) -> Amounts:
        return aligned(job.claimed, self.session.registry).astype(np.float64)

    def _put(self, job: JobState, held: Amounts) -> None:
        path, weights = self.paths[job.queue.name]
        request = aligned(job.record.request, self.session.registry).astype(np.float64)
        self.held += held - self.leaves.get(job.key, 0.0)
        self.leaves[job.key] = held
        self.tree.put(path, weights, job.key, held, request)
        self.stale = True

    def _settle(self) -> None:
        if self.stale:
            self.tree.update(self.held)
            self.stale = False

    def queue_key(self, queue: QueueState) -> Key:
        """Along the path from the root: unsaturated first, then the smaller share by weight.

        Below the end of its path a queue counts as one that holds nothing: among branches that are equal so far a
        short path is no advantage, and the order of queues decides.
        """
        self._settle()
        key = self.tree.key(self.paths[queue.name][0])
        return (*key, *[(False, 0.0)] * (self.depth - len(key)))

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """The job's leaf holds more."""
        self._put(job, self._claimed(job))

    def removed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """The job's leaf holds less."""
        self._put(job, self._claimed(job))

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """For reclaim: tasks without which the actor's queue, with its task, would still come first."""
        if purpose is not Purpose.RECLAIM or task is None:
            return super().victims(actor, task, candidates, purpose)
        registry = self.session.registry
        chosen = np.zeros(len(candidates), dtype=np.bool_)
        before = self._claimed(actor)
        self._put(actor, before + aligned(task.pod_class.vector, registry))
        for index, other in enumerate(candidates):
            job = self.session.job(other.job)
            if job is None:
                continue
            held = self.leaves[job.key]
            self._put(job, held - aligned(other.pod_class.vector, registry))
            chosen[index] = self.queue_key(actor.queue) < self.queue_key(job.queue)
            self._put(job, held)
        self._put(actor, before)
        return chosen
