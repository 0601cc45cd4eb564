"""user-limits: how much one user may hold in a queue, in jobs, pods and resources, as the Queue's annotation says."""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unisono.api.annotations import USER_LIMITS
from unisono.api.messages import plural
from unisono.api.queues import JOBS, limits_of
from unisono.api.resources import readable
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus
from unisono.engine.answers import Refusal, Vote
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common.accounts import account_of, who
from unisono.engine.session.amounts import aligned
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session

_AUTO = Argument("user-limits.AutoEnable", "bool", False, "nothing where no Queue has the annotation")
_Line = tuple[str, str]
_HOLDING = frozenset({*ALLOCATED_STATES, TaskStatus.PIPELINED})


class UserLimitsPlugin(Plugin):
    """Lets no user go beyond the limits that the annotation ``unisono.io/user-limits`` of a Queue sets.

    ``jobs`` counts jobs that were admitted and have not ended, everything else what their pods hold.
    """

    name = "user-limits"
    known_arguments = (_AUTO,)

    def needed(self, session: Session) -> bool:
        """With ``user-limits.AutoEnable`` only where a queue has limits."""
        stated = (queue.record.annotations.get(USER_LIMITS) for queue in session.queues.values())
        return not argument_value(_AUTO, self.arguments) or any(stated)

    def open(self, session: Session) -> None:
        """Sum up what users hold in the queues with limits."""
        self.session = session
        self.limits: dict[str, dict[str, int]] = {}
        self.wrong: dict[str, str] = {}
        for name, queue in session.queues.items():
            text = queue.record.annotations.get(USER_LIMITS)
            if not text:
                continue
            try:
                self.limits[name] = limits_of(text)
            except ValueError as error:  # where no admission looks at it; nothing unchecked passes
                self.limits[name], self.wrong[name] = {}, str(error)
        self.jobs: dict[_Line, int] = defaultdict(int)
        self.held: dict[_Line, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        if not self.limits:
            return
        self.promised = session.book.grouped(
            lambda record: (record.queue, account_of(record)) if record.queue in self.limits else None
        )
        names = session.registry.names
        for job in session.jobs:
            if job.queue.name not in self.limits:
                continue
            line = self._line(job)
            self.jobs[line] += self._counts(job)
            amounts = aligned(job.claimed, session.registry)
            for row in amounts.nonzero()[0]:
                self.held[line][names[row]] += int(amounts[row])

    def _line(self, job: JobState) -> _Line:
        return job.queue.name, account_of(job)

    @staticmethod
    def _counts(job: JobState) -> bool:
        return job.phase in ("Inqueue", "Running")

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Refuse the next job of a user who has as many as the queue allows, or whose gang would go beyond a limit."""
        limits = self.limits.get(job.queue.name)
        if limits is None:
            return Vote.ABSTAIN
        if job.queue.name in self.wrong:
            text = f"annotation {USER_LIMITS} of queue {job.queue.name}: {self.wrong[job.queue.name]}"
            return Refusal(text, Cause.QUEUE_INVALID, event=True)
        line = self._line(job)
        wanted: dict[str, int] = {}
        if job.min_resources is not None:
            amounts = aligned(job.min_resources, self.session.registry)
            wanted = {self.session.registry.names[row]: int(amounts[row]) for row in amounts.nonzero()[0]}
        have = {name: self.held[line][name] + self._promised_to(line, name) for name in limits if wanted.get(name, 0)}
        over = [
            self._refusal(line, name, wanted[name], have[name], limit)
            for name, limit in limits.items()
            if name in have and have[name] + wanted[name] > limit
        ]
        if JOBS in limits and self.jobs[line] >= limits[JOBS]:
            over.insert(0, self._refusal(line, JOBS, 1, self.jobs[line], limits[JOBS]))
        return _all_of(over) if over else Vote.ABSTAIN

    def _promised_to(self, line: _Line, name: str) -> int:
        """What admitted jobs of the user may still take."""
        promised, row = self.promised.get(line), self.session.registry.find(name)
        return 0 if promised is None or row is None else int(promised[row])

    def enqueued(self, job: JobState) -> None:
        """One job more."""
        if job.queue.name in self.limits:
            self.jobs[self._line(job)] += 1

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:
        """Refuse the next pod of the user whose job is served where it would go beyond a limit."""
        limits, job = self.limits.get(queue.name), self.session.subject
        if limits is None or job is None:
            return None
        line = self._line(job)
        amounts = pod_class.requests | {"pods": 1}
        for name, limit in limits.items():
            more = amounts.get(name, 0)
            if name != JOBS and more and self.held[line][name] + more > limit:
                return _all_of([self._refusal(line, name, more, self.held[line][name], limit)])
        return None

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Count what jobs get and lose in this session."""
        if job.queue.name not in self.limits or (before in _HOLDING) == (after in _HOLDING):
            return
        held, sign = self.held[self._line(job)], 1 if after in _HOLDING else -1
        for task in tasks:
            for name, amount in {**task.pod_class.requests, "pods": 1}.items():
                held[name] += sign * amount

    @staticmethod
    def _refusal(line: _Line, name: str, need: int, have: int, limit: int) -> Refusal:
        queue, account = line
        what = plural(limit, "job") if name == JOBS else name
        text = f"{who(account)} may have {_shown(limit, name)} {what} in queue {queue} and has {_shown(have, name)}"
        if name == JOBS:  # which are no resource
            return Refusal(text, Cause.OVER_CAPABILITY, event=True, user=True)
        return Refusal(text, Cause.OVER_CAPABILITY, {name: need}, {name: have}, {name: limit}, event=True, user=True)


def _all_of(refusals: Sequence[Refusal]) -> Refusal:
    """One refusal that says every limit."""
    need, have, limit = (dict(ChainMap(*map(dict, each))) for each in zip(*map(_amounts, refusals), strict=True))
    text = f"{'; '.join(one.message for one in refusals)} (annotation {USER_LIMITS} of the queue)"
    return Refusal(text, refusals[0].cause, need, have, limit, event=True, user=True)


def _amounts(refusal: Refusal) -> tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int]]:
    return refusal.need, refusal.have, refusal.limit


def _shown(amount: int, name: str) -> str:
    return str(amount) if name == JOBS else readable({name: amount})[name]
