"""When a sub-group of a job has enough; a job without sub-groups is one group, for which the job's own rules hold."""

from __future__ import annotations

from unisono.engine.cycle.context import Cycle
from unisono.engine.placement.plain_jobs import may_start
from unisono.engine.placement.remaining_tasks import RemainingTasks
from unisono.engine.session.job_state import JobState
from unisono.engine.session.sub_groups import SubGroup


class GroupRules:
    """The rules for the groups of one job.

    Attributes:
        many: the job has sub-groups of its own.

    """

    def __init__(self, cycle: Cycle, job: JobState) -> None:
        self.cycle = cycle
        self.job = job
        self.hooks = cycle.hooks
        self.many = bool(job.record.sub_groups)

    def missing(self, group: SubGroup) -> int:
        """Tasks that the group still needs, as far as that is known."""
        if not self.many:
            return self.hooks.missing(self.job)
        return max(group.minimum - group.ready_count, 0) if self.hooks.has("group_ready") else 0

    def ready(self, group: SubGroup) -> bool:
        """Whether the group can start."""
        return self.hooks.group_ready(group) if self.many else self.hooks.ready(self.job)

    def pipelined(self, group: SubGroup) -> bool:
        """Whether the group could start once resources have been released."""
        refusal = self.hooks.group_vote(group) if self.many else self.hooks.vote("pipelined", self.job)
        return refusal is None

    def may_start(self, group: SubGroup, left: RemainingTasks) -> bool:
        """After a task found no node: could those that are ``left`` still be enough?"""
        if not self.many:
            return may_start(self.job, left)
        return group.placed_count + len(left) >= group.minimum
