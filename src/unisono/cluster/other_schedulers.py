"""Which pods of jobs name another scheduler: what such a job waits for is that scheduler's to say."""

from __future__ import annotations

from collections import Counter

from unisono.cluster.records import Task


class ForeignPods:
    """Pods of other schedulers that belong to a job."""

    def __init__(self) -> None:
        self._job_of: dict[str, str] = {}
        self._jobs: Counter[str] = Counter()

    def note(self, task: Task) -> bool:
        """Take in what is known of a pod by now; answers whether it is its job's first."""
        job = "" if task.owned else task.job
        if self._job_of.get(task.key, "") == job:
            return False
        self.forget(task.key)
        if not job:
            return False
        self._job_of[task.key] = job
        self._jobs[job] += 1
        return self._jobs[job] == 1

    def forget(self, pod: str) -> str:
        """The pod is gone; answers the job of which it was the last."""
        job = self._job_of.pop(pod, "")
        if not job:
            return ""
        self._jobs[job] -= 1
        if self._jobs[job]:
            return ""
        del self._jobs[job]
        return job

    def pods(self) -> list[str]:
        """Keys of the pods."""
        return list(self._job_of)

    def have(self, job: str) -> bool:
        """Whether the job has such pods."""
        return job in self._jobs
