"""From what keeps jobs waiting to what would start them: candidates are tried, jobs of high priority and age first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from unisono.api.bounds import FOR_WAITING
from unisono.api.times import rfc3339
from unisono.engine.changes import (
    AddNodes,
    Change,
    EvictPods,
    LowerMinAvailable,
    RequestAtMost,
    Uncordon,
)
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause, Verdict, reference
from unisono.engine.verdicts.candidates import before_others
from unisono.engine.verdicts.compose import Composition
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.evictable import Evictable
from unisono.engine.verdicts.lines import place, place_in_line, turn
from unisono.engine.verdicts.trial import Trials


def spared(cycle: Cycle, job: JobState, victims: Sequence[str]) -> str:
    """One sentence; empty where no limit stands in the way.

    Args:
        cycle: at its end.
        job: waits.
        victims: keys of pods; it is known that the job would start without them.
    """
    if FOR_WAITING.isdisjoint(cycle.config.actions):
        return ""
    setback = cycle.session.snapshot.setbacks.get(job.key)
    if setback is not None:
        return f"its binds were refused lately, so no pod is evicted for it before {rfc3339(setback.over)}"
    tasks = [task for key in victims if (task := cycle.session.snapshot.tasks.get(key)) is not None]
    reason: str | None = cycle.hooks.first("spared", tasks)
    return reason or ""


MOST_JOBS = 20
"""Jobs for which changes are tried in one cycle."""
_AT_FIRST, _MOST_CHANGES = 2, 4
"""Changes that are looked for before the next job has its turn, and in all."""
_MOST_CANDIDATES = 6
_OF_THE_MOMENT = frozenset((Cause.CLUSTER_OVERCOMMITTED, Cause.NO_PODS))
"""What may keep a job now, and will not once others have started, or its pods have been made."""
_HELP: dict[str, str] = {
    Cause.TOO_LARGE: "add nodes large enough for its pods, or let them request less",
    Cause.NODES_FULL: "wait for other jobs to end, or add nodes that its pods may use",
    Cause.CLUSTER_OVERCOMMITTED: "wait for other jobs to end, or add nodes that its pods may use",
    Cause.FILTERS: "add nodes that its pods may use",
    Cause.OVER_CAPABILITY: "wait for other jobs of the queue to end, or submit to another queue",
    Cause.BUDGET: "have the budget raised, or submit with one that has something left",
    Cause.LICENSES: "wait for other jobs that hold some to end, or ask for fewer",
    Cause.OVER_SHARE: "wait for other jobs of the queue to end",
    Cause.TOPOLOGY: "add nodes to a domain that it may use",
}
"""What kind of thing helps against a cause where no change is known to."""
_NECESSARY = frozenset(
    (
        *(Cause.QUEUE_MISSING, Cause.QUEUE_CLOSED, Cause.GATED, Cause.TOO_FEW_PODS),
        *(Cause.OVER_CAPABILITY, Cause.WAITING_FOR_VICTIMS),
    )
)
"""Causes with one way out."""
_LIMITS = frozenset((Cause.OVER_CAPABILITY, Cause.OVER_SHARE, Cause.LICENSES, Cause.BUDGET, Cause.QUOTA))
"""Causes that are about no node."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A change that works, and the smaller one of its ladder that does not."""

    change: Change
    failed: Change | None = None


@dataclass(slots=True)
class _Attempt:
    """What has been tried for one job; ``cut``: the budget ended before all of it was, ``refuted``: tried in vain."""

    key: str
    draft: Draft
    ladders: Iterator[list[Change]]
    steps: list[_Step] = field(default_factory=list)
    tried: bool = False
    ended: bool = False
    cut: bool = False
    refuted: list[Change] = field(default_factory=list)

    def advance(self, trials: Trials, most: int) -> None:
        """Climb ladders until so many changes are known to work, or the budget ends."""
        while len(self.steps) < most and not self.ended:
            ladder = next(self.ladders, None)
            if ladder is None:
                self.ended = True
                return
            failed: Change | None = None
            for change in ladder:
                if not trials.possible(self.key):
                    self.ended = self.cut = True
                    return
                self.tried = True
                if trials.starts(self.key, change):
                    self.steps.append(_Step(change, failed))
                    break
                failed = change
                self.refuted.append(change)

    def not_refuted(self) -> Draft:
        """Where the budget has ended, without what is known not to be enough."""
        if not self.cut or not self.refuted:
            return self.draft
        left = [[change for change in ladder if change not in self.refuted] for ladder in self.draft.ladders]
        return structs.replace(self.draft, ladders=[ladder for ladder in left if ladder])

    def compose(self, cycle: Cycle, trials: Trials) -> None:
        """Look for changes that are enough together, with all that wait."""
        job = cycle.session.job(self.key)
        first = before_others(cycle, job, self.draft.verdict.position) if job is not None else [()]
        pods = max(job.min_member, job.size, 1) if job is not None else 1
        search = Composition(trials, self.key, first, pods)
        changes = search.find(self.draft, _AT_FIRST)
        self.steps = [_Step(change) for change in changes]
        left = [ladder for ladder in self.draft.ladders if not any(step in search.refuted for step in ladder)]
        # Where many wait, others take what one step brings: none is offered that was not tried.
        self.draft = structs.replace(self.draft, ladders=left if changes or not trials.crowded else [])
        if job is not None and search.alone is not None and self.draft.verdict.cause in _OF_THE_MOMENT:
            self.draft = structs.replace(self.draft, verdict=_in_its_line(cycle, job, search.alone.verdict))
        self.tried, self.ended, self.cut = True, True, search.cut and not changes


def advise(
    cycle: Cycle, drafts: dict[str, Draft], most: int = MOST_JOBS, line: Sequence[str] = (), seconds: float = 0.0
) -> dict[str, Verdict]:
    """Complete the verdicts; changes are tried for at most ``most`` jobs.

    Every job has its turn before more is looked for: a second pass finds further ways, a third one fewer nodes. Where
    none is enough alone, or only a smaller job would start, the first steps are ``candidates``: who carries out changes
    in a copy of the whole cluster finds chains of them. For jobs beyond the budget the first step of the first
    ladders is said in words, untried, without ``changes``.

    Args:
        cycle: after its actions.
        drafts: by PodGroup key.
        most: jobs for which changes are tried.
        line: keys of all jobs that wait in their order, where the drafts are of some of them.
        seconds: how long changes are tried; 0: for what they cost, see `Trials`.
    """
    if not drafts:
        return {}
    turns = _by_turn(cycle, drafts)
    limited = {key for key, draft in drafts.items() if draft.verdict.cause in _LIMITS}
    trials, evictable = Trials(cycle, line or turns, turns[:most], seconds, limited), Evictable(cycle)
    off = tuple(sorted(cycle.hooks.failed))
    attempts = [_Attempt(key, drafts[key], iter(drafts[key].ladders)) for key in turns[:most]]
    for attempt in attempts:
        if seconds:
            attempt.compose(cycle, trials)
        attempt.advance(trials, _AT_FIRST)
        if attempt.draft.evictions:
            _end_others(cycle, trials, evictable, attempt)
    for attempt in attempts:
        attempt.advance(trials, _MOST_CHANGES)
    for attempt in attempts:  # only now: a rough answer for every job comes before exact ones
        attempt.steps = [_Step(_least(trials, attempt.key, step)) for step in attempt.steps]
    answered = {one.key: _answer(one) for one in attempts if one.steps or (one.tried and not one.cut)}
    drafts |= {attempt.key: attempt.not_refuted() for attempt in attempts}
    return {key: _finished(answered.get(key, draft), off) for key, draft in drafts.items()}


def _in_its_line(cycle: Cycle, job: JobState, alone: Verdict) -> Verdict:
    """What would keep the job waiting if no other one did: it counts for more than what others are promised."""
    position, ahead = place(cycle, job)
    line = place_in_line(cycle, job)
    message = f"{alone.message}; {line}" if line else alone.message
    task = alone.task if alone.task in job.record.tasks else ""
    return structs.replace(alone, message=message, position=position, ahead=ahead, task=task)


def _by_turn(cycle: Cycle, drafts: dict[str, Draft]) -> list[str]:
    jobs = {job.key: job for job in cycle.jobs}

    def order(key: str) -> tuple[int, float, str]:
        job = jobs.get(key)
        return turn(job) if job is not None else (0, 0.0, key)

    return sorted(drafts, key=order)


def _end_others(cycle: Cycle, trials: Trials, evictable: Evictable, attempt: _Attempt) -> None:
    """Which pods would have to go for the job to start."""
    job = cycle.session.job(attempt.key)
    if job is None or not trials.possible(attempt.key):
        return
    victims = evictable.victims(job)
    if victims and trials.starts(attempt.key, EvictPods(victims)):
        amended = structs.replace(attempt.draft.verdict, would_run_after=victims, spared=spared(cycle, job, victims))
        attempt.draft = structs.replace(attempt.draft, verdict=amended)


def _least(trials: Trials, key: str, step: _Step) -> Change:
    """The fewest nodes between too few and enough, as far as the budget goes."""
    best, failed = step.change, step.failed
    if not isinstance(best, AddNodes) or not isinstance(failed, AddNodes):
        return best
    low = failed.count
    while best.count - low > 1 and trials.possible(key):
        fewer = structs.replace(best, count=(low + best.count) // 2)
        if trials.starts(key, fewer):
            best = fewer
        else:
            low = fewer.count
    return best


def _answer(attempt: _Attempt) -> Draft:
    draft = attempt.draft
    changes = tuple(step.change for step in attempt.steps)
    enough = not all(isinstance(one, LowerMinAvailable | RequestAtMost) for one in changes)
    texts = [change.text() for change in changes]
    untried: tuple[Change, ...] = ()
    if not changes:
        untried, texts = draft.untried, _first_step(draft) or _not_tried(draft)
    verdict = structs.replace(draft.verdict, changes=changes, untried=untried, suggestion=_joined(draft, texts))
    return Draft(verdict if enough else structs.replace(verdict, candidates=_candidates(draft)))


def _candidates(draft: Draft) -> tuple[Change, ...]:
    return tuple(ladder[0] for ladder in draft.ladders if ladder)[:_MOST_CANDIDATES]


def _first_step(draft: Draft) -> list[str]:
    """Something else would still keep the job waiting, but this has to be done anyway.

    To uncordon a node that refuses the pods for another reason does not.
    """
    steps = [ladder[0].text() for ladder in draft.ladders if ladder and not isinstance(ladder[0], Uncordon)]
    return (
        [f"{steps[0]} (not enough by itself)"]
        if steps and (draft.necessary or draft.verdict.cause in _NECESSARY)
        else []
    )


def _not_tried(draft: Draft) -> list[str]:
    texts = [change.text() for change in draft.untried] or [draft.fallback or _kind_of_help(draft)]
    return [f"{text} (not tried)" for text in texts if text]


def _kind_of_help(draft: Draft) -> str:
    """What would help in general, where nothing that was tried does."""
    if draft.first or draft.last:
        return ""
    held = [reference(one.name) for one in draft.verdict.holders[:1] if one.kind != "Queue"]
    return f"wait for {held[0]} to end" if held else _HELP.get(draft.verdict.cause, "")


def _joined(draft: Draft, texts: list[str]) -> str:
    if draft.verdict.suggestion:
        return draft.verdict.suggestion
    last = f"{draft.last} (not tried)" if draft.last and not draft.last.endswith(")") else draft.last
    return ", or ".join(text for text in (draft.first, *texts, last) if text)


def _finished(draft: Draft, off: tuple[str, ...]) -> Verdict:
    """With advice in words where nothing was tried."""
    verdict = draft.verdict
    if draft.ladders or draft.untried or draft.first or draft.last or draft.fallback:
        untried = tuple(ladder[0] for ladder in draft.ladders if ladder)[:_AT_FIRST] or draft.untried
        texts = [f"{change.text()} (not tried)" for change in untried] or _not_tried(draft)
        verdict = structs.replace(
            verdict, untried=untried, suggestion=_joined(draft, texts), candidates=_candidates(draft)
        )
    return structs.replace(verdict, plugins_off=off) if off else verdict
