"""Jobs that a cycle only looks at where one of them may be placed.

Of many equal jobs that wait, nearly all fail as the first of them does, or come after others that do. Where nothing is
told of the reasons, and nothing but placing can become of a job, they are left asleep: `placement.waiting_line` finds
those among them that must be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from unisono.api.annotations import QUEUE_NAMESPACES, QUEUE_USERS, USER
from unisono.api.queues import Rules, admitted_to, refusal
from unisono.cluster.waiting_jobs import Alike
from unisono.engine.answers import Reach, Refusal
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause

# Jobs in queues that are not for their namespace or their author: whoever let them in, they get nothing.
#
# Admission refuses whoever names such a queue. What it has not seen, or what was there before the queue said so, is
# held here once more: by the author that the server has written on the outermost owner, and by the queues that it let
# the author use. Where neither is known, the answer is no.

_NOBODY = "\n"


def barred_jobs(session: Session, jobs: Iterable[JobState]) -> dict[str, Refusal]:
    """Why jobs may not use their queue, by key; nothing of those that may."""
    if not any(_says(rules.notes) for name in session.queues if (rules := _rules(session, name)) is not None):
        return {}
    some = {name for name in session.queues if is_for_some(session, name)}
    return {
        job.key: Refusal(why, Cause.QUEUE_FORBIDDEN)
        for job in jobs
        if job.queue.name in some and (why := _refusal(session, job))
    }


def is_for_some(session: Session, name: str) -> bool:
    """Whether a queue, or one above it, is not for everybody."""
    seen: set[str] = set()
    while name not in seen and (rules := _rules(session, name)) is not None:
        if _says(rules.notes):
            return True
        seen.add(name)
        name = rules.parent
    return False


def _refusal(session: Session, job: JobState) -> str:
    record, name = job.record, job.queue.name
    user = record.annotations.get(USER) or _NOBODY
    let_in = name in admitted_to(record.annotations)
    why = refusal(name, lambda one: _rules(session, one), record.namespace, user, (), lambda _: let_in)
    return why.replace(f'user "{_NOBODY}"', "an author who is not known")


def _rules(session: Session, name: str) -> Rules | None:
    queue = session.queues.get(name)
    return None if queue is None else Rules(queue.record.annotations, queue.record.parent)


def _says(notes: Mapping[str, str]) -> bool:
    return QUEUE_USERS in notes or QUEUE_NAMESPACES in notes


_FEWEST: Final = 4
"""Jobs of one kin from which on they are left asleep although there is room for their pods."""
_MOST_KINS: Final = 64
"""Of how many such kins, those with most jobs: each of them is looked at many times in a cycle."""
_ACTIONS: Final = frozenset(("enqueue", "allocate", "backfill"))
"""Actions that do nothing for admitted jobs but place them."""
_BY_SHAPE: Final = ("job_key", "valid", "ready", "missing", "pipelined")


def sleeping_jobs(session: Session, hooks: CombinedAnswers, actions: Iterable[str]) -> list[Alike]:
    """The jobs to leave asleep in a cycle that begins, by kin; none where each must be looked at.

    They are admitted, and their queues are open. Where a queue keeps strict order, those behind the first that finds no
    place are not looked at anyway.

    Args:
        session: of the cycle, which tells no reasons.
        hooks: the plug-ins.
        actions: what it does.
    """
    waiting = session.snapshot.waiting
    if waiting is None or not waiting.alike or not _ACTIONS.issuperset(actions) or not _may_sleep(session, hooks):
        return []
    return [alike for alike in waiting.alike.values() if _rests(session, alike)]


def in_line(session: Session, asleep: list[Alike]) -> tuple[list[Alike], list[JobState]]:
    """Of jobs that are asleep and may find room: those to pass over where they stand, and those to wake at once."""
    passed_over = [alike for alike in asleep if len(alike) >= _FEWEST]
    if len(passed_over) > _MOST_KINS:
        passed_over.sort(key=len, reverse=True)
        del passed_over[_MOST_KINS:]
    if len(passed_over) == len(asleep):
        return asleep, []
    kins = {alike.kin for alike in passed_over}
    keys = [key for alike in asleep if alike.kin not in kins for _, key in alike.aged]
    return passed_over, [job for key in keys if (job := session.job(key)) is not None]


def _may_sleep(session: Session, hooks: CombinedAnswers) -> bool:
    snapshot = session.snapshot
    if snapshot.setbacks or session.limits_accounts or hooks.guard.failures or hooks.guard.out or hooks.hosts_any():
        return False
    if not hooks.by_shape(*_BY_SHAPE) or hooks.hears_placements() or not hooks.has("ready") or hooks.has("prefilter"):
        return False
    if any(plugin.order_reach is not Reach.ROW for plugin, _ in hooks.flat["job_key"]):
        return False
    return not (snapshot.waiting and any(_is_nominated(session, key) for key in snapshot.waiting.others))


def _is_nominated(session: Session, key: str) -> bool:
    """A job with a nominated pod brings along others of its queue."""
    return any(task.nominated_node for task in session.snapshot.jobs[key].pending.values())


def _rests(session: Session, alike: Alike) -> bool:
    record = session.snapshot.jobs[alike.sample]
    queue = session.queues.get(record.queue)
    if record.phase == "Pending" or queue is None or queue.closed:
        return False
    return not is_for_some(session, queue.name)  # of which it is asked job by job


def awake_jobs(session: Session, asleep: Sequence[Alike]) -> list[JobState]:
    """All other jobs, in order of their keys."""
    waiting = session.snapshot.waiting
    if waiting is None or not asleep:
        return session.active
    jobs, kins = session.snapshot.jobs, {alike.kin for alike in asleep}
    keys = waiting.but_kins(lambda key: jobs[key].kin in kins)
    return [job for key in sorted(keys) if (job := session.job(key)) is not None]


def woken_jobs(session: Session, asleep: Sequence[Alike]) -> list[JobState]:
    """Jobs that were asleep and have been looked at."""
    kins, active = {alike.kin for alike in asleep}, session.snapshot.active
    return [job for key, job in session.opened().items() if job.kin in kins and key in active]
