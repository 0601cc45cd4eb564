"""Jobs that wait, by kin and in order, kept from cycle to cycle.

Of many jobs of one kin a cycle mostly asks about one. Here it finds the others without having looked at each of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

from unisono.cluster.records import Job, Task

Entry = tuple[Any, str]
"""What a job stands in the order by, and its key."""


class _Order:
    """Keys of jobs, sorted by a value that follows from the record of each."""

    __slots__ = ("entries", "fresh", "values")

    def __init__(self, fresh: set[str]) -> None:
        self.entries: list[Entry] = []
        self.values: dict[str, Any] = {}
        self.fresh = fresh

    def drop(self, key: str) -> None:
        if key in self.fresh:
            self.fresh.discard(key)
        else:
            del self.entries[bisect_left(self.entries, (self.values.pop(key), key))]

    def settled(self, value: Callable[[str], Any]) -> list[Entry]:
        for key in self.fresh:
            rank = self.values[key] = value(key)
            insort(self.entries, (rank, key))
        self.fresh.clear()
        return self.entries


class Alike:
    """Jobs of one kin whose pods all wait.

    Attributes:
        kin: that of all of them.
        aged: when each was created, and its key; sorted.
        shapes: their keys by shape.
        version: moves with every change.
    """

    __slots__ = ("_orders", "aged", "kin", "shapes", "version")

    def __init__(self, kin: int) -> None:
        self.kin = kin
        self.aged: list[Entry] = []
        self.shapes: dict[int, dict[str, None]] = {}
        self.version = 0
        self._orders: dict[str, _Order] = {}

    def __len__(self) -> int:
        return len(self.aged)

    @property
    def sample(self) -> str:
        """Key of one of them."""
        return self.aged[0][1]

    def sorted_by(self, name: str, value: Callable[[str], Any]) -> list[Entry]:
        """The jobs in another order, read only.

        Args:
            name: of the order.
            value: of a job, by its key; asked once, and must follow from the job's record alone.
        """
        order = self._orders.get(name)
        if order is None:
            order = self._orders[name] = _Order({key for _, key in self.aged})
        return order.settled(value)

    def but(self, keys: Collection[str]) -> Alike:
        """The same without these jobs."""
        left = Alike(self.kin)
        left.aged = [entry for entry in self.aged if entry[1] not in keys]
        shapes = {shape: {key: None for key in alike if key not in keys} for shape, alike in self.shapes.items()}
        left.shapes = {shape: alike for shape, alike in shapes.items() if alike}
        return left

    def put(self, job: Job) -> None:
        """Add a job."""
        insort(self.aged, (job.created, job.key))
        self.shapes.setdefault(job.shape, {})[job.key] = None
        self.version += 1
        for order in self._orders.values():
            order.fresh.add(job.key)

    def drop(self, created: float, key: str, shape: int) -> None:
        """Take out a job that was put in with this time and shape."""
        del self.aged[bisect_left(self.aged, (created, key))]
        del self.shapes[shape][key]
        if not self.shapes[shape]:
            del self.shapes[shape]
        self.version += 1
        for order in self._orders.values():
            order.drop(key)


class WaitingJobs:
    """The jobs that a cycle has to look at.

    Attributes:
        alike: by kin, jobs whose pods all wait and are equal.
        bare: by shape, keys of jobs that have no pods: those that wait for admission, mostly.
        others: keys of all other jobs that a cycle has to look at.
    """

    __slots__ = ("_places", "alike", "bare", "others")

    def __init__(self) -> None:
        self.alike: dict[int, Alike] = {}
        self.bare: dict[int, dict[str, None]] = {}
        self.others: set[str] = set()
        self._places: dict[str, tuple[int, float, int]] = {}

    def put(self, job: Job) -> None:
        """Add a job that is not in it."""
        kin = job.kin
        if kin and not job.tasks:
            self.bare.setdefault(job.shape, {})[job.key] = None
            self._places[job.key] = 0, job.created, job.shape
            return
        if not kin or not job.pending:
            self.others.add(job.key)
            return
        group = self.alike.get(kin)
        if group is None:
            group = self.alike[kin] = Alike(kin)
        group.put(job)
        self._places[job.key] = kin, job.created, job.shape

    def drop(self, key: str) -> None:
        """Take a job out, if it is in it."""
        place = self._places.pop(key, None)
        if place is None:
            self.others.discard(key)
            return
        kin, created, shape = place
        if not kin:
            del self.bare[shape][key]
            if not self.bare[shape]:
                del self.bare[shape]
            return
        group = self.alike[kin]
        group.drop(created, key, shape)
        if not group.aged:
            del self.alike[kin]

    def apart(self, keys: Collection[str]) -> WaitingJobs:
        """The same with these jobs among those that are like no other; all else is shared."""
        view = WaitingJobs()
        view.others = self.others | set(keys)
        places = {key: self._places[key] for key in keys if key in self._places}
        view._places = {key: place for key, place in self._places.items() if key not in places}
        view.bare = {**self.bare}
        for shape in {shape for kin, _, shape in places.values() if not kin}:
            view.bare[shape] = {key: None for key in self.bare[shape] if key not in places}
            if not view.bare[shape]:
                del view.bare[shape]
        kins = {kin for kin, *_ in places.values() if kin}
        view.alike = {kin: alike for kin, alike in self.alike.items() if kin not in kins}
        for kin in kins:
            left = self.alike[kin].but(places)
            if left.aged:
                view.alike[kin] = left
        return view

    def but_kins(self, passes: Callable[[str], bool]) -> list[str]:
        """Keys of all jobs but those of kins that ``passes`` holds for, which is asked about one of each."""
        left = (alike for alike in self.alike.values() if not passes(alike.sample))
        bare = (keys for keys in self.bare.values() if not passes(next(iter(keys))))
        return [*self.others, *(key for keys in bare for key in keys), *(key for each in left for _, key in each.aged)]

    def by_shape(self) -> Iterator[Collection[str]]:
        """Keys of all jobs, those together that share a shape."""
        yield from self.bare.values()
        for alike in self.alike.values():
            yield from alike.shapes.values()
        yield from ((key,) for key in self.others)


# Which pods of jobs name another scheduler: what such a job waits for is that scheduler's to say.


class ForeignPods:
    """Pods of other schedulers that belong to a job.

    Args:
        changed: told of a job that has such pods from now on, or has none any more.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._job_of: dict[str, str] = {}
        self._jobs: Counter[str] = Counter()

    def note(self, task: Task) -> None:
        """Take in what is known of a pod by now."""
        job = "" if task.owned else task.job
        if self._job_of.get(task.key, "") != job:
            self.forget(task.key)
            if job:
                self._job_of[task.key] = job
                self._jobs[job] += 1
                if self._jobs[job] == 1:
                    self._changed(job)

    def forget(self, pod: str) -> None:
        """The pod is gone; others may be, too."""
        job = self._job_of.pop(pod, None)
        if job is not None:
            self._jobs[job] -= 1
            if not self._jobs[job]:
                del self._jobs[job]
                self._changed(job)

    def pods(self) -> list[str]:
        """Keys of the pods."""
        return list(self._job_of)

    def have(self, job: str) -> bool:
        """Whether the job has such pods."""
        return job in self._jobs
