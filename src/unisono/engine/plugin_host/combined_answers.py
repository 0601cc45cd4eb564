"""The plug-ins of one session, and how their answers combine."""

from __future__ import annotations

from functools import cached_property

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import Reason, Refusal, Vote
from unisono.engine.plugin_host.eviction_answers import EvictionAnswers
from unisono.engine.plugin_host.tiers import Asked
from unisono.engine.session import queue_limits
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.sub_groups import SubGroup


class CombinedAnswers(EvictionAnswers):
    """The plug-ins of one session: each hook answered by all that implement it, as one answer."""

    @cached_property
    def _heard_singly(self) -> Asked:
        """Plug-ins that hear of each job that became Inqueue by itself."""
        together = {plugin for plugin, _ in self.flat["enqueued_alike"]}
        return [asked for asked in self.flat["enqueued"] if asked[0] not in together]

    @cached_property
    def _uncounted(self) -> Asked:
        """Plug-ins that answer ``allocatable`` and not ``headroom``."""
        counted = {plugin for plugin, _ in self.flat["headroom"]}
        return [asked for asked in self.flat["allocatable"] if asked[0] not in counted]

    def vote(self, hook: str, job: JobState) -> Refusal | None:
        """A refusal at once; permitted after the first tier with a PERMIT, or when all abstain.

        Plug-ins that insist are asked in later tiers as well.
        """
        if self.guard.out and job.key in self.guard.out:
            return self.guard.out[job.key].refusal()
        return self._vote(hook, job)

    def group_vote(self, group: SubGroup) -> Refusal | None:
        """As `vote`, whether a sub-group may wait for resources that are being released."""
        return self._vote("group_pipelined", group)

    def _vote(self, hook: str, subject: JobState | SubGroup) -> Refusal | None:
        permitted = False
        for tier in self.by_tier[hook]:
            before = permitted
            for plugin, method in tier:
                if before and not plugin.insists:
                    continue
                answer = method(subject)
                if isinstance(answer, Refusal):
                    return answer
                permitted = permitted or answer == Vote.PERMIT
        return None

    def admissible(self, job: JobState) -> int:
        """How many jobs like this one the gate ``enqueueable`` lets pass one after the other; 0: it must be asked."""
        first, *later = self.by_tier["enqueueable"] or [[]]
        counted = dict(self.flat["admissible"])
        if not first or not self.by_shape("enqueueable"):
            return 0
        room = 2**62
        for plugin, _ in (*first, *(asked for tier in later for asked in tier if asked[0].insists)):
            if plugin not in counted:
                return 0
            room = min(room, counted[plugin](job))
        return room

    def enqueued(self, job: JobState) -> None:
        """Tell those who want to hear of each job that became Inqueue."""
        for _, method in self._heard_singly:
            method(job)

    def enqueued_alike(self, job: JobState, number: int) -> None:
        """Tell the others of ``number`` jobs of one shape."""
        self.each("enqueued_alike", job, number)

    def underused(self, queue: QueueState, pod_class: PodClass) -> int:
        """How many more tasks the queue may claim before `overused` must be asked again; -1: not known."""
        bounds = dict(self.flat["underused"])
        room = 2**62
        for plugin, _ in self.flat["overused"]:
            if plugin not in bounds:
                return -1
            room = min(room, bounds[plugin](queue, pod_class))
        return room

    def ready(self, job: JobState) -> bool:
        """All agree; true when no plug-in has an opinion."""
        if self.guard.out and job.key in self.guard.out:
            return False
        for _, method in self.flat["ready"]:  # noqa: SIM110, a generator would take twice as long
            if not method(job):
                return False
        return True

    def group_ready(self, group: SubGroup) -> bool:
        """All agree that a sub-group can start; true when no plug-in has an opinion."""
        return all(method(group) for _, method in self.flat["group_ready"])

    def missing(self, job: JobState) -> int:
        """Lower bound of tasks that must still be allocated before ``ready`` can hold; 0 when unknown."""
        bound = 0
        for _, method in self.flat["missing"]:
            bound = max(bound, method(job))
        return bound

    def starving(self, job: JobState) -> bool:
        """All of the first tier with an opinion agree; false when none has one."""
        for tier in self.by_tier["starving"]:
            return all(method(job) for _, method in tier)
        return False

    def headroom(self, queue: QueueState, pod_class: PodClass, wanted: int) -> int:
        """How many of ``wanted`` tasks may be placed before `allocatable` must be asked again; 0: refused now."""
        room = min(wanted, queue_limits.room(queue, pod_class))
        for _, method in self.flat["headroom"]:
            room = min(room, method(queue, pod_class))
        for _, method in self._uncounted:
            if method(queue, pod_class) is not None:
                return 0
            room = min(room, 1)
        return max(room, 0)

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:
        """First refusal, a capability of the tree of queues before what plug-ins say."""
        found: Refusal | None = queue_limits.refusal(queue, pod_class)
        return found if found is not None else self.first("allocatable", queue, pod_class)

    def overused(self, queue: QueueState) -> Refusal | None:
        """First refusal."""
        refusal: Refusal | None = self.first("overused", queue)
        return refusal

    def prefilter(self, task: Task) -> Reason | None:
        """First reason."""
        reason: Reason | None = self.first("prefilter", task)
        return reason
