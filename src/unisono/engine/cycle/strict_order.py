"""Queues with ``dequeueStrategy: fifo``: where the first job in order cannot start, no job behind it does."""

from __future__ import annotations

from unisono.engine.answers import Refusal
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugin_host.orders import Heap
from unisono.engine.session.book import comes_later
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.verdict import Cause


def stops_others(cycle: Cycle, job: JobState) -> bool:
    """Whether a job that is not to be placed keeps those behind it from being placed.

    It is not admitted yet, or its pods are being made. A gang whose pods do not come is no reason to wait for ever, nor
    is a job that has started and lacks spare pods.
    """
    if not job.queue.record.fifo or job.has_started:
        return False
    return job.phase == "Pending" or comes_later(cycle.session.snapshot, job.key, cycle.session.now)


def stop(cycle: Cycle, head: JobState, behind: Heap[JobState]) -> None:
    """The queue's first job found no place: the others wait for it, and are told so where reasons are told."""
    name = cycle.heads.setdefault(head.queue.name, head).key.partition("/")[2]
    if not cycle.fits.reasons:
        return
    text = f"job {name} comes first in queue {head.queue.name}, whose dequeueStrategy is fifo, and cannot start yet"
    for job in behind.items():
        report = cycle.report(job)
        report.gate = report.gate or Refusal(text, Cause.NOT_TRIED)


def stopped(cycle: Cycle, queue: QueueState, job: JobState, jobs: Heap[JobState]) -> bool:
    """Note that ``job`` found no place; whether the queue, whose other ``jobs`` wait, is not to be served any more."""
    if not queue.record.fifo or job.has_started:
        return False
    stop(cycle, job, jobs)
    return True


def is_behind(cycle: Cycle, job: JobState) -> bool:
    """Whether the job waits for another one that comes first in its queue."""
    head = cycle.heads.get(job.queue.name)
    return head is not None and head is not job and cycle.orders.job_key(head) < cycle.orders.job_key(job)
