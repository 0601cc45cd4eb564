"""When and where it is worked out why jobs wait: within a cycle, or beside it, in a copy of the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from unisono.cluster.records import Job, Task
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import TaskStatus
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import Decisions
from unisono.engine.plugins.registry import is_built_in
from unisono.engine.verdict import Asked
from unisono.engine.verdicts.explain import REMEMBERED
from unisono.scheduler.process_copy import Copy, Done, Unfinished, can_copy, has_memory, in_copy

_log = structlog.get_logger(__name__)

_PARTS: Final = 8
"""Of so many parts of a scheduler's time explanations take one at most where they are part of its cycles."""
_LONGEST_SILENCE: Final = 10.0
"""Seconds after which it is explained again, however long it took the last time: new jobs wait for a first word."""
_LONG: Final = 0.1
_MANY: Final = 100
"""Waiting jobs for which that is supposed before it is known."""
_FAILED_SECONDS: Final = 300.0
"""After a copy has failed, explanations are part of cycles for so long; after one that took too long there is none."""
STARTED = frozenset(("Running", "Completed"))
"""Phases of jobs that wait for nothing."""
_SAID = (
    *("cycle", "pod_groups", "pod_conditions", "queues", "reservations", "verdicts", "violations", "plugins_off"),
    *("figures", "resources", "sharable", "explained"),
)
"""What a copy tells of its decisions: all that says how things stand. The others are carried out by the cycle."""


@dataclass(slots=True)
class Explained:
    """What a copy has found out.

    Attributes:
        decisions: what they say of how things stood; without binds and evictions.
        seconds: that the copy took for the explanation.
        bound, evicted: pods, as the copy's cycle decided. The cycle beside it decided the same of the same cluster.
        uids: of the jobs with a verdict.
        memory: what explanations keep from one time to the next.
    """

    decisions: Decisions
    seconds: float
    bound: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)
    uids: Mapping[str, str] = field(default_factory=dict)
    memory: Collection[object] = ()


Outcome = Explained | Unfinished


class Meanwhile:
    """What cycles decided since a copy of the process began to explain.

    Attributes:
        version: of the cluster's state that is explained.
        bound, evicted: pods, by the cycle that began beside the copy.
        violations: of that cycle.
        cycles: how many came after it.
        told: jobs of which later cycles said how they stand.
    """

    def __init__(self, beside: Decisions, version: int) -> None:
        """``beside``: of the cycle that was begun with the copy, on the same snapshot."""
        self.version, self.violations = version, beside.violations
        self.bound = {f"{bind.namespace}/{bind.pod}" for bind in beside.binds}
        self.evicted = {f"{eviction.namespace}/{eviction.pod}" for eviction in beside.evictions}
        self.cycles = 0
        self.told: set[str] = set()
        self._started: set[str] = set()
        self._pods: set[str] = set()

    def note(self, decisions: Decisions) -> None:
        """A later cycle's: what it says of a job counts for more."""
        self.cycles += 1
        self._started |= {bind.job for bind in decisions.binds}
        self._started |= {update.key for update in decisions.pod_groups if update.phase in STARTED}
        self.told |= {update.key for update in decisions.pod_groups}
        self._pods |= {f"{one.namespace}/{one.pod}" for one in decisions.pod_conditions}

    def remove_outdated(self, explained: Explained, jobs: Mapping[str, Job], tasks: Mapping[str, Task]) -> None:
        """Leave out what does not hold any more of the jobs and pods that there are now."""
        kept, uids = explained.decisions, explained.uids
        kept.pod_groups = [one for one in kept.pod_groups if one.key not in self.told]
        kept.verdicts = {
            key: verdict
            for key, verdict in kept.verdicts.items()
            if key not in self._started and (job := jobs.get(key)) is not None and job.uid == uids.get(key)
        }
        kept.pod_conditions = [
            one
            for one in kept.pod_conditions
            if (key := f"{one.namespace}/{one.pod}") not in self._pods
            and (task := tasks.get(key)) is not None
            and task.status is TaskStatus.PENDING
        ]


class Explanations:
    """When a cycle explains, and where.

    Where thousands of jobs wait, it takes many times as long to say why as to decide who starts. Explanations that are
    part of cycles take at most one of `_PARTS` parts of the scheduler's time: cycles that only decide stand between
    those that explain as well. With `copies` what takes long is worked out in a copy of the process, as it is when a
    cycle begins: the cycle then only decides, on another processor, and no decision waits for an explanation. The copy
    shares the memory of what neither of both changes.

    Attributes:
        copying: a copy is at work, or what it found has not been heard by `ended`.
        begun: the latest cycle has begun it.
        tell: hears `Explained` or `Unfinished` of a copy, in a thread of its own.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        asked: Asked | None = None,
        copies: Callable[[Callable[[], Explained], Done], Copy] | None = None,
        least: float = _LONG,
    ) -> None:
        """Make one.

        Args:
            monotonic: seconds that only grow.
            asked: the jobs that are explained, None: all.
            copies: works something out in a copy of the process and tells it, see `in_copy`; None: there are none.
            least: seconds; what takes longer is worked out in a copy.
        """
        self._monotonic, self._verdicts, self._copies, self._least = monotonic, asked or True, copies, least
        self._due = self._failed_until = 0.0
        self._took: float | None = None
        self._copy_at_work: Copy | None = None
        self._began = 0.0
        self._closing = threading.Lock()
        self._closed = self._dropped = False
        self.copying = self.begun = False
        self.tell: Callable[[Outcome], object] = lambda _: None

    def decide(
        self, run: Callable[..., Decisions], snapshot: Snapshot, config: SchedulerConfig, now: float, seed: int
    ) -> Decisions:
        """Run a cycle with or without explanations; one without them asks for another one when they are due."""
        rests = self._due - self._monotonic()
        due, self.begun = rests <= 0 and not self.copying, False
        if due and self._copies is not None and self._takes_long(snapshot) and self._may_copy(config):
            due = not self._copy(snapshot, lambda: run(snapshot, config, now, seed, verdicts=self._verdicts))
        decisions = run(snapshot, config, now, seed, verdicts=due and self._verdicts)
        if decisions.explained:
            self._took = _spent(decisions)
            self._due = self._monotonic() + min((_PARTS - 1) * self._took, _LONGEST_SILENCE)
        elif not self.copying:
            again_at = now + max(rests, 0.0)
            decisions.again_at = again_at if decisions.again_at is None else min(decisions.again_at, again_at)
        return decisions

    def ended(self, outcome: Outcome) -> Explained | None:
        """What the copy has found, where that is worth anything; between cycles."""
        now, dropped = self._monotonic(), self._dropped
        self.copying = self._dropped = False
        if dropped:
            return None
        if isinstance(outcome, Explained):
            self._took = outcome.seconds
            self._due = now + min(now - self._began, _LONGEST_SILENCE)  # half of a processor at most
            return outcome
        _log.warning("explanation.failed", error=outcome.why)
        if outcome.too_long:
            self._due = now + _FAILED_SECONDS
        else:
            self.within_cycles()
        return None

    def drop(self) -> None:
        """What the copy at work finds is worth nothing: the cycle beside it has failed."""
        self.begun, self._dropped = False, self.copying
        if self.copying and self._copy_at_work is not None:
            self._copy_at_work.end()

    def close(self) -> None:
        """Explain nothing more: the copy that is at work ends."""
        with self._closing:
            self._closed = True
        if self._copy_at_work is not None:
            self._copy_at_work.end()

    def pause(self) -> float:
        """Seconds until the next explanation may begin."""
        return max(0.0, self._due - self._monotonic())

    def within_cycles(self) -> None:
        """Explain within cycles for a while, beginning with the next one, which looks at every job."""
        self._failed_until, self._due = self._monotonic() + _FAILED_SECONDS, 0.0

    def _takes_long(self, snapshot: Snapshot) -> bool:
        if self._took is not None:
            return self._took > self._least
        waiting = (key for key in snapshot.active if (job := snapshot.jobs.get(key)) is not None and job.pending)
        return sum(1 for _ in zip(range(_MANY), waiting, strict=False)) == _MANY

    def _may_copy(self, config: SchedulerConfig) -> bool:
        """Whether nothing but our own code would run in the copy, and there is memory for what it will change."""
        if self._monotonic() < self._failed_until:
            return False
        names = [plugin.name for plugin in config.plugins]
        return "extender" not in names and all(map(is_built_in, names)) and has_memory()

    def _copy(self, snapshot: Snapshot, run: Callable[[], Decisions]) -> bool:
        """Whether a copy has begun to explain."""
        assert self._copies is not None

        def work() -> Explained:
            made = run()
            decisions = Decisions(**{name: getattr(made, name) for name in _SAID})
            bound = {f"{bind.namespace}/{bind.pod}" for bind in made.binds}
            evicted = {f"{eviction.namespace}/{eviction.pod}" for eviction in made.evictions}
            uids = {key: job.uid for key in decisions.verdicts if (job := snapshot.jobs.get(key)) is not None}
            memory = [part for kind in REMEMBERED if (part := snapshot.memo.find(kind)) is not None]
            return Explained(decisions, _spent(made), bound, evicted, uids, memory)

        with self._closing:
            if self._closed:
                return False
            try:
                self._copy_at_work = self._copies(work, self.tell)
            except (OSError, RuntimeError) as error:
                _log.warning("explanation.failed", error=f"no copy of the process can be made: {error}")
                self.within_cycles()
                return False
            self._began, self.copying, self.begun = self._monotonic(), True, True
        return True


def _spent(decisions: Decisions) -> float:
    return sum(decisions.seconds.get(stage, 0.0) for stage in ("explain", "close"))


def beside_cycles() -> Explanations:
    """Explanations that are worked out in copies of this process where they take long, if there can be copies."""
    return Explanations(time.monotonic, copies=in_copy if can_copy() else None)
