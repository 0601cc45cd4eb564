"""task-topology: roles of a job that should share a node, or should not, by annotations of its PodGroup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Matrix, fitted
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus
from unisono.engine.answers import FloatArray, Key, Reach, Scope
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.task_topology.buckets import Bucket, Buckets, read_wishes
from unisono.engine.session.node_view import NodeView

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

_WEIGHT = Argument("task-topology.weight", "int", 1, "multiplies the score")
_HELD = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


class TaskTopologyPlugin(Plugin):
    """Sorts the tasks of a job into buckets and keeps each bucket together."""

    name = "task-topology"
    scope = Scope.JOB
    reach = Reach.CLUSTER
    pure = False
    known_arguments = (_WEIGHT,)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.weight = int(argument_value(_WEIGHT, self.arguments))

    def open(self, session: Session) -> None:
        """Buckets are made when a job is first asked about."""
        self.session = session
        self._buckets: dict[str, Buckets | None] = {}

    def buckets(self, key: str) -> Buckets | None:
        """The buckets of a job as they are now; None where it has no wishes."""
        if key not in self._buckets:
            job = self.session.job(key)
            self._buckets[key] = None if job is None else self._sorted_in(job)
        return self._buckets[key]

    def _sorted_in(self, job: JobState) -> Buckets | None:
        tasks = [task for _, task in sorted(job.record.tasks.items())]
        wishes = read_wishes(job.record.annotations, {task.role for task in tasks})
        if wishes is None:
            return None
        index = self.session.snapshot.nodes.index
        held = [task for task in tasks if task.status in ALLOCATED_STATES and task.node in index]
        return Buckets(
            wishes,
            [(task, index[task.node]) for task in held],
            [task for task in tasks if task.status is TaskStatus.PENDING],
        )

    # ---- order

    def task_key(self, task: Task) -> Key:
        """Tasks of large buckets first, bucket by bucket, roles in their order; tasks without a bucket last."""
        buckets = self.buckets(task.job) if task.job else None
        bucket = buckets.of.get(task.key) if buckets is not None else None
        if buckets is None or bucket is None:
            return 1, 0, 0, (0, 0)
        return 0, -bucket.size, bucket.index, buckets.wishes.rank(task.role)

    # ---- scores

    def concerns(self, pod_class: PodClass) -> bool:
        """Only jobs with wishes are placed task by task."""
        job = self.session.subject
        return bool(self.weight) and job is not None and self.buckets(job.key) is not None

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """By tasks of the bucket that are there, and that would fit there too, less those that want to be apart."""
        job = self.session.subject
        buckets = self.buckets(job.key) if job is not None else None
        task = self._next(job, pod_class) if job is not None and buckets is not None else None
        bucket = buckets.of.get(task.key) if buckets is not None and task is not None else None
        if buckets is None or task is None or bucket is None or not buckets.largest:
            return None
        room = nodes.future_idle
        fits = (room[pod_class.rows] >= pod_class.amounts[:, None]).all(axis=0)
        points = np.array([self._there(buckets, bucket, task, column) for column in nodes.columns.tolist()], np.float64)
        points += self._company(bucket, task, room)
        return np.where(fits, points * self.weight * 100.0 / buckets.largest, 0.0)

    def _next(self, job: JobState, pod_class: PodClass) -> Task | None:
        """The task of the class that is placed next: the first in order that has no place."""
        waiting = [
            task
            for task in job.record.pending.values()
            if task.pod_class.id == pod_class.id and task.key not in job.places and not task.gated
        ]
        order = lambda task: (-task.priority, self.task_key(task), task.ordinal, task.created, task.uid)  # noqa: E731
        return min(waiting, key=order, default=None)

    @staticmethod
    def _there(buckets: Buckets, bucket: Bucket, task: Task, column: int) -> int:
        others = buckets.on_node.get(column)
        apart = buckets.wishes.score(task.role, others, only_apart=True) if others else 0
        return bucket.bound[column] + apart

    def _company(self, bucket: Bucket, task: Task, room: Matrix) -> FloatArray:
        """``[M]`` how many waiting tasks of the bucket, the task included, would fit together on each node.

        Tasks are left out one after the other, last first, until the rest fits.
        """
        size = len(room)
        rest = bucket.request(size)
        left = len(bucket.waiting)
        company = np.full(room.shape[1], 1.0)
        undecided = np.ones(room.shape[1], dtype=np.bool_)
        others = [other for key, other in bucket.waiting.items() if key != task.key]
        while True:
            fits = undecided & ((rest[:, None] <= room) | (rest[:, None] == 0)).all(axis=0)
            company[fits] = left
            undecided &= ~fits
            if not others or not undecided.any():
                return company
            rest = rest - fitted(others.pop().pod_class.vector, size)
            left -= 1

    # ---- events

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Keep the buckets up to date."""
        if TaskStatus.PENDING not in (before, after):
            return
        buckets = self.buckets(job.key)
        if buckets is None:
            return
        for task, column in zip(tasks, nodes, strict=True):
            if after in _HELD:
                buckets.bind(task, column)
            else:
                buckets.release(task, column)
