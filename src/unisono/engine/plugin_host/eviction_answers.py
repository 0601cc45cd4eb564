"""How the answers of plug-ins about evictions combine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, Purpose
from unisono.engine.contract.switches import VICTIM_FLAGS
from unisono.engine.plugin_host.tiers import Asked, PluginTiers
from unisono.engine.session.job_state import JobState, QueueState

if TYPE_CHECKING:
    from unisono.engine.session.victims import VictimJobs


class EvictionAnswers(PluginTiers):
    """Victims, those who are spared, and what is lost with them."""

    @cached_property
    def _naming_victims(self) -> Mapping[Purpose, list[Asked]]:
        """Plug-ins that name victims, by tier, for each purpose; a tier in which none does is left out."""
        found: dict[Purpose, list[Asked]] = {}
        for purpose, flag in VICTIM_FLAGS.items():
            tiers = [
                [asked for asked in tier if not flag or getattr(asked[0].config.flags, flag)]
                for tier in self.by_tier["victims"]
            ]
            found[purpose] = [tier for tier in tiers if tier]
        return found

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
        known = bool(tiers) and any(plugin in ready for plugin, _ in tiers[0])
        return bool(ready) and not (known and purpose is Purpose.RECLAIM)

    def protected(self, candidates: Sequence[Task], purpose: Purpose) -> BoolArray:
        """What any plug-in protects from being evicted for ``purpose``."""
        flag = VICTIM_FLAGS[purpose]
        found = np.zeros(len(candidates), dtype=np.bool_)
        for plugin, method in self.flat["protected"]:
            if flag and not getattr(plugin.config.flags, flag):
                continue
            answer = method(candidates, purpose)
            if answer is not None:
                found |= answer
        return found

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
