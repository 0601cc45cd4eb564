"""The gang has too few pods, or contradicts itself."""

from __future__ import annotations

from collections import Counter

from unisono.api.messages import counted
from unisono.api.names import nearest
from unisono.cluster.status import COMPLETED_STATES
from unisono.engine.changes import UseRole
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.waiting import Waiting

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
    found = Counter(task.role for task in tasks if task.status not in COMPLETED_STATES)
    return Counter({role: number for role, number in found.items() if role not in job.min_task_member})


def _roles_text(roles: Counter[str]) -> str:
    """``; 2 pods are of role workers, which minTaskMember does not name``; empty where there are none."""
    told = [
        f"{counted(number, 'pod')} {'is' if number == 1 else 'are'} of {f'role {role}' if role else 'no role'}"
        for role, number in roles.most_common(_ROLES_NAMED)
    ]
    return f"; {' and '.join(told)}, which minTaskMember does not name" if told else ""


def _meant_role(job: JobState, unnamed: Counter[str]) -> Ladders:
    """The role that pods have in place of one that none has: near in name, or the only one that is left over."""
    there = {task.role for task in job.record.tasks.values()}
    empty = [role for role, need in job.min_task_member.items() if need and role not in there]
    roles = [role for role in unnamed if role]
    meant = {role: nearest(role, roles) for role in empty}
    if len(empty) == len(roles) == 1:
        meant[empty[0]] = roles[0]
    return [[UseRole(role, instead)] for role, instead in meant.items() if instead]
