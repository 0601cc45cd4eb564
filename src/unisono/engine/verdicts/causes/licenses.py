"""Too few of a floating resource, such as licences, are left: which, of how many, who holds them."""

from __future__ import annotations

from unisono.api.licenses import MOST, PREFIX, UNIT, short
from unisono.api.names import nearest
from unisono.cluster.status import TaskStatus
from unisono.engine.changes import Change, LowerMinAvailable, RequestAtMost, SetLicenses, UseResource, WaitFor
from unisono.engine.session.floating import FloatingLimit, GangLicenses, shortage_text
from unisono.engine.session.limit import listed
from unisono.engine.verdict import Cause, Holder
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.holders import holders_text, jobs_holding
from unisono.engine.verdicts.waiting import Waiting

_MOST_PODS = 64
"""Pods of holders that are named for the job to wait for."""


def too_few(waiting: Waiting) -> Draft | None:
    """A limit refuses the job, and too few licences would be left for it whatever that limit said."""
    report, job = waiting.report, waiting.job
    refusal = report.quota or report.gate
    limits = [limit for limit in job.queue.limits if isinstance(limit, FloatingLimit)]
    if refusal is None or not limits or refusal.user:
        return None
    need = {limit.name: _asked_of(waiting, limit) for limit in limits}
    tight = [one for one in limits if 0 < need[one.name] > one.most[one.row] - _held(one)]
    if not any(one.name in refusal.need for one in tight):
        return None
    messages: list[str] = []
    holders: tuple[Holder, ...] = ()
    for limit in tight:
        text, limit_holders, _ = holders_text(waiting.cycle, job, limit.name)
        messages.append(
            shortage_text(limit.floating, limit.name, need[limit.name], _held(limit)) + (f" ({text})" if text else "")
        )
        near = _meant(waiting, limit)
        messages[-1] += f" (did you mean {near}?)" if near else ""
        holders = holders or limit_holders
    verdict = waiting.verdict(
        Cause.LICENSES,
        f"it {'; it '.join(messages)}",
        need={one.name: need[one.name] for one in tight},
        have={one.name: max(one.most[one.row] - _held(one), 0) for one in tight},
        tasks_placeable=waiting.placeable,
        holders=holders,
    )
    ladders = _by_its_name(waiting, tight) or _ladders(waiting, tight, need)
    there = all(not one.floating.problem and need[one.name] <= one.most[one.row] for one in tight)
    waits = there and not any(isinstance(each[0], WaitFor) for each in ladders if each)
    last = f"wait for other jobs with {' and '.join(short(one.name) for one in tight)}" if waits else ""
    meant = [f"{near} in place of {short(one.name)}" for one in tight if (near := _meant(waiting, one))]
    return Draft(verdict, ladders, f"ask for {' and '.join(meant)}" if meant else "", last=last)


def _held(limit: FloatingLimit) -> int:
    return int(limit.held[limit.row]) + int(limit.leaving[limit.row])


def _asked_of(waiting: Waiting, limit: FloatingLimit) -> int:
    """What the gang asks for that it does not hold: for its minimum, or for all that wait once it has that."""
    job, row = waiting.job, limit.row
    if job.phase == "Pending" and job.asks is not None:
        return listed(job.asks, waiting.cycle.session.registry)[row]
    whole = [int(one.vector[row]) for one in job.account_limits if isinstance(one, GangLicenses) and one.lacks()]
    return waiting.asks(limit.name) + sum(whole)


def _meant(waiting: Waiting, limit: FloatingLimit) -> str:
    """The name that was probably meant where there is none of that name; empty where none is near."""
    if limit.floating.name:
        return ""
    limits = (one for one in waiting.job.queue.limits if isinstance(one, FloatingLimit))
    return nearest(short(limit.name), [one.floating.name for one in limits if one.floating.name])


def _by_its_name(waiting: Waiting, tight: list[FloatingLimit]) -> Ladders:
    """That pods request what was meant, where they request a near miss of it; nobody has to own what it calls them."""
    names = [one.name for one in tight if any(one.name in kind.requests for kind in waiting.kinds)]
    meant = {limit.name: _meant(waiting, limit) for limit in tight if limit.name in names}
    return [[UseResource(name, f"{PREFIX}{near}")] for name, near in meant.items() if near]


def _ladders(waiting: Waiting, tight: list[FloatingLimit], need: dict[str, int]) -> Ladders:
    job = waiting.job
    smaller: list[Change] = []
    fewer: list[Change] = []
    for limit in tight:
        left = max(limit.most[limit.row] - _held(limit), 0)
        each = max((kind.requests.get(limit.name, 0) for kind in waiting.kinds), default=0)
        fits = job.ready_count + (left // each if each else 0)
        if each and 0 < fits < job.min_member:
            smaller.append(LowerMinAvailable(fits))
        elif each and (rest := left // max(job.min_member - job.ready_count, 1) // UNIT * UNIT):
            fewer.append(RequestAtMost({limit.name: rest}))
    more: list[Change] = []
    for limit in tight if len(tight) == 1 else ():
        # For the job alone, and for all that wait: others may come before it.
        lacking = (need[limit.name] - (limit.most[limit.row] - _held(limit)), _all_that_wait(waiting, limit))
        amounts = dict.fromkeys(-(-(limit.floating.amount + each) // UNIT) for each in (lacking[0], max(lacking)))
        if limit.name.startswith(PREFIX) and not (limit.floating.problem and limit.floating.name):
            more += [SetLicenses(short(limit.name), amount) for amount in amounts if amount <= MOST]
    pods = _pods_to_wait_for(waiting, tight, need)
    # A job asks for them on purpose: with fewer it may start and fail.
    return [smaller[:1], more, [WaitFor(pods)] if pods else [], fewer[:1]]


def _all_that_wait(waiting: Waiting, limit: FloatingLimit) -> int:
    """How many more there would have to be for all jobs that wait."""
    row = limit.row
    sums = [(queue.record.request, queue.allocated) for queue in waiting.cycle.session.queues.values()]
    asked = sum(int(request[row]) - int(held[row]) for request, held in sums if row < len(request) and row < len(held))
    return max(asked, 0) - (limit.most[row] - _held(limit))


def _pods_to_wait_for(waiting: Waiting, tight: list[FloatingLimit], need: dict[str, int]) -> tuple[str, ...]:
    """Pods of as few holders as free enough; none where the holders that are known do not."""
    pods: dict[str, None] = {}
    for limit in tight:
        missing = need[limit.name] - (limit.most[limit.row] - _held(limit))
        for held, other in jobs_holding(waiting.cycle, limit.name, waiting.job):
            if missing <= 0:
                break
            missing -= held
            tasks = other.record.tasks.values()
            pods |= dict.fromkeys(
                task.key for task in tasks if other.status(task) in (TaskStatus.BOUND, TaskStatus.RUNNING)
            )
        if missing > 0:
            return ()
    return tuple(pods) if len(pods) <= _MOST_PODS else ()
