"""What else may keep a job waiting beside the cause that its verdict names: tried together with that one's ways out.

Nothing here needs to be certain, because every combination is tried before it is said.
"""

from __future__ import annotations

from collections.abc import Mapping

from unisono.engine.changes import AllowReclaim, AllowTier, Change, PassOver, RaiseCapability, Together
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.draft import Ladders
from unisono.engine.verdicts.limits import chain
from unisono.engine.verdicts.pending_pods import pending_pods
from unisono.engine.verdicts.waiting import Waiting

_TIERS_TRIED = 4
_QUEUES_TRIED = 2
_TAKING = frozenset(("reclaim", "gangreclaim"))


def what_else(waiting: Waiting) -> Ladders:
    """Gates, capabilities, quotas, bounds of the network topology, and what nodes lack."""
    cycle, job = waiting.cycle, waiting.job
    gated = pending_pods(job.record).gated
    ladders = [
        *(candidates.for_gates(job) if gated else ()),
        [PassOver(job.queue.name)] if _is_behind(waiting) else [],
        capabilities(waiting),
        _quotas(waiting),
        wider_domains(cycle, job),
        *candidates.for_kinds(waiting),
    ]
    return [ladder for ladder in ladders if ladder]


def _is_behind(waiting: Waiting) -> bool:
    head = waiting.cycle.heads.get(waiting.job.queue.name)
    return head is not None and head is not waiting.job


def _quotas(waiting: Waiting) -> list[Change]:
    """Raise the ResourceQuotas that would refuse pods which are made once the job is admitted."""
    missing = waiting.job.min_member - waiting.job.valid_count
    changes = tuple(one.change for one in waiting.tools.quotas.shortages(waiting.job, missing))
    if not changes:
        return []
    return [changes[0] if len(changes) == 1 else Together(changes)]


def _asked(waiting: Waiting) -> Mapping[str, int]:
    """What the pods that wait ask for, ``pods`` included."""
    asked: dict[str, int] = {"pods": 0}
    for kind in waiting.kinds:
        asked["pods"] += kind.count
        for name, amount in kind.requests.items():
            asked[name] = asked.get(name, 0) + amount * kind.count
    return asked if waiting.kinds else dict(waiting.job.record.min_amounts or {})


def capabilities(waiting: Waiting) -> list[Change]:
    """Raise the capabilities that all pods that wait would exceed, of the job's queue and of those above it."""
    session, job, asked, found = waiting.cycle.session, waiting.job, _asked(waiting), list[Change]()
    for name in chain(session, job.queue.name):
        limit = next((one for one in job.queue.limits if one.name == name), None)
        if limit is None:
            continue
        most = {session.registry.names[row]: (amount, int(limit.held[row])) for row, amount in limit.most.items()}
        short = {
            each: held + asked[each] - amount
            for each, (amount, held) in most.items()
            if asked.get(each) and held + asked[each] > amount
        }
        if short:
            found.append(RaiseCapability(name, short))
    # The uppermost first: no queue may be given more than the one above it.
    return [found[0] if len(found) == 1 else Together(tuple(reversed(found)))] if found else []


def giving_back(cycle: Cycle, job: JobState) -> Ladders:
    """Queues that hold more than they deserve and give nothing back, where an action would take it."""
    if not _TAKING & set(cycle.config.actions):
        return []
    found = []
    for name, queue in sorted(cycle.session.queues.items()):
        if queue is not job.queue and not queue.record.reclaimable and queue.allocated.any():
            found.append((-int(queue.allocated[0]), name))
    return [[AllowReclaim(name)] for _, name in sorted(found)[:_QUEUES_TRIED]]


def wider_domains(cycle: Cycle, job: JobState) -> list[Change]:
    """Tiers above the ones that a job is bound to, the lowest first."""
    wishes = [job.record.topology, *(policy.wish for policy in job.record.sub_groups)]
    bounds = [wish.tier for wish in wishes if wish is not None and wish.hard and wish.tier is not None]
    if not bounds:
        return []
    levels = [tier for tier in cycle.session.snapshot.hyper_nodes.levels if tier > min(bounds)]
    return [AllowTier(tier) for tier in levels[:_TIERS_TRIED]]
