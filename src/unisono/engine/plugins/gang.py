"""gang: a PodGroup starts with its minimum of pods, or not at all. No arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.messages import counted
from unisono.cluster.groups import SubGroupPolicy
from unisono.cluster.records import Task
from unisono.cluster.status import READY_STATES, VALID_STATES, TaskStatus, count
from unisono.engine.answers import BoolArray, Key, Purpose, Refusal, Vote
from unisono.engine.config.arguments import Argument
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.sub_groups import begun_groups, groups_of, outermost_policies, short_policies
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session
    from unisono.engine.session.sub_groups import SubGroup
    from unisono.engine.session.victims import VictimJobs

_PLACED = (*READY_STATES, TaskStatus.PIPELINED)


class GangPlugin(Plugin):
    """Holds a job back until ``minMember`` pods, and ``minTaskMember`` of each role, have a place."""

    name = "gang"
    by_shape = True
    known_arguments: tuple[Argument, ...] = ()

    def open(self, session: Session) -> None:
        """Keep the session: victims are looked up by job."""
        self.session = session

    def job_key(self, job: JobState) -> Key:
        """Broken gangs, then other jobs that are not ready, then ready ones.

        A gang that lost a member holds resources that do nothing; behind fresh jobs of smaller share it could stay
        below its minimum for ever.
        """
        if job.is_ready:
            return 2
        return 0 if job.broken else 1

    def valid(self, job: JobState) -> Refusal | None:
        """Enough pods exist, per role and in all."""
        for role, have, need in _short_roles(job, VALID_STATES) if job.min_task_member else ():
            return Refusal(
                f"Not enough valid pods of each task for gang-scheduling: {role} has {have} of {need}",
                Cause.TOO_FEW_PODS,
                need={"pods": need},
                have={"pods": have},
            )
        for policy, number in self._few_groups(job):
            return Refusal(
                f"Not enough valid subGroups of each task for gang-scheduling: {policy.name} has {number} of "
                f"{policy.minimum}",
                Cause.TOO_FEW_PODS,
            )
        if job.record.sub_groups and (small := self._too_small(job)) is not None:
            return small
        have, need = job.valid_count, job.min_member
        if have < need:
            return Refusal(
                f"Not enough valid tasks for gang-scheduling, valid: {have}, min: {need}",
                Cause.TOO_FEW_PODS if job.size else Cause.NO_PODS,
                need={"pods": need},
                have={"pods": have},
            )
        return None

    def ready(self, job: JobState) -> bool:
        """Enough tasks hold a place, in all and per role; pods that request nothing count once they have one, too."""
        if not job.is_ready or (job.min_task_member and any(_short_roles(job, READY_STATES))):
            return False
        return not job.record.sub_groups or not short_policies(self.session, job, pipelined=False)

    def missing(self, job: JobState) -> int:
        """The shortfall in all, or the sum of shortfalls per role if that is more."""
        total = job.min_member - job.ready_count
        if not job.min_task_member:
            return max(total, 0)
        roles = sum(need - have for _, have, need in _short_roles(job, READY_STATES))
        return max(total, roles, 0)

    def pipelined(self, job: JobState) -> Vote | Refusal:
        """Allocated and pipelined tasks together are enough."""
        short = job.min_task_member and any(_short_roles(job, _PLACED))
        few = job.record.sub_groups and (
            short_policies(self.session, job, pipelined=True) or begun_groups(self.session, job)
        )
        if job.is_pipelined and not short and not few:
            return Vote.PERMIT
        have, need = job.ready_count + job.waiting_count, job.min_member
        return Refusal(
            f"only {have} of {counted(need, 'task')} of the gang can get a place",
            Cause.NODES_FULL,
            need={"pods": need},
            have={"pods": have},
        )

    def group_key(self, group: SubGroup) -> Key:
        """Sub-groups that are not ready before ready ones."""
        return group.ready_count >= group.minimum

    def group_ready(self, group: SubGroup) -> bool:
        """Enough tasks of the sub-group hold a place."""
        return group.ready_count >= group.minimum

    def group_pipelined(self, group: SubGroup) -> Vote | Refusal:
        """Allocated and pipelined tasks of the sub-group together are enough."""
        have, need = group.placed_count, group.minimum
        if have >= need:
            return Vote.PERMIT
        return Refusal(f"only {have} of {counted(need, 'task')} of {group.key} can get a place", Cause.NODES_FULL)

    def starving(self, job: JobState) -> bool:
        """Placed and pipelined tasks stay below the minimum of the job, or of a sub-group that has got some.

        BestEffort tasks do not count here.
        """
        return job.is_starving or bool(job.record.sub_groups and begun_groups(self.session, job))

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """As many tasks of each job as it holds beyond its minimum, and beyond the minimum of their role.

        Volcano does not look at roles here and can evict the only master of a running gang.
        """
        if purpose in (Purpose.SHUFFLE, Purpose.DEFRAGMENT):
            return None
        if purpose in (Purpose.GANG_PREEMPT, Purpose.GANG_RECLAIM):  # whole gangs are chosen there
            return np.ones(len(candidates), dtype=np.bool_)
        taken: Counter[tuple[str, str]] = Counter()
        return np.array([self._spare(other, taken) for other in candidates], dtype=np.bool_)

    def _few_groups(self, job: JobState) -> list[tuple[SubGroupPolicy, int]]:
        """Policies of which fewer sub-groups exist than they need."""
        policies = job.record.sub_groups
        if not any(policy.minimum for policy in policies):
            return []
        groups = groups_of(self.session, job)
        have = Counter(group.policy for group in groups if group.above is None)
        have.update({group.policy: len(group.parts) for group in groups.inner})
        return [(policy, have[at]) for at, policy in outermost_policies(policies) if have[at] < policy.minimum]

    def _too_small(self, job: JobState) -> Refusal | None:
        """That too few sub-groups of a policy have the pods, or the groups, that each of them needs."""
        groups = groups_of(self.session, job).outermost
        for at, policy in outermost_policies(job.record.sub_groups):
            own = [part for group in groups if group.policy == at for part in group.parts or (group,)]
            whole = sum(_valid(group) >= group.minimum for group in own)
            if whole >= policy.minimum:
                continue
            group = _first_short(own)
            number, kind = _valid(group), " sub-groups" if group.parts else ""
            return Refusal(
                f"Not enough valid subGroups of each task for gang-scheduling: {whole} of {policy.minimum} "
                f"sub-groups of {policy.name} have all their pods; {group.key.rpartition('/')[2]} has {number} of "
                f"{group.minimum}{kind}",
                Cause.TOO_FEW_PODS,
                need={"pods": group.lacking() if group.parts else group.minimum},
                have={"pods": 0 if group.parts else number},
            )
        return None

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray | None:
        """Jobs that held more than their minimum when the action began: evictions only make it less."""
        return np.asarray(jobs.spare > 0) if purpose in (Purpose.PREEMPT, Purpose.RECLAIM) else None

    def _spare(self, task: Task, taken: Counter[tuple[str, str]]) -> bool:
        job = self.session.job(task.job)
        if job is None:
            return False
        whole, role = (task.job, ""), (task.job, f"/{task.role}")
        if job.ready_count - taken[whole] <= job.min_member:
            return False
        if job.roles_apply and task.role in job.min_task_member:
            held = count(job.role_counts(task.role), READY_STATES) - taken[role]
            if held <= job.min_task_member[task.role]:
                return False
        taken[whole] += 1
        taken[role] += 1
        return True


def _valid(group: SubGroup) -> int:
    """Members that exist: tasks, or groups that have all that they need."""
    if group.parts:
        return sum(_valid(part) >= part.minimum for part in group.parts)
    return sum(group.job.status(task) in VALID_STATES for task in group.tasks)


def _first_short(groups: Sequence[SubGroup]) -> SubGroup:
    """The innermost group that lacks members, of the first one that does."""
    group = next(each for each in groups if _valid(each) < each.minimum)
    if len(group.parts) < group.minimum:
        return group
    return _first_short(group.parts)


def _short_roles(job: JobState, states: tuple[TaskStatus, ...]) -> Iterator[tuple[str, int, int]]:
    """Roles below their minimum as (role, have, need); none where minimums per role do not apply."""
    if not job.roles_apply:
        return
    for role, need in job.min_task_member.items():
        have = count(job.role_counts(role), states)
        if have < need:
            yield role, have, need
