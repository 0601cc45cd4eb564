"""From what keeps jobs waiting to what would start them: candidates are tried, jobs of high priority and age first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from unisono.engine.changes import AddNodes, Change, EvictPods
from unisono.engine.cycle.context import Cycle
from unisono.engine.verdict import Cause, Verdict
from unisono.engine.verdicts.candidates import Ladders
from unisono.engine.verdicts.evictable import Evictable
from unisono.engine.verdicts.rivals import turn
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
        nodes: empty nodes that the whole gang would fill, where nodes are what it lacks.

    """

    verdict: Verdict
    ladders: Ladders = field(default_factory=list)
    first: str = ""
    last: str = ""
    fallback: str = ""
    evictions: bool = False
    nodes: int = 0


def advise(cycle: Cycle, drafts: dict[str, Draft], most: int = MOST_JOBS) -> dict[str, Verdict]:
    """Complete the verdicts; changes are tried for at most ``most`` jobs.

    For jobs beyond the budget the first step of the first ladders is said in words, untried, without ``changes``.
    """
    if not drafts:
        return {}
    turns = _by_turn(cycle, drafts)
    trials, evictable = Trials(cycle, turns), Evictable(cycle)
    coarse: dict[str, tuple[Draft, list[_Step]]] = {}
    ahead: dict[str, int] = {}
    off = tuple(sorted(cycle.hooks.failed))
    for key in turns[:most]:
        draft = drafts[key]
        if not trials.possible(key):
            break
        steps = _tried(trials, key, _behind(draft, ahead))
        if steps is None:
            continue
        changes = tuple(step.change for step in steps)
        texts = [change.text() for change in changes] or _first_step(draft) or [draft.fallback]
        verdict = replace(draft.verdict, changes=changes, suggestion=_joined(draft, texts))
        if any(step.failed is not None for step in steps):
            coarse[key] = draft, steps
        if draft.evictions and trials.possible(key):
            job = cycle.session.job(key)
            victims = evictable.victims(job) if job is not None else ()
            if job is not None and victims and trials.starts(key, EvictPods(victims)):
                verdict = replace(verdict, would_run_after=victims, spared=spared(cycle, job, victims))
        drafts[key] = Draft(verdict)
    for key, (draft, steps) in coarse.items():  # only now: a rough answer for everybody comes before exact ones
        changes = tuple(_least(trials, key, step) for step in steps)
        suggestion = _joined(draft, [change.text() for change in changes])
        drafts[key] = Draft(replace(drafts[key].verdict, changes=changes, suggestion=suggestion))
    return {key: _finished(draft, off) for key, draft in drafts.items()}


@dataclass(frozen=True, slots=True)
class _Step:
    """A change that works, and the smaller one of its ladder that does not."""

    change: Change
    failed: Change | None = None


def _by_turn(cycle: Cycle, drafts: dict[str, Draft]) -> list[str]:
    jobs = {job.key: job for job in cycle.jobs}

    def order(key: str) -> tuple[int, float, str]:
        job = jobs.get(key)
        return turn(job) if job is not None else (0, 0.0, key)

    return sorted(drafts, key=order)


def _behind(draft: Draft, ahead: dict[str, int]) -> Ladders:
    """The ladders of a job behind others: those take the first nodes of a kind (``ahead``), and the room that is left.

    The job's own nodes are added to ``ahead``.
    """
    ladders: Ladders = []
    for ladder in draft.ladders:
        own = ladder[0] if ladder else None
        if not isinstance(own, AddNodes):
            ladders.append(ladder)
            continue
        before = ahead.get(own.like, 0)
        if not before:
            ahead[own.like] = own.count
            ladders.append(ladder)
            continue
        enough = ahead[own.like] = max(draft.nodes, own.count) + before
        larger = [step for step in ladder if isinstance(step, AddNodes) and step.count > enough]
        ladders.append([own, replace(own, count=enough), *larger])
    return ladders


def _tried(trials: Trials, key: str, ladders: Ladders) -> list[_Step] | None:
    """The changes that work; None when the budget ended before it was known."""
    found: list[_Step] = []
    for ladder in ladders:
        if len(found) == _MOST_CHANGES:
            break
        failed: Change | None = None
        for change in ladder:
            if not trials.possible(key):
                return found or None
            if trials.starts(key, change):
                found.append(_Step(change, failed))
                break
            failed = change
    return found


def _least(trials: Trials, key: str, step: _Step) -> Change:
    """The fewest nodes between too few and enough, as far as the budget goes: every other job's answer comes first."""
    best, failed = step.change, step.failed
    if not isinstance(best, AddNodes) or not isinstance(failed, AddNodes):
        return best
    low = failed.count
    while best.count - low > 1 and trials.possible(key):
        fewer = replace(best, count=(low + best.count) // 2)
        if trials.starts(key, fewer):
            best = fewer
        else:
            low = fewer.count
    return best


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
