"""What the status of a Budget says, what is told about it, and when it is looked at again (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from unisono.api.base import Condition
from unisono.api.budget_use import rate_of
from unisono.api.budgets import Amounts, Hold, Purse, Tally, count, decimals, plain, unit
from unisono.api.groups.budgets import Budget, BudgetStatus
from unisono.api.times import rfc3339, rfc3339_micro, time_or
from unisono.controllers.recorder import Notice

LAG_SECONDS = 2.0
"""So long after a moment it is counted up to it: by then the ends of pods are known that have ended before."""
BUSY_SECONDS, IDLE_SECONDS = 60.0, 240.0
"""How often the count is written down while something is used, and while nothing is."""
GAP_SECONDS = 5.0
"""Counts are written no closer together than this, unless there is something to tell."""
_SOONEST = 0.01
_THERE, _ALL_THERE = "ResolvedRefs", "all that it names is there"


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at a Budget comes to.

    Attributes:
        status: as it should be; None: it stays as it is for now.
        notices: to be recorded once the status is written.
        again: seconds after which to look again.
    """

    status: BudgetStatus | None
    notices: tuple[Notice, ...]
    again: float


def look(
    budget: Budget, purse: Purse, tally: Tally, holds: Sequence[Hold], now: float, gap: str = "", lacks: str = ""
) -> Look:
    """Count, and say what follows.

    Args:
        budget: as it is stored.
        purse: what it says.
        tally: what its status says was used.
        holds: who has used what since then.
        now: seconds since the epoch.
        gap: why not all use since then is known; empty where it is.
        lacks: what it names that is not there; empty where all is.
    """
    counted = count(purse, tally, holds, now - LAG_SECONDS)
    present = count(purse, counted, holds, now)
    rates = rate_of(holds, now)
    up = purse.used_up(present.used)
    ends = purse.used_up_at(present, rates)
    status = _status(budget, purse, counted, present, rates, ends, up, now, gap, lacks)
    notices = _notices(budget, purse, present, up, status)
    again = _again(purse, counted, present, rates, ends, now)
    before, since = budget.status, now - time_or(budget.status.counted, -inf)
    urgent = bool(notices) or _said(before.conditions) != _said(status.conditions)
    urgent = urgent or before.counted is None or before.period_start != status.period_start
    due = BUSY_SECONDS if rates or before.rate else IDLE_SECONDS
    changed = before.rate != status.rate or (before.exhausted_at is None) != (status.exhausted_at is None)
    # What ended a moment ago is not left for later: nothing else may come for long.
    ended = not rates and any(hold.end > tally.at and hold.start < now for hold in holds)
    changed = changed or ended or _bare(before.left, purse)
    if not urgent and since < (GAP_SECONDS if changed else due):
        return Look(None, (), max(min(again, (GAP_SECONDS if changed else due) - since), _SOONEST))
    rest = not rates and any(hold.end > counted.at and hold.start < now for hold in holds)
    longest = GAP_SECONDS if rest else BUSY_SECONDS if rates else IDLE_SECONDS
    return Look(status, notices, max(min(again, longest), _SOONEST))


def _bare(left: dict[str, str] | None, purse: Purse) -> bool:
    """Whether the status does not speak of the amounts of which the spec does."""
    return (left or {}).keys() != purse.amounts.keys()


def _status(
    budget: Budget,
    purse: Purse,
    counted: Tally,
    present: Tally,
    rates: Amounts,
    ends: float,
    up: list[str],
    now: float,
    gap: str,
    lacks: str,
) -> BudgetStatus:
    warned = (budget.status.warned or 0) if time_or(budget.status.period_start, -1.0) == present.start else 0
    reached = [percent for percent in purse.warn_at if _share(purse, present) * 100.0 >= percent - 1e-9]
    conditions = [
        _condition(budget, "UsedUp", bool(up), "NothingLeft" if up else "Left", _used_text(purse, present), now),
        _condition(budget, "Counted", not gap, "Gap" if gap else "Counted", gap or "all use is known", now),
        _condition(budget, _THERE, not lacks, "NotFound" if lacks else "Found", lacks or _ALL_THERE, now),
    ]
    return BudgetStatus(
        counted=rfc3339_micro(counted.at),
        pods=budget.status.pods,
        period_start=rfc3339(counted.start),
        period_end=rfc3339(counted.end) if counted.end < inf else None,
        used=decimals(counted.used),
        left=decimals({name: amount - present.used.get(name, 0.0) for name, amount in purse.amounts.items()}),
        rate=decimals(rates) or None,
        previous=decimals(counted.previous) or None,
        exhausted_at=rfc3339(ends) if ends < inf and not up else None,
        warned=max([warned, *reached]) or None,
        conditions=conditions,
    )


def _share(purse: Purse, tally: Tally) -> float:
    return max((tally.used.get(name, 0.0) / amount for name, amount in purse.amounts.items()), default=0.0)


def _used_text(purse: Purse, tally: Tally) -> str:
    return ", ".join(
        f"{plain(tally.used.get(name, 0.0))} of {plain(amount)} {unit(name)} are used"
        for name, amount in purse.amounts.items()
    )


def _condition(budget: Budget, kind: str, is_so: bool, reason: str, message: str, now: float) -> Condition:
    before = next((one for one in budget.status.conditions or () if one.type == kind), None)
    status = "True" if is_so else "False"
    since = before.last_transition_time if before is not None and before.status == status else rfc3339(now)
    return Condition(type=kind, status=status, reason=reason, message=message[:1024], last_transition_time=since)


def _said(conditions: Sequence[Condition] | None) -> set[tuple[str, str, str]]:
    return {(one.type, one.status, (one.message or "") * (one.type == _THERE)) for one in conditions or ()}


def _notices(budget: Budget, purse: Purse, present: Tally, up: list[str], status: BudgetStatus) -> tuple[Notice, ...]:
    notices: list[Notice] = []
    before = budget.status
    new_period = before.period_start is not None and time_or(before.period_start) < present.start
    if new_period and time_or(status.period_start) == present.start:
        notices.append(
            Notice("Normal", "PeriodBegan", f"a new period began; the last one used {_amounts(present.previous)}")
        )
    announced = 0 if new_period else before.warned or 0
    if (status.warned or 0) > announced:
        text = f"{status.warned}% are used: {_used_text(purse, present)}"
        forecast = f"; it is used up at {status.exhausted_at} if it goes on like this" if status.exhausted_at else ""
        notices.append(Notice("Warning", "BudgetWarning", text + forecast))
    lacks = next(one.message or "" for one in status.conditions or () if one.type == _THERE)
    if lacks not in (_ALL_THERE, *(one.message for one in before.conditions or () if one.type == _THERE)):
        notices.append(Notice("Warning", "RefsNotFound", lacks))
    was_up = any(one.type == "UsedUp" and one.status == "True" for one in before.conditions or ())
    if up and not was_up:
        notices.append(Notice("Warning", "BudgetUsedUp", _used_text(purse, present)))
    elif was_up and not up and not new_period:
        notices.append(Notice("Normal", "BudgetLeft", f"something is left again: {_used_text(purse, present)}"))
    return tuple(notices)


def _amounts(amounts: Amounts) -> str:
    parts = [f"{plain(amount)} {unit(name)}" for name, amount in sorted(amounts.items())]
    return ", ".join(parts) or "nothing"


def _again(purse: Purse, counted: Tally, present: Tally, rates: Amounts, ends: float, now: float) -> float:
    """Seconds until something will be so that is told: a percentage, the end of the budget or of its period."""
    moments = [counted.end + LAG_SECONDS, present.end + LAG_SECONDS, ends]
    for percent in purse.warn_at:
        part = replace(purse, amounts={name: amount * percent / 100.0 for name, amount in purse.amounts.items()})
        moments.append(part.used_up_at(present, rates) if not part.used_up(present.used) else inf)
    if purse.half_life and purse.used_up(present.used):
        moments.append(purse.left_again_at(present, rates))
    return min((moment - now for moment in moments if moment > now), default=inf)
