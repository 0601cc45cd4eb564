"""``MemoryClient``: a ``kube.Client`` over a dict, with the write rules of a Kubernetes API server.

It keeps resourceVersions, refuses stale ones, watches with history, applies selectors, merge and JSON
patches, the status subresource rule, finalizers and grace periods. It does not validate and sets no defaults.

For tests: ``writes`` lists every write, ``interceptor`` may raise an error before any call, ``put`` stores an
object as it is (status included), ``drop_watches`` and ``compact`` disturb watchers, ``collect_garbage``
removes orphans.
"""

from __future__ import annotations

import asyncio
import bisect
import datetime
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from support.selectors import match_fields, match_labels
from support.virtual_clock import VirtualClock
from unisono.api.base import Object
from unisono.api.documents import apply_json_patch, apply_merge_patch, clone
from unisono.api.kind import Kind
from unisono.errors import AlreadyExists, Conflict, Gone, NotFound, Replaced
from unisono.kube.client import EventType, Listing, PatchType, Propagation, WatchEvent
from unisono.kube.pace import WritePace

T = TypeVar("T", bound=Object)
Interceptor = Callable[[str, str, str, str], None]
_READS = ("get", "list", "watch")
_GENERATED = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class Write:
    """One write: operation (create, patch, delete, bind), plural, key, body and subresource."""

    operation: str
    resource: str
    key: str
    body: Any = None
    subresource: str | None = None


@dataclass(frozen=True)
class _Change:
    version: int
    name: tuple[str, str]
    type: EventType
    value: dict[str, Any]
    old: dict[str, Any]

    def shown(self, kind: Kind[Any], namespace: str | None, labels: str, fields: str) -> EventType | None:
        """The event that a watch with these selectors sees: updates may enter or leave the selection."""
        if self.name != (kind.group, kind.plural):
            return None
        was = bool(self.old) and _selected(self.old, namespace, labels, fields)
        now = _selected(self.value, namespace, labels, fields)
        if self.type == "DELETED":
            return "DELETED" if was or now else None
        if now:
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else None


@dataclass
class _Record:
    kind: Kind[Any]
    value: dict[str, Any]


class MemoryClient:
    """In-memory ``Client``; one instance is one API server."""

    def __init__(self, clock: VirtualClock | None = None, seed: int = 0) -> None:
        self.clock = clock or VirtualClock()
        self.writes: list[Write] = []
        self.interceptor: Interceptor | None = None
        self.latency = 0.0  # seconds that each write takes
        self.pace = WritePace(self.clock)
        self._rng = random.Random(seed)
        self._version = 0
        self._compacted = 0
        self._objects: dict[tuple[str, str], dict[str, _Record]] = {}
        self._history: list[_Change] = []
        self._watchers: list[asyncio.Event] = []
        self._generation = 0

    # --- Client ---------------------------------------------------------------------------------------------

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        await self._enter("get", kind, namespace, name)
        return _decode(kind, self._record(kind, name, namespace).value)

    async def list(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Listing[T]:
        await self._enter("list", kind, namespace, "")
        items = [
            _decode(kind, record.value)
            for _, record in sorted(self._table(kind).items())
            if _selected(record.value, namespace, label_selector, field_selector)
        ]
        return Listing(items, str(self._version))

    async def watch(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[WatchEvent[T]]:
        await self._enter("watch", kind, namespace, "")
        seen, generation = int(resource_version or 0), self._generation
        wake = asyncio.Event()
        end = [False]

        def expire() -> None:
            end[0] = True
            wake.set()

        timer = self.clock.call_later(timeout_seconds, expire) if timeout_seconds else None
        self._watchers.append(wake)
        try:
            while generation == self._generation and not end[0]:
                if seen < self._compacted:
                    raise Gone(f"too old resource version: {seen} ({self._compacted})")
                # Cleared before reading: an event that comes while the caller handles one wakes us again.
                wake.clear()
                for change in self._since(seen):
                    seen = change.version
                    shown = change.shown(kind, namespace, label_selector, field_selector)
                    if shown is not None:
                        yield WatchEvent(shown, _decode(kind, change.value))
                await wake.wait()
        finally:
            self._watchers.remove(wake)
            if timer is not None:
                timer.cancel()

    async def create(self, kind: Kind[T], obj: T, *, dry_run: bool = False) -> T:
        value = _encode(kind, obj)
        meta = value.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + "".join(self._rng.choices(_GENERATED, k=5))
        await self._enter("create", kind, meta.get("namespace"), meta["name"])
        if kind.status_subresource:
            value.pop("status", None)
        if not dry_run:
            self.writes.append(Write("create", kind.plural, _key(meta), value))
            self._insert(kind, value)
        return _decode(kind, value)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        patch_type: PatchType = "merge",
    ) -> T:
        await self._enter("patch", kind, namespace, name)
        record = self._record(kind, name, namespace)
        old = record.value
        if patch_type == "strategic" and isinstance(patch, Mapping):
            new = _merge_strategically(old, patch)
        else:
            new = clone(apply_merge_patch(old, patch)) if isinstance(patch, Mapping) else apply_json_patch(old, patch)
        self.writes.append(Write("patch", kind.plural, _key(old["metadata"]), patch, subresource))
        if isinstance(patch, Mapping):
            wanted = (patch.get("metadata") or {}).get("resourceVersion")
            if wanted is not None and wanted != old["metadata"]["resourceVersion"]:
                raise _conflict(kind, name)
            if (patch.get("metadata") or {}).get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
                raise Replaced(f'{kind.kind} "{name}" is invalid: metadata.uid: Invalid value: field is immutable')
        return _decode(kind, self._update(kind, record, new, subresource))

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        await self._enter("delete", kind, namespace, name)
        record = self._record(kind, name, namespace)
        meta = record.value["metadata"]
        if uid is not None and meta["uid"] != uid:
            raise Conflict(f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']})")
        self.writes.append(Write("delete", kind.plural, _key(meta), {"gracePeriodSeconds": grace_seconds}))
        self._delete(kind, record, grace_seconds)

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        await self._enter_named("bind", "pods", namespace, pod)
        record = self._objects.get(("", "pods"), {}).get(f"{namespace}/{pod}")
        if record is None:
            raise NotFound(f'pods "{pod}" not found')
        self.writes.append(Write("bind", "pods", f"{namespace}/{pod}", node))
        value = msgspec.json.decode(msgspec.json.encode(record.value))
        bound = value.setdefault("spec", {}).get("nodeName")
        prefix = f'Operation cannot be fulfilled on pods/binding "{pod}": '
        if uid is not None and value["metadata"]["uid"] != uid:
            raise Conflict(f"{prefix}the UID in the precondition ({uid}) does not match")
        if value["metadata"].get("deletionTimestamp"):
            raise Conflict(f"{prefix}pod {pod} is being deleted, cannot be assigned to a host")
        if bound:
            raise Conflict(f'{prefix}pod {pod} is already assigned to node "{bound}"')
        value["spec"]["nodeName"] = node
        if annotations:
            value["metadata"].setdefault("annotations", {}).update(annotations)
        status = value.setdefault("status", {})
        others = [c for c in status.get("conditions") or [] if c["type"] != "PodScheduled"]
        status["conditions"] = [*others, {"type": "PodScheduled", "status": "True"}]
        self._store(record, value)

    async def evict(
        self, namespace: str, pod: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        await self._enter_named("evict", "pods", namespace, pod)
        record = self._objects.get(("", "pods"), {}).get(f"{namespace}/{pod}")
        if record is None:
            raise NotFound(f'pods "{pod}" not found')
        if uid is not None and record.value["metadata"]["uid"] != uid:
            raise Conflict(f"the UID in the precondition ({uid}) does not match")
        self.writes.append(Write("evict", "pods", f"{namespace}/{pod}", {"gracePeriodSeconds": grace_seconds}))
        self._delete(record.kind, record, grace_seconds)

    async def close(self) -> None:
        self.drop_watches()

    # --- for tests ------------------------------------------------------------------------------------------

    def put(self, kind: Kind[T], obj: T) -> T:
        """Store an object with its status, creating or replacing it, without counting as a write."""
        value = _encode(kind, obj)
        record = self._table(kind).get(_key(value["metadata"]))
        if record is None:
            self._insert(kind, value)
            return _decode(kind, value)
        for field in ("uid", "creationTimestamp", "resourceVersion"):
            value["metadata"][field] = record.value["metadata"][field]
        self._store(record, value)
        return _decode(kind, value)

    def remove(self, kind: Kind[Any], key: str) -> None:
        """Delete at once, whatever finalizers and grace say."""
        record = self._table(kind)[key]
        del self._table(kind)[key]
        self._event("DELETED", kind, record.value, record.value)

    def objects(self, kind: Kind[T]) -> list[T]:
        """All objects of a kind, by key."""
        return [_decode(kind, record.value) for _, record in sorted(self._table(kind).items())]

    def find(self, kind: Kind[T], key: str) -> T | None:
        """One object, or None."""
        record = self._table(kind).get(key)
        return _decode(kind, record.value) if record else None

    def raw(self, kind: Kind[Any], key: str) -> dict[str, Any]:
        """The stored JSON of one object."""
        return self._table(kind)[key].value

    def drop_watches(self) -> None:
        """End every open watch, as a restarting server does."""
        self._generation += 1
        self._wake()

    def compact(self) -> None:
        """Forget the history: watches from older versions get Gone."""
        self._compacted = self._version
        self._history.clear()

    def collect_garbage(self) -> int:
        """Delete objects whose owners are all gone, until nothing changes; returns how many went."""
        removed = 0
        while True:
            uids = {r.value["metadata"]["uid"] for table in self._objects.values() for r in table.values()}
            orphans = [
                record
                for table in self._objects.values()
                for record in table.values()
                if (owners := record.value["metadata"].get("ownerReferences"))
                and not any(owner["uid"] in uids for owner in owners)
                and not record.value["metadata"].get("deletionTimestamp")
            ]
            for record in orphans:
                self._delete(record.kind, record, None)
            removed += len(orphans)
            if not orphans:
                return removed

    # --- inside ---------------------------------------------------------------------------------------------

    async def _enter(self, operation: str, kind: Kind[Any], namespace: str | None, name: str) -> None:
        await self._enter_named(operation, kind.plural, namespace or "", name)

    async def _enter_named(self, operation: str, resource: str, namespace: str, name: str) -> None:
        await asyncio.sleep(0)
        if self.latency and operation not in _READS:
            with self.pace.write():
                await self.clock.sleep(self.latency)
        if self.interceptor is not None:
            self.interceptor(operation, resource, namespace, name)

    def _table(self, kind: Kind[Any]) -> dict[str, _Record]:
        return self._objects.setdefault((kind.group, kind.plural), {})

    def _record(self, kind: Kind[Any], name: str, namespace: str | None) -> _Record:
        record = self._table(kind).get(f"{namespace}/{name}" if kind.namespaced and namespace else name)
        if record is None:
            raise NotFound(f'{kind.resource} "{name}" not found')
        return record

    def _insert(self, kind: Kind[Any], value: dict[str, Any]) -> None:
        meta = value["metadata"]
        key = _key(meta)
        if key in self._table(kind):
            raise AlreadyExists(f'{kind.resource} "{meta["name"]}" already exists')
        self._version += 1
        meta["uid"] = meta.get("uid") or f"{self._rng.getrandbits(128):032x}"
        meta["creationTimestamp"] = meta.get("creationTimestamp") or _timestamp(self.clock.time())
        meta["generation"] = 1
        meta["resourceVersion"] = str(self._version)
        self._table(kind)[key] = _Record(kind, value)
        self._event("ADDED", kind, value, {})

    def _update(self, kind: Kind[Any], record: _Record, new: dict[str, Any], subresource: str | None) -> dict[str, Any]:
        old = record.value
        if subresource == "status":
            meta = {**old["metadata"]}
            new = {**old, "metadata": meta, "status": new.get("status", {})}
        elif kind.status_subresource:
            new = {**new, "status": old["status"]} if "status" in old else _without(new, "status")
        for field in (
            "uid",
            "name",
            "namespace",
            "creationTimestamp",
            "resourceVersion",
            "deletionTimestamp",
        ):
            if field in old["metadata"]:
                new["metadata"][field] = old["metadata"][field]
        if new == old:
            return old
        if _outside_status(new) != _outside_status(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        return self._store(record, new)

    def _store(self, record: _Record, value: dict[str, Any]) -> dict[str, Any]:
        old, meta = record.value, value["metadata"]
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        record.value = value
        if meta.get("deletionTimestamp") and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds"):
            del self._table(record.kind)[_key(meta)]
            self._event("DELETED", record.kind, value, old)
        else:
            self._event("MODIFIED", record.kind, value, old)
        return value

    def _delete(self, kind: Kind[Any], record: _Record, grace_seconds: int | None) -> None:
        value = msgspec.json.decode(msgspec.json.encode(record.value))
        meta, spec = value["metadata"], value.get("spec", {})
        graceful = (kind.group, kind.plural) == ("", "pods") and spec.get("nodeName")
        phase = value.get("status", {}).get("phase")
        grace = grace_seconds
        if grace is None:
            grace = spec.get("terminationGracePeriodSeconds", 30)
        if not graceful or phase in ("Succeeded", "Failed"):
            grace = 0
        if meta.get("deletionTimestamp"):
            grace = min(grace, meta.get("deletionGracePeriodSeconds") or 0)
        if meta.get("deletionTimestamp") and grace == (meta.get("deletionGracePeriodSeconds") or 0):
            return
        meta["deletionTimestamp"] = _timestamp(self.clock.time() + grace)
        meta["deletionGracePeriodSeconds"] = grace
        self._store(record, value)

    def _event(self, event_type: EventType, kind: Kind[Any], value: dict[str, Any], old: dict[str, Any]) -> None:
        if event_type == "DELETED":
            self._version += 1
            value = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self._version)}}
        frozen = msgspec.json.decode(msgspec.json.encode(value))
        self._history.append(_Change(self._version, (kind.group, kind.plural), event_type, frozen, old))
        self._wake()

    def _since(self, version: int) -> list[_Change]:
        return self._history[bisect.bisect_right(self._history, version, key=lambda change: change.version) :]

    def _wake(self) -> None:
        for watcher in self._watchers:
            watcher.set()


def _encode(kind: Kind[Any], obj: Object) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
    return {**value, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": value.get("metadata", {})}


def _decode(kind: Kind[T], value: dict[str, Any]) -> T:
    return msgspec.json.decode(msgspec.json.encode(value), type=kind.struct)


def _key(meta: Mapping[str, Any]) -> str:
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _selected(value: dict[str, Any], namespace: str | None, labels: str, fields: str) -> bool:
    meta = value["metadata"]
    if namespace and meta.get("namespace") != namespace:
        return False
    return match_labels(labels, meta.get("labels") or {}) and match_fields(fields, value)


def _without(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != key}


def _outside_status(value: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in ("metadata", "status")}


def _conflict(kind: Kind[Any], name: str) -> Conflict:
    return Conflict(
        f'Operation cannot be fulfilled on {kind.resource} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


def _timestamp(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _merge_strategically(target: Mapping[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """As far as components use it: conditions of the status are merged by type, the rest as by a merge patch."""
    merged: dict[str, Any] = clone(apply_merge_patch(dict(target), patch))
    wanted = (patch.get("status") or {}).get("conditions")
    if wanted:
        named = {one["type"] for one in wanted}
        others = [one for one in (target.get("status") or {}).get("conditions") or () if one["type"] not in named]
        merged["status"]["conditions"] = [*others, *wanted]
    return merged
