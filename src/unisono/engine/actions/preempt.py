"""preempt: jobs take resources from jobs of lower rank in their own queue, and tasks from tasks of their own job."""

from __future__ import annotations

from unisono.engine.answers import Purpose
from unisono.engine.config.arguments import argument_value
from unisono.engine.config.model import ACTION_ARGUMENTS
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.evictable_amounts import Among, Rule
from unisono.engine.eviction.needless import take_back_needless
from unisono.engine.eviction.search import evictions_of
from unisono.engine.eviction.starving_jobs import place_starving, starving_jobs
from unisono.engine.session.job_state import JobState

_ARGUMENTS = {argument.key: argument for argument in ACTION_ARGUMENTS["preempt"]}
_CANDIDATES = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute", "maxCandidateNodesAbsolute")


def run(cycle: Cycle) -> None:
    """Queue by queue: first starving jobs at the cost of other jobs, then at the cost of their own lesser tasks.

    A job gets all the places that it needs, or takes nothing from others. Within a job each task counts for itself.
    """
    by_queue = starving_jobs(cycle)
    between_jobs, within_job = _rules(cycle)
    queues = cycle.orders.queues(cycle.session.queues[name] for name in by_queue)
    while len(queues):
        queue = queues.pop()
        jobs = cycle.orders.jobs(by_queue[queue.name])
        while len(jobs):
            job = jobs.pop()
            evictions = evictions_of(cycle)
            if not evictions.known_to_fail(job, job.record.pending.values(), between_jobs):
                place_starving(cycle, evictions, job, cycle.pending(job), between_jobs)
        for job in by_queue[queue.name]:
            _within(cycle, job, within_job)
    take_back_needless(cycle)


def _rules(cycle: Cycle) -> tuple[Rule, Rule]:
    """Between jobs and within a job; in topology-aware mode several nodes are compared."""
    given = cycle.config.arguments_of("preempt")
    number = cycle.session.nodes.size
    compared = 0
    if argument_value(_ARGUMENTS["enableTopologyAwarePreemption"], given):
        share, least, most = (argument_value(_ARGUMENTS[key], given) for key in _CANDIDATES)
        compared = max(min(max(number * share // 100, least), most, number), 1)
    between, within = (
        Rule(Purpose.PREEMPT, among, scored=True, compared=compared) for among in (Among.QUEUE, Among.JOB)
    )
    return between, within


def _within(cycle: Cycle, job: JobState, rule: Rule) -> None:
    """Better tasks of a job take the places of worse ones until one finds none."""
    if job.shape or len({task.priority for task in job.record.tasks.values()}) < 2:
        return  # the waiting pods of a job with a shape are all it has, and equal
    for task in cycle.pending(job):
        if not cycle.hooks.starving(job):
            return
        if not place_starving(cycle, evictions_of(cycle), job, [task], rule):
            return
