"""Verdicts: what the cycle already knows about each waiting job, put into one structured answer."""

from __future__ import annotations

from typing import Any

from unisono.api.names import did_you_mean, nearest
from unisono.cluster.records import Job
from unisono.cluster.status import TaskStatus
from unisono.engine.changes import CreateQueue, UseQueue
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import JobReport
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Asked, Cause, Verdict
from unisono.engine.verdicts.advise import MOST_JOBS, advise
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.drafts import Drafts, KeptDrafts
from unisono.engine.verdicts.lines import turn
from unisono.engine.verdicts.trial import ErrorsTold

REMEMBERED: tuple[type[Any], ...] = (KeptDrafts, ErrorsTold)
"""Classes of what explanations keep in a snapshot's memo from one time to the next."""
_EMPTY = JobReport()
_PENDING, _PIPELINED, _ALLOCATED, _BINDING = (
    int(status) for status in (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED, TaskStatus.BINDING)
)


def explain(cycle: Cycle, *, advice: bool = True, asked: Asked | None = None) -> dict[str, Verdict]:
    """A verdict for every job that waits, by PodGroup key; ``advice``: try what would start them.

    Where some jobs are ``asked`` for, only those have one, wherever they stand in line.
    """
    line = sorted((job for job in cycle.jobs if not _is_served(cycle, job) and _waits(cycle, job)), key=turn)
    jobs = line if asked is None else [job for job in line if asked.wants(job.key)]
    drafts = Drafts(cycle).of(jobs, MOST_JOBS) if jobs else {}
    for record in cycle.strays:
        if record.phase != "Completed" and (asked is None or asked.wants(record.key)):
            drafts[record.key] = _missing_queue(cycle, record)
    strays = [key for key in drafts if key not in cycle.session.snapshot.jobs or cycle.session.job(key) is None]
    ahead = [*(job.key for job in line), *strays] if asked is not None else ()
    return advise(cycle, drafts, MOST_JOBS if advice else 0, ahead, asked.seconds if asked is not None else 0.0)


def _is_served(cycle: Cycle, job: JobState) -> bool:
    """All its tasks have got places, and nothing went wrong: the usual case, found out fast."""
    counts = job.counts
    if counts[_PENDING] or counts[_PIPELINED] or counts[_ALLOCATED] or not counts[_BINDING]:
        return False
    return job.phase != "Pending" and job.key not in cycle.reports


def _waits(cycle: Cycle, job: JobState) -> bool:
    """Whether anything keeps it waiting."""
    report = cycle.reports.get(job.key, _EMPTY)
    moving = job.counts[_PENDING] + job.counts[_PIPELINED] + job.counts[_ALLOCATED]
    idle = job.phase != "Pending" and not moving and (job.size or job.min_member == 0)
    if idle and not report.dropped and report.setback is None:
        # Nothing is pending; a gang below its minimum has lost pods, or never had enough.
        over = job.phase in ("Running", "Completed") or job.is_ready or job.counts[_BINDING]
        if over or report.invalid is None:
            return False
    return True


def _missing_queue(cycle: Cycle, record: Job) -> Draft:
    """A near miss of a queue that exists is no queue to be created."""
    queue_names = sorted(cycle.session.queues)
    near = nearest(record.queue, queue_names)
    verdict = Verdict(
        record.key,
        Cause.QUEUE_MISSING,
        f"queue {record.queue} does not exist{did_you_mean(record.queue, queue_names)}",
        tasks_needed=record.min_member,
        queue=record.queue,
    )
    if near:
        return Draft(verdict, [[UseQueue(near)]], fallback=f"name queue {near} in spec.queue")
    return Draft(verdict, [[CreateQueue(record.queue)]], last="name another one in spec.queue")
