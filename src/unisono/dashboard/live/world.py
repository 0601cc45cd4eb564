"""Everything that one viewer may see of a cluster, kept current with the viewer's own credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from unisono.api.kind_families import ATTACHED_CLUSTERS
from unisono.api.kinds import (
    BUDGETS,
    HYPER_NODES,
    LEASES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    RESERVATIONS,
    TEMPORARY_QUOTAS,
)
from unisono.api.quantity import QuantityError
from unisono.api.resources import add, resource_list
from unisono.apiserver.access.user import ADMIN
from unisono.dashboard.live.configuration import EVERYWHERE, ConfigurationPlaces, namespaces_of, scopes
from unisono.dashboard.live.jobs import Jobs, Pool, Shared, Signal, Source, Tables
from unisono.dashboard.live.measuring import MOST_PODS, Measured, holding
from unisono.dashboard.live.searching import Searches
from unisono.dashboard.views.nodes import Usage, node_cells, used_by_node
from unisono.dashboard.views.overview import overview_view
from unisono.dashboard.views.wire import NodeCell, OverviewView
from unisono.errors import ApiError
from unisono.history.queue_shares import Series, series, steps
from unisono.history.records import CLUSTER, Share
from unisono.history.report import Window
from unisono.jobkinds.registry import JOB_KINDS, PARTS
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.http import HttpClient
from unisono.lazy_logs import LazyLogger
from unisono.sdk.overview.overview import calendar_lines
from unisono.sdk.overview.queues import budget_lines

if TYPE_CHECKING:
    from unisono.api.base import Object
    from unisono.api.core import Node, Pod
    from unisono.api.groups.scheduling import Queue
    from unisono.api.kind import Kind
    from unisono.dashboard.live.configuration import Scope

# Shares of queues while this process looks, for clusters whose API server keeps no history.

_KEPT_MS = 24 * 3_600_000
# Shares of one queue and resource, and pairs of them: what users can make many of is bounded.
_MOST_SHARES, _MOST_LINES = 5_000, 500


class SharesQuery(msgspec.Struct, rename={"start": "from", "end": "to"}, forbid_unknown_fields=True):
    """What a chart asks for, as the API server's history is asked; times in seconds since 1970, an end of 0 is now."""

    start: float = 0.0
    end: float = 0.0
    queue: str = ""
    resource: str = ""
    points: int = 120


class Samples:
    """Shares as the history has them; each holds until the next of the same queue and resource."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], list[Share]] = {}

    def take(self, queues: Iterable[Queue], nodes: Iterable[Node], now: int) -> None:
        """Note what has changed.

        Args:
            queues: of the cluster.
            nodes: of the cluster.
            now: milliseconds since 1970.
        """
        total: dict[str, int] = {}
        for node in nodes:
            add(total, resource_list(node.status.allocatable))
        new_shares = {(CLUSTER, name): Share(now, CLUSTER, name, capacity=amount) for name, amount in total.items()}
        # A parent's use is that of the queues below it.
        queues = list(queues)
        parents = {queue.spec.parent for queue in queues}
        for queue in queues:
            name = queue.metadata.name
            try:
                used = {} if name in parents else resource_list(queue.status.allocated)
                deserved, capability = resource_list(queue.spec.deserved), resource_list(queue.spec.capability)
            except QuantityError:
                continue
            for each in {*used, *deserved, *capability}:
                amounts = used.get(each, 0), deserved.get(each, 0), capability.get(each, 0)
                new_shares[name, each] = Share(now, name, each, *amounts)
        for key in self._lines.keys() - new_shares.keys():
            new_shares[key] = Share(now, *key)
        for key, share in new_shares.items():
            self._note(key, share)

    def _note(self, key: tuple[str, str], share: Share) -> None:
        line = self._lines.get(key)
        if line is None:
            if len(self._lines) < _MOST_LINES:
                self._lines[key] = [share]
            return
        last = line[-1]
        if (last.used, last.deserved, last.capability, last.capacity) != (
            share.used,
            share.deserved,
            share.capability,
            share.capacity,
        ):
            line.append(share)
        while len(line) > _MOST_SHARES or (len(line) > 1 and line[1].at < share.at - _KEPT_MS):
            line.pop(0)

    def series(self, window: Window, queue: str, resource: str, points: int) -> Series:
        """What a chart shows; empty texts stand for all."""
        chosen = (
            line
            for key, line in sorted(self._lines.items())
            if key[0] in (CLUSTER, queue or key[0]) and resource in ("", key[1])
        )
        return series(chosen, steps(window, points))


def shares(samples: Samples, query: Mapping[str, str], now: int) -> Series:
    """What queues used while this process looked, for a chart; ``now`` in milliseconds since 1970.

    Raises:
        ValidationError: the query is none.
    """
    asked = msgspec.convert(dict(query), SharesQuery, strict=False)
    end = round(1000 * asked.end) or now
    start = min(round(1000 * asked.start), end - 1000) if asked.start else end - _KEPT_MS
    return samples.series(Window(start, end, now), asked.queue, asked.resource, max(1, asked.points))


_log = LazyLogger(__name__)

_CLUSTER_KINDS: tuple[Kind[Any], ...] = (NODES, QUEUES, HYPER_NODES, LEASES)
_BOOKING_KINDS: tuple[Kind[Any], ...] = (RESERVATIONS, TEMPORARY_QUOTAS, BUDGETS)
_NO_ROWS = (*_CLUSTER_KINDS, *_BOOKING_KINDS, ATTACHED_CLUSTERS)
KINDS: tuple[Kind[Any], ...] = (*_NO_ROWS, *JOB_KINDS, *PARTS, POD_GROUPS, PODS)
NODE_TOPICS = ("jobs", "measured", "scope", *(kind.resource for kind in (NODES, PODS, HYPER_NODES)))
_OF_OVERVIEW: tuple[Kind[Any], ...] = (NODES, QUEUES, PODS, LEASES, *_BOOKING_KINDS)
OVERVIEW_TOPICS = ("jobs", "measured", "scope", *(kind.resource for kind in _OF_OVERVIEW))
# How often the viewer's rights are asked for: a right that is taken away ends what is shown within this time.
_RIGHTS_SECONDS = 30.0
_RETRY_SECONDS = 5.0
_SAMPLE_SECONDS = 10.0
_MEASURE_SECONDS = 30.0
# How long pods wait for everything else, and how often is looked.
_PODS_SECONDS, _LOOK_SECONDS = 10.0, 0.02
# How long a question waits for the first answer about the viewer's rights.
_SCOPE_SECONDS = 10.0


class World:
    """What one viewer may see.

    Args:
        client: with the viewer's credentials; the world has no others.
        user: the viewer's name.
        namespaces: to look into where the viewer may not look everywhere.
        clock: of this process.
        places: where the scheduler's configuration is looked for.
        pool: keeps pods once that several viewers see.

    Attributes:
        signal: tells changes; topics are names of resources, and keys of rows of jobs.
        jobs: the table of jobs.
        tables: windows of it.
        searches: what was found of jobs that wait.
        measured: what is measured of pods and cards.
        samples: what queues used since the world began.
        namespaces: that were looked at.
        overview: of the cluster, for all who look at it.
        cells: all nodes, for all who look at them.
    """

    def __init__(
        self,
        client: HttpClient,
        user: str,
        namespaces: Sequence[str] = (),
        *,
        clock: Clock = SYSTEM_CLOCK,
        places: ConfigurationPlaces = ConfigurationPlaces(),  # noqa: B008 - it is never changed
        pool: Pool | None = None,
    ) -> None:
        self.client, self.user, self.places = client, user, places
        self.signal = Signal()
        self.samples = Samples()
        self._usage = Usage()
        self._named, self._clock = tuple(namespaces), clock
        sharing = (
            HttpClient(client.config, transport=client.transport, taken=pool.share) if pool is not None else client
        )
        self._sources = {
            kind.resource: Source(sharing if kind is PODS else client, kind, self._handler(kind)) for kind in KINDS
        }
        self._pods_scope: Scope | None = None
        self._reading_pods: asyncio.Task[None] | None = None
        # Whoever owns the control plane of one machine submits without being written down.
        self.jobs = Jobs(self._sources, owner=user if user == ADMIN.name else "")
        self.tables = Tables(self.jobs, self.signal)
        self.searches = Searches()
        self.measured = Measured(client, clock.time)
        self._scoped = asyncio.Event()
        self._refused: ApiError | None = None
        self.namespaces: list[str] = []
        self.overview: Shared[OverviewView] = Shared(self.signal, OVERVIEW_TOPICS, self._overview)
        self.cells: Shared[list[NodeCell]] = Shared(self.signal, NODE_TOPICS, self._cells)

    def _handler(self, kind: Kind[Any]) -> Any:
        def note(event: str, obj: Object, _: Object | None) -> None:
            if kind not in _NO_ROWS and (key := self.jobs.note(kind, event, obj)):
                self.signal.tell(key)
                self.signal.tell("jobs")
            if kind is PODS:
                self._usage.note(event, cast("Pod", obj))
            self.signal.tell(kind.resource)

        return note

    async def run(self) -> None:
        """Keep everything current until cancelled, or until the server does not accept the credentials any more."""
        sampling, measuring = asyncio.create_task(self._sample()), asyncio.create_task(self._measure())
        try:
            while self._refused is None:
                await self._clock.sleep(await self._look())
        finally:
            tasks = [task for task in (sampling, measuring, self._reading_pods) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for source in self._sources.values():
                await source.close()

    async def _look(self) -> float:
        """Ask what the viewer may see, and look there; answers the seconds until the next time."""
        try:
            namespaces = await namespaces_of(self.client, self.user, self._named)
            rights = await scopes(self.client, KINDS, namespaces)
        except ApiError as error:
            if error.code == 401:
                self._refused = error
                self.signal.tell("scope")
            else:
                _log.warning("dashboard.rights_unknown", error=error.message)
                return _RETRY_SECONDS
            rights, namespaces = {}, []
        self.namespaces = namespaces
        for resource, source in self._sources.items():
            scope = rights.get(resource, ())
            if resource == PODS.resource:
                self._look_for_pods(source, scope)
            elif scope != source.scope:
                source.look(scope)
                self.signal.tell("scope")
        self._scoped.set()
        return _RIGHTS_SECONDS

    def _look_for_pods(self, source: Source, scope: Scope) -> None:
        """Pods are most of all objects: at first they wait until jobs, queues and nodes can be shown."""
        if self._pods_scope == scope:
            return
        first = self._pods_scope is None
        self._pods_scope = scope
        if first and scope:
            self._reading_pods = asyncio.create_task(self._pods_last(source))
        elif self._reading_pods is None or self._reading_pods.done() or not scope:
            source.look(scope)
            self.signal.tell("scope")

    async def _pods_last(self, source: Source) -> None:
        others = [each for each in self._sources.values() if each is not source]
        waited = 0.0
        while waited < _PODS_SECONDS and not all(each.ready for each in others):
            await asyncio.sleep(_LOOK_SECONDS)
            waited += _LOOK_SECONDS
        source.look(self._pods_scope or ())
        self.signal.tell("scope")

    def _overview(self) -> Callable[[], OverviewView]:
        rows, holders = list(self.jobs.rows().values()), self._usage.snapshot()
        nodes, leases = self.source(NODES).items(), self.source(LEASES).items()
        hidden, now, ready, quiet = self.hidden(), self.now, self.ready, self.measured.quiet
        calendar = calendar_lines(self.source(RESERVATIONS).items(), self.source(TEMPORARY_QUOTAS).items(), now)
        budgets = budget_lines(self.source(BUDGETS).items(), now)

        def made() -> OverviewView:
            used = used_by_node(holders)
            return overview_view(
                nodes,
                used,
                leases,
                rows,
                hidden,
                now,
                user=self.user,
                quiet=quiet,
                calendar=calendar,
                budgets=budgets,
                ready=ready,
            )

        return made

    def _cells(self) -> Callable[[], list[NodeCell]]:
        nodes, hyper_nodes = self.source(NODES).items(), self.source(HYPER_NODES).items()
        jobs = {f"{row.namespace}/{row.name}": row for row in self.jobs.rows().values() if row.held or row.held_cpus}
        measured = self.measured
        return partial(node_cells, nodes, self._usage.snapshot(), hyper_nodes, jobs, measured.quiet, measured.cards)

    async def _sample(self) -> None:
        while True:
            await self._clock.sleep(_SAMPLE_SECONDS)
            if self.ready:
                queues, nodes = self.source(QUEUES).items(), self.source(NODES).items()
                self.samples.take(queues, nodes, round(1000 * self._clock.time()))

    async def _measure(self) -> None:
        while True:
            pods = self.source(PODS)
            if self.ready and len(pods) <= MOST_PODS:
                held = await asyncio.to_thread(holding, pods.items())
                if await self.measured.look(held, pods.scope):
                    self.signal.tell("measured")
            await self._clock.sleep(_MEASURE_SECONDS)

    @property
    def refused(self) -> ApiError | None:
        """Why the server does not accept the credentials any more."""
        return self._refused

    @property
    def ready(self) -> bool:
        """Everything that the viewer may see was listed once."""
        pods_come = self._reading_pods is None or self._reading_pods.done()
        return self._scoped.is_set() and pods_come and all(source.ready for source in self._sources.values())

    def reading(self) -> str:
        """How far the first look at everything is, for people; empty where it is done."""
        if self.ready:
            return ""
        if not self._scoped.is_set():
            return "Asking what you may see …"
        looked = [source for source in self._sources.values() if source.scope]
        read = sum(source.ready for source in looked)
        objects = sum(source.arriving for source in looked)
        return f"Reading the cluster: {objects:,} objects, {read} of {len(looked)} kinds …"

    def source(self, kind: Kind[Any]) -> Source:
        """Objects of a kind."""
        return self._sources[kind.resource]

    async def scoped(self) -> bool:
        """Whether it is known what the viewer may see; waits for it a short time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SCOPE_SECONDS):
                await self._scoped.wait()
        return self._scoped.is_set() and self._refused is None

    def scope(self, resource: str) -> Scope | None:
        """Where the viewer may list objects of a kind (``plural.group``); None where that was not asked for."""
        source = self._sources.get(resource)
        return None if source is None else source.scope

    def sees_all(self, kind: Kind[Any]) -> bool:
        """Whether the viewer may see every object of the kind."""
        return self._sources[kind.resource].scope == EVERYWHERE

    async def has_fleet(self) -> bool:
        """Whether there are clusters of a fleet that the viewer may see."""
        source = self.source(ATTACHED_CLUSTERS)
        if self.ready:
            return len(source) > 0
        try:
            return bool((await self.client.list(ATTACHED_CLUSTERS)).items)
        except ApiError:
            return False

    def hidden(self) -> list[str]:
        """Kinds of the whole cluster that the viewer may not see."""
        return [kind.plural for kind in _CLUSTER_KINDS if not self._sources[kind.resource].scope]

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock.time()

    @property
    def monotonic(self) -> float:
        """Seconds of a clock that nobody sets."""
        return self._clock.monotonic()
