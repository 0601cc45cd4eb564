"""What calendar and budgets ask for beside places: pods leave whose time is over, and cycles when a window begins.

After all actions, pods are evicted that are on nodes of a reservation which is about to begin, where it asks for that.
They are told so early that their notice is over a minute before; who is known to end by then stays. Pods of DaemonSets,
and those that their jobs, queues or plug-ins protect, stay, too. Pods that have run for as long as their queue allows,
and those whose hard budget is used up, are evicted whatever protects them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from operator import itemgetter

from unisono.api.annotations import MAX_RUN_TIME, MOST_NOTICE_SECONDS
from unisono.api.pod_states import notice_seconds
from unisono.api.times import format_duration, rfc3339
from unisono.cluster.records import NodePods, Task
from unisono.cluster.status import ON_NODE_STATES, PREEMPTABLE_STATES
from unisono.engine.answers import BUDGET, CALENDAR, RUN_TIME, Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.decisions import ReservationUpdate
from unisono.engine.plugins.calendar import CalendarPlugin, calendar_of
from unisono.engine.session.budgets import Spendings, spendings_of, used_text
from unisono.engine.session.calendar import Slot
from unisono.engine.session.job_state import JobState
from unisono.engine.session.protected_cores import Cores
from unisono.engine.session.run_times import RunLimits
from unisono.engine.session.session import Session
from unisono.engine.verdicts.holders import is_of_daemonset

LEAVING_SECONDS = 60.0
"""So long before a window begins the notice of pods is over that leave for it: then they are gone when it does."""
_SOON_SECONDS = 1.0
_EDGE_SECONDS = 0.001
_WHATEVER = (RUN_TIME, BUDGET)
_TIME_IS_OVER = "calendar.ends"
_MOST_NAMES = 100


@dataclass(frozen=True, slots=True)
class _Due:
    """A pod that leaves, and why."""

    job: JobState
    task: Task
    column: int
    reason: str
    note: str
    notice: float = 0.0


def follow_calendar(cycle: Cycle) -> None:
    """Evict the pods whose time is over, and say when the next cycle is due."""
    calendar, now = calendar_of(cycle.hooks.alive()), cycle.session.now
    due: dict[str, _Due] = {}
    if calendar is not None:
        for slot in calendar.slots:
            cycle.wake(slot.window.end if slot.window.holds(now) else slot.window.start)
        due = {each.task.key: each for each in (*_in_the_way(cycle, calendar), *_beyond_limits(cycle, calendar))}
    spendings = spendings_of(cycle.session)
    if spendings is not None:
        due = {each.task.key: each for each in _over_budgets(cycle, spendings)} | due
    if due:
        _evict(cycle, list(due.values()))


def _over_budgets(cycle: Cycle, spendings: Spendings) -> Iterator[_Due]:
    """Pods of jobs whose budget is used up, where it says that they leave."""
    session = cycle.session
    index = session.snapshot.nodes.index
    for spending in spendings.all:
        purse, tally = spending.purse, spending.tally
        for moment in (tally.end, purse.used_up_at(tally, spendings.with_more(spending, cycle.bound))):
            if session.now < moment < inf:
                cycle.wake(moment + _EDGE_SECONDS)
        if not spending.up:
            continue
        if purse.half_life and (again := purse.left_again_at(tally, spending.rates)) < inf:
            cycle.wake(max(again + _EDGE_SECONDS, session.now + _SOON_SECONDS))
        if not purse.hard or not purse.evicts:
            continue
        note = f"budget {purse.name}, which is used up ({used_text(spending, spending.up)})"
        for key in spending.jobs:
            job = session.job(key)
            for task in job.record.tasks.values() if job is not None else ():
                column = index.get(task.node) if task.node else None
                if job is not None and column is not None and task.owned and task.status in PREEMPTABLE_STATES:
                    yield _Due(job, task, column, BUDGET, note, purse.notice)


def _in_the_way(cycle: Cycle, calendar: CalendarPlugin) -> Iterator[_Due]:
    now = cycle.session.now
    for number, slot in enumerate(calendar.slots):
        start = slot.window.start
        if not slot.booking.evicts:
            continue
        if now < start - MOST_NOTICE_SECONDS - LEAVING_SECONDS:
            cycle.wake(start - MOST_NOTICE_SECONDS - LEAVING_SECONDS)
            continue
        what = "maintenance" if slot.booking.maintenance else "reservation"
        note = f"{what} {slot.booking.name} from {rfc3339(start)} on"
        for job, task, column in _others(cycle, calendar, number, slot):
            if not task.owned or not task.preemptable or task.status not in PREEMPTABLE_STATES:
                continue
            end = calendar.estimates.stated_end(task)
            leaves = start - LEAVING_SECONDS - notice_seconds(task.annotations, job.record.annotations)
            if end and end <= start:
                leaves = start
            if leaves > now:
                cycle.wake(leaves)
            else:
                yield _Due(job, task, column, CALENDAR, note)


def _others(cycle: Cycle, calendar: CalendarPlugin, number: int, slot: Slot) -> Iterator[tuple[JobState, Task, int]]:
    """Pods of jobs on the nodes of a reservation that may not use them; those of DaemonSets stay."""
    session = cycle.session
    names, tasks_on = session.snapshot.nodes.names, session.snapshot.tasks_on
    for column in slot.columns.tolist():
        for task in tasks_on.get(names[column], {}).values():
            job = session.job(task.job) if task.job else None
            if job is not None and number not in calendar.admitted(job.record) and not is_of_daemonset(task):
                yield job, task, column


def _beyond_limits(cycle: Cycle, calendar: CalendarPlugin) -> Iterator[_Due]:
    """Pods that have run for as long as their queue allows, or have notice coming by then."""
    session, limits = cycle.session, calendar.estimates.limits
    if limits is None:
        return
    index, first = session.snapshot.nodes.index, inf
    for name, held in session.snapshot.tasks_on.items():
        column = index.get(name)
        if column is None:
            continue
        place = f"{_TIME_IS_OVER}.{calendar.estimates.stamp}"
        ends: list[tuple[float, Task]] | None = held.derived.get(place) if isinstance(held, NodePods) else None
        if ends is None:
            ends = sorted(_ends(session, held.values(), limits), key=itemgetter(0))
            if isinstance(held, NodePods):
                held.derived[place] = ends
        for end, task in ends:
            if end > session.now:
                first = min(first, end)
                break
            job = session.job(task.job)
            if job is not None:
                most, queue = limits.most(job.record)
                note = f"the run-time limit {format_duration(most)} of queue {queue} (annotation {MAX_RUN_TIME})"
                yield _Due(job, task, column, RUN_TIME, note)
    if first < inf:
        cycle.wake(first)


def _ends(session: Session, tasks: Iterable[Task], limits: RunLimits) -> Iterator[tuple[float, Task]]:
    """When pods are told that their time is over."""
    jobs = session.snapshot.jobs
    for task in tasks:
        record = jobs.get(task.job)
        most = limits.most(record)[0] if record is not None and record.known and task.owned else 0.0
        if record is not None and most and task.status in PREEMPTABLE_STATES:
            notice = notice_seconds(task.annotations, record.annotations)
            yield (task.since or task.created) + max(most - notice, 0.0), task


def _evict(cycle: Cycle, due: list[_Due]) -> None:
    tasks, mark = [each.task for each in due], cycle.transaction.checkpoint()
    kept = Cores(cycle.session).kept(tasks)
    protected = cycle.hooks.protected(tasks, Purpose.SHUFFLE) if cycle.hooks.has("protected") else None
    for at, each in enumerate(due):
        stays = (kept is not None and kept[at]) or (protected is not None and protected[at])
        if stays and each.reason not in _WHATEVER:  # a limit that whoever is limited could lift were none
            continue
        if each.job.places:  # no gang gets pods and loses others in one cycle
            cycle.wake(cycle.session.now + _SOON_SECONDS)
            continue
        cycle.notes[each.task.key] = each.note
        cycle.notices[each.task.key] = each.notice
    for each in due:
        if each.task.key in cycle.notes:
            cycle.transaction.evict(each.job, each.task, each.column, each.reason)
    cycle.commit(mark, None)


def close_reservations(cycle: Cycle) -> None:
    """Say how each reservation stands: its window, its nodes, and how many pods of others are still there."""
    snapshot, now = cycle.session.snapshot, cycle.session.now
    calendar = calendar_of(cycle.hooks.alive()) if snapshot.catalogue.bookings else None
    if calendar is None:
        return
    names = snapshot.nodes.names
    for number, slot in enumerate(calendar.slots):
        others = sum(task.status in ON_NODE_STATES for _, task, _ in _others(cycle, calendar, number, slot))
        cycle.decisions.reservations.append(
            ReservationUpdate(
                slot.booking.name,
                "Active" if slot.window.holds(now) else "Waiting",
                rfc3339(slot.window.start),
                rfc3339(slot.window.end),
                len(slot.columns),
                tuple(names[column] for column in slot.columns[:_MOST_NAMES].tolist()),
                others,
                _not_as_written(slot, snapshot.queues),
            )
        )
    for name in sorted(snapshot.catalogue.bookings.keys() - calendar.numbers.keys()):
        window = snapshot.catalogue.bookings[name].times.only
        start, end = (rfc3339(window.start), rfc3339(window.end)) if window is not None else ("", "")
        cycle.decisions.reservations.append(ReservationUpdate(name, "Over", start, end))


def _not_as_written(slot: Slot, queues: Container[str]) -> str:
    """What it names that is not there."""
    missing = [f"there is no queue {name}" for name in sorted(slot.booking.queues) if name not in queues]
    return "; ".join([*([slot.lacks] if slot.lacks else []), *missing])
