"""Tenants: who may use which queue, whose job it is, and the queue of jobs that name none."""

from __future__ import annotations

from collections.abc import Callable

from unisono.api import field_error
from unisono.api.annotations import USER, USER_LIMITS
from unisono.api.batch import Job
from unisono.api.keys import MASTERS, POD_QUEUE
from unisono.api.kinds import NAMESPACES, QUEUES
from unisono.api.queue_access import mistakes, named_queues, refusal
from unisono.api.user_limits import limits_of
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden, invalid

MayUse = Callable[[Request, str], bool]
"""Whether roles give the user of a request the verb ``use`` on the queue of a name."""


def queue_of_namespace(request: Request, view: View) -> None:
    """A new job that names no queue goes to the queue that its namespace names; asked before defaults are set."""
    job: Job = request.object
    if request.operation != "CREATE" or job.spec.queue:
        return
    namespace = view.find(NAMESPACES, request.namespace or "")
    job.spec.queue = (namespace.metadata.annotations or {}).get(POD_QUEUE) if namespace else None


def note_user(request: Request, _: View) -> None:
    """Write down who submits an object; only masters, which the controllers are too, may say otherwise."""
    if not request.user or MASTERS in request.groups:
        return
    meta = request.object.metadata
    notes = dict(meta.annotations or {})
    old = request.old.metadata.annotations if request.operation == "UPDATE" else None
    before = request.user if request.operation == "CREATE" else (old or {}).get(USER)
    if notes.get(USER) == before:
        return
    notes.pop(USER, None)
    meta.annotations = {**notes, USER: before} if before else notes


def check_use(may_use: MayUse, request: Request, view: View) -> None:
    """Refuse a new object that names a queue which its author or its namespace may not use.

    Raises:
        ApiError: 403 naming the queue.

    """
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return
    before = {queue for _, queue in named_queues(request.old)} if request.old is not None else set()
    user = "" if MASTERS in request.groups else request.user
    for path, name in named_queues(request.object):
        if name in before:
            continue
        why = refusal(
            name,
            lambda queue: view.find(QUEUES, queue),
            request.namespace or "",
            user,
            request.groups,
            lambda queue: may_use(request, queue),
        )
        if why:
            raise forbidden(request.kind, request.name, f"{path}: {why}")


def check_namespace(request: Request, view: View) -> None:
    """The same where the roles of users are not known: only what the queue says of namespaces.

    Raises:
        ApiError: 403 naming the queue.

    """
    check_use(lambda _request, _queue: True, request, view)


def check_notes(request: Request, _: View) -> None:
    """Annotations of a Queue about tenants can be read.

    Raises:
        Invalid: names the annotation.

    """
    if request.operation == "DELETE" or request.subresource:
        return
    notes = request.object.metadata.annotations or {}
    errors = [field_error.invalid(f"metadata.annotations[{key}]", value, why) for key, value, why in mistakes(notes)]
    try:
        limits_of(notes.get(USER_LIMITS, ""))
    except ValueError as error:
        errors.append(field_error.invalid(f"metadata.annotations[{USER_LIMITS}]", notes[USER_LIMITS], str(error)))
    if errors:
        raise invalid(request.kind, request.name, errors)
