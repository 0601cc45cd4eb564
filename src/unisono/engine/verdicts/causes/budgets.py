"""A hard budget is used up, or has too little left: by when there is more, and what would help."""

from __future__ import annotations

from math import ceil, inf

from unisono.api.annotations import RUN_SECONDS
from unisono.api.budgets import HOUR
from unisono.api.selecting import DEFAULT_QUEUE, lineage
from unisono.api.times import rfc3339
from unisono.engine.changes import AddAnnotation, Change, RaiseBudget, UseQueue
from unisono.engine.session.budgets import Spending, spendings_of
from unisono.engine.verdict import Cause
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.waiting import Waiting

_OFFERED_QUEUES, _TRIED_QUEUES = 2, 8
_LEAST_SECONDS = 60


def used_up(waiting: Waiting) -> Draft | None:
    """A budget refuses the job."""
    refusal, spendings = waiting.report.gate or waiting.report.quota, spendings_of(waiting.cycle.session)
    if refusal is None or refusal.cause is not Cause.BUDGET or spendings is None:
        return None
    mine = [spendings.all[at] for at in spendings.of(waiting.job.record)]
    hard = [one for one in mine if one.purse.hard]
    tight = [one for one in hard if one.up] or [one for one in hard if one.purse.fits]
    messages, more = [refusal.message], [one for one in tight if one.purse.name not in refusal.message]
    messages += [f"budget {one.purse.name} is used up as well" for one in more if one.up]
    again = [_again(one) for one in tight]
    waits = [moment for moment in again if moment < inf]
    if waits and len(waits) == len(again):
        messages.append(f"there is more at {rfc3339(max(waits))}")
    verdict = waiting.verdict(Cause.BUDGET, "; ".join(messages), tasks_placeable=waiting.placeable)
    last = f"wait until {rfc3339(max(waits))}" if waits and len(waits) == len(again) else ""
    return Draft(verdict, _ladders(waiting, tight), last=last)


def _again(spending: Spending) -> float:
    """When there is more of a budget: its next period, or what was used will count less."""
    if spending.up and spending.purse.half_life:
        again = spending.purse.left_again_at(spending.tally, spending.rates)
        # By the minute: it is worked out anew each time, and a message that is another one is written again.
        return ceil(again / 60.0) * 60.0 if again < inf else inf
    return spending.tally.end


def _ladders(waiting: Waiting, tight: list[Spending]) -> Ladders:
    session = waiting.cycle.session
    spendings, record = spendings_of(session), waiting.job.record
    ladders: Ladders = []
    assert spendings is not None
    if len(tight) == 1:
        (budget,) = tight
        pods = {kind.pod_class: kind.count for kind in waiting.kinds if kind.pod_class is not None}
        seconds = max((spendings.estimates.stated(task) for task in record.pending.values()), default=0.0)
        amounts: dict[str, int] = {}
        rates: dict[str, float] = {}
        for pod_class, count in pods.items():
            for name, rate in spendings.cost(budget, record, pod_class.requests, HOUR).items():
                rates[name] = rates.get(name, 0.0) + rate * count
        fits = budget.purse.fits
        for name, amount in budget.purse.amounts.items():
            needed = rates.get(name, 0.0) * (seconds or HOUR) / HOUR
            used = budget.tally.used.get(name, 0.0) + (budget.expected.get(name, 0.0) if fits else 0.0)
            if used + (needed if fits else 0.0) > amount or name in budget.up:
                amounts[name] = max(ceil(used + needed), int(used) + 1)
        if amounts:
            ladders.append([RaiseBudget(budget.purse.name, amounts)])
        if fits and not budget.up and not (seconds and not amounts):
            lefts = [
                (budget.left(name) - budget.expected.get(name, 0.0)) / rate * HOUR
                for name, rate in rates.items()
                if rate > 0.0
            ]
            shortest = int(min(lefts, default=0.0)) // _LEAST_SECONDS * _LEAST_SECONDS
            if shortest >= _LEAST_SECONDS:
                ladders.append([AddAnnotation(RUN_SECONDS, f"{shortest}")])
    return [*ladders, *_other_queues(waiting, tight)]


def _other_queues(waiting: Waiting, tight: list[Spending]) -> Ladders:
    """Open queues that these budgets are not for, where they are for queues alone."""
    if any(one.purse.users or one.purse.namespaces for one in tight):
        return []
    queues, spendings = waiting.cycle.session.queues, spendings_of(waiting.cycle.session)
    shut = [*tight, *(one for one in (spendings.all if spendings is not None else ()) if one.purse.hard and one.up)]
    parents = {name: queue.record.parent for name, queue in queues.items()}
    above = set(parents.values())
    free = [
        name
        for name, queue in sorted(queues.items(), key=lambda item: (item[0] != DEFAULT_QUEUE, item[0]))
        if name not in above
        and name != "root"
        and queue.open
        and not any(each in one.purse.queues for one in shut for each in lineage(name, parents))
    ]
    # Those behind come in where one before them would not let the job start either.
    tried: list[Change] = [UseQueue(name) for name in free[:_TRIED_QUEUES]]
    return [tried[at::_OFFERED_QUEUES] for at in range(min(_OFFERED_QUEUES, len(tried)))]
