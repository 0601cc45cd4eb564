"""Orders of queues, jobs and tasks: keys of the plug-ins in tier order, then creation time, then the name."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from unisono.cluster.records import Task
from unisono.engine.answers import Reach
from unisono.engine.hooks import Hooks
from unisono.engine.job_state import JobState, QueueState

T = TypeVar("T")
Key = tuple[Any, ...]


class Heap(Generic[T]):
    """Items by key, lowest first; a key is read when an item is pushed.

    Args:
        key: reads an item's key; must differ between items (end with the name).
        volatile: keys of waiting items may change with any placement: they are all read again before each `pop`.

    """

    __slots__ = ("_entries", "_key", "_volatile")

    def __init__(self, key: Callable[[T], Key], items: Iterable[T] = (), *, volatile: bool = False) -> None:
        self._key = key
        self._volatile = volatile
        self._entries: list[tuple[Key, T]] = [(key(item), item) for item in items]
        heapq.heapify(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, item: T) -> None:
        """Put an item (back) in, with its key as it is now."""
        heapq.heappush(self._entries, (self._key(item), item))

    def pop(self) -> T:
        """Take the lowest item out."""
        if self._volatile and len(self._entries) > 1:
            self._entries = [(self._key(item), item) for _, item in self._entries]
            heapq.heapify(self._entries)
        return heapq.heappop(self._entries)[1]

    def items(self) -> list[T]:
        """What is waiting, in no particular order."""
        return [item for _, item in self._entries]


class Orders:
    """The orders of one session."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks

    def _volatile(self, hook: str) -> bool:
        return any(plugin.order_reach is not Reach.ROW for plugin, _ in self.hooks.flat[hook])

    def queue_key(self, queue: QueueState) -> Key:
        """Key of a queue."""
        return (*self.hooks.keys("queue_key", queue), queue.created, queue.name)

    def job_key(self, job: JobState) -> Key:
        """Key of a job."""
        return (*self.hooks.keys("job_key", job), job.created, job.key)

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
        numbered = all(task.ordinal >= 0 for task in tasks)
        asked = self.hooks.has("task_key")

        def key(task: Task) -> Key:
            tail = (task.ordinal, task.created, task.uid, task.key) if numbered else (task.created, task.uid, task.key)
            return (*self.hooks.keys("task_key", task), *tail) if asked else tail

        return sorted(tasks, key=key)

    def victims(self, actor: JobState, victims: list[tuple[Task, JobState]]) -> list[Task]:
        """Tasks that may be evicted for ``actor``, each with its job, in the order in which they go.

        The queue that comes last in queue order loses first (unless a plug-in says otherwise), within a queue a gang
        that is broken anyway and then the last job, within a job the last task; between jobs that no plug-in tells
        apart, the last task of all.
        """
        if len(victims) < 2:
            return [task for task, _ in victims]
        queue_keys: dict[str, Key] = {}
        job_keys: dict[str, Key] = {}
        numbered = all(task.ordinal >= 0 for task, _ in victims)

        def key(item: tuple[Task, JobState]) -> Key:
            task, job = item
            if job.key not in job_keys:
                job_keys[job.key] = self.hooks.keys("job_key", job)
            if job.queue.name not in queue_keys:
                queue_keys[job.queue.name] = self.queue_key(job.queue)
            tail = (task.ordinal,) if numbered else ()
            task_key = (*self.hooks.keys("task_key", task), *tail, task.created, task.uid, task.key)
            return queue_keys[job.queue.name], job.broken, job_keys[job.key], task_key

        ordered = sorted(victims, key=key, reverse=True)
        if self.hooks.has("victim_queue_key") and len(queue_keys) > 1:
            ordered.sort(key=lambda item: self.hooks.keys("victim_queue_key", item[1].queue, actor.queue))
        return [task for task, _ in ordered]


def runs(tasks: list[Task]) -> list[list[Task]]:
    """Consecutive tasks of the same class and role; a task that is nominated for a node stands alone."""
    grouped: list[list[Task]] = []
    for task in tasks:
        if grouped:
            last = grouped[-1][-1]
            if (
                last.pod_class is task.pod_class
                and last.role == task.role
                and not task.nominated_node
                and not last.nominated_node
            ):
                grouped[-1].append(task)
                continue
        grouped.append([task])
    return grouped
