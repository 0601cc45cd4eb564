"""Orders of queues, jobs and tasks: keys of the plug-ins in tier order, then creation time, then the name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from unisono.cluster.records import Task
from unisono.engine.answers import Reach
from unisono.engine.plugin_host.answer_checks import LAST
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.plugin_host.heap import Heap, Key
from unisono.engine.session.job_state import JobState, QueueState

_NAMED = attrgetter("created", "uid", "key")
_NUMBERED = attrgetter("ordinal", "created", "uid", "key")


class Orders:
    """The orders of one session."""

    def __init__(self, hooks: CombinedAnswers) -> None:
        self.hooks = hooks
        self._unmoved: dict[tuple[int | str, str], Key] = {}

    def _volatile(self, hook: str) -> bool:
        return any(plugin.order_reach is not Reach.ROW for plugin, _ in self.hooks.flat[hook])

    def queue_key(self, queue: QueueState) -> Key:
        """Key of a queue."""
        return (*self.hooks.keys("queue_key", queue), queue.created, queue.name)

    def job_key(self, job: JobState) -> Key:
        """Key of a job; what the plug-ins say of one that nothing has happened to stays, and is that of its shape."""
        if job.places:
            return (*self.hooks.keys("job_key", job), job.created, job.key)
        like = (job.shape or job.key, job.phase)
        known = self._unmoved.get(like)
        if known is None:
            known = self.hooks.keys("job_key", job)
            if self.hooks.by_shape("job_key") and LAST not in known:
                self._unmoved[like] = known
        return (*known, job.created, job.key)

    def plugins_keys(self, job: JobState) -> Key:
        """What the plug-ins say of a job, without what tells jobs apart that they do not."""
        return self.job_key(job)[:-2]

    def queues(self, queues: Iterable[QueueState]) -> Heap[QueueState]:
        """A heap of queues."""
        return Heap(self.queue_key, queues, volatile=self._volatile("queue_key"))

    def jobs(self, jobs: Iterable[JobState]) -> Heap[JobState]:
        """A heap of jobs."""
        return Heap(self.job_key, jobs, volatile=self._volatile("job_key"))

    def tasks(self, tasks: list[Task]) -> list[Task]:
        """Tasks in the order in which they are placed.

        After the plug-ins' keys comes the number at the end of the name when all tasks have one, else the creation
        time, then the UID. (Volcano compares the numbers of each pair that has both, which is no order.)
        """
        if len(tasks) < 2:
            return tasks
        keys = self._task_keys(tasks)
        return [tasks[at] for at in sorted(range(len(tasks)), key=keys.__getitem__)]

    def _task_keys(self, tasks: Sequence[Task]) -> list[Key]:
        """Keys of tasks in the order in which they are placed."""
        tail = _NUMBERED if all(task.ordinal >= 0 for task in tasks) else _NAMED
        return list(zip(*self.hooks.columns("task_key", tasks), map(tail, tasks), strict=True))

    def victims(self, actor: JobState, victims: list[tuple[Task, JobState]]) -> list[Task]:
        """Tasks that may be evicted for ``actor``, each with its job, in the order in which they go.

        The queue that comes last in queue order loses first (unless a plug-in says otherwise), within a queue a gang
        that is broken anyway and then the last job, within a job the last task; between jobs that no plug-in tells
        apart, the last task of all. Where a plug-in knows what work would be lost, the one that loses least goes
        first among those of equal priority.
        """
        if len(victims) < 2:
            return [task for task, _ in victims]
        queues = {job.queue.name: job.queue for _, job in victims}
        queue_keys = {name: self.queue_key(queue) if len(queues) > 1 else () for name, queue in queues.items()}
        job_keys: dict[str, Key] = {}
        task_keys = self._task_keys([task for task, _ in victims])
        asked = self.hooks.weighs_losses()

        def key(at: int) -> Key:
            task, job = victims[at]
            if job.key not in job_keys:
                job_keys[job.key] = self.plugins_keys(job)
            loss = (-job.priority, -(self.hooks.lost_work((task,)) or 0.0)) if asked else ()
            return queue_keys[job.queue.name], job.broken, loss, job_keys[job.key], task_keys[at]

        ordered = [victims[at] for at in sorted(range(len(victims)), key=key, reverse=True)]
        if len(queues) > 1 and self.hooks.has("victim_queue_key"):
            ordered.sort(key=lambda item: self.hooks.keys("victim_queue_key", item[1].queue, actor.queue))
        return [task for task, _ in ordered]
