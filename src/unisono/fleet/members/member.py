"""The connection to one member: watches, probes, and writes that never wait for another member."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import structlog

from unisono.api.annotations import HUB, ORIGIN_UID
from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Event, Node, Pod
from unisono.api.groups.autoscaling import MACHINE_DEPLOYMENTS, NODE_POOLS
from unisono.api.groups.fleet import AcceleratorSummary, NodeSummary, ResourceSummary
from unisono.api.groups.topology import HyperNode
from unisono.api.keys import GPU_PRODUCT
from unisono.api.kind import Kind
from unisono.api.kinds import EVENTS, HYPER_NODES, NODES, PODS
from unisono.api.resources import to_wire
from unisono.cluster.nodes import NodeTable
from unisono.controllers.owners import whole_number
from unisono.errors import ApiError, Unavailable
from unisono.fleet.hub_state import HubState, lean_node
from unisono.fleet.jobs.decide import MemberView
from unisono.fleet.jobs.translation import cluster_of, is_to_come
from unisono.kube.client import Client, EventType
from unisono.kube.clock import Clock
from unisono.kube.reflector import Reflector

# What a member has and what of it is free, from the hub's state (pure).

_TYPE_LABELS = (GPU_PRODUCT, "accelerator", "gpu")
# Resources of vendors' names that are no accelerators.
_OTHERS = ("hugepages-", "attachable-volumes-", "kubernetes.io/", "requests.", "limits.")


@dataclass(frozen=True, slots=True)
class MemberSummary:
    """Nodes, resources and accelerators of one member."""

    nodes: NodeSummary
    resources: ResourceSummary
    accelerators: list[AcceleratorSummary]


NO_NODES: Final = MemberSummary(NodeSummary(total_num=0, ready_num=0), ResourceSummary(), [])


def accelerator_type(labels: Mapping[str, str]) -> str:
    """The model that a node's labels name; empty where they do not."""
    return next((labels[name] for name in _TYPE_LABELS if labels.get(name)), "")


def is_accelerator(resource: str) -> bool:
    """Whether a resource is a device of a vendor."""
    return "/" in resource and not resource.startswith(_OTHERS)


def summaries(table: NodeTable) -> dict[str, MemberSummary]:
    """Summary by member; nodes of the hub itself are left out."""
    rows: dict[str, list[int]] = defaultdict(list)
    for column, name in enumerate(table.names):
        cluster = cluster_of(name)
        if cluster and not is_to_come(name):
            rows[cluster].append(column)
    return {cluster: _summary(table, columns) for cluster, columns in rows.items()}


def _summary(table: NodeTable, columns: list[int]) -> MemberSummary:
    ready = [column for column in columns if table.ready[column]]
    names = table.registry.names
    whole, used = table.allocatable[:, ready].sum(axis=1), table.used[:, ready].sum(axis=1)
    allocatable = {name: int(whole[row]) for row, name in enumerate(names[: len(whole)]) if whole[row]}
    allocated = {name: int(used[row]) for row, name in enumerate(names[: len(used)]) if used[row]}
    return MemberSummary(
        NodeSummary(total_num=len(columns), ready_num=len(ready)),
        ResourceSummary(allocatable={**to_wire(allocatable)}, allocated={**to_wire(allocated)}),
        _accelerators(table, ready, [name for name in allocatable if is_accelerator(name)]),
    )


def _accelerators(table: NodeTable, ready: list[int], resources: list[str]) -> list[AcceleratorSummary]:
    accelerators: list[AcceleratorSummary] = []
    for resource in sorted(resources):
        row = table.registry.names.index(resource)
        by_type: dict[str, list[int]] = defaultdict(list)
        for column in ready:
            if table.allocatable[row, column]:
                by_type[accelerator_type(table.facts[column].labels)].append(column)
        for model, columns in sorted(by_type.items()):
            total = table.allocatable[row, columns]
            free = (total - table.used[row, columns]).clip(min=0)
            figures = {"total": int(total.sum()), "free": int(free.sum()), "largest": int(free.max())}
            wire = {name: to_wire({resource: amount})[resource] for name, amount in figures.items()}
            accelerators.append(
                AcceleratorSummary(
                    resource=resource,
                    type=model,
                    total=wire["total"],
                    free=wire["free"],
                    largest_free_block=wire["largest"],
                )
            )
    return accelerators


# What a member's reflector feeds: changes one by one, also where it reads a whole list again.

T = TypeVar("T", bound=Object)

MOST_OBJECTS: Final = 300_000
"""Of one kind in one member: twice the pods that Kubernetes is made for."""


class MemberSink(Generic[T]):
    """Knows what was there, so that a list tells what is gone; objects that cannot be read stay as they were.

    Args:
        take: gets each change.
        slim: what is to be kept of an object for its DELETED change.
        most: objects that are taken in; of more, the later ones are not, and the sink is full.

    Attributes:
        full: whether there are more objects than are taken in.
    """

    def __init__(
        self, take: Callable[[EventType, T], None], slim: Callable[[T], T] = lambda obj: obj, most: int = MOST_OBJECTS
    ) -> None:
        self._take, self._slim, self._most = take, slim, most
        self.full = False
        self._known: dict[str, T] = {}

    def replace(self, objects: Sequence[T], unread: Sequence[tuple[T, str]] = ()) -> None:
        """The complete set of objects."""
        listed = {obj.key for obj in objects} | {obj.key for obj, _ in unread}
        for key in [key for key in self._known if key not in listed]:
            self._take("DELETED", self._known.pop(key))
        self.full = False
        for obj in objects:
            self.apply("MODIFIED" if obj.key in self._known else "ADDED", obj)

    def refuse(self, obj: T, why: str) -> None:
        """An object that cannot be read."""

    def apply(self, event_type: EventType, obj: T) -> None:
        """One change."""
        if event_type == "DELETED":
            if self._known.pop(obj.key, None) is None and self.full:
                return
        elif obj.key not in self._known and len(self._known) >= self._most:
            self.full = True
            return
        else:
            self._known[obj.key] = self._slim(obj)
        self._take(event_type, obj)

    def clear(self) -> None:
        """The member has left: all that it had is gone."""
        self.replace([])

    def objects(self) -> list[T]:
        """What is known, as it was kept."""
        return list(self._known.values())


# What members warn of about jobs of the hub: their Events, told on the hub's own objects.

WARNINGS: Final = "type=Warning"
"""Events that are watched, as a field selector."""
MOST_TEXT: Final = 500
_MOST_WORDS: Final = 10

Take = Callable[[Event], None]


class NewsSink:
    """Hands each Event on that is newer than the connection; what was there before has been told, or is old news."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._seen = -1

    def replace(self, objects: Sequence[Event], unread: Sequence[tuple[Event, str]] = ()) -> None:
        """The first list is not told; of later ones what is new."""
        before, first = self._seen, self._seen < 0
        for obj in objects:
            if not first and _version(obj) > before:
                self._take(obj)
            self._seen = max(self._seen, _version(obj))
        self._seen = max(self._seen, 0)

    def refuse(self, obj: Event, why: str) -> None:
        """An Event that cannot be read says nothing."""

    def apply(self, event_type: EventType, obj: Event) -> None:
        """One change."""
        self._seen = max(self._seen, _version(obj))
        if event_type != "DELETED" and obj.type == "Warning":
            self._take(obj)


def beginnings(name: str) -> list[str]:
    """Names of jobs that an object of this name may belong to (``JOB-TASK-0``, ``JOB-UID``), the longest first."""
    words = name.split("-")
    return ["-".join(words[:count]) for count in range(len(words), 0, -1)][:_MOST_WORDS]


def told(cluster: str, event: Event) -> tuple[str, str]:
    """Reason and message on the hub's object."""
    about = event.involved_object
    subject = f"{(about.kind or 'object').lower()}/{about.name}"
    return (event.reason or "MemberWarning")[:64], f"{cluster}: {subject}: {(event.message or '')[:MOST_TEXT]}"


def _version(obj: Event) -> int:
    return whole_number(obj.metadata.resource_version) or 0


_log = structlog.get_logger(__name__)

PROBE_SECONDS = 10.0
"""Time between two probes."""
LOST_SECONDS = 30.0
"""A member that has not answered for so long is lost."""
_PROBE_TIMEOUT = 8.0
_WRITE_TIMEOUT = 20.0
_WRITES = 16
_MOST_VERSION, _MOST_ERROR = 64, 300

Probe = Callable[[], Awaitable[str]]


class Busy(Unavailable):
    """So many writes to the member are under way that one more would wait."""


class Member:
    """One member, from `run` until it is cancelled.

    Attributes:
        version: what its API server calls itself.
        error: why the last probe failed; empty after a success.
        answered: wall time of the last answer, 0.0 before the first.
    """

    def __init__(
        self,
        name: str,
        client: Client,
        probe: Probe,
        state: HubState,
        kinds: tuple[Kind[Any], ...],
        clock: Clock,
        changed: Callable[[str], None],
        news: Callable[[str, Event], None] | None = None,
    ) -> None:
        """``changed`` is called with the member's name when it becomes reachable, synced or lost.

        ``news`` hears of each Event of type Warning.
        """
        self.name, self.client, self._probe_now = name, client, probe
        self._state, self._clock, self._changed = state, clock, changed
        self.version = self.error = ""
        self.answered = 0.0
        self._since = clock.monotonic()
        self._writes = 0
        self._waiting: dict[str, Callable[[], None]] = {}
        # One that did not answer in time gets one write at a time: those who wait for it could be used for others.
        self._is_slow = False
        self._told: MemberView | None = None
        ours = f"{HUB}={state.hub},{ORIGIN_UID}"
        self._sinks: list[MemberSink[Any]] = []
        self._late: list[Reflector[Any]] = []
        self._group: asyncio.TaskGroup | None = None
        self._reflectors: list[Reflector[Any]] = [
            self._reflector(NODES, self._node, slim=lambda node: Node(metadata=ObjectMeta(name=node.metadata.name))),
            self._reflector(HYPER_NODES, self._hyper_node, optional=True),
            self._reflector(PODS, self._pod, slim=_slim_pod),
            *(self._groups_of(kind) for kind in (MACHINE_DEPLOYMENTS, NODE_POOLS)),
            *(self._copies_of(kind, ours) for kind in kinds),
        ]
        # The member takes work whether its Events can be read or not.
        self._news = (
            Reflector(
                client,
                EVENTS,
                NewsSink(lambda event: news(name, event)),
                clock=clock,
                field_selector=WARNINGS,
                absent_seconds=60.0,
            )
            if news is not None
            else None
        )

    def watch(self, kind: Kind[Any]) -> None:
        """Tell of copies of one more kind."""
        reflector = self._copies_of(kind, f"{HUB}={self._state.hub},{ORIGIN_UID}")
        self._late.append(reflector)
        self._state.unread.setdefault(kind.resource, set()).add(self.name)
        if self._group is not None:
            self._group.create_task(self._run_late(reflector))

    async def _run_late(self, reflector: Reflector[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run())
            await reflector.synced.wait()
            self._state.unread.get(reflector.kind.resource, set()).discard(self.name)

    async def run(self) -> None:
        """Watch and probe until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for reflector in self._late:
                group.create_task(self._run_late(reflector))
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            if self._news is not None:
                group.create_task(self._news.run())
            group.create_task(self._probe())

    @property
    def synced(self) -> bool:
        """Whether all that it has is known."""
        return all(reflector.synced.is_set() for reflector in self._reflectors)

    @property
    def lost_seconds(self) -> float:
        """How long it has not answered; 0.0 while that is less than a loss."""
        silent = self._clock.monotonic() - self._since
        return silent if silent >= LOST_SECONDS else 0.0

    def follow(self, before: Member) -> None:
        """It takes another's place: a new connection is no answer."""
        self._since = before._since

    def view(self) -> MemberView:
        """What decisions go by."""
        ready = self.synced and bool(self.answered) and not self.lost_seconds and not self._is_full
        return MemberView(ready, self.lost_seconds)

    @property
    def _is_full(self) -> bool:
        """Whether it shows more objects than the hub takes in, so that what is known of it is not all."""
        return any(sink.full for sink in self._sinks)

    @asynccontextmanager
    async def writing(self) -> Any:
        """A bounded write; raises Busy at once instead of waiting for a slow member.

        Raises:
            Unavailable: it took too long.
        """
        most = 1 if self._is_slow else _WRITES
        if self._writes >= most:
            raise Busy(f"member {self.name} is slow: {self._writes} writes are under way")
        self._writes += 1
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT):
                yield self.client
        except TimeoutError:
            self._is_slow = True
            raise Unavailable(f"member {self.name} did not answer within {_WRITE_TIMEOUT:g} s") from None
        else:
            self._is_slow = False
        finally:
            self._writes -= 1
            self._wake(1)

    def when_free(self, key: str, again: Callable[[], None]) -> None:
        """Call ``again`` when one more write may begin; of several calls for one key the last counts."""
        self._waiting[key] = again

    def _wake(self, most: int) -> None:
        """Tell those who wait, the first first. One of them may write nothing any more, so each probe tells more."""
        for key in list(islice(self._waiting, most)):
            self._waiting.pop(key)()

    def clear(self) -> None:
        """Take all that it had out of the hub's state."""
        self._wake(len(self._waiting))
        for sink in self._sinks:
            sink.clear()

    async def _probe(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_PROBE_TIMEOUT):
                    self.version = (await self._probe_now())[:_MOST_VERSION]
            except (ApiError, OSError, TimeoutError) as error:
                self.error = str(error)[:_MOST_ERROR] or f"no answer within {_PROBE_TIMEOUT:g} s"
            except Exception as error:
                # What answers is no API server, or a broken one; that must end nothing here.
                self.error = f"its answer to /version cannot be read: {str(error)[:_MOST_ERROR]}"
            else:
                self.error, self.answered = "", self._clock.time()
                self._since = self._clock.monotonic()
                if self._is_full:
                    self.error = f"it has more than {MOST_OBJECTS} objects of one kind"
            self._tell()
            # A member that has just joined is ready as soon as it is synced.
            await self._clock.sleep(PROBE_SECONDS if self.synced and not self.error else 1.0)

    def _tell(self) -> None:
        view = self.view()
        self._state.views[self.name] = view
        self._state.absent[self.name] = {
            each.kind.resource: each.is_forbidden for each in (*self._reflectors, *self._late) if each.is_absent
        }
        before, self._told = self._told, view
        if before is None or before.reachable != view.reachable or bool(before.lost_seconds) != bool(view.lost_seconds):
            _log.info("member.changed", member=self.name, reachable=view.reachable, error=self.error)
        self._changed(self.name)
        self._wake(_WRITES)

    # ---- watches

    def _reflector(
        self,
        kind: Kind[Any],
        take: Callable[[EventType, Any], None],
        *,
        slim: Callable[[Any], Any] = lambda obj: obj,
        optional: bool = False,
        labels: str = "",
    ) -> Reflector[Any]:
        sink: MemberSink[Any] = MemberSink(take, slim)
        self._sinks.append(sink)
        absent = 60.0 if optional else None
        return Reflector(
            self.client, kind, sink, clock=self._clock, label_selector=labels, absent_seconds=absent, most=MOST_OBJECTS
        )

    def _groups_of(self, kind: Kind[Any]) -> Reflector[Any]:
        def take(event_type: EventType, obj: Any) -> None:
            self._state.node_group(self.name, event_type, obj)

        return self._reflector(kind, take, optional=True)

    def _copies_of(self, kind: Kind[Any], labels: str) -> Reflector[Any]:
        def take(event_type: EventType, obj: Any) -> None:
            self._state.copy(self.name, kind, event_type, obj)

        return self._reflector(kind, take, optional=True, labels=labels)

    def _node(self, event_type: EventType, obj: Node) -> None:
        self._state.node(self.name, event_type, lean_node(obj))

    def _hyper_node(self, event_type: EventType, obj: HyperNode) -> None:
        self._state.hyper_node(self.name, event_type, obj)

    def _pod(self, event_type: EventType, obj: Pod) -> None:
        self._state.pod(self.name, event_type, obj)


def _slim_pod(pod: Pod) -> Pod:
    """What is needed to forget it: its names and its origin."""
    meta, labels = pod.metadata, pod.metadata.labels or {}
    if ORIGIN_UID in labels:
        return Pod(
            metadata=ObjectMeta(
                name=meta.name, namespace=meta.namespace, labels=meta.labels, annotations=meta.annotations
            )
        )
    return Pod(metadata=ObjectMeta(name=meta.name, namespace=meta.namespace))
