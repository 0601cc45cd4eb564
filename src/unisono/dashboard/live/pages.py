"""One class per page: which changes concern it, and its view as of now."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from unisono.api.kind_families import ATTACHED_CLUSTERS
from unisono.api.kinds import LEASES, NODES, POD_GROUPS, QUEUES
from unisono.api.times import time_or
from unisono.dashboard.live.configuration import configuration_of, may
from unisono.dashboard.live.explaining import actions_of, events_of, explanation_of, usage_of
from unisono.dashboard.live.jobs import TOPICS
from unisono.dashboard.live.world import NODE_TOPICS, OVERVIEW_TOPICS, World
from unisono.dashboard.views.explanation import with_people
from unisono.dashboard.views.nodes import NodeQuery, nodes_view
from unisono.dashboard.views.overview import fleet_view, scheduler_view
from unisono.dashboard.views.rows import group_row, job_row, key_of, pod_row, queues_view
from unisono.dashboard.views.table import ME, Query, counted, natural
from unisono.dashboard.views.why import EventRow, ExplanationView
from unisono.dashboard.views.wire import JobView, Wire
from unisono.errors import ApiError
from unisono.fleet.jobs.copies import placement_of
from unisono.jobkinds.registry import JOB_KINDS, has_ended

if TYPE_CHECKING:
    from unisono.api.groups.scheduling import PodGroup
    from unisono.api.kind import Kind

# Pods of one job that its page gets; their number and phases are told of all.
_MOST_PODS = 1000


class Page(Protocol):
    """A page that is open.

    Attributes:
        topics: what it waits for (`unisono.dashboard.live.world.World.signal`).
        pause: seconds between two looks.
    """

    topics: Collection[str]
    pause: float

    async def view(self) -> Wire:
        """The view as of now."""
        ...

    async def close(self) -> None:
        """It was left."""
        ...


class JobsPage:
    """The table of jobs."""

    pause = 0.1

    def __init__(self, world: World, query: Query) -> None:
        if query.user == ME:
            query = msgspec.structs.replace(query, user=world.user)
        self._world, self._query = world, query
        self.topics: Collection[str] = TOPICS

    async def view(self) -> Wire:
        """The window that the query asks for."""
        return self._world.tables.view(self._query, ready=self._world.ready)

    async def close(self) -> None:
        """Nothing is kept for it."""


class OverviewPage:
    """The cluster at a glance."""

    pause = 1.0

    def __init__(self, world: World) -> None:
        self._world = world
        self.topics: Collection[str] = OVERVIEW_TOPICS

    async def view(self) -> Wire:
        """Everything, as of now."""
        return await self._world.overview.get()

    async def close(self) -> None:
        """Nothing is kept for it."""


class QueuesPage:
    """The tree of queues."""

    pause = 0.5

    def __init__(self, world: World) -> None:
        self._world = world
        self._rights = Right(world, "patch", QUEUES)
        self.topics: Collection[str] = ("scope", *(kind.resource for kind in (QUEUES, POD_GROUPS, NODES)))

    async def view(self) -> Wire:
        """All queues, as of now."""
        world = self._world
        queues, groups, nodes = (world.source(kind).items() for kind in (QUEUES, POD_GROUPS, NODES))
        return queues_view(queues, groups, nodes, editable=await self._rights.held(), ready=world.ready)

    async def close(self) -> None:
        """Nothing is kept for it."""


class NodesPage:
    """The map of nodes."""

    pause = 1.0

    def __init__(self, world: World, query: NodeQuery) -> None:
        self._world, self._query = world, query
        self._rights = Right(world, "patch", NODES)
        self.topics: Collection[str] = NODE_TOPICS

    async def view(self) -> Wire:
        """The nodes that the query asks for."""
        cordons = await self._rights.held()
        ready, cells = self._world.ready, await self._world.cells.get()
        return nodes_view(cells, self._query, cordons=cordons, ready=ready)

    async def close(self) -> None:
        """Nothing is kept for it."""


class FleetPage:
    """The clusters of a fleet."""

    pause = 1.0

    def __init__(self, world: World) -> None:
        self._world = world
        self.topics: Collection[str] = ("scope", "jobs", ATTACHED_CLUSTERS.resource)

    async def view(self) -> Wire:
        """All members, as of now."""
        world = self._world
        there: Counter[str] = Counter()
        for kind in JOB_KINDS:
            for job in world.source(kind).items():
                if not has_ended(job):
                    there[placement_of(job).cluster] += 1
        clusters = world.source(ATTACHED_CLUSTERS).items()
        return fleet_view(clusters, there, there[""], ready=world.ready)

    async def close(self) -> None:
        """Nothing is kept for it."""


class SchedulerPage:
    """The scheduler."""

    pause = 5.0

    def __init__(self, world: World) -> None:
        self._world = world
        self.topics: Collection[str] = ("scope", LEASES.resource)

    async def view(self) -> Wire:
        """What is known of it; its metrics are read with the viewer's rights, and left out where these do not do."""
        world = self._world
        try:
            status, _, body = await world.client.request("GET", "/metrics", accept="text/plain")
        except ApiError:
            status, body = 503, b""
        text = body.decode(errors="replace") if status == 200 else ""
        configuration_view = await configuration_of(world.client, world.places)
        configuration = configuration_view.text if configuration_view.known else ""
        leases, now, hidden, ready = world.source(LEASES).items(), world.now, world.hidden(), world.ready
        return await asyncio.to_thread(
            scheduler_view, leases, text, now, configuration=configuration, hidden=hidden, ready=ready
        )

    async def close(self) -> None:
        """Nothing is kept for it."""


class Right:
    """Whether the viewer may do something, asked once per page: the server decides anyway when it is done."""

    def __init__(self, world: World, verb: str, kind: Kind[Any]) -> None:
        self._world, self._verb, self._kind = world, verb, kind
        self._held: bool | None = None

    async def held(self) -> bool:
        """The answer; no while the server cannot say it."""
        if self._held is None:
            try:
                self._held = await may(self._world.client, self._verb, self._kind)
            except ApiError:
                return False
        return self._held


class JobPage:
    """One job; why it waits is asked again after each of its changes, and told as soon as it is known."""

    pause = 0.1
    # Between two questions to the API server about one job, and the longest time without one.
    ask_seconds, refresh_seconds = 1.0, 15.0

    def __init__(self, world: World, kind: Kind[Any], namespace: str, name: str) -> None:
        self._world, self._kind, self._namespace, self._name = world, kind, namespace, name
        self._key = key_of(kind, namespace, name)
        self._own = f"page {id(self)}"
        self.topics: Collection[str] = (self._key, self._own, "scope")
        self._told = ExplanationView()
        self._events: list[EventRow] = []
        self._actions: list[str] = []
        self._usage: dict[str, str] = {}
        self._running: set[str] = set()
        self._uids: set[str] = set()
        self._asking = asyncio.create_task(self._ask())

    async def view(self) -> Wire:
        """The job as of now, with what was last known of why it waits."""
        there = self._world.jobs.found(self._kind, self._namespace, self._name)
        if there is None:
            return JobView(ready=self._world.ready)
        job, dependents = there
        owner = self._world.jobs.owner
        row = (
            group_row(job, dependents.pods, owner)
            if self._kind is POD_GROUPS
            else job_row(self._kind, job, dependents, owner)
        )
        ordered = sorted(dependents.pods, key=lambda pod: natural(pod.metadata.name))
        shown = [pod_row(pod, self._usage.get(pod.metadata.name, "")) for pod in ordered[:_MOST_PODS]]
        self._running = {pod.name for pod in shown if pod.phase == "Running"}
        self._uids = {
            each.metadata.uid or "" for each in (job, *dependents.parts, *dependents.groups, *dependents.pods)
        }
        return JobView(
            ready=self._world.ready,
            found=True,
            row=row,
            pods={pod.name: pod for pod in shown},
            order=[pod.name for pod in shown],
            pod_total=len(dependents.pods),
            phases=counted(Counter(pod.status.phase or "Pending" for pod in dependents.pods)),
            explanation=self._told,
            events=self._events,
            actions=self._actions,
            admitted=_scheduled(dependents.groups),
        )

    async def close(self) -> None:
        """Ask no more."""
        self._asking.cancel()
        await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        client, signal = self._world.client, self._world.signal
        place = self._kind, self._namespace, self._name
        while True:
            version = signal.version((self._key,))
            explanation, self._actions = await asyncio.gather(
                explanation_of(client, *place), actions_of(client, *place)
            )
            self._events = await events_of(client, self._namespace, self._uids)
            self._usage = await usage_of(client, self._namespace, self._running)
            self._told = with_people(explanation, self._world.jobs.rows().values())
            signal.tell(self._own)
            await asyncio.sleep(self.ask_seconds)
            await signal.changed((self._key,), version, self.refresh_seconds)


def _scheduled(groups: Collection[PodGroup]) -> float:
    """When the last gang was placed; 0 while one waits, or nothing says it."""
    times = [
        time_or(each.last_transition_time)
        for group in groups
        for each in group.status.conditions or ()
        if each.type == "Scheduled" and each.status == "True"
    ]
    return max(times, default=0.0) if len(times) >= len(groups) else 0.0
