"""gangpreempt: a gang takes the room that it needs in one domain from jobs of lower priority in its queue."""

from __future__ import annotations

from unisono.engine.answers import Purpose
from unisono.engine.config.arguments import argument_value
from unisono.engine.config.model import ACTION_ARGUMENTS
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.needless import take_back_needless
from unisono.engine.eviction.starving_jobs import starving_jobs
from unisono.engine.eviction.whole_gangs import GangRule, serve


def rule_of(cycle: Cycle, action: str, purpose: Purpose) -> GangRule:
    """The action's arguments."""
    given = cycle.config.arguments_of(action)
    values = {argument.key: argument_value(argument, given) for argument in ACTION_ARGUMENTS[action]}
    return GangRule(purpose, values["maxDomains"], values["allowWholeBundle"])


def run(cycle: Cycle) -> None:
    """Queue by queue, the first of the starving jobs first."""
    rule = rule_of(cycle, "gangpreempt", Purpose.GANG_PREEMPT)
    by_queue = starving_jobs(cycle)
    queues = cycle.orders.queues(cycle.session.queues[name] for name in by_queue)
    while len(queues):
        jobs = cycle.orders.jobs(by_queue[queues.pop().name])
        while len(jobs):
            serve(cycle, jobs.pop(), rule)
    take_back_needless(cycle)
