"""Which followed object a pod belongs to, also after the objects between the two are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.membership import pod_group_of
from unisono.errors import ApiError
from unisono.jobkinds.registry import between
from unisono.kube.informer import Informer, is_newer
from unisono.sdk.state.dependents import Dependents, collect, group_selector, owners_of, pod_selector

if TYPE_CHECKING:
    from unisono.api.base import Object
    from unisono.api.core import Pod
    from unisono.api.kind import Kind
    from unisono.kube.client import Client, EventType
    from unisono.sdk.follow.events import Target

T = TypeVar("T")


class OwnerGraph(Generic[T]):
    """Remembers owner references.

    Args:
        roots: what to find, by the UID of its object.

    """

    def __init__(self, roots: Iterable[tuple[str, T]]) -> None:
        self._roots = dict(roots)
        self._owners: dict[str, tuple[str, ...]] = {}

    def add(self, obj: Object) -> None:
        """Remember the owners of an object that may stand between a root and its pods."""
        self._owners[obj.metadata.uid or ""] = _owner_uids(obj)

    def root_of(self, obj: Object) -> T | None:
        """The root that is the object or owns it, directly or through others; None without one."""
        uids = [obj.metadata.uid or "", *_owner_uids(obj)]
        for uid in uids:
            if uid in self._roots:
                return self._roots[uid]
            uids += [owner for owner in self._owners.get(uid, ()) if owner not in uids]
        return None


def _owner_uids(obj: Object) -> tuple[str, ...]:
    return tuple(owner.uid for owner in obj.metadata.owner_references or ())


# Informers of followed objects and of everything that belongs to them.

# A kind that is not served, or that the user may not read, counts as one without objects for so long.
_ABSENT_SECONDS = 30.0
# The server keeps the log of a deleted pod for about so long.
_RETENTION_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Source:
    """An informer with what it selects."""

    informer: Informer[Any]
    labels: str
    fields: str


class TargetInformers:
    """Keeps targets and their dependents current.

    Args:
        client: the server.
        objects: the targets, each with its object as last read.

    Attributes:
        changed: set after every change; the reader clears it.

    """

    def __init__(self, client: Client, objects: Mapping[Target, Object]) -> None:
        self.changed = asyncio.Event()
        self._client = client
        self._last = dict(objects)
        self._uids = {obj.metadata.uid or "": target for target, obj in objects.items()}
        self._owners = OwnerGraph(self._uids.items())
        self._deleted_pods: list[tuple[float, Pod]] = []
        self._deleted_uids: set[str] | None = None
        namespaces = {target.namespace for target in objects}
        self._namespace = next(iter(namespaces)) if len(namespaces) == 1 else None
        parts = {kind.resource: kind for target in objects for kind in between(target.kind.resource)}
        kinds = {target.kind.resource: target.kind for target in objects}
        # Of one target less than the whole namespace may be enough.
        single = next(iter(objects.items())) if len(objects) == 1 else None
        name = f"metadata.name={single[0].name}" if single else ""
        self._sources: dict[str, _Source] = {}
        self._made = {resource: self._add(kind, absent=resource not in kinds) for resource, kind in parts.items()}
        for informer in self._made.values():
            informer.on_change(lambda _, part, __: self._owners.add(part))
        for resource, kind in kinds.items():
            if resource not in self._sources and kind is not PODS:
                self._add(kind, fields=name)
        labels = pod_selector(single[0].kind.resource, single[1]) if single and not parts else ""
        self._pods = self._add(PODS, labels=labels, fields=name if PODS.resource in kinds else "")
        fields = group_selector(single[0].kind.resource, single[1]) if single else ""
        self._groups = self._add(POD_GROUPS, fields=fields, absent=POD_GROUPS.resource not in kinds)

    def _add(self, kind: Kind[Any], *, labels: str = "", fields: str = "", absent: bool = False) -> Informer[Any]:
        seconds = _ABSENT_SECONDS if absent else None
        informer = Informer(self._client, kind, self._namespace, labels, fields, absent_seconds=seconds)
        informer.add_index("owner", lambda obj: [owner.uid for owner in obj.metadata.owner_references or ()])
        informer.on_change(self._note_pod if kind is PODS else self._note)
        self._sources[kind.resource] = _Source(informer, labels, fields)
        return informer

    @property
    def targets(self) -> list[Target]:
        """The targets in the order in which they were given."""
        return list(self._last)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch; the body runs when everything was listed once.

        Raises:
            ApiError: the targets or their pods cannot be read.

        """
        for resource in dict.fromkeys([*(target.kind.resource for target in self._last), PODS.resource]):
            # An informer would try for ever.
            kind = self._sources[resource].informer.kind
            await self._client.list(kind, self._namespace, field_selector="metadata.name=-")
        tasks = [asyncio.create_task(source.informer.run()) for source in self._sources.values()]
        try:
            await asyncio.gather(*(source.informer.synced.wait() for source in self._sources.values()))
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def last(self, target: Target) -> tuple[Any, bool]:
        """The newest state of a target, and whether the target still exists."""
        there = self._sources[target.kind.resource].informer.get(target.key)
        last = self._last[target]
        if there is not None and there.metadata.uid == last.metadata.uid:
            return there, True
        return last, False

    def dependents(self, target: Target) -> Dependents:
        """What belongs to a target, or did when it was deleted."""
        last, exists = self.last(target)
        if target.kind.resource == PODS.resource:
            group = self._groups.get(pod_group_of(last))
            return Dependents(groups=[group] if group is not None else [], pods=[last] if exists else [])
        made = {resource: _OwnedBy(informer) for resource, informer in self._made.items()}
        owners = owners_of(target.kind.resource, last, made)
        namespace = target.namespace
        return collect(
            owners, _OwnedBy(self._groups), lambda name: self._groups.get(f"{namespace}/{name}"), _OwnedBy(self._pods)
        )

    def take_deleted_pods(self) -> list[tuple[Target, Pod]]:
        """Pods of the targets that were deleted since the last call."""
        now, kept, found = asyncio.get_running_loop().time(), [], []
        for until, pod in self._deleted_pods:
            target = self._owners.root_of(pod)
            if target is not None:
                found.append((target, pod))
            elif self._made and now < until:
                # Its owner may be heard of later: each kind has a watch of its own.
                kept.append((until, pod))
        self._deleted_pods = kept
        return found

    async def catch_up(self, seconds: float) -> None:
        """Return when the informers have everything that the server has now, or after ``seconds``.

        One watch may lag behind another. A kind that cannot be read is passed over.
        """
        self._deleted_uids = set()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for source in self._sources.values():
                    await self._catch_up(source)
        self._deleted_uids = None

    async def _catch_up(self, source: _Source) -> None:
        kind = source.informer.kind
        try:
            listed = await self._client.list(
                kind, self._namespace, label_selector=source.labels, field_selector=source.fields
            )
        except (ApiError, OSError):
            return
        for obj in listed.items:
            while not self._has(source.informer, obj):
                self.changed.clear()
                await self.changed.wait()

    def _has(self, informer: Informer[Any], obj: Object) -> bool:
        if obj.metadata.uid in (self._deleted_uids or ()):
            return True
        cached = informer.get(obj.key)
        return cached is not None and not is_newer(obj, cached)

    def _note(self, event: EventType, obj: Object, _: Object | None) -> None:
        self.changed.set()
        uid = obj.metadata.uid or ""
        target = self._uids.get(uid)
        if target is not None:
            self._last[target] = obj
        if event == "DELETED" and self._deleted_uids is not None:
            self._deleted_uids.add(uid)

    def _note_pod(self, event: EventType, pod: Pod, _: Pod | None) -> None:
        self._note(event, pod, None)
        if event == "DELETED":
            self._deleted_pods.append((asyncio.get_running_loop().time() + _RETENTION_SECONDS, pod))


class _OwnedBy:
    """The objects of an informer by their owner."""

    def __init__(self, informer: Informer[Any]) -> None:
        self._informer = informer

    def of(self, owner: Object) -> Sequence[Any]:
        return self._informer.by_index("owner", owner.metadata.uid or "")
