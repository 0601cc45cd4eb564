"""The objects of a resource as they were at an earlier revision, undone from the history that watches read."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from unisono.apiserver import failures
from unisono.apiserver.storage.entry import Entry
from unisono.apiserver.storage.store import Store


def at_revision(store: Store, resource: str, revision: int) -> Sequence[Entry]:
    """All objects of ``resource`` right after ``revision``, by namespace and name.

    Raises:
        Gone: the history back to there is no longer kept.

    """
    history = store.history(resource)
    position = history.position_after(revision)
    if position is None:
        raise failures.too_old(revision, history.compacted)
    events = history.read(position, history.end - position) or ()
    if not events:
        return store.scan(resource, None)
    found = {entry.key[1:]: entry for entry in store.scan(resource, None)}
    for event in reversed(events):
        key = event.entry.key[1:]
        if event.type == "ADDED":
            found.pop(key, None)
        elif event.previous is None:
            # History that was read back after a restart does not say what was there before.
            raise failures.too_old(revision, event.entry.revision)
        else:
            found[key] = event.previous
    return [found[key] for key in sorted(found)]


def within(entries: Sequence[Entry], namespace: str | None) -> Sequence[Entry]:
    """Those of sorted entries that are in ``namespace``; all of them for None."""
    if not namespace:
        return entries
    start = bisect.bisect_left(entries, namespace, key=lambda entry: entry.namespace)
    end = bisect.bisect_right(entries, namespace, key=lambda entry: entry.namespace)
    return entries[start:end]
