"""From what keeps jobs waiting to what would start them: candidates are tried, jobs of high priority and age first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from unisono.engine.cycle import Cycle
from unisono.engine.verdict import Cause, Verdict
from unisono.engine.verdicts.candidates import Ladders
from unisono.engine.verdicts.changes import Change, EvictPods
from unisono.engine.verdicts.evictable import Evictable
from unisono.engine.verdicts.spared import spared
from unisono.engine.verdicts.trial import Trials

MOST_JOBS = 20
"""Jobs for which changes are tried in one cycle."""
_MOST_CHANGES = 2
_NECESSARY = frozenset(
    (
        *(Cause.QUEUE_MISSING, Cause.QUEUE_CLOSED, Cause.GATED, Cause.TOO_FEW_PODS),
        *(Cause.OVER_CAPABILITY, Cause.WAITING_FOR_VICTIMS),
    )
)
"""Causes with one way out."""


@dataclass(slots=True)
class Draft:
    """A verdict without advice.

    Attributes:
        verdict: everything else; a suggestion that is there already stays.
        ladders: changes that might help, cheapest ladder first; of each the first step that works is taken.
        first, last: advice in words only, said before and after.
        fallback: advice in words only, said where no change is known to help.
        evictions: whether others could make room.

    """

    verdict: Verdict
    ladders: Ladders = field(default_factory=list)
    first: str = ""
    last: str = ""
    fallback: str = ""
    evictions: bool = False


def advise(cycle: Cycle, drafts: dict[str, Draft], most: int = MOST_JOBS) -> dict[str, Verdict]:
    """Complete the verdicts; changes are tried for at most ``most`` jobs.

    For jobs beyond the budget the first step of the first ladders is said in words, untried, without ``changes``.
    """
    if not drafts:
        return {}
    turns = _by_turn(cycle, drafts)
    trials, evictable = Trials(cycle, turns), Evictable(cycle)
    off = tuple(sorted(cycle.hooks.failed))
    for key in turns[:most]:
        draft = drafts[key]
        if not trials.possible(key):
            break
        changes = _tried(trials, key, draft.ladders)
        if changes is None:
            continue
        texts = [change.text() for change in changes] or _first_step(draft) or [draft.fallback]
        verdict = replace(draft.verdict, changes=changes, suggestion=_joined(draft, texts))
        if draft.evictions and trials.possible(key):
            job = cycle.session.job(key)
            victims = evictable.victims(job) if job is not None else ()
            if job is not None and victims and trials.starts(key, EvictPods(victims)):
                verdict = replace(verdict, would_run_after=victims, spared=spared(cycle, job, victims))
        drafts[key] = Draft(verdict)
    return {key: _finished(draft, off) for key, draft in drafts.items()}


def _by_turn(cycle: Cycle, drafts: dict[str, Draft]) -> list[str]:
    jobs = {job.key: job for job in cycle.jobs}

    def turn(key: str) -> tuple[int, float, str]:
        job = jobs.get(key)
        return (-job.priority, job.created, key) if job is not None else (0, 0.0, key)

    return sorted(drafts, key=turn)


def _tried(trials: Trials, key: str, ladders: Ladders) -> tuple[Change, ...] | None:
    """The changes that work; None when the budget ended before it was known."""
    found: list[Change] = []
    for ladder in ladders:
        if len(found) == _MOST_CHANGES:
            break
        for change in ladder:
            if not trials.possible(key):
                return tuple(found) or None
            if trials.starts(key, change):
                found.append(change)
                break
    return tuple(found)


def _first_step(draft: Draft) -> list[str]:
    """Something else would still keep the job waiting, but this has to be done anyway."""
    steps = [ladder[0].text() for ladder in draft.ladders if ladder]
    return [f"{steps[0]} (not enough by itself)"] if steps and draft.verdict.cause in _NECESSARY else []


def _joined(draft: Draft, texts: list[str]) -> str:
    if draft.verdict.suggestion:
        return draft.verdict.suggestion
    return ", or ".join(text for text in (draft.first, *texts, draft.last) if text)


def _finished(draft: Draft, off: tuple[str, ...]) -> Verdict:
    verdict = draft.verdict
    if draft.ladders or draft.first or draft.last or draft.fallback:
        texts = [ladder[0].text() for ladder in draft.ladders if ladder][:_MOST_CHANGES] or [draft.fallback]
        verdict = replace(verdict, suggestion=_joined(draft, texts))
    return replace(verdict, plugins_off=off) if off else verdict
