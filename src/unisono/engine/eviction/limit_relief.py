"""Room below the capability of a queue, or of one above it, made by evictions on any node.

The search of nodes evicts on the node where it places. Where the capability of a queue is what a task lacks, one node
may not hold enough of that queue's pods, though the queue does as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unisono.cluster.records import Task
from unisono.cluster.resources import PODS
from unisono.engine.eviction.evictable_amounts import Among, EvictableAmounts, Rule
from unisono.engine.eviction.search import Evictions
from unisono.engine.eviction.victim_rank import ActorRank
from unisono.engine.session import queue_limits

_NODES = 8
"""Nodes that are tried at most for one task; each costs a search of victims in all queues that share the limit."""

_MOST = 256
"""Victims that are tried at most for one task."""


def relieve(evictions: Evictions, rank: ActorRank, task: Task, rule: Rule) -> bool:
    """Evict pods of the queues that share the limit until it lets the task in, and promise the task a place.

    Returns:
        False, and nothing changed, where the limit cannot be relieved or the task has no place even then.

    """
    if queue_limits.room(rank.job.queue, task.pod_class) > 0:
        return False
    evictable = evictions.pool.of(rank.job, task, rule)
    mark = evictions.cycle.transaction.checkpoint()
    relieved = _relieve_limit(evictions, rank, task, rule, evictable)
    evictions.rollback(mark)
    if not relieved:
        return False
    for column in evictions.nodes_for(task, rule, evictable)[:_NODES]:
        room = evictions.make_node_fit(rank, task, column, rule, evictable)
        if room and _relieve_limit(evictions, rank, task, rule, evictable):
            gone = [placement.tasks[0] for placement in evictions.cycle.transaction.log[mark:]]
            evictions.rollback(mark)
            if evictions.place_after(rank, task, column, rule, gone):
                return True
        evictions.rollback(mark)
    return False


def _relieve_limit(evictions: Evictions, rank: ActorRank, task: Task, rule: Rule, evictable: EvictableAmounts) -> bool:
    """Evict, wherever they are, as many as the limit needs; they stay evicted."""
    for victim in _victims(evictions, rank, task, rule, evictable)[:_MOST]:
        if not evictions.is_limited(rank.job, task.pod_class):
            return True
        evictions.evict_for_good(rank, victim, rule)
    return not evictions.is_limited(rank.job, task.pod_class)


def _victims(
    evictions: Evictions, rank: ActorRank, task: Task, rule: Rule, evictable: EvictableAmounts
) -> Sequence[Task]:
    """Those whose queues share the binding limit and that hold what the task asks for, first to go first."""
    index, actor = evictions.index, rank.job
    states, rows = index.jobs.states, {row for row in task.pod_class.rows.tolist() if row != PODS}
    binding = [limit for limit in actor.queue.limits if limit.room(task.pod_class, now=False) < 1]
    concerned = np.array([set(binding) <= set(queue.limits) for queue in index.jobs.queues], dtype=np.bool_)
    if not concerned.any():
        return []
    found = np.flatnonzero(evictable.mask & index.alive & concerned[index.jobs.queue][index.job])
    pairs = [(index.tasks[int(at)], states[int(index.job[at])]) for at in found]
    own = rule.among is Among.JOB
    pairs = [
        pair
        for pair in pairs
        if (pair[1] is actor) is own
        and (not own or pair[0].priority < task.priority)
        and evictions.may_lose(pair[1], actor)
        and not rows.isdisjoint(pair[0].pod_class.rows.tolist())
    ]
    candidates = evictions.cycle.orders.victims(actor, pairs)
    if not candidates:
        return []
    chosen = evictions.cycle.hooks.victims(actor, task, candidates, rule.purpose)
    victims = [other for other, yes in zip(candidates, chosen.tolist(), strict=True) if yes]
    jobs = {other.key: job for other, job in pairs}
    units = evictions.units(actor, task, rule, evictable, [(other, jobs[other.key]) for other in victims])
    return [unit[0] for unit in units]
