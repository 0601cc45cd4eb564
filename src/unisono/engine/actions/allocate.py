"""allocate: finds nodes for pending tasks, gang by gang."""

from __future__ import annotations

from unisono.engine.actions.enqueue import closed
from unisono.engine.cycle import Cycle
from unisono.engine.job_state import JobState
from unisono.engine.orders import Heap
from unisono.engine.placing import Worksheet, place_job
from unisono.engine.topology.groups import is_grouped
from unisono.engine.topology.place import place_grouped
from unisono.engine.topology.solve import GroupSheet


Sheet = Worksheet | GroupSheet


def run(cycle: Cycle) -> None:
    """Serve the best job of the best queue until nothing is left or nothing fits.

    A queue that holds all it may is dropped for the rest of the action. A job is served again only after a commit that
    left tasks over.
    """
    sheets, heaps = _prepare(cycle)
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
            job = jobs.pop()
            sheet = sheets[job.key]
            if _place(cycle, job, sheet) and sheet:
                jobs.push(job)
            if len(queues):
                break
        if len(jobs):
            queues.push(queue)


def _place(cycle: Cycle, job: JobState, sheet: Sheet) -> bool:
    if isinstance(sheet, GroupSheet):
        return place_grouped(cycle, job, sheet)
    return place_job(cycle, job, sheet)


def _prepare(cycle: Cycle) -> tuple[dict[str, Sheet], dict[str, Heap[JobState]]]:
    """Worksheets of the jobs to serve, and heaps of them by queue."""
    admits_all = "enqueue" not in cycle.config.actions
    refusals = {queue.name: closed(queue) for queue in cycle.session.queues.values() if queue.closed}
    sheets: dict[str, Sheet] = {}
    tree = cycle.session.snapshot.hyper_nodes
    by_queue: dict[str, list[JobState]] = {}
    for job in cycle.jobs:
        if not _may_run(cycle, job, admits_all=admits_all):
            continue
        refusal = refusals.get(job.queue.name)
        if refusal is not None:
            cycle.report(job).gate = refusal
            continue
        tasks = cycle.pending(job, best_effort=False)
        if tasks:
            grouped = is_grouped(job, tree)
            sheets[job.key] = GroupSheet.of(cycle, job, tasks) if grouped else Worksheet(tasks)
            by_queue.setdefault(job.queue.name, []).append(job)
    return sheets, {name: cycle.orders.jobs(jobs) for name, jobs in by_queue.items()}


def _may_run(cycle: Cycle, job: JobState, *, admits_all: bool) -> bool:
    """Admitted and valid; without the action enqueue every pending job counts as admitted."""
    if job.phase == "Pending":
        if not admits_all:
            return False
        job.phase = "Inqueue"
    return cycle.valid(job)
