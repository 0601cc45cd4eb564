"""Delete one object or a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from unisono.api.kind import Kind
from unisono.apiserver import failures
from unisono.apiserver.admission import Request
from unisono.apiserver.custom.kinds import as_stored
from unisono.apiserver.encoding import codec
from unisono.apiserver.operations import deletion
from unisono.apiserver.operations.context import Context
from unisono.apiserver.storage.entry import Entry
from unisono.apiserver.types import Deleted, DeleteOptions
from unisono.errors import NotFound


async def delete(
    context: Context, kind: Kind[Any], namespace: str | None, name: str, options: DeleteOptions
) -> Deleted:
    """Delete an object, or mark it; see ``ObjectService.delete``."""
    stored = context.stored_kind(kind)
    await context.conversions.know_present(stored, namespace, name)
    entry, obj = await context.load(stored, namespace, name)
    deletion.check_preconditions(obj, stored, options)
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
            deletion.check_preconditions(obj, stored, options)
            request.object = obj
    context.admission.check(request, context)
    before = entry.data
    gone = deletion.mark(obj, stored, options, context.clock())
    storing = as_stored(obj, before)
    if options.dry_run:
        data = codec.render(storing)
    elif not gone and codec.render(storing) == before:
        data = before  # it is already on its way out, and this delete changes nothing
    else:
        change = context.change(stored, storing, entry.revision, delete=gone)
        data = (await context.commit(stored, [change]))[0].data
    if gone and stored.resource not in deletion.ANSWER_WITH_OBJECT:
        return Deleted(details=failures.deleted_details(stored, name, obj.metadata.uid))
    data = await context.conversions.shown(stored, data)
    return Deleted(object=codec.as_version(data, stored, kind))


async def delete_all(context: Context, kind: Kind[Any], entries: Iterable[Entry], options: DeleteOptions) -> None:
    """Delete what a list found; what has gone meanwhile is fine.

    Raises:
        ApiError: the first failure; the other objects have been handled.

    """
    requests = [delete(context, kind, entry.namespace or None, entry.name, options) for entry in entries]
    results = await asyncio.gather(*requests, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, NotFound):
            raise result
