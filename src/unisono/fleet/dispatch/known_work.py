"""What stands for Volcano Jobs, remembered for as long as nothing that it is made of changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unisono.api.annotations import CLUSTER, DISPATCH, LAST_CLUSTER
from unisono.api.groups.batch import Job
from unisono.api.kind import Kind
from unisono.fleet.jobs.work import Work, work_of

_MARKS = frozenset((CLUSTER, DISPATCH, LAST_CLUSTER))


class KnownWork:
    """A job is looked at some seven times on its way to its member, mostly because its copy tells something."""

    def __init__(self, priority: Callable[[str | None], int]) -> None:
        """``priority`` is the value of a priority class."""
        self._priority = priority
        self._known: dict[str, tuple[object, Work | None]] = {}

    def of(self, kind: Kind[Any], job: Any, now: float) -> Work | None:
        """See `work_of`."""
        if not isinstance(job, Job):
            return work_of(kind, job, now, self._priority)
        meta = job.metadata
        own = {key: value for key, value in (meta.annotations or {}).items() if key not in _MARKS}
        key = (meta.uid, meta.generation, job.status.version, own, meta.labels)
        known = self._known.get(job.key)
        if known is None or known[0] != key or not meta.generation:
            known = self._known[job.key] = key, work_of(kind, job, now, self._priority)
        return known[1]

    def forget(self, key: str) -> None:
        """A job needs no pods any more."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Priority classes have changed."""
        self._known.clear()
