"""What a job itself stands for: a decision that did not stand, its gang, its gates, and what it states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from msgspec import structs

from unisono.api.annotations import GOT
from unisono.api.messages import counted, plural
from unisono.api.names import nearest
from unisono.api.resources import amounts_text
from unisono.api.times import rfc3339
from unisono.cluster.recent import Setback
from unisono.cluster.status import COMPLETED_STATES, TaskStatus
from unisono.engine.changes import (
    Change,
    RequestAtMost,
    SetMinResources,
    Together,
    UseRole,
    WaitFor,
    listed,
)
from unisono.engine.session.choices import Choices
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.claim_causes import absent_claims, ways_out
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.holders import leaving, named, names_text, pods_as_holders
from unisono.engine.verdicts.limits import LIMITS
from unisono.engine.verdicts.missing_resources import too_large
from unisono.engine.verdicts.pending_pods import pending_pods
from unisono.engine.verdicts.quotas import Shortage
from unisono.engine.verdicts.shortage import contradiction
from unisono.engine.verdicts.waiting import Waiting

# ---- The engine had decided, or could not: dropped decisions, refused binds, failed plug-ins


def dropped(waiting: Waiting) -> Draft | None:
    """Its placements broke an invariant."""
    what = waiting.report.dropped
    return waiting.simple(Cause.INVARIANT, f"the decision was dropped: {what}") if what else None


def made_again(waiting: Waiting) -> Draft | None:
    """Its pods have places, and do not ask for what they take there yet."""
    choices = waiting.cycle.session.shared.find(Choices)
    notes = choices.made_again.get(waiting.job.key) if choices is not None else None
    if notes is None:
        return None
    text = f"its pods find room on nodes of {notes[GOT]}, and are made again to ask for the devices they take there"
    return waiting.simple(Cause.TOO_FEW_PODS, text, last="wait until its pods are made again")


def refused_binds(waiting: Waiting) -> Draft | None:
    """Its binds failed lately."""
    setback = waiting.report.setback
    if setback is None:
        return None
    return waiting.simple(Cause.PLUGIN_FAILED if setback.plugin else Cause.BIND_FAILED, _told(setback))


def failed_plugin(waiting: Waiting) -> Draft | None:
    """A plug-in failed when it was asked about the job."""
    cycle, job = waiting.cycle, waiting.job
    failure = cycle.hooks.failure_of(job)
    if failure is None:
        return None
    message = failure.message(f"job {job.key}")
    if failure.plugin not in cycle.hooks.failed:
        cycle.decisions.failed_jobs[job.key] = message
    return waiting.simple(Cause.PLUGIN_FAILED, message)


def _told(setback: Setback) -> str:
    if setback.plugin:
        return f"{setback.why} ({setback.failures} times in a row); tried again at {rfc3339(setback.until)}"
    times = "once" if setback.failures == 1 else f"{setback.failures} times in a row"
    return f"binding failed {times}, the last time on {setback.why}; tried again at {rfc3339(setback.until)}"


# ---- The configuration of the scheduler places no pods, or none that request nothing


def places_nothing(waiting: Waiting) -> Draft | None:
    """None of its actions places the job's pods: `allocate` takes gangs that request something, `backfill` the rest."""
    actions, idle = waiting.cycle.config.actions, waiting.job.pending_best_effort
    if not waiting.pending or ("backfill" in actions and idle):
        return None
    names = ", ".join(actions) or "none"
    if "allocate" not in actions:
        text = f"the configuration of the scheduler places no pods: its actions are {names}, without allocate"
        return waiting.simple(Cause.NOT_TRIED, text, "add allocate to the actions of its configuration")
    if idle < waiting.pending:
        return None
    text = "the configuration of the scheduler places no pods that request nothing, as the job's do"
    help_ = "add backfill to the actions of its configuration, or let its pods request some cpu"
    return waiting.simple(Cause.NOT_TRIED, f"{text}: its actions are {names}, without backfill", help_)


# ---- The cycle ended before the job's turn


def end_of_cycle(waiting: Waiting) -> Draft:
    """Nothing else is known."""
    return waiting.simple(Cause.NOT_TRIED, "the cycle ended before the job's turn")


# ---- The gang has too few pods, or contradicts itself


_ROLES_NAMED = 3


def no_pods_text(number: int) -> str:
    """``the PodGroup has no pods yet; 3 are needed``."""
    return f"the PodGroup has no pods yet; {number} {'is' if number == 1 else 'are'} needed"


def too_few(waiting: Waiting) -> Draft | None:
    """Its controller, or its maker, has not made enough pods; or a plug-in calls it invalid."""
    job, refusal = waiting.job, waiting.report.invalid
    gate = waiting.report.gate
    if gate is not None and (gate.cause is not Cause.NOT_TRIED or not job.size):
        return None
    if job.size and refusal is None:
        return None
    if job.size == 0:
        return waiting.simple(Cause.NO_PODS, no_pods_text(job.min_member), "create pods that name this PodGroup")
    assert refusal is not None
    have, need = refusal.have.get("pods", job.valid_count), refusal.need.get("pods", job.min_member)
    unnamed = _unnamed_roles(job)
    verdict = waiting.verdict(
        refusal.cause,
        f"{refusal.message}{_roles_text(unnamed)}",
        need=dict(refusal.need),
        have=dict(refusal.have),
        tasks_placeable=job.valid_count,
    )
    ladders = [*_meant_role(job, unnamed), *candidates.for_too_few(job, have, need)]
    return Draft(verdict, ladders)


def _unnamed_roles(job: JobState) -> Counter[str]:
    """Pods by role, of roles that minTaskMember does not name although it names some."""
    tasks = job.record.tasks.values() if job.min_task_member else ()
    by_role = Counter(task.role for task in tasks if task.status not in COMPLETED_STATES)
    return Counter({role: number for role, number in by_role.items() if role not in job.min_task_member})


def _roles_text(roles: Counter[str]) -> str:
    """``; 2 pods are of role workers, which minTaskMember does not name``; empty where there are none."""
    phrases = [
        f"{counted(number, 'pod')} {'is' if number == 1 else 'are'} of {f'role {role}' if role else 'no role'}"
        for role, number in roles.most_common(_ROLES_NAMED)
    ]
    return f"; {' and '.join(phrases)}, which minTaskMember does not name" if phrases else ""


def _meant_role(job: JobState, unnamed: Counter[str]) -> Ladders:
    """The role that pods have in place of one that none has: near in name, or the only one that is left over."""
    there = {task.role for task in job.record.tasks.values()}
    empty = [role for role, need in job.min_task_member.items() if need and role not in there]
    roles = [role for role in unnamed if role]
    meant = {role: nearest(role, roles) for role in empty}
    if len(empty) == len(roles) == 1:
        meant[empty[0]] = roles[0]
    return [[UseRole(role, instead)] for role, instead in meant.items() if instead]


# ---- A ResourceQuota lets the pods of the gang not be created


def over_quota(waiting: Waiting) -> Draft | None:
    """The API server refuses pods that the gang needs, or would even if the cluster had room for them."""
    job, gate, refusal = waiting.job, waiting.report.gate, waiting.report.invalid
    missing, message, ladders = job.min_member, no_pods_text(job.min_member), Ladders()
    if gate is not None and (gate.cause is not Cause.CLUSTER_OVERCOMMITTED or job.size):
        return None
    if gate is None and job.size:
        if refusal is None or refusal.cause is not Cause.TOO_FEW_PODS:
            return None
        have, need = refusal.have.get("pods", job.valid_count), refusal.need.get("pods", job.min_member)
        missing, message, ladders = need - have, refusal.message, candidates.for_too_few(job, have, need)[1:]
    short = waiting.tools.quotas.shortages(job, missing)
    return _of_quota(waiting, message, short, ladders) if short else None


def _of_quota(waiting: Waiting, message: str, short: list[Shortage], ladders: Ladders) -> Draft:
    first, changes = short[0], tuple(one.change for one in short)
    holders = waiting.tools.quotas.holders(waiting.job, first.need)
    held = ", ".join(f"{named(one)} holds {amounts_text(one.amounts)}" for one in holders)
    verdict = waiting.verdict(
        Cause.QUOTA,
        "; ".join(filter(None, [message, *(one.text() for one in short), held])),
        need=dict(first.need),
        have=first.left,
        tasks_placeable=waiting.job.valid_count,
        holders=holders,
    )
    raised: Change = changes[0] if len(changes) == 1 else Together(changes)
    if not waiting.job.size and not waiting.unmade:  # what its pods will ask for is not known
        return Draft(verdict, ladders, untried=(raised,))
    return Draft(verdict, [*ladders, [raised]])


# ---- Pods that the gang needs have scheduling gates, or name a node that is going to refuse them


def gated(waiting: Waiting) -> Draft | None:
    """Without the gated pods there is nothing to place, or not the whole gang."""
    job, number = waiting.job, pending_pods(waiting.job.record).gated
    if not number or (number < waiting.pending and job.valid_count - number >= job.min_member):
        return None
    named = sorted({task.named_node for task in job.record.pending.values() if task.named_node})
    if named:
        number = sum(bool(task.named_node) for task in job.record.pending.values())
        who, it = ("pod names its node", "it") if number == 1 else ("pods name their nodes", "them")
        text = f"{number} {who} in spec.nodeName: {named[0]} does not exist or has no room for {it}"
    else:
        names = tuple(sorted(task.name for task in job.record.pending.values() if task.gated))
        gates = tuple(sorted({gate for task in job.record.pending.values() for gate in task.gates}))
        which = f"the scheduling {plural(len(gates), 'gate')} {listed(gates)}" if gates else "scheduling gates"
        text = f"{plural(number, 'pod')} {listed(names)} {'has' if number == 1 else 'have'} {which}"
    lacks = [lack for task in waiting.samples for lack in absent_claims(waiting.cycle, task.pod_class)]
    claims = f". Besides, {lacks[0].text}" if lacks else ""
    tried, _ = ways_out(waiting.cycle, lacks)
    verdict = waiting.verdict(Cause.GATED, f"{text}{claims}")

    return Draft(verdict, [*candidates.for_gates(job), *tried])


# ---- Its pods have places on resources that are being released


def promised(waiting: Waiting) -> Draft | None:
    """It starts by itself when others have ended."""
    job = waiting.job
    number = job.counts[TaskStatus.PIPELINED]
    if not number or waiting.report.gate is not None:
        return None
    text = f"{number} of {counted(job.size, 'pod')} {'has' if number == 1 else 'have'} a place on resources"
    text += " that are being released"
    victims = leaving(waiting.cycle, job)
    if victims:
        text += f"; they start when {names_text(victims)} {'has' if len(victims) == 1 else 'have'} ended"
    verdict = waiting.simple(Cause.WAITING_FOR_VICTIMS, text).verdict
    keys = tuple(task.key for task in victims)
    return Draft(structs.replace(verdict, holders=pods_as_holders(victims)), [[WaitFor(keys)]] if keys else [])


# ---- minResources ask for more than the pods do


def too_much_stated(waiting: Waiting) -> Draft | None:
    """A limit refuses amounts that no pod asks for."""
    refusal = waiting.report.gate
    if refusal is None or refusal.cause not in LIMITS:
        return None
    mismatch = contradiction(waiting.cycle, waiting.job, waiting.kinds, refusal.need)
    if mismatch is None:
        return None
    message, right = mismatch
    stated = waiting.job.record.min_amounts or {}
    verdict = waiting.verdict(
        refusal.cause,
        message,
        need={name: stated[name] for name in right},
        have=_free(waiting, right),
        tasks_placeable=waiting.placeable,
        holders=waiting.tools.holders(refusal.need),
    )
    return Draft(verdict, [[SetMinResources(right)]])


def _free(waiting: Waiting, names: Iterable[str]) -> dict[str, int]:
    """What usable nodes have free."""
    nodes, registry = waiting.cycle.session.nodes, waiting.cycle.session.registry
    usable = nodes.table.ready & ~nodes.table.unschedulable
    return {name: int((nodes.idle[registry.requested(name)].clip(min=0) * usable).sum()) for name in names}


# ---- One pod is larger than every node, even if the cluster were empty


def beyond_every_node(waiting: Waiting) -> Draft | None:
    """Said before any limit: no room in a queue would help."""
    limit = waiting.report.gate or waiting.report.quota
    nodes = waiting.cycle.session.nodes
    if limit is None or limit.cause not in (*LIMITS, Cause.NOT_TRIED) or not nodes.size:
        return None
    if waiting.tools.shortages.lost_devices(waiting.kinds, limit.need):
        return None
    excess = too_large(waiting.cycle, waiting.kinds, np.ones(nodes.size, np.bool_))
    if excess is None:
        return None
    text, at_most = excess
    verdict = waiting.verdict(
        Cause.TOO_LARGE,
        text,
        need=dict(limit.need),
        have={name: int(nodes.allocatable[waiting.cycle.session.registry.requested(name)].max()) for name in at_most},
        tasks_placeable=waiting.placeable,
    )
    return Draft(verdict, [[RequestAtMost(at_most)]] if at_most else [])
