"""What the tiers of plug-ins say together: orders, gates, limits and victims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, Purpose, Reason, Refusal, Vote
from unisono.engine.contract.plugin import VICTIM_FLAGS
from unisono.engine.plugin_host.tiers import Asked, PluginTiers
from unisono.engine.session import queue_limits
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.sub_groups import SubGroup

if TYPE_CHECKING:
    from unisono.engine.session.victims import VictimJobs


# How the answers of plug-ins about evictions combine.


class EvictionAnswers(PluginTiers):
    """Victims, those who are spared, and what is lost with them."""

    @cached_property
    def _naming_victims(self) -> Mapping[Purpose, list[Asked]]:
        """Plug-ins that name victims, by tier, for each purpose; a tier in which none does is left out."""
        by_purpose: dict[Purpose, list[Asked]] = {}
        for purpose, flag in VICTIM_FLAGS.items():
            tiers = [
                [asked for asked in tier if not flag or getattr(asked[0].config.flags, flag)]
                for tier in self.by_tier["victims"]
            ]
            by_purpose[purpose] = [tier for tier in tiers if tier]
        return by_purpose

    def victims(self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose) -> BoolArray:
        """Mask of candidates that may be evicted, as Volcano combines tiers, but for plug-ins that protect.

        Of the candidates, masks are intersected within a tier, and an empty answer ends the tier without a decision.
        What a tier gives up is put before the plug-ins that protect, of all tiers; the first tier of which something
        is left decides. Plug-ins that protect may allow so many tasks of a job or queue: what no tier gives up
        must not use these up.
        """
        tiers = self._naming_victims[purpose]
        protecting = [asked for tier in tiers for asked in tier if asked[0].protects]
        for tier in tiers:
            left = self._given_up(tier, actor, task, candidates, purpose)
            for _, method in protecting:
                if not left.any():
                    break
                rest = [other for other, yes in zip(candidates, left.tolist(), strict=True) if yes]
                answer = method(actor, task, rest, purpose)
                if answer is not None:
                    left[left] = answer
            if self.guard.stays:
                left &= [other.key not in self.guard.stays for other in candidates]
            if left.any():
                return left
        return np.zeros(len(candidates), dtype=np.bool_)

    def _given_up(
        self, tier: Asked, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray:
        """What all plug-ins of a tier give up; nothing when none of them has a say."""
        common: BoolArray | None = None
        for _, method in tier:
            answer = method(actor, task, candidates, purpose)
            if answer is None:
                continue
            common = answer.copy() if common is None else common & answer
            if not common.any():
                break
        return np.zeros(len(candidates), dtype=np.bool_) if common is None else common

    def keeps_gangs(self, purpose: Purpose) -> bool:
        """Whether gangs that lose pods for ``purpose`` keep their minimum or go whole, whatever a tier gives up.

        But for `reclaim` where the first tier that names victims knows the minimums: what a later tier gives up once
        no gang can spare anything goes, as in Volcano.
        """
        ready = [plugin for plugin, _ in self.flat["ready"]]
        tiers = self._naming_victims[purpose]
        knows_minimums = bool(tiers) and any(plugin in ready for plugin, _ in tiers[0])
        return bool(ready) and not (knows_minimums and purpose is Purpose.RECLAIM)

    def protected(self, candidates: Sequence[Task], purpose: Purpose) -> BoolArray:
        """What any plug-in protects from being evicted for ``purpose``."""
        flag = VICTIM_FLAGS[purpose]
        mask = np.zeros(len(candidates), dtype=np.bool_)
        for plugin, method in self.flat["protected"]:
            if flag and not getattr(plugin.config.flags, flag):
                continue
            answer = method(candidates, purpose)
            if answer is not None:
                mask |= answer
        return mask

    def allowance(self, queue: QueueState) -> int:
        """How many more tasks of a queue may be evicted in this session."""
        left = 2**62
        for _, method in self.flat["allowance"]:
            answer = method(queue)
            if answer is not None:
                left = min(left, answer)
        return left

    def weighs_losses(self) -> bool:
        """Whether a plug-in knows what work is lost with a task."""
        return self.has("lost_work") and self.lost_work(()) is not None

    def lost_work(self, leaving: Sequence[Task]) -> float | None:
        """What is lost when these tasks go; None when no plug-in has an opinion."""
        total: float | None = None
        for _, method in self.flat["lost_work"]:
            answer = method(leaving)
            if answer is not None:
                total = answer if total is None else total + answer
        return total

    def shuffled(self, candidates: Sequence[Task]) -> BoolArray:
        """Union of the answers of the first tier that names any task."""
        chosen = np.zeros(len(candidates), dtype=np.bool_)
        for tier in self.by_tier["shuffled"]:
            for _, method in tier:
                answer = method(candidates)
                if answer is not None:
                    chosen |= answer
            if chosen.any():
                break
        return self._without_retained(candidates, chosen)

    def _without_retained(self, candidates: Sequence[Task], chosen: BoolArray) -> BoolArray:
        for _, method in self.flat["retained"]:
            where = np.flatnonzero(chosen)
            answer = method([candidates[at] for at in where.tolist()]) if len(where) else None
            if answer is not None:
                chosen[where[answer]] = False
        return chosen

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray:
        """``[J]`` jobs that `victims` could name: what every plug-in of some tier lets pass."""
        possible = np.zeros(len(jobs), dtype=np.bool_)
        bounding = dict(self.flat["victim_jobs"])
        for tier in self._naming_victims[purpose]:
            passed = np.ones(len(jobs), dtype=np.bool_)
            for plugin, _ in tier:
                method = bounding.get(plugin)
                answer = method(actor, task, jobs, purpose) if method is not None else None
                if answer is not None:
                    passed &= answer
            possible |= passed
        return possible


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

    def headroom(self, job: QueueState | JobState, pod_class: PodClass, wanted: int) -> int:
        """How many of ``wanted`` tasks may be placed before `allocatable` must be asked again; 0: refused now.

        Of a queue without a job only the limits of the queue count.
        """
        room = min(wanted, queue_limits.room(job, pod_class))
        queue = job.queue if isinstance(job, JobState) else job
        for _, method in self.flat["headroom"]:
            room = min(room, method(queue, pod_class))
        for _, method in self._uncounted:
            if method(queue, pod_class) is not None:
                return 0
            room = min(room, 1)
        return max(room, 0)

    def allocatable(self, job: QueueState | JobState, pod_class: PodClass) -> Refusal | None:
        """First refusal, a limit of the job or of its queue before what plug-ins say."""
        limit_refusal: Refusal | None = queue_limits.refusal(job, pod_class)
        queue = job.queue if isinstance(job, JobState) else job
        return limit_refusal if limit_refusal is not None else self.first("allocatable", queue, pod_class)

    def overused(self, queue: QueueState) -> Refusal | None:
        """First refusal."""
        refusal: Refusal | None = self.first("overused", queue)
        return refusal

    def prefilter(self, task: Task) -> Reason | None:
        """First reason."""
        reason: Reason | None = self.first("prefilter", task)
        return reason
