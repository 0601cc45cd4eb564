"""Drafts of one cycle: one for all gangs alike, and no more work than a cycle may cost.

Where very many different gangs wait, some are examined in each cycle and the others keep what was found for them in an
earlier one, as long as they wait for the same. A gang that was never examined gets what the actions say of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from unisono.api.annotations import GANG_PARTS
from unisono.cluster.records import Task
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import JobReport
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Verdict
from unisono.engine.verdicts.candidates import for_one_alike
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.lines import place, place_in_line
from unisono.engine.verdicts.order import first_cause
from unisono.engine.verdicts.waiting import Tools, Waiting

MOST_EXAMINED = 20_000
"""What the drafts of one cycle may cost together (about 5 µs each); those of the first jobs are made in any case."""
_EACH, _NODES = 300, 8
"""Cost of a draft, and how many nodes cost 1."""
NOT_EXAMINED = "not yet examined any further"
_EMPTY = JobReport()


@dataclass(slots=True)
class _Found:
    """A draft and what it was made for.

    Attributes:
        line: the part of its message that says where the job stands in line.
        task: which attribute of the report is the task that its verdict names, ``""``: the first that waits.
        told: what the actions said of the job.
        cycle: number of the cycle that made it.
    """

    draft: Draft
    line: str
    task: str = ""
    told: tuple[Any, ...] = ()
    cycle: int = 0


@dataclass(slots=True)
class KeptDrafts:
    """Drafts of earlier cycles by job, while there are more jobs than one cycle examines."""

    cycle: int = 0
    found: dict[str, _Found] = field(default_factory=dict)


class Drafts:
    """Makes the drafts of one cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.tools = Tools(cycle)
        self._alike: dict[tuple[Any, ...], _Found | None] = {}
        self._kept = cycle.session.snapshot.memo.of(KeptDrafts, KeptDrafts)
        self._left = MOST_EXAMINED
        self._cost = _EACH + cycle.session.nodes.size // _NODES
        self._new: dict[str, _Found] = {}

    def of(self, jobs: Iterable[JobState], first: int) -> dict[str, Draft]:
        """Drafts of jobs that wait, by PodGroup key; the ``first`` ones are examined in any case.

        ``jobs`` come in the order of their turn.
        """
        self._kept.cycle += 1
        drafts: dict[str, Draft] = {}
        later: list[JobState] = []
        for at, job in enumerate(jobs):
            if at < first or (self._left >= self._cost and job.key not in self._kept.found):
                self._put(drafts, job, sure=at < first)
            else:
                later.append(job)
        later.sort(key=self._last_examined)
        for job in later:
            self._put(drafts, job)
        complete = self._left >= self._cost
        self._kept.found = {} if complete else self._new
        return drafts

    def _last_examined(self, job: JobState) -> int:
        previous = self._kept.found.get(job.key)
        return previous.cycle if previous is not None else 0

    def _put(self, drafts: dict[str, Draft], job: JobState, *, sure: bool = False) -> None:
        try:
            drafts[job.key] = self._draft(job, sure=sure)
        except Exception as error:  # one job that cannot be explained takes no verdict from the others
            self.cycle.fail(f"explaining PodGroup {job.key}", error)
            brief = _brief(Waiting(self.tools, job, self.cycle.reports.get(job.key, _EMPTY)))
            if brief is not None:
                drafts[job.key] = brief

    def _draft(self, job: JobState, *, sure: bool) -> Draft:
        report = self.cycle.reports.get(job.key, _EMPTY)
        key = self._likeness(job, report)
        similar = self._alike.get(key) if key else None
        if similar is not None:
            return self._for(job, report, similar)
        statements = _told(job, report)
        if not sure and self._left < self._cost:
            kept = self._kept.found.get(job.key)
            if kept is not None and kept.told == statements:
                self._new[job.key] = kept
                return self._for(job, report, kept)
            brief = _brief(Waiting(self.tools, job, report))
            if brief is not None:
                return brief
        self._left -= self._cost
        draft = first_cause(Waiting(self.tools, job, report))
        line = place_in_line(self.cycle, job)
        made = self._new[job.key] = _Found(draft, line, _which(draft, report), statements, self._kept.cycle)
        if key and key not in self._alike:
            self._alike[key] = None if _names(draft, job, line) else made
        return draft

    def _likeness(self, job: JobState, report: JobReport) -> tuple[Any, ...]:
        """What jobs have in common whose drafts differ in the job's name and place in line only; empty: none has."""
        if not job.shape or job.places or report.setback is not None or report.dropped:
            return ()
        if self.cycle.hooks.guard.out and job.key in self.cycle.hooks.guard.out:
            return ()
        said = (report.gate, report.invalid, report.quota, report.fit, report.pipelined)
        return (
            job.shape,
            job.phase,
            job.priority,
            job.record.annotations.get(GANG_PARTS, ""),
            report.schedulable(),
            place(self.cycle, job)[0] > 1,
            *map(id, said),
        )

    def _for(self, job: JobState, report: JobReport, found: _Found) -> Draft:
        """The draft of another job, or of an earlier cycle, for this one."""
        verdict = found.draft.verdict
        position, ahead = place(self.cycle, job)
        message, line = verdict.message, place_in_line(self.cycle, job)
        if found.line:
            message = message.replace(found.line, line) if line else message.replace(f"; {found.line}", "")
        task = verdict.task
        if task and verdict.job != job.key:
            own: Task | None = getattr(report, found.task) if found.task else None
            task = own.key if own is not None else self._in_its_place(verdict, job)
        return structs.replace(
            found.draft,
            ladders=for_one_alike(job, found.draft.ladders, self.tools.rivals),
            verdict=structs.replace(verdict, job=job.key, message=message, position=position, ahead=ahead, task=task),
        )

    def _in_its_place(self, verdict: Verdict, job: JobState) -> str:
        """The pod of ``job`` that stands where the one that the verdict of another job names stands there."""
        other = self.cycle.session.job(verdict.job)
        named = list(other.record.pending).index(verdict.task) if other and verdict.task in other.record.pending else 0
        own = list(job.record.pending)
        return own[named] if named < len(own) else next(iter(own), "")


def _names(draft: Draft, job: JobState, line: str) -> bool:
    """Whether the message names the job or one of its pods, so that it is no other job's."""
    message = draft.verdict.message.replace(line, "") if line else draft.verdict.message
    first = next(iter(job.record.pending.values()), None)
    return job.record.name in message or (first is not None and first.name in message)


def _which(draft: Draft, report: JobReport) -> str:
    """See `_Found`."""
    named = {name: getattr(report, name) for name in ("task", "refused")}
    return next((name for name, task in named.items() if task is not None and task.key == draft.verdict.task), "")


def _told(job: JobState, report: JobReport) -> tuple[Any, ...]:
    """What the actions said of a job: where it stays the same, so does why the job waits."""
    refusals = (report.gate, report.invalid, report.quota)
    said = tuple((one.cause, one.message, one.owner) for one in refusals if one is not None)
    fit = report.fit
    counts = (job.uid, job.queue.name, job.phase, job.min_member, *job.counts)
    return *counts, said, (fit.cause, fit.text) if fit is not None else None, report.dropped, report.setback is None


def _brief(waiting: Waiting) -> Draft | None:
    """What the actions said of a job; None where they said nothing that could be told."""
    report = waiting.report
    refusal = report.gate or report.quota
    if refusal is not None:
        text, cause = refusal.message, refusal.cause
    elif report.fit is not None and report.invalid is None:
        text, cause = report.fit.text.rstrip("."), report.fit.cause
    else:
        return None
    reasons = dict(report.fit.counts) if refusal is None and report.fit is not None else {}
    return Draft(waiting.verdict(cause, f"{text}; {NOT_EXAMINED}", reasons=reasons))
