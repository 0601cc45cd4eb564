"""Resource quotas: accounts that change together with the objects that they count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from unisono.api.base import Object
from unisono.api.core import ResourceQuota
from unisono.api.kind import Kind
from unisono.api.kinds import RESOURCE_QUOTAS
from unisono.api.quota import Usage, counts, resources_behind, usage_of
from unisono.api.resources import resource_list, to_wire
from unisono.apiserver.encoding import codec
from unisono.apiserver.storage.objects import Event, StoredEntry
from unisono.apiserver.storage.store import Change, Store

# Accounts of resource quotas: ``status.used`` changes in the same transaction as the objects that it counts.
#
# Every write of the store passes ``follow``, which adds the quotas that the write touches. What a quota says is
# therefore always true, after a crash as well, and admission compares with it without a race: nothing comes between
# reading the quota and queueing the object together with the quota's new account.

_QUOTAS = RESOURCE_QUOTAS.resource
# Kinds whose objects use more than their own number.
_MEASURED = frozenset(("pods", "services", "persistentvolumeclaims"))


class QuotaLedger:
    """Knows which namespaces have quotas.

    Args:
        store: the objects.
        kinds: stored kinds by resource; may grow.

    """

    def __init__(self, store: Store, kinds: Mapping[str, Kind[Any]]) -> None:
        self._store, self._kinds = store, kinds
        self._names: dict[str, set[str]] = {}
        for entry in store.scan(_QUOTAS):
            self._names.setdefault(entry.namespace, set()).add(entry.name)
        store.listen(self._on_event)

    def follow(self, changes: Sequence[Change]) -> list[Change]:
        """Changes of quotas that belong to ``changes``; quotas among ``changes`` get their status in place."""
        if not self._names and not any(change.key[0] == _QUOTAS for change in changes):
            return []
        accounts = _Accounts(self._quota, {change.key[1:] for change in changes if change.key[0] == _QUOTAS})
        for change in changes:
            if change.key[0] == _QUOTAS and not change.delete:
                self._names.setdefault(change.key[1], set()).add(change.key[2])
        for change in changes:
            names = self._names.get(change.key[1])
            if names:
                self._move(change, names, accounts)
        for change in changes:
            if change.key[0] == _QUOTAS and isinstance(change.obj, ResourceQuota) and not change.delete:
                self._measure(change.obj, changes)
        return accounts.changes()

    def outdated(self) -> list[Change]:
        """Quotas whose accounts are not right, with the right ones: for data of an earlier version."""
        found = []
        for entry in self._store.scan_latest(_QUOTAS):
            quota = codec.read(RESOURCE_QUOTAS, entry.data)
            before = quota.status
            self._measure(quota, ())
            if quota.status != before:
                found.append(_change(quota, entry.revision))
        return found

    def _move(self, change: Change, names: Iterable[str], accounts: _Accounts) -> None:
        kind = self._kinds.get(change.key[0])
        if kind is None:
            return
        entry = self._store.latest(change.key)
        before = None if entry is None else self._object(kind, entry)
        after = None if change.delete else change.obj
        used_before = {} if entry is None else usage_of(kind, before)
        used_after = {} if change.delete else usage_of(kind, after)
        if used_before == used_after and kind.resource != "pods":
            return
        for name in names:
            quota = accounts.quota(change.key[1], name)
            if quota is None:
                continue
            left = used_before if entry is not None and counts(quota, before) else {}
            came = used_after if not change.delete and counts(quota, after) else {}
            accounts.add(quota, {each: came.get(each, 0) - left.get(each, 0) for each in {*left, *came}})

    def _measure(self, quota: ResourceQuota, changes: Sequence[Change]) -> None:
        """Count again everything that the quota limits, as it will be after ``changes``."""
        hard = quota.spec.hard or {}
        namespace = quota.metadata.namespace or ""
        used: Usage = dict.fromkeys(hard, 0)
        changed = {change.key: change for change in changes if change.key[1] == namespace}
        for resource in resources_behind(hard):
            kind = self._kinds.get(resource)
            if kind is None:
                continue
            present = [entry for entry in self._store.scan_latest(resource, namespace) if entry.key not in changed]
            objects = [self._object(kind, entry) for entry in present]
            objects += [one.obj for key, one in changed.items() if key[0] == resource and not one.delete]
            for obj in objects:
                if counts(quota, obj):
                    for name, amount in usage_of(kind, obj).items():
                        if name in used:
                            used[name] += amount
        quota.status = type(quota.status)(hard=dict(hard) or None, used=dict(to_wire(used)) or None)

    def _object(self, kind: Kind[Any], entry: StoredEntry) -> Object | None:
        return codec.read(kind, entry.data) if kind.resource in _MEASURED else None

    def _quota(self, namespace: str, name: str) -> tuple[ResourceQuota, int] | None:
        entry = self._store.latest((_QUOTAS, namespace, name))
        return None if entry is None else (codec.read(RESOURCE_QUOTAS, entry.data), entry.revision)

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource != _QUOTAS or event.type != "DELETED":
            return
        if self._store.latest(entry.key) is None:
            names = self._names.get(entry.namespace, set())
            names.discard(entry.name)
            if not names:
                self._names.pop(entry.namespace, None)


class _Accounts:
    """The quotas that one transaction touches, each read once; ``own`` are written by the transaction itself."""

    def __init__(self, read: Callable[[str, str], tuple[ResourceQuota, int] | None], own: set[tuple[str, ...]]) -> None:
        self._read, self._own = read, own
        self._found: dict[tuple[str, str], tuple[ResourceQuota, int] | None] = {}
        self._touched: set[tuple[str, str]] = set()

    def quota(self, namespace: str, name: str) -> ResourceQuota | None:
        """The quota, unless the transaction writes it anyway."""
        key = namespace, name
        if key in self._own:
            return None
        if key not in self._found:
            self._found[key] = self._read(namespace, name)
        found = self._found[key]
        return found[0] if found else None

    def add(self, quota: ResourceQuota, difference: Usage) -> None:
        """Change what is used of the resources that the quota limits."""
        hard = quota.status.hard or {}
        moved = {name: amount for name, amount in difference.items() if amount and name in hard}
        if not moved:
            return
        used = resource_list(quota.status.used)
        now = {name: max(0, used.get(name, 0) + amount) for name, amount in moved.items()}
        quota.status.used = {**(quota.status.used or {}), **to_wire(now)}
        self._touched.add((quota.metadata.namespace or "", quota.metadata.name))

    def changes(self) -> list[Change]:
        """Writes of the quotas that are not as they were."""
        found = [self._found[key] for key in sorted(self._touched)]
        return [_change(quota, revision) for one in found if one for quota, revision in (one,)]


def _change(quota: ResourceQuota, revision: int) -> Change:
    key = (_QUOTAS, quota.metadata.namespace or "", quota.metadata.name)
    return Change(key, revision, lambda assigned: codec.write(quota, assigned), obj=quota)
