"""What a delete does to an object or a collection: remove it now, or mark it and wait for grace and finalizers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from unisono.api.base import Object
from unisono.api.core import Namespace, Pod
from unisono.api.kind import Kind
from unisono.api.pod_states import has_ended
from unisono.api.times import rfc3339
from unisono.apiserver import encoding, failures
from unisono.apiserver.admission import Request
from unisono.apiserver.custom.kinds import as_stored
from unisono.apiserver.failures import bad_request, conflict
from unisono.apiserver.operations.context import Context
from unisono.apiserver.operations.strategy import has_generation
from unisono.apiserver.storage.objects import StoredEntry
from unisono.apiserver.types import Deleted, DeleteOptions
from unisono.errors import NotFound

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
DEFAULT_GRACE = 30
_POLICIES = {"Background": None, "Foreground": FOREGROUND, "Orphan": ORPHAN}
# These answer a delete with the object itself instead of a Status.
ANSWER_WITH_OBJECT = frozenset({"pods", "services", "serviceaccounts", "persistentvolumeclaims", "namespaces"})


def check_preconditions(obj: Object, kind: Kind[Any], options: DeleteOptions) -> None:
    """Compare uid and resourceVersion with what the writer expects.

    Raises:
        Conflict: they differ.
        ApiError: 400 for an unknown propagation policy or a negative grace period.
    """
    meta = obj.metadata
    if options.propagation_policy not in (None, *_POLICIES):
        raise bad_request(
            f'propagationPolicy: Unsupported value: "{options.propagation_policy}": supported values: '
            '"Background", "Foreground", "Orphan"'
        )
    for word, meta_word, expected, actual in (
        ("UID", "UID", options.uid, meta.uid),
        ("ResourceVersion", "ResourceVersion", options.resource_version, meta.resource_version),
    ):
        if expected is not None and expected != actual:
            why = f"Precondition failed: {word} in precondition: {expected}, {meta_word} in object meta: {actual}"
            raise conflict(kind, meta.name, why)


def mark(obj: Object, kind: Kind[Any], options: DeleteOptions, now: float) -> bool:
    """Change ``obj`` as the delete asks; True when it can be removed at once.

    A pod that is bound and still running gets its grace period; the node's agent ends it and deletes it again with
    grace 0. A second delete can shorten the period, never lengthen it. ``now`` is in seconds since 1970.
    """
    _set_policy(obj, options.propagation_policy)
    meta = obj.metadata
    grace = _grace(obj, options)
    if meta.deletion_timestamp is None:
        meta.deletion_timestamp = rfc3339(now + grace)
        meta.deletion_grace_period_seconds = grace
        if has_generation(kind) and (isinstance(obj, Pod) or not (grace == 0 and removable(obj))):
            meta.generation = (meta.generation or 0) + 1
    elif grace < (meta.deletion_grace_period_seconds or 0):
        meta.deletion_timestamp = rfc3339(now + grace)
        meta.deletion_grace_period_seconds = grace
    if isinstance(obj, Namespace):
        obj.status.phase = "Terminating"
    return removable(obj)


def removable(obj: Object) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    meta = obj.metadata
    if meta.deletion_timestamp is None or meta.finalizers or meta.deletion_grace_period_seconds:
        return False
    return not (isinstance(obj, Namespace) and obj.spec.finalizers)


def _set_policy(obj: Object, policy: str | None) -> None:
    if policy is None:
        return
    kept = [one for one in obj.metadata.finalizers or () if one not in (FOREGROUND, ORPHAN)]
    finalizer = _POLICIES[policy]
    obj.metadata.finalizers = ([*kept, finalizer] if finalizer else kept) or None


def _grace(obj: Object, options: DeleteOptions) -> int:
    if not isinstance(obj, Pod) or not obj.spec.node_name or has_ended(obj):
        return 0
    grace = options.grace_period_seconds
    if grace is None:
        grace = obj.spec.termination_grace_period_seconds
    if grace is None:
        return DEFAULT_GRACE
    return grace if grace >= 0 else 1


async def delete(
    context: Context, kind: Kind[Any], namespace: str | None, name: str, options: DeleteOptions
) -> Deleted:
    """Delete an object, or mark it; see ``ObjectService.delete``."""
    stored = context.stored_kind(kind)
    await context.conversions.know_present(stored, namespace, name)
    entry, obj = await context.load(stored, namespace, name)
    check_preconditions(obj, stored, options)
    request = Request("DELETE", stored, obj.metadata.namespace, name, obj, user=options.user, groups=options.groups)
    for changing in (True, False):
        if context.hooks.wanted(request, changing=changing):
            await (context.hooks.mutate if changing else context.hooks.check)(request, dry_run=options.dry_run)
            # Others may have changed it meanwhile: what is there now is deleted, if it is the same object.
            uid = obj.metadata.uid
            await context.conversions.know_present(stored, namespace, name)
            entry, obj = await context.load(stored, namespace, name)
            if obj.metadata.uid != uid:
                raise failures.conflict(stored, name)
            check_preconditions(obj, stored, options)
            request.object = obj
    context.admission.check(request, context)
    before = entry.data
    gone = mark(obj, stored, options, context.clock())
    storing = as_stored(obj, before)
    if options.dry_run:
        data = encoding.render(storing)
    elif not gone and encoding.render(storing) == before:
        data = before  # it is already on its way out, and this delete changes nothing
    else:
        change = context.change(stored, storing, entry.revision, delete=gone)
        data = (await context.commit(stored, [change]))[0].data
    if gone and stored.resource not in ANSWER_WITH_OBJECT:
        return Deleted(details=failures.deleted_details(stored, name, obj.metadata.uid))
    data = await context.conversions.shown(stored, data)
    return Deleted(object=encoding.as_version(data, stored, kind))


async def delete_all(context: Context, kind: Kind[Any], entries: Iterable[StoredEntry], options: DeleteOptions) -> None:
    """Delete what a list found; what has gone meanwhile is fine.

    Raises:
        ApiError: the first failure; the other objects have been handled.
    """
    requests = [delete(context, kind, entry.namespace or None, entry.name, options) for entry in entries]
    results = await asyncio.gather(*requests, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, NotFound):
            raise result
