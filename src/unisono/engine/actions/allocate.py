"""allocate: finds nodes for pending tasks, gang by gang."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.cluster.waiting_jobs import Alike
from unisono.engine.actions.nominated import promised
from unisono.engine.cycle import strict_order
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.sleeping_jobs import in_line
from unisono.engine.placement.equivalence_batches import EquivalenceBatches
from unisono.engine.placement.waiting_line import WaitingLine
from unisono.engine.placement.waiting_tasks import Remaining, place, remaining_of
from unisono.engine.plugin_host.heap import Heap
from unisono.engine.session.job_state import JobState
from unisono.engine.session.queue_limits import closed


def run(cycle: Cycle) -> None:
    """Serve the best job of the best queue until nothing is left or nothing fits.

    A queue that holds all it may is dropped for the rest of the action. A job is served again only after a commit that
    left tasks over. Jobs for which others were evicted come first.
    """
    waiting, stops = _prepare(cycle)
    remaining: dict[str, Remaining] = {}
    ready = (
        {name: [job for job in jobs if job.key not in stops] for name, jobs in waiting.items()} if stops else waiting
    )
    for job in promised(cycle, ready):
        if cycle.hooks.overused(job.queue) is None:
            left = remaining[job.key] = remaining_of(cycle, job)
            if not (place(cycle, job, left) and left):
                waiting[job.queue.name].remove(job)
    heaps = {name: cycle.orders.jobs(jobs) for name, jobs in waiting.items() if jobs}
    heaps |= _lines(cycle, waiting)
    alike = EquivalenceBatches(cycle)
    queues = cycle.orders.queues(cycle.session.queues[name] for name in heaps)
    while len(queues):
        queue = queues.pop()
        jobs = heaps[queue.name]
        while len(jobs):
            refusal = cycle.hooks.overused(queue)
            if refusal is not None:
                for job in jobs.items():
                    cycle.report(job).quota = cycle.report(job).quota or refusal
                jobs = Heap(cycle.orders.job_key)
                break
            if not len(queues) and alike.place(queue, jobs):
                continue
            if alike.skip(queue, jobs):
                continue
            job = jobs.pop()
            failed = job.key in stops or alike.fail(job)
            if not failed:
                left = remaining.get(job.key) or remaining_of(cycle, job)
                before = alike.state()
                failed = not place(cycle, job, left)
                if failed:
                    alike.note_failure(job, before)
                elif left:
                    remaining[job.key] = left
                    jobs.push(job)
            if failed and strict_order.stopped(cycle, queue, job, jobs):
                jobs = Heap(cycle.orders.job_key)
                break
            if len(queues) and not queues.leads(queue):
                break
        if len(jobs):
            queues.push(queue)


def _prepare(cycle: Cycle) -> tuple[dict[str, list[JobState]], set[str]]:
    """Jobs to serve, by queue, and the keys of those among them at whose turn a queue with strict order stops."""
    admits_all = "enqueue" not in cycle.config.actions
    refusals = {queue.name: closed(queue) for queue in cycle.session.queues.values() if queue.closed}
    by_queue: dict[str, list[JobState]] = {}
    stops: set[str] = set()
    for job in cycle.eligible:
        if not _may_run(cycle, job, admits_all=admits_all):
            if strict_order.stops_others(cycle, job):
                stops.add(job.key)
                by_queue.setdefault(job.queue.name, []).append(job)
            continue
        refusal = refusals.get(job.queue.name)
        if refusal is not None:
            cycle.report(job).gate = refusal
            continue
        if job.record.pending and (job.shape or cycle.has_pending(job, best_effort=False)):
            by_queue.setdefault(job.queue.name, []).append(job)
    return by_queue, stops


def _lines(cycle: Cycle, waiting: Mapping[str, list[JobState]]) -> dict[str, Heap[JobState]]:
    """By queue the jobs to serve, where some of them sleep; those sleep on for whose pods no node has room."""
    session = cycle.session
    asleep: dict[str, list[Alike]] = {}
    for alike in cycle.asleep:
        sample = session.job(alike.sample)
        if sample is not None and _has_room(cycle, sample) and cycle.valid(sample):
            asleep.setdefault(sample.queue.name, []).append(alike)
    found: dict[str, Heap[JobState]] = {}
    for name, each in asleep.items():
        passed_over, woken = in_line(session, each)
        jobs = [*waiting.get(name, ()), *woken]
        found[name] = WaitingLine(cycle.orders, session, jobs, passed_over) if passed_over else cycle.orders.jobs(jobs)
    return found


def _has_room(cycle: Cycle, job: JobState) -> bool:
    """Whether a node has room for a pod of a job whose pods are equal and wait; placing others makes no more of it."""
    pod_class = next(iter(job.record.pending.values())).pod_class
    futures = (False, True) if cycle.session.releasing else (False,)
    return not all(cycle.tables.roomless.covers(pod_class, future=future) for future in futures)


def _may_run(cycle: Cycle, job: JobState, *, admits_all: bool) -> bool:
    """Admitted and valid; without the action enqueue every pending job counts as admitted."""
    if job.phase == "Pending":
        if not admits_all:
            return False
        job.phase = "Inqueue"
    return cycle.valid(job)
