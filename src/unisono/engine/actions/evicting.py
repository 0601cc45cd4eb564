"""preempt, reclaim, gangpreempt and gangreclaim: starving jobs take resources from others.

To preempt is to take from jobs of lower rank in one's own queue, or from lesser tasks of one's own job; to reclaim is
to take from queues above their share, for one below its own. For a gang, the room must be in one domain.
"""

from __future__ import annotations

from collections.abc import Callable

from unisono.engine.answers import Purpose
from unisono.engine.config.arguments import argument_value
from unisono.engine.config.model import ACTION_ARGUMENTS
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.evictable_amounts import Among, Rule
from unisono.engine.eviction.needless import take_back_needless
from unisono.engine.eviction.search import evictions_of
from unisono.engine.eviction.starving_jobs import place_starving, starving_jobs
from unisono.engine.eviction.whole_gangs import GangRule, serve
from unisono.engine.session.job_state import JobState

_RECLAIM = Rule(Purpose.RECLAIM, Among.OTHER_QUEUES, scored=False)
_ARGUMENTS = {argument.key: argument for argument in ACTION_ARGUMENTS["preempt"]}
_CANDIDATES = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute", "maxCandidateNodesAbsolute")


def preempt(cycle: Cycle) -> None:
    """Queue by queue: first starving jobs at the cost of other jobs, then at the cost of their own lesser tasks.

    A job gets all the places that it needs, or takes nothing from others. Within a job each task counts for itself.
    """
    between_jobs, within_job = _preempt_rules(cycle)

    def between(job: JobState) -> None:
        evictions = evictions_of(cycle)
        if not evictions.known_to_fail(job, job.record.pending.values(), between_jobs):
            place_starving(cycle, evictions, job, cycle.pending(job), between_jobs)

    _by_queue(cycle, between, lambda job: _within(cycle, job, within_job))


def gangpreempt(cycle: Cycle) -> None:
    """Queue by queue, the first of the starving jobs first."""
    rule = _gang_rule(cycle, "gangpreempt", Purpose.GANG_PREEMPT)
    _by_queue(cycle, lambda job: serve(cycle, job, rule))


def reclaim(cycle: Cycle) -> None:
    """Queues take turns: a job gets all the places that it needs, or takes nothing.

    A task is passed over when its queue may take nothing for it.
    """
    _by_turns(cycle, lambda job: place_starving(cycle, evictions_of(cycle), job, cycle.pending(job), _RECLAIM))


def gangreclaim(cycle: Cycle) -> None:
    """Queues take turns, the first of the starving jobs first."""
    rule = _gang_rule(cycle, "gangreclaim", Purpose.GANG_RECLAIM)
    _by_turns(cycle, lambda job: serve(cycle, job, rule))


def _by_queue(cycle: Cycle, take: Callable[[JobState], object], then: Callable[[JobState], object] = id) -> None:
    """All starving jobs of the best queue in order, and ``then`` each of them once more, before those of the next."""
    by_queue = starving_jobs(cycle)
    queues = cycle.orders.queues(cycle.session.queues[name] for name in by_queue)
    while len(queues):
        starving = by_queue[queues.pop().name]
        jobs = cycle.orders.jobs(starving)
        while len(jobs):
            take(jobs.pop())
        for job in starving:
            then(job)
    take_back_needless(cycle)


def _by_turns(cycle: Cycle, take: Callable[[JobState], object]) -> None:
    """One job of the best queue after the other; a queue that holds its share is dropped."""
    heaps = {name: cycle.orders.jobs(jobs) for name, jobs in starving_jobs(cycle).items()}
    queues = cycle.orders.queues(cycle.session.queues[name] for name in heaps)
    while len(queues):
        queue = queues.pop()
        if cycle.hooks.overused(queue) is not None:
            continue
        jobs = heaps[queue.name]
        take(jobs.pop())
        if len(jobs):
            queues.push(queue)
    take_back_needless(cycle)


def _gang_rule(cycle: Cycle, action: str, purpose: Purpose) -> GangRule:
    given = cycle.config.arguments_of(action)
    values = {argument.key: argument_value(argument, given) for argument in ACTION_ARGUMENTS[action]}
    return GangRule(purpose, values["maxDomains"], values["allowWholeBundle"])


def _preempt_rules(cycle: Cycle) -> tuple[Rule, Rule]:
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
