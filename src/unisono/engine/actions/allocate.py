"""allocate: finds nodes for pending tasks, gang by gang."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.cluster.waiting_jobs import Alike
from unisono.engine.cycle import strict_order
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.sleeping_jobs import in_line
from unisono.engine.placement.equivalence_batches import EquivalenceBatches
from unisono.engine.placement.first_gangs import serve_promised, waiting_jobs
from unisono.engine.placement.waiting_line import Remaining, WaitingLine, place, remaining_of
from unisono.engine.plugin_host.orders import Heap
from unisono.engine.session.job_state import JobState


def run(cycle: Cycle) -> None:
    """Serve the best job of the best queue until nothing is left or nothing fits.

    A queue that holds all it may is dropped for the rest of the action. A job is served again only after a commit that
    left tasks over. Jobs for which others were evicted come first.
    """
    served = serve_promised(cycle)
    waiting, stops = waiting_jobs(cycle)
    remaining: dict[str, Remaining] = {key: left for key, left in served.items() if left is not None}
    if served:
        waiting = {name: [job for job in jobs if served.get(job.key, True)] for name, jobs in waiting.items()}
    heaps = {name: cycle.orders.jobs(jobs) for name, jobs in waiting.items() if jobs}
    heaps |= _lines(cycle, waiting, stops)
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


def _lines(cycle: Cycle, waiting: Mapping[str, list[JobState]], stops: set[str]) -> dict[str, Heap[JobState]]:
    """By queue the jobs to serve, where some of them sleep; those sleep on for whose pods no node has room.

    In a queue that keeps strict order all stand in line: the first that finds no place stops it.
    """
    session = cycle.session
    asleep: dict[str, list[Alike]] = {}
    added: dict[str, list[JobState]] = {}
    for alike in cycle.asleep:
        sample = session.job(alike.sample)
        if sample is None:
            continue
        name, fifo = sample.queue.name, sample.queue.record.fifo
        if not (fifo or _has_room(cycle, sample)):
            continue
        if cycle.valid(sample):
            asleep.setdefault(name, []).append(alike)
        elif fifo:
            invalid = (job for _, key in alike.aged if (job := session.job(key)) is not None)
            added.setdefault(name, []).extend(job for job in invalid if strict_order.stops_others(cycle, job))
    stops.update(job.key for jobs in added.values() for job in jobs)
    lines: dict[str, Heap[JobState]] = {}
    for name in dict.fromkeys((*asleep, *added)):
        each, jobs = asleep.get(name, []), [*waiting.get(name, ()), *added.get(name, ())]
        passed_over, woken = (each, []) if session.queues[name].record.fifo else in_line(session, each)
        jobs += woken
        lines[name] = WaitingLine(cycle.orders, session, jobs, passed_over) if passed_over else cycle.orders.jobs(jobs)
    return lines


def _has_room(cycle: Cycle, job: JobState) -> bool:
    """Whether a node has room for a pod of a job whose pods are equal and wait; placing others makes no more of it."""
    pod_class = next(iter(job.record.pending.values())).pod_class
    futures = (False, True) if cycle.session.releasing else (False,)
    return not all(cycle.tables.roomless.covers(pod_class, future=future) for future in futures)
