"""The waiting tasks of a job or sub-group, in runs of equal ones."""

from __future__ import annotations

from unisono.cluster.records import Task
from unisono.engine.session.task_runs import runs


class RemainingTasks:
    """Pending tasks in runs of equal ones; what has been tried is taken off."""

    __slots__ = ("_at", "_run", "_runs")

    def __init__(self, tasks: list[Task]) -> None:
        self._runs = runs(tasks)
        self._run = 0
        self._at = 0

    def __bool__(self) -> bool:
        return self._run < len(self._runs)

    def copy(self) -> RemainingTasks:
        """A copy that can be used up by itself."""
        other = RemainingTasks([])
        other._runs, other._run, other._at = self._runs, self._run, self._at
        return other

    def follow(self, other: RemainingTasks) -> None:
        """Have left what another order of the same tasks has left."""
        self._runs, self._run, self._at = other._runs, other._run, other._at

    def rest(self) -> list[Task]:
        """What is left of the present run; at least one task."""
        run = self._runs[self._run]
        return run[self._at :] if self._at else run

    def left(self) -> list[Task]:
        """Everything that is left, in order."""
        return [task for run in self._runs[self._run :] for task in run][self._at :]

    def done(self, number: int) -> None:
        """Take ``number`` tasks off the present run."""
        self._at += number
        if self._at >= len(self._runs[self._run]):
            self._run += 1
            self._at = 0
