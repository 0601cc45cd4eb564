"""The waiting tasks of a job, by sub-group, in runs of equal ones."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.session.sub_groups import SubGroup, groups_of, runs


class RemainingTasks:
    """Pending tasks in runs of equal ones; what has been tried is taken off."""

    __slots__ = ("_aside", "_at", "_number", "_run", "_runs")

    def __init__(self, tasks: list[Task]) -> None:
        self._runs = runs(tasks)
        self._run = 0
        self._at = 0
        self._aside: list[list[Task]] = []
        self._number = len(tasks)

    def __len__(self) -> int:
        return self._number

    def copy(self) -> RemainingTasks:
        """A copy that can be used up by itself."""
        other = RemainingTasks([])
        other.follow(self)
        return other

    def follow(self, other: RemainingTasks) -> None:
        """Have left what another order of the same tasks has left."""
        self._runs, self._run, self._at = other._runs, other._run, other._at
        self._aside, self._number = other._aside, other._number

    def rest(self) -> list[Task]:
        """What is left of the present run; at least one task."""
        run = self._runs[self._run]
        return run[self._at :] if self._at else run

    def left(self) -> list[Task]:
        """Everything that is left, in order."""
        here = [task for run in self._runs[self._run :] for task in run][self._at :]
        return [task for run in self._aside for task in run] + here

    def kinds(self) -> list[PodClass]:
        """The class of each run that is left, in order."""
        return [run[0].pod_class for run in self._runs[self._run :]]

    def done(self, number: int) -> None:
        """Take ``number`` tasks off the present run."""
        self._at += number
        self._number -= number
        if self._at >= len(self._runs[self._run]):
            self._run += 1
            self._at = 0
            if self._run == len(self._runs):
                self.recall()

    def set_aside(self) -> None:
        """Let what is left of the present run wait for the runs behind it, of which there are some."""
        self._aside = [*self._aside, self.rest()]
        self._run, self._at = self._run + 1, 0

    @property
    def has_aside(self) -> bool:
        """Whether tasks wait for the runs that come next."""
        return bool(self._aside)

    def recall(self) -> None:
        """Have first again what was set aside."""
        if self._aside:
            rest = [self.rest()] if self._run < len(self._runs) else []
            self._runs = [*self._aside, *rest, *self._runs[self._run + 1 :]]
            self._aside, self._run, self._at = [], 0, 0


class RemainingByGroup:
    """Pending tasks of one job that are left to place, by sub-group."""

    __slots__ = ("by_group",)

    def __init__(self, by_group: dict[str, RemainingTasks]) -> None:
        self.by_group = by_group

    def __bool__(self) -> bool:
        return any(self.by_group.values())

    def copy(self) -> RemainingByGroup:
        """A copy that can be used up by itself."""
        return RemainingByGroup({key: remaining.copy() for key, remaining in self.by_group.items()})

    def has(self, group: SubGroup) -> bool:
        """Whether anything is left of one group, or of what it is made of."""
        return any(self.by_group.get(leaf.key) for leaf in group.leaves)

    def of_group(self, group: SubGroup) -> RemainingByGroup:
        """A copy of what is left of one group, and of all that it is made of."""
        own = (leaf.key for leaf in group.leaves if leaf.key in self.by_group)
        return RemainingByGroup({key: self.by_group[key].copy() for key in own})

    def left(self) -> list[Task]:
        """What is left of all."""
        return [task for remaining in self.by_group.values() for task in remaining.left()]

    def tasks(self, key: str) -> list[Task]:
        """What is left of one sub-group."""
        return self.by_group[key].left()

    @classmethod
    def of(cls, cycle: Cycle, job: JobState, tasks: Sequence[Task]) -> RemainingByGroup:
        """``tasks``, which are in task order, by sub-group."""
        groups = groups_of(cycle.session, job)
        if len(groups) == 1 and tasks:
            return cls({groups[0].key: RemainingTasks(list(tasks))})
        owner = {task.key: group.key for group in groups for task in group.tasks}
        own: dict[str, list[Task]] = {}
        for task in tasks:
            own.setdefault(owner[task.key], []).append(task)
        return cls({key: RemainingTasks(members) for key, members in own.items()})
