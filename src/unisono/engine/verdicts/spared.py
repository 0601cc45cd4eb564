"""Why no pod is evicted for a job although others would make room: limits on evictions, with numbers and times."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.api.times import rfc3339
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState

_EVICTING = frozenset(("preempt", "reclaim", "gangpreempt", "gangreclaim"))


def spared(cycle: Cycle, job: JobState, victims: Sequence[str]) -> str:
    """One sentence; empty where no limit stands in the way.

    Args:
        cycle: at its end.
        job: waits.
        victims: keys of pods; it is known that the job would start without them.

    """
    if not _EVICTING & set(cycle.config.actions):
        return ""
    setback = cycle.session.snapshot.setbacks.get(job.key)
    if setback is not None:
        return f"its binds were refused lately, so no pod is evicted for it before {rfc3339(setback.over)}"
    tasks = [task for key in victims if (task := cycle.session.snapshot.tasks.get(key)) is not None]
    reason: str | None = cycle.hooks.first("spared", tasks)
    return reason or ""
