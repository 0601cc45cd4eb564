"""reclaim: a queue below its share takes resources back from queues above theirs."""

from __future__ import annotations

from unisono.engine.answers import Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.evictable_amounts import Among, Rule
from unisono.engine.eviction.needless import take_back_needless
from unisono.engine.eviction.search import evictions_of
from unisono.engine.eviction.starving_jobs import place_starving, starving_jobs

RULE = Rule(Purpose.RECLAIM, Among.OTHER_QUEUES, scored=False)


def run(cycle: Cycle) -> None:
    """Serve the starving jobs queue by queue: each gets all the places that it needs, or takes nothing.

    A queue that holds its share is dropped. A task is passed over when its queue may take nothing for it.
    """
    by_queue = starving_jobs(cycle)
    heaps = {name: cycle.orders.jobs(jobs) for name, jobs in by_queue.items()}
    queues = cycle.orders.queues(cycle.session.queues[name] for name in heaps)
    while len(queues):
        queue = queues.pop()
        if cycle.hooks.overused(queue) is not None:
            continue
        jobs = heaps[queue.name]
        job = jobs.pop()
        place_starving(cycle, evictions_of(cycle), job, cycle.pending(job), RULE)
        if len(jobs):
            queues.push(queue)
    take_back_needless(cycle)
