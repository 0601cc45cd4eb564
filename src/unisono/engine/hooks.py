"""The plug-ins of one session: which hooks are asked, in which order, and how their answers combine.

A plug-in that raises, or takes too long, is switched off for the rest of the cycle, and the question is asked again
without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, Purpose, Reason, Refusal, Vote
from unisono.engine.config import SchedulerConfig
from unisono.engine.config_flags import Flags
from unisono.engine.decisions import Violation
from unisono.engine.job_state import JobState, QueueState
from unisono.engine.plugin import HOOK_FLAGS, VICTIM_FLAGS, Plugin, hooks_of, overrides
from unisono.engine.session import Session
from unisono.engine.stopwatch import Stopwatch, TooSlow

if TYPE_CHECKING:
    from unisono.engine.victims import VictimJobs

Lookup = Callable[[str], type[Plugin] | None]
Asked = list[tuple[Plugin, Callable[..., Any]]]
_Role = tuple[type[Plugin], Flags]
"""What decides which hooks of a plug-in are asked."""


def _role(plugin: Plugin) -> _Role:
    return type(plugin), plugin.config.flags


@lru_cache(maxsize=64)
def _asked(tiers: tuple[tuple[_Role, ...], ...]) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
    """Hooks that are implemented and switched on: the hook, a tier that answers it, and who of the tier does.

    The same for every session of a configuration, so it is found out once.
    """
    found: dict[tuple[str, int], list[int]] = {}
    for at, tier in enumerate(tiers):
        for place, (plugin, flags) in enumerate(tier):
            for hook in hooks_of(plugin):
                if not HOOK_FLAGS[hook] or getattr(flags, HOOK_FLAGS[hook]):
                    found.setdefault((hook, at), []).append(place)
    return tuple((hook, at, tuple(places)) for (hook, at), places in found.items())


class _SwitchedOff(Exception):
    """A plug-in raised and is asked no more: the question is to be put again."""


class Hooks:
    """Opened plug-ins by tier, and the combined answers.

    Attributes:
        tiers: plug-ins in configured order.
        failures: plug-ins that could not be built, raised or took too long.
        failed: their names.
        stopwatch: measures the calls.
        generation: moves when a plug-in is switched off, so that what was computed with it can be dropped.

    """

    def __init__(self, config: SchedulerConfig, lookup: Lookup, stopwatch: Stopwatch | None = None) -> None:
        self.stopwatch = stopwatch or Stopwatch()
        self.failures: list[Violation] = []
        self.failed: set[str] = set()
        self.generation = 0
        self.tiers: list[list[Plugin]] = []
        for tier in config.tiers:
            plugins: list[Plugin] = []
            self.tiers.append(plugins)
            for option in tier:
                try:
                    found = lookup(option.name)
                    if found is not None:
                        plugins.append(found(option))
                        continue
                except Exception as error:
                    self._report(option.name, "could not be built", error)
                    continue
                self._report(option.name, "does not exist", None)
        self._resolve()

    def _resolve(self) -> None:
        """Sort the hooks that are implemented and switched on."""
        watched = self.stopwatch.watched
        self.by_tier: dict[str, list[Asked]] = {hook: [] for hook in HOOK_FLAGS}
        self.flat: dict[str, Asked] = {hook: [] for hook in HOOK_FLAGS}
        for hook, at, places in _asked(tuple(tuple(map(_role, tier)) for tier in self.tiers)):
            asked = [(plugin, watched(plugin, hook)) for plugin in map(self.tiers[at].__getitem__, places)]
            self.by_tier[hook].append(asked)
            self.flat[hook] += asked
        together = {plugin for plugin, _ in self.flat["enqueued_alike"]}
        self._heard_singly: Asked = [asked for asked in self.flat["enqueued"] if asked[0] not in together]
        self._shared: dict[tuple[str, ...], bool] = {}
        counted = {plugin for plugin, _ in self.flat["headroom"]}
        self._uncounted: Asked = [asked for asked in self.flat["allocatable"] if asked[0] not in counted]

    def plugins(self) -> list[Plugin]:
        """All plug-ins that are still on."""
        return [plugin for tier in self.tiers for plugin in tier]

    def has(self, hook: str) -> bool:
        """Whether anybody answers ``hook``."""
        return bool(self.flat[hook])

    def refusing(self) -> list[Plugin]:
        """Plug-ins with filters that placements change, in order."""
        asked = {plugin for hook in ("filter", "domain_filter") for plugin, _ in self.flat[hook]}
        return [plugin for plugin in self.plugins() if plugin in asked]

    def by_shape(self, *hooks: str) -> bool:
        """Whether everybody who answers one of ``hooks`` answers the same for jobs of the same shape."""
        known = self._shared.get(hooks)
        if known is None:
            known = self._shared[hooks] = all(plugin.by_shape for hook in hooks for plugin, _ in self.flat[hook])
        return known

    # ---- failures

    def switch_off(self, plugin: Plugin, hook: str, error: Exception) -> None:
        """Ask this plug-in nothing more in this cycle."""
        name = plugin.config.name
        if isinstance(error, TooSlow):
            self._report(name, str(error), None)
        else:
            self._report(name, f"failed in {hook}", error)
        self.tiers = [[other for other in tier if other is not plugin] for tier in self.tiers]
        self.generation += 1
        self._resolve()

    def _report(self, name: str, what: str, error: Exception | None) -> None:
        self.failed.add(name)
        detail = f": {type(error).__name__}: {error}" if error is not None else ""
        self.failures.append(Violation(f"plug-in {name}", f"plug-in {name} {what} and is off for this cycle{detail}"))

    def each(self, hook: str, *arguments: Any) -> None:
        """Notify everybody."""
        for plugin, method in self.flat[hook]:
            try:
                method(*arguments)
            except Exception as error:
                self.switch_off(plugin, hook, error)

    def open(self, session: Session) -> None:
        """Open every plug-in; one that fails is switched off."""
        self._lifecycle("open", session)

    def close(self, session: Session) -> None:
        """Close every plug-in."""
        self._lifecycle("close", session)

    def _lifecycle(self, hook: str, session: Session) -> None:
        for plugin in self.plugins():
            try:
                self.stopwatch.watched(plugin, hook)(session)
            except Exception as error:
                self.switch_off(plugin, hook, error)

    def silent(self, pod_class: PodClass, plugins: Sequence[Plugin]) -> set[Plugin]:
        """Those of ``plugins`` whose filter and score have nothing to say about a class in this session."""
        found: set[Plugin] = set()
        for plugin in plugins:
            try:
                if not plugin.concerns(pod_class):
                    found.add(plugin)
            except Exception as error:
                found.add(plugin)
                self.switch_off(plugin, "concerns", error)
        return found

    # ---- combinations

    def first(self, hook: str, *arguments: Any) -> Any:
        """First answer that is not None; None when all are."""
        for plugin, method in self.flat[hook]:
            try:
                answer = method(*arguments)
            except Exception as error:
                self.switch_off(plugin, hook, error)
                return self.first(hook, *arguments)
            if answer is not None:
                return answer
        return None

    def keys(self, hook: str, *item: Any) -> tuple[Any, ...]:
        """Keys of all plug-ins, in order."""
        keys = []
        for plugin, method in self.flat[hook]:
            try:
                keys.append(method(*item))
            except Exception as error:
                self.switch_off(plugin, hook, error)
                return self.keys(hook, *item)
        return tuple(keys)

    def vote(self, hook: str, job: JobState) -> Refusal | None:
        """A refusal at once; permitted after the first tier with a PERMIT, or when all abstain."""
        for tier in self.by_tier[hook]:
            permitted = False
            for plugin, method in tier:
                try:
                    answer = method(job)
                except Exception as error:
                    self.switch_off(plugin, hook, error)
                    return self.vote(hook, job)
                if isinstance(answer, Refusal):
                    return answer
                permitted = permitted or answer == Vote.PERMIT
            if permitted:
                return None
        return None

    def admissible(self, job: JobState) -> int:
        """How many jobs like this one the gate ``enqueueable`` lets pass one after the other; 0: it must be asked."""
        tier = self.by_tier["enqueueable"][0] if self.by_tier["enqueueable"] else []
        counted = dict(self.flat["admissible"])
        if not tier or not self.by_shape("enqueueable"):
            return 0
        room = 2**62
        for plugin, _ in tier:
            if plugin not in counted:
                return 0
            try:
                room = min(room, counted[plugin](job))
            except Exception as error:
                self.switch_off(plugin, "admissible", error)
                return 0
        return room

    def enqueued(self, job: JobState) -> None:
        """Tell those who want to hear of each job that became Inqueue."""
        for plugin, method in self._heard_singly:
            try:
                method(job)
            except Exception as error:
                self.switch_off(plugin, "enqueued", error)

    def enqueued_alike(self, job: JobState, number: int) -> None:
        """Tell the others of ``number`` jobs of one shape."""
        self.each("enqueued_alike", job, number)

    def underused(self, queue: QueueState, pod_class: PodClass) -> int:
        """How many more tasks the queue may claim before `overused` must be asked again; -1: nobody knows."""
        bounds = dict(self.flat["underused"])
        room = 2**62
        for plugin, _ in self.flat["overused"]:
            if plugin not in bounds:
                return -1
            try:
                room = min(room, bounds[plugin](queue, pod_class))
            except Exception as error:
                self.switch_off(plugin, "underused", error)
                return -1
        return room

    def ready(self, job: JobState) -> bool:
        """All agree; true when nobody has an opinion."""
        for plugin, method in self.flat["ready"]:
            try:
                if not method(job):
                    return False
            except Exception as error:
                self.switch_off(plugin, "ready", error)
                return self.ready(job)
        return True

    def missing(self, job: JobState) -> int:
        """Lower bound of tasks that must still be allocated before ``ready`` can hold; 0 when unknown."""
        bound = 0
        for plugin, method in self.flat["missing"]:
            try:
                bound = max(bound, method(job))
            except Exception as error:
                self.switch_off(plugin, "missing", error)
                return self.missing(job)
        return bound

    def starving(self, job: JobState) -> bool:
        """All of the first tier with an opinion agree; false when nobody has one."""
        for tier in self.by_tier["starving"]:
            for plugin, method in tier:
                try:
                    if not method(job):
                        return False
                except Exception as error:
                    self.switch_off(plugin, "starving", error)
                    return self.starving(job)
            return True
        return False

    def headroom(self, queue: QueueState, pod_class: PodClass, wanted: int) -> int:
        """How many of ``wanted`` tasks may be placed before `allocatable` must be asked again; 0: refused now."""
        room = wanted
        for plugin, method in self.flat["headroom"]:
            try:
                room = min(room, method(queue, pod_class))
            except Exception as error:
                self.switch_off(plugin, "headroom", error)
                return self.headroom(queue, pod_class, wanted)
        for plugin, method in self._uncounted:
            try:
                if method(queue, pod_class) is not None:
                    return 0
            except Exception as error:
                self.switch_off(plugin, "allocatable", error)
                return self.headroom(queue, pod_class, wanted)
            room = min(room, 1)
        return max(room, 0)

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:
        """First refusal."""
        refusal: Refusal | None = self.first("allocatable", queue, pod_class)
        return refusal

    def overused(self, queue: QueueState) -> Refusal | None:
        """First refusal."""
        refusal: Refusal | None = self.first("overused", queue)
        return refusal

    def prefilter(self, task: Task) -> Reason | None:
        """First reason."""
        reason: Reason | None = self.first("prefilter", task)
        return reason

    def victims(self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose) -> BoolArray:
        """Mask of candidates that may be evicted, as Volcano combines tiers, but for plug-ins that protect.

        Of the candidates, masks are intersected within a tier, and an empty answer ends the tier without a decision.
        What a tier gives up is put before the plug-ins that protect, of all tiers; the first tier of which something
        is left decides. Plug-ins that protect may allow so many tasks of a job or queue: what no tier gives up
        must not use these up.
        """
        flag = VICTIM_FLAGS[purpose]
        tiers = [
            [asked for asked in tier if not flag or getattr(asked[0].config.flags, flag)]
            for tier in self.by_tier["victims"]
        ]
        protecting = [asked for tier in tiers for asked in tier if asked[0].protects]
        try:
            for tier in tiers:
                left = self._given_up(tier, actor, task, candidates, purpose)
                for asked in protecting:
                    if not left.any():
                        break
                    rest = [other for other, yes in zip(candidates, left.tolist(), strict=True) if yes]
                    answer = self._ask("victims", *asked, actor, task, rest, purpose)
                    if answer is not None:
                        left[left] = answer
                if left.any():
                    return left
        except _SwitchedOff:
            return self.victims(actor, task, candidates, purpose)
        return np.zeros(len(candidates), dtype=np.bool_)

    def _given_up(
        self, tier: Asked, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray:
        """What all plug-ins of a tier give up; nothing when none of them has a say."""
        common: BoolArray | None = None
        for plugin, method in tier:
            answer = self._ask("victims", plugin, method, actor, task, candidates, purpose)
            if answer is None:
                continue
            common = answer.copy() if common is None else common & answer
            if not common.any():
                break
        return np.zeros(len(candidates), dtype=np.bool_) if common is None else common

    def _ask(self, hook: str, plugin: Plugin, method: Callable[..., Any], *arguments: Any) -> Any:
        """One plug-in's answer; `_SwitchedOff` when it raised."""
        try:
            return method(*arguments)
        except Exception as error:
            self.switch_off(plugin, hook, error)
            raise _SwitchedOff from error

    def protected(self, candidates: Sequence[Task], purpose: Purpose) -> BoolArray:
        """What any plug-in protects from being evicted for ``purpose``."""
        flag = VICTIM_FLAGS[purpose]
        found = np.zeros(len(candidates), dtype=np.bool_)
        for plugin, method in self.flat["protected"]:
            if flag and not getattr(plugin.config.flags, flag):
                continue
            try:
                answer = method(candidates, purpose)
            except Exception as error:
                self.switch_off(plugin, "protected", error)
                return self.protected(candidates, purpose)
            if answer is not None:
                found |= answer
        return found

    def allowance(self, queue: QueueState) -> int:
        """How many more tasks of a queue may be evicted in this session."""
        left = 2**62
        for plugin, method in self.flat["allowance"]:
            try:
                answer = method(queue)
            except Exception as error:
                self.switch_off(plugin, "allowance", error)
                return self.allowance(queue)
            if answer is not None:
                left = min(left, answer)
        return left

    def weighs_losses(self) -> bool:
        """Whether anybody knows what work is lost with a task."""
        return self.has("lost_work") and self.lost_work(()) is not None

    def lost_work(self, leaving: Sequence[Task]) -> float | None:
        """What is lost when these tasks go; None when nobody has an opinion."""
        total: float | None = None
        for plugin, method in self.flat["lost_work"]:
            try:
                answer = method(leaving)
            except Exception as error:
                self.switch_off(plugin, "lost_work", error)
                return self.lost_work(leaving)
            if answer is not None:
                total = answer if total is None else total + answer
        return total

    def shuffled(self, candidates: Sequence[Task]) -> BoolArray:
        """Union of the answers of the first tier that names any task."""
        chosen = np.zeros(len(candidates), dtype=np.bool_)
        for tier in self.by_tier["shuffled"]:
            for plugin, method in tier:
                try:
                    answer = method(candidates)
                except Exception as error:
                    self.switch_off(plugin, "shuffled", error)
                    return self.shuffled(candidates)
                if answer is not None:
                    chosen |= answer
            if chosen.any():
                break
        return self._without_retained(candidates, chosen)

    def _without_retained(self, candidates: Sequence[Task], chosen: BoolArray) -> BoolArray:
        for plugin, method in self.flat["retained"]:
            where = np.flatnonzero(chosen)
            try:
                answer = method([candidates[at] for at in where.tolist()]) if len(where) else None
            except Exception as error:
                self.switch_off(plugin, "retained", error)
                continue
            if answer is not None:
                chosen[where[answer]] = False
        return chosen

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray:
        """``[J]`` jobs that `victims` could name: what every plug-in of some tier lets pass."""
        flag = VICTIM_FLAGS[purpose]
        possible = np.zeros(len(jobs), dtype=np.bool_)
        for tier in self.by_tier["victims"]:
            asked = [plugin for plugin, _ in tier if not flag or getattr(plugin.config.flags, flag)]
            if not asked:
                continue
            passed = np.ones(len(jobs), dtype=np.bool_)
            for plugin in asked:
                if not overrides(plugin, "victim_jobs"):
                    continue
                try:
                    answer = plugin.victim_jobs(actor, task, jobs, purpose)
                except Exception as error:
                    self.switch_off(plugin, "victim_jobs", error)
                    return self.victim_jobs(actor, task, jobs, purpose)
                if answer is not None:
                    passed &= answer
            possible |= passed
        return possible


def builtin_lookup(name: str) -> type[Plugin] | None:
    """The registry of plug-ins; imported late, because the plug-ins import the contract."""
    from unisono.engine.plugins.registry import find

    return find(name)


def lookup_with(extra: Mapping[str, type[Plugin]]) -> Lookup:
    """Plug-ins of ``extra`` before those of the registry."""
    return lambda name: extra.get(name) or builtin_lookup(name)
