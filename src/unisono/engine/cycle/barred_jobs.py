"""Jobs in queues that are not for their namespace or their author: whoever let them in, they get nothing.

Admission refuses whoever names such a queue. What it has not seen, or what was there before the queue said so, is held
here once more: by the author that the server has written on the outermost owner, and by the queues that it let the
author use. Where neither is known, the answer is no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.api.annotations import QUEUE_NAMESPACES, QUEUE_USERS, USER
from unisono.api.queues import Rules, admitted_to, refusal
from unisono.engine.answers import Refusal
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause

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
