"""enqueue: admits pending PodGroups, so that their pods are created and placed."""

from __future__ import annotations

import numpy as np

from unisono.cluster.resources import PODS
from unisono.engine.actions.admission_gate import Admission
from unisono.engine.cycle import strict_order
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugin_host.orders import Heap
from unisono.engine.session.job_state import JobState
from unisono.engine.session.queue_limits import closed


def run(cycle: Cycle) -> None:
    """Ask the gates about each Pending job, queue by queue and job by job in order.

    A refused job is passed over, and the next one of its queue is asked, unless the queue keeps strict order.
    """
    waiting: dict[str, list[JobState]] = {}
    for job in cycle.eligible:
        if job.phase == "Pending":
            waiting.setdefault(job.queue.name, []).append(job)
    heaps: dict[str, Heap[JobState]] = {name: cycle.orders.jobs(jobs) for name, jobs in waiting.items()}
    queues = cycle.orders.queues(cycle.session.queues[name] for name in heaps)
    gate = Admission(cycle)
    while len(queues):
        queue = queues.pop()
        jobs = heaps[queue.name]
        while len(jobs):
            job, moves = jobs.pop(), gate.moves
            _ask(cycle, gate, job)
            if job.phase == "Pending" and not queue.closed and strict_order.stopped(cycle, queue, job, jobs):
                jobs = heaps[queue.name] = Heap(cycle.orders.job_key)
                break
            if not len(queues):
                jobs.drop(gate.admit_like(job, jobs))
            if gate.moves != moves:
                if len(queues) and not queues.leads(queue):
                    break
            elif job.phase == "Pending" and not queue.record.fifo:  # the queue is the first in order as before
                _refuse_like(cycle, gate, jobs)
        if len(jobs):
            queues.push(queue)
    gate.settle()


def _ask(cycle: Cycle, gate: Admission, job: JobState) -> None:
    if job.ready_count and job.is_ready:  # it holds its minimum: its new phase is still on its way
        job.phase = "Inqueue"
        return
    refusal = closed(job.queue)
    if refusal is None and job.min_resources is not None and not _admitted_before(job):
        refusal = gate.ask(job)
    if refusal is not None:
        cycle.report(job).gate = refusal
        return
    job.phase = "Inqueue"


def _refuse_like(cycle: Cycle, gate: Admission, jobs: Heap[JobState]) -> None:
    """Pass over the jobs that come next as long as each is of a shape that the gate refuses now."""

    def refused(job: JobState) -> bool:
        refusal = gate.refusal_of_shape(job)
        if refusal is None:
            return False
        cycle.report(job).gate = refusal
        return True

    jobs.take_while(refused)


def _admitted_before(job: JobState) -> bool:
    """Whether its pods hold resources. Pods without requests are placed without admission, and say nothing."""
    return job.ready_count > 0 and bool(np.delete(job.allocated, PODS).any())
