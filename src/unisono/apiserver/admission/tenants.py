"""Tenants: who may use which queue, whose job it is, and the queue of jobs that name none."""

from __future__ import annotations

from collections.abc import Callable

from unisono.api import field_error
from unisono.api.annotations import ADMITTED_QUEUES, USER, USER_LIMITS
from unisono.api.groups.batch import Job
from unisono.api.keys import MASTERS, POD_QUEUE
from unisono.api.kinds import NAMESPACES, NODES, PODS, QUEUES
from unisono.api.membership import controller_of
from unisono.api.queues import Rules, admitted_to, limits_of, mistakes, names_users, refusal, rules_of
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.custom.kinds import as_job, as_json
from unisono.apiserver.failures import forbidden, invalid
from unisono.jobkinds.others_words import without_effect

MayUse = Callable[[Request, str], bool]
"""Whether roles give the user of a request the verb ``use`` on the queue of a name."""


def queue_of_namespace(request: Request, view: View) -> None:
    """A new job that names no queue goes to the queue that its namespace names; asked before defaults are set."""
    job: Job = request.object
    if request.operation == "CREATE" and not job.spec.queue:
        job.spec.queue = _queue_of_namespace(request, view)


def _queue_of_namespace(request: Request, view: View) -> str | None:
    namespace = view.find(NAMESPACES, request.namespace or "")
    return (namespace.metadata.annotations or {}).get(POD_QUEUE) if namespace else None


def note_user(request: Request, _: View) -> None:
    """Write down who submits an object; only masters, which the controllers are too, may say otherwise."""
    if not request.user or MASTERS in request.groups:
        return
    old = request.old.metadata.annotations if request.operation == "UPDATE" else None
    _note(request, USER, request.user if request.operation == "CREATE" else (old or {}).get(USER))


def note_queues(may_use: MayUse, request: Request, view: View) -> None:
    """Write down which queues for certain users the author may use, of those that the object names or may come to.

    What a component makes of another object is that one's author's, and keeps what was written there.
    """
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return
    kind = as_job(request.kind)
    if kind is None:
        return
    ours = not request.user or MASTERS in request.groups
    if ours and (request.operation == "UPDATE" or controller_of(request.object) is not None):
        return
    queues = _queues_in(view)
    named = {queue for _, queue in kind.named_queues(as_json(request.object))}
    admitted: set[str] = set()
    if request.operation == "UPDATE":
        before = {queue for _, queue in kind.named_queues(as_json(request.old))}
        admitted = {one for one in admitted_to(request.old.metadata.annotations) if one in named or one not in before}
        named -= before
    elif not named and (of_namespace := _queue_of_namespace(request, view)):
        named = {of_namespace}
    if kind.refers:
        named |= {queue.metadata.name for queue in view.all(QUEUES)}
    admitted |= {
        queue for queue in named if names_users(queue, queues) and not _refusal(queue, queues, may_use, request)
    }
    _note(request, ADMITTED_QUEUES, ",".join(sorted(admitted)))


def _note(request: Request, key: str, wanted: str | None) -> None:
    meta = request.object.metadata
    notes = dict(meta.annotations or {})
    if (notes.pop(key, None) or "") != (wanted or ""):
        meta.annotations = {**notes, key: wanted} if wanted else notes


def check_use(may_use: MayUse, request: Request, view: View) -> None:
    """Refuse an object that names a queue which its author or its namespace may not use, wherever it names it.

    Raises:
        ApiError: 403 naming the queue.

    """
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return
    kind = as_job(request.kind)
    if kind is None:
        return
    # Controllers write on pods in which queue their job is; nothing is led by that.
    anywhere = request.kind is not PODS or controller_of(request.object) is None
    before = {queue for _, queue in kind.named_queues(as_json(request.old))} if request.old is not None else set()
    for path, name in kind.named_queues(as_json(request.object), all_places=anywhere):
        if name in before:
            continue
        why = _refusal(name, _queues_in(view), may_use, request)
        if why:
            raise forbidden(request.kind, request.name, f"{path}: {why}")


def _refusal(name: str, queues: Callable[[str], Rules | None], may_use: MayUse, request: Request) -> str:
    user = "" if MASTERS in request.groups else request.user
    return refusal(name, queues, request.namespace or "", user, request.groups, lambda queue: may_use(request, queue))


def _queues_in(view: View) -> Callable[[str], Rules | None]:
    return lambda name: rules_of(view.find(QUEUES, name))


def unheeded(request: Request) -> list[str]:
    """What to tell the writer of any object that names a queue where none is looked for, or in words of others."""
    # What agents write on their nodes is not for people.
    if request.kind is NODES or controller_of(request.object) is not None:
        return []
    kind, shown = as_job(request.kind), as_json(request.object)
    if kind is None:
        return without_effect(shown)
    return [*kind.unheeded(shown), *without_effect(shown, (*kind.inner, *kind.templates))]


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
