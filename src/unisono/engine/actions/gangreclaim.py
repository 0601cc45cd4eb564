"""gangreclaim: a gang of a queue below its share takes the room that it needs in one domain from other queues."""

from __future__ import annotations

from unisono.engine.actions.gangpreempt import rule_of
from unisono.engine.answers import Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.needless import take_back_needless
from unisono.engine.eviction.starving_jobs import starving_jobs
from unisono.engine.eviction.whole_gangs import serve


def run(cycle: Cycle) -> None:
    """One job of the best queue after the other; a queue that holds its share is dropped."""
    rule = rule_of(cycle, "gangreclaim", Purpose.GANG_RECLAIM)
    heaps = {name: cycle.orders.jobs(jobs) for name, jobs in starving_jobs(cycle).items()}
    queues = cycle.orders.queues(cycle.session.queues[name] for name in heaps)
    while len(queues):
        queue = queues.pop()
        if cycle.hooks.overused(queue) is not None:
            continue
        jobs = heaps[queue.name]
        serve(cycle, jobs.pop(), rule)
        if len(jobs):
            queues.push(queue)
    take_back_needless(cycle)
