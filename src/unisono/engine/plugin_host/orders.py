"""Orders of queues, jobs and tasks: keys of the plug-ins in tier order, then creation time, then the name."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, TypeVar

from unisono.cluster.records import Task
from unisono.engine.answers import Reach
from unisono.engine.plugin_host.answer_checks import LAST
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.job_state import JobState, QueueState

# Items in the order of their keys, of which the lowest is taken first.

T = TypeVar("T")
Key = tuple[Any, ...]
Entry = tuple[Key, T]


class Heap(Generic[T]):
    """Items by key, lowest first; a key is read when an item is pushed.

    Most items are taken out once and never put back: those it starts with are sorted, which is cheap for what is nearly
    in order, and only those that are pushed later form a heap.

    Args:
        key: reads an item's key; must differ between items (end with the name).
        volatile: keys of waiting items may change with any placement: they are all read again before each `pop` and
            each `leads`.
    """

    __slots__ = ("_key", "_pushed", "_sorted", "_volatile")

    def __init__(self, key: Callable[[T], Key], items: Iterable[T] = (), *, volatile: bool = False) -> None:
        self._key = key
        self._volatile = volatile
        self._sorted: list[Entry[T]] = [(key(item), item) for item in items]
        self._sorted.sort(key=_key_of, reverse=True)
        self._pushed: list[Entry[T]] = []

    def __len__(self) -> int:
        return len(self._sorted) + len(self._pushed)

    def push(self, item: T) -> None:
        """Put an item (back) in, with its key as it is now."""
        heapq.heappush(self._pushed, (self._key(item), item))

    def pop(self) -> T:
        """Take the lowest item out."""
        if len(self) > 1:
            self._read_again()
        if self._pushed and (not self._sorted or self._pushed[0][0] < self._sorted[-1][0]):
            return heapq.heappop(self._pushed)[1]
        return self._sorted.pop()[1]

    def leads(self, item: T) -> bool:
        """Whether ``item``, which is not in it, would be the next one if it were put in."""
        self._read_again()
        key = self._key(item)
        return not any(entries and entries[at][0] < key for entries, at in ((self._sorted, -1), (self._pushed, 0)))

    def ahead(self, alike: Callable[[T], bool], most: int) -> list[T]:
        """The next items, in order, as long as they are ``alike``, at most ``most``; they stay in.

        None are seen where keys are volatile, or where an item that was put back comes first.
        """
        items: list[T] = []
        if self._volatile:
            return items
        bound = self._pushed[0][0] if self._pushed else None
        for key, item in reversed(self._sorted):
            if len(items) >= most or (bound is not None and bound < key) or not alike(item):
                break
            items.append(item)
        return items

    def take_while(self, passes: Callable[[T], bool]) -> int:
        """Take out the next items, in order, as long as they pass; how many did.

        ``passes`` must leave all keys as they are. None are taken where keys are volatile.
        """
        entries, pushed, number = self._sorted, self._pushed, 0
        while not self._volatile:
            if pushed and (not entries or pushed[0][0] < entries[-1][0]):
                if not passes(pushed[0][1]):
                    break
                heapq.heappop(pushed)
            elif entries and passes(entries[-1][1]):
                entries.pop()
            else:
                break
            number += 1
        return number

    def drop(self, number: int) -> None:
        """Take out the first ``number`` items that `ahead` has shown."""
        if number:
            del self._sorted[-number:]

    def items(self) -> list[T]:
        """What is waiting, in no particular order."""
        return [item for entries in (self._sorted, self._pushed) for _, item in entries]

    def _read_again(self) -> None:
        if self._volatile:
            self._sorted = [(self._key(item), item) for item in self.items()]
            self._sorted.sort(key=_key_of, reverse=True)
            self._pushed = []


def _key_of(entry: Entry[Any]) -> Key:
    return entry[0]


_NAMED = attrgetter("created", "uid", "key")
_NUMBERED = attrgetter("ordinal", "created", "uid", "key")


class Orders:
    """The orders of one session."""

    def __init__(self, hooks: CombinedAnswers) -> None:
        self.hooks = hooks
        self._unmoved: dict[tuple[int | str, str], Key] = {}

    @cached_property
    def _of_shape(self) -> bool:
        return self.hooks.by_shape("job_key")

    @cached_property
    def _stays(self) -> bool:
        return self._of_shape or not self._volatile("job_key")

    def _volatile(self, hook: str) -> bool:
        return any(plugin.order_reach is not Reach.ROW for plugin, _ in self.hooks.flat[hook])

    def queue_key(self, queue: QueueState) -> Key:
        """Key of a queue."""
        return (*self.hooks.keys("queue_key", queue), queue.created, queue.name)

    def job_key(self, job: JobState) -> Key:
        """Key of a job; what the plug-ins say of one to which nothing has happened stays, or is that of its shape."""
        if job.places:
            return (*self.hooks.keys("job_key", job), job.created, job.key)
        like = (self._of_shape and job.shape) or job.key, job.phase
        plugin_key = self._unmoved.get(like)
        if plugin_key is None:
            plugin_key = self.hooks.keys("job_key", job)
            if self._stays and LAST not in plugin_key:
                self._unmoved[like] = plugin_key
        return (*plugin_key, job.created, job.key)

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
