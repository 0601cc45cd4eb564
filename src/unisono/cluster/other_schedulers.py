"""Which pods of jobs name another scheduler: what such a job waits for is that scheduler's to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from unisono.cluster.records import Task


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
