"""Watch events into the cluster state, never while a cycle reads it.

The engine works on a view of `ClusterState` in another thread. Meanwhile every change waits here in order and is
applied when the cycle is over; so are assumptions and their ends. What writers need of an object and the state does not
keep (resourceVersion, conditions with their times, annotations) is kept here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from unisono.api import kinds
from unisono.api.annotations import SET_ASIDE, VERDICT
from unisono.api.base import Object
from unisono.api.conditions import is_true
from unisono.api.core import Node, Pod, PodCondition
from unisono.api.groups.calendar import Reservation
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.kind import Kind
from unisono.api.pod_states import has_ended
from unisono.cluster.state import ClusterState
from unisono.gc_pauses import collector_paused
from unisono.kube.client import EventType
from unisono.kube.informer import is_newer
from unisono.kube.reflector import Sink

_log = structlog.get_logger(__name__)

KINDS: tuple[Kind[Any], ...] = (
    kinds.NODES, kinds.HYPER_NODES, kinds.NUMATOPOLOGIES, kinds.FLOATING_RESOURCES, kinds.BUDGETS, kinds.PRICE_LISTS,
    kinds.PRIORITY_CLASSES, kinds.NAMESPACES, kinds.STORAGE_CLASSES, kinds.PERSISTENT_VOLUMES,
    kinds.PERSISTENT_VOLUME_CLAIMS, kinds.CSI_NODES, kinds.CSI_DRIVERS, kinds.CSI_STORAGE_CAPACITIES,
    kinds.VOLUME_ATTACHMENTS, kinds.DEVICE_CLASSES, kinds.RESOURCE_SLICES, kinds.RESOURCE_CLAIMS, kinds.QUEUES,
    kinds.RESERVATIONS, kinds.TEMPORARY_QUOTAS, kinds.NODE_CHECKS, kinds.RESOURCE_QUOTAS, kinds.POD_DISRUPTION_BUDGETS,
    kinds.POD_GROUPS, kinds.PODS,
)  # fmt: skip
"""What scheduling reads."""

OPTIONAL: dict[Kind[Any], float] = {
    kinds.CSI_DRIVERS: 60.0,
    kinds.CSI_STORAGE_CAPACITIES: 60.0,
    kinds.VOLUME_ATTACHMENTS: 60.0,
    kinds.HYPER_NODES: 60.0,
    kinds.FLOATING_RESOURCES: 60.0,
    kinds.BUDGETS: 60.0,
    kinds.PRICE_LISTS: 60.0,
    kinds.NUMATOPOLOGIES: 60.0,
    kinds.DEVICE_CLASSES: 60.0,
    kinds.RESOURCE_SLICES: 60.0,
    kinds.RESOURCE_CLAIMS: 60.0,
    kinds.RESERVATIONS: 60.0,
    kinds.TEMPORARY_QUOTAS: 60.0,
    kinds.NODE_CHECKS: 60.0,
}
"""Kinds that a cluster may not have, and seconds after which they are looked for again."""


@dataclass(frozen=True, slots=True)
class PendingPod:
    """What a writer needs of a pod that has no node yet."""

    uid: str
    version: str
    created: str
    conditions: tuple[PodCondition, ...]
    nominated_node: str

    @property
    def scheduled_condition(self) -> PodCondition | None:
        """Its condition PodScheduled."""
        return next((condition for condition in self.conditions if condition.type == "PodScheduled"), None)


class _Records(Protocol):
    def put(self, obj: Any) -> None: ...

    def remove(self, key: str) -> None: ...

    def known_keys(self) -> list[str]: ...


class _Kept(dict[str, Any]):
    """Whole objects by key."""

    def put(self, obj: Object) -> None:
        self[obj.key] = obj

    def remove(self, key: str) -> None:
        self.pop(key, None)

    def known_keys(self) -> list[str]:
        return list(self)


class _PendingPods(dict[str, PendingPod]):
    """Slim records of pods without a node."""

    def put(self, pod: Pod) -> None:
        meta, status = pod.metadata, pod.status
        if pod.spec.node_name or has_ended(pod):
            self.pop(pod.key, None)
            return
        self[pod.key] = PendingPod(
            uid=meta.uid or "",
            version=meta.resource_version or "",
            created=meta.creation_timestamp or "",
            conditions=tuple(status.conditions or ()),
            nominated_node=status.nominated_node_name or "",
        )

    def remove(self, key: str) -> None:
        self.pop(key, None)

    def known_keys(self) -> list[str]:
        return list(self)


class _Nodes(set[str]):
    """Keys alone, and which of them say that they are set aside."""

    def __init__(self) -> None:
        super().__init__()
        self.marked: set[str] = set()
        self.addresses: dict[str, tuple[str, ...]] = {}

    def put(self, obj: Node) -> None:
        self.add(obj.key)
        self.addresses[obj.key] = tuple(one.address for one in obj.status.addresses or ())
        if is_true(obj.status.conditions, SET_ASIDE):
            self.marked.add(obj.key)
        else:
            self.marked.discard(obj.key)

    def remove(self, key: str) -> None:
        self.discard(key)
        self.marked.discard(key)
        self.addresses.pop(key, None)

    def known_keys(self) -> list[str]:
        return list(self)


class Guests(Protocol):
    """What pods owe to promises that were made to them before they came."""

    def seen(self, event_type: EventType, pod: Pod) -> Pod:
        """The pod as the state is to see it; called where the state may be changed."""
        ...


class Feed:
    """The one way into a `ClusterState`.

    Attributes:
        state: the cluster.
        groups, queues, reservations: latest PodGroups, Queues and Reservations by key.
        pods: pods without a node by key.
        nodes: names of the nodes.
        marked_nodes: those that carry the condition of nodes that are set aside.
        explained: keys of PodGroups that carry a verdict.
        events: changes taken in since the start.
        arrivals: pods and PodGroups that came while watching.
        arrived: is told of each of those pods that has no node yet.
        guests: sees each pod before the state does; None for none.
    """

    def __init__(self, state: ClusterState, changed: Callable[[], None]) -> None:
        """``changed`` is called after every change, also while changes wait."""
        self.state = state
        groups, queues, pods, nodes = _Kept(), _Kept(), _PendingPods(), _Nodes()
        reservations = _Kept()
        self.groups: dict[str, PodGroup] = groups
        self.queues: dict[str, Queue] = queues
        self.reservations: dict[str, Reservation] = reservations
        self.pods: dict[str, PendingPod] = pods
        self.nodes: set[str] = nodes
        self.marked_nodes = nodes.marked
        self._addresses = nodes.addresses
        self.explained: set[str] = set()
        self.events = self.arrivals = 0
        self.arrived: Callable[[Pod], None] | None = None
        self.guests: Guests | None = None
        self._changed = changed
        self._records: dict[str, _Records] = {
            kinds.POD_GROUPS.kind: groups,
            kinds.QUEUES.kind: queues,
            kinds.RESERVATIONS.kind: reservations,
            kinds.PODS.kind: pods,
            kinds.NODES.kind: nodes,
        }
        self._held: deque[Callable[[], None]] | None = None

    def nodes_known_as(self) -> dict[str, str]:
        """Node by its name, and by each of its addresses that no other node has."""
        owners: dict[str, str] = {}
        for name, addresses in self._addresses.items():
            for address in addresses:
                owners[address] = "" if owners.get(address, name) != name else name
        return {**{address: name for address, name in owners.items() if name}, **{name: name for name in self.nodes}}

    def sink(self, kind: Kind[Any]) -> Sink[Any]:
        """Where a reflector of ``kind`` puts what it reads."""
        return _Sink(self, kind)

    def do(self, change: Callable[[], None]) -> None:
        """Run ``change`` now, or after the cycle that is reading the state."""
        if self._held is None:
            change()
        else:
            self._held.append(change)
        self._changed()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """While inside, changes wait; at the end they are applied in order."""
        if self._held is not None:
            raise RuntimeError("a cycle is reading the state already")
        self._held = deque()
        try:
            yield
        finally:
            held, self._held = self._held, None
            for change in held:
                try:
                    change()
                except Exception:  # the others must not be lost with it
                    _log.exception("feed.change_failed")

    def learn(self, kind: Kind[Any], obj: Object) -> None:
        """Take in the answer to one's own write before its watch event comes."""

        def change() -> None:
            current = self._known(kind, obj.key)
            if current is not None and current.metadata.uid == obj.metadata.uid:
                self.take(kind, "MODIFIED", obj)

        self.do(change)

    def take(self, kind: Kind[Any], event_type: EventType, obj: Object) -> None:
        """Apply one change now (called through `do`)."""
        self.events += 1
        records = self._records.get(kind.kind)
        if records is not None:
            if event_type == "DELETED":
                records.remove(obj.key)
            else:
                current = self._known(kind, obj.key)
                if current is not None and current.metadata.uid == obj.metadata.uid and not is_newer(obj, current):
                    return
                if not self._put(records, kind, obj):
                    return
            self._note_verdict(kind, obj.key)
        if self.guests is not None and isinstance(obj, Pod):
            obj = self.guests.seen(event_type, obj)
        self.state.apply(event_type, kind, obj)

    def refuse(self, kind: Kind[Any], obj: Object, why: str) -> None:
        """Set an object aside now that could not be decoded (called through `do`)."""
        self.events += 1
        records = self._records.get(kind.kind)
        if records is None or self._put(records, kind, obj):
            self.state.reject(kind, obj, why)

    def _put(self, records: _Records, kind: Kind[Any], obj: Object) -> bool:
        """Keep what writers need of an object; False when that cannot be done, and the object is set aside."""
        try:
            records.put(obj)
        except Exception as error:
            _log.exception("feed.put_failed", kind=kind.kind, key=obj.key)
            records.remove(obj.key)
            self.state.reject(kind, obj, str(error) or type(error).__name__)
            return False
        return True

    def take_all(self, kind: Kind[Any], objects: Sequence[Object], unread: Sequence[tuple[Object, str]] = ()) -> None:
        """Apply a complete list now (called through `do`)."""
        self.events += len(objects)
        records = self._records.get(kind.kind)
        refused = list(unread)
        taken = objects
        if records is not None:
            listed = {obj.key for obj in objects} | {obj.key for obj, _ in unread}
            for key in records.known_keys():
                if key not in listed:
                    records.remove(key)
                    self._note_verdict(kind, key)
            taken = []
            for obj in objects:
                try:
                    records.put(obj)
                    taken.append(obj)
                except Exception as error:
                    _log.exception("feed.put_failed", kind=kind.kind, key=obj.key)
                    records.remove(obj.key)
                    refused.append((obj, str(error) or type(error).__name__))
                self._note_verdict(kind, obj.key)
        if self.guests is not None and kind.kind == kinds.PODS.kind:
            guests = self.guests
            taken = [guests.seen("ADDED", pod) for pod in taken if isinstance(pod, Pod)]
        with collector_paused():
            self.state.replace(kind, taken)
        for obj, why in refused:
            self.refuse(kind, obj, why)

    def _known(self, kind: Kind[Any], key: str) -> Object | None:
        if kind.kind == kinds.POD_GROUPS.kind:
            return self.groups.get(key)
        return self.queues.get(key) if kind.kind == kinds.QUEUES.kind else None

    def _note_verdict(self, kind: Kind[Any], key: str) -> None:
        if kind.kind != kinds.POD_GROUPS.kind:
            return
        group = self.groups.get(key)
        if group is not None and VERDICT in (group.metadata.annotations or {}):
            self.explained.add(key)
        else:
            self.explained.discard(key)


@dataclass(frozen=True, slots=True)
class _Sink:
    feed: Feed
    kind: Kind[Any]

    def replace(self, objects: Sequence[Object], unread: Sequence[tuple[Object, str]] = ()) -> None:
        self.feed.do(lambda: self.feed.take_all(self.kind, objects, unread))

    def refuse(self, obj: Object, why: str) -> None:
        self.feed.do(lambda: self.feed.refuse(self.kind, obj, why))

    def apply(self, event_type: EventType, obj: Object) -> None:
        if event_type == "ADDED" and self.kind in (kinds.PODS, kinds.POD_GROUPS):
            self.feed.arrivals += 1
            if self.feed.arrived is not None and isinstance(obj, Pod) and not obj.spec.node_name:
                self.feed.arrived(obj)
        self.feed.do(lambda: self.feed.take(self.kind, event_type, obj))
