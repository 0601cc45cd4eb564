"""Objects from everywhere that a viewer may look, and rows of all jobs, rebuilt only where something has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec

from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.selecting import controller_of, pod_group_of
from unisono.dashboard.views.rows import group_row, job_row, key_of
from unisono.dashboard.views.table import Query, filters_of, jobs_view
from unisono.dashboard.views.wire import JobRow, JobsView
from unisono.jobkinds.registry import JOB_KINDS
from unisono.kube.informer import Handler, Informer
from unisono.lazy_logs import LazyLogger
from unisono.sdk.state.dependents import Dependents, collect, owners_of

if TYPE_CHECKING:
    from unisono.api.base import Object
    from unisono.api.core import Container, Pod
    from unisono.api.kind import Kind
    from unisono.dashboard.live.configuration import Scope
    from unisono.dashboard.views.table import Filters
    from unisono.kube.client import Client

# Objects of one kind from everywhere that a viewer may look; those that several viewers see are kept once.

# Waiting for a change of something, and views that are made once for all who wait.

T = TypeVar("T")


class Signal:
    """Numbers of changes by topic."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._version = 0
        self._waiting: dict[asyncio.Event, Collection[str]] = {}

    def tell(self, topic: str) -> None:
        """Something about the topic has changed."""
        self._version += 1
        self._versions[topic] = self._version
        for event, topics in self._waiting.items():
            if topic in topics:
                event.set()

    def version(self, topics: Collection[str]) -> int:
        """Number of the last change of any of the topics."""
        return max((self._versions.get(topic, 0) for topic in topics), default=0)

    async def changed(self, topics: Collection[str], since: int, seconds: float) -> bool:
        """Wait for a change after ``since``, at most ``seconds``; answers whether there was one."""
        if self.version(topics) > since:
            return True
        event = asyncio.Event()
        self._waiting[event] = topics
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()
        finally:
            del self._waiting[event]
        return event.is_set()


class Shared(Generic[T]):
    """One value, rebuilt where something has changed since.

    Args:
        signal: tells changes.
        topics: what the value is made of.
        snapshot: takes what is needed, in the event loop; answers what makes the value of it, which a thread runs.
    """

    def __init__(self, signal: Signal, topics: Collection[str], snapshot: Callable[[], Callable[[], T]]) -> None:
        self._signal, self._topics, self._snapshot = signal, topics, snapshot
        self._version = -1
        self._made: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The value as of now; callers that ask while it is made get the same one."""
        version = self._signal.version(self._topics)
        if self._made is None or (self._made.done() and (version != self._version or self._made.exception())):
            self._version = version
            self._made = asyncio.create_task(asyncio.to_thread(self._snapshot()))
        return await asyncio.shield(self._made)


# A kind that the server does not serve is asked for again after so long.
_ABSENT_SECONDS = 60.0
# The cache is emptied when it holds this many different containers.
_MOST_KINDS = 20_000


class Source:
    """Informers of one kind, one for each namespace or one for all.

    Args:
        client: with the viewer's credentials.
        kind: of the objects.
        handler: is told every change; what leaves the scope counts as deleted.
    """

    def __init__(self, client: Client, kind: Kind[Any], handler: Handler[Any]) -> None:
        self.kind = kind
        self._client, self._handler = client, handler
        self._running: dict[str | None, tuple[Informer[Any], asyncio.Task[None]]] = {}

    @property
    def scope(self) -> Scope:
        """Where it looks now."""
        return tuple(self._running)

    @property
    def ready(self) -> bool:
        """Everything was listed once."""
        return all(informer.synced.is_set() for informer, _ in self._running.values())

    @property
    def arriving(self) -> int:
        """Objects that were read, while not all were."""
        return sum(len(informer) or informer.arriving for informer, _ in self._running.values())

    def look(self, scope: Scope) -> None:
        """Look there from now on, and forget what is elsewhere."""
        for place in [place for place in self._running if place not in scope]:
            informer, task = self._running.pop(place)
            task.cancel()
            informer.replace([])
        for place in scope:
            if place not in self._running:
                informer = Informer(self._client, self.kind, place, absent_seconds=_ABSENT_SECONDS)
                informer.add_index("owner", _owners)
                if self.kind is PODS:
                    informer.add_index("group", lambda pod: filter(None, [pod_group_of(pod)]))
                    informer.add_index("node", lambda pod: filter(None, [pod.spec.node_name]))
                informer.on_change(self._handler)
                self._running[place] = informer, asyncio.create_task(informer.run())

    async def close(self) -> None:
        """End the informers."""
        tasks = [task for _, task in self._running.values()]
        self._running = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def get(self, namespace: str, name: str) -> Any | None:
        """One object, None where it is not there or may not be seen."""
        key = f"{namespace}/{name}" if self.kind.namespaced else name
        return next((obj for informer in self._informers() if (obj := informer.get(key)) is not None), None)

    def items(self) -> list[Any]:
        """All objects."""
        return [obj for informer in self._informers() for obj in informer.items()]

    def __len__(self) -> int:
        """Number of objects."""
        return sum(len(informer) for informer in self._informers())

    def of(self, owner: Object) -> Sequence[Any]:
        """What an object owns."""
        return self.by("owner", owner.metadata.uid or "")

    def by(self, index: str, value: str) -> list[Any]:
        """Objects by an index: ``owner`` (UID), and of pods ``group`` and ``node``."""
        return [obj for informer in self._informers() for obj in informer.by_index(index, value)]

    def _informers(self) -> Iterable[Informer[Any]]:
        return [informer for informer, _ in self._running.values()]


def _owners(obj: Object) -> list[str]:
    return [owner.uid for owner in obj.metadata.owner_references or ()]


class Pool:
    """Pods by UID and resourceVersion, for as long as a viewer holds them.

    What a viewer gets of it is what the API server has just sent to that viewer: the same object in the same version.
    """

    def __init__(self) -> None:
        self._pods: WeakValueDictionary[tuple[str, str], Any] = WeakValueDictionary()
        self._containers: dict[bytes, Sequence[Container]] = {}

    def __len__(self) -> int:
        """How many pods are in use."""
        return len(self._pods)

    def share(self, pod: Pod) -> Pod:
        """The one pod for all, without what no view shows; what has no UID or version stays as it is."""
        uid, version = pod.metadata.uid, pod.metadata.resource_version
        if not uid or not version:
            return pod
        shared: Pod | None = self._pods.get((uid, version))
        if shared is not None:
            return shared
        pod.metadata.managed_fields = None
        spec = pod.spec
        spec.tolerations = spec.volumes = spec.affinity = None
        for each in spec.containers or ():
            each.env = each.env_from = each.volume_mounts = None
        if spec.containers:
            # Those of one template are alike.
            spec.containers = list(self._alike(spec.containers))
        self._pods[uid, version] = pod
        return pod

    def _alike(self, containers: Sequence[Container]) -> Sequence[Container]:
        key = msgspec.json.encode(containers)
        cached = self._containers.get(key)
        if cached is None:
            if len(self._containers) >= _MOST_KINDS:
                self._containers.clear()
            cached = self._containers[key] = tuple(containers)
        return cached


# Rows of all jobs, rebuilt only where something has changed, and windows of their table, made once for all pages.


_log = LazyLogger(__name__)

_LONGEST_CHAIN = 8
TOPICS = ("jobs", "scope")
# Windows of one state of the table.
_MOST = 64


class Jobs:
    """The table of jobs.

    Args:
        sources: by resource: of jobs of all kinds, of what is between them and their pods, PodGroups and pods.
        owner: the user to whom jobs without a known user count; may be empty.

    Attributes:
        owner: the same.
    """

    def __init__(self, sources: Mapping[str, Source], owner: str = "") -> None:
        self._sources, self.owner = sources, owner
        self._known: dict[str, tuple[Kind[Any], Object]] = {}
        self._dirty: dict[str, tuple[Kind[Any], str, str]] = {}
        self._rows: dict[str, JobRow] = {}

    def note(self, kind: Kind[Any], event: str, obj: Object) -> str:
        """Remember a change; answers the key of the row that it concerns, empty for none."""
        uid = obj.metadata.uid or ""
        if kind is not PODS and kind is not POD_GROUPS:
            # A deleted owner is forgotten after what it owned: its pods lead to it until they are gone too.
            self._known[uid] = (kind, obj)
            if event != "MODIFIED":
                self._note_below(obj)
        root = self._root_of(kind, obj)
        if event == "DELETED":
            self._known.pop(uid, None)
        if root is None:
            return ""
        key = key_of(*root)
        self._dirty[key] = root
        return key

    def rows(self) -> dict[str, JobRow]:
        """All rows by key, as of now."""
        dirty, self._dirty = self._dirty, {}
        for key, root in dirty.items():
            try:
                row = self._row(*root)
            except Exception:
                # One malformed object must not hide all others.
                _log.exception("dashboard.row_failed", key=key)
                continue
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row
        return self._rows

    def found(self, kind: Kind[Any], namespace: str, name: str) -> tuple[Any, Dependents] | None:
        """A job with what belongs to it; None where there is none that the viewer may see."""
        source = self._sources.get(kind.resource)
        job = source.get(namespace, name) if source is not None else None
        if job is None:
            return None
        pods, groups = self._sources[PODS.resource], self._sources[POD_GROUPS.resource]
        if kind is POD_GROUPS:
            return job, Dependents(groups=[job], pods=pods.by("group", f"{namespace}/{name}"))
        owners = owners_of(kind.resource, job, self._sources)
        return job, collect(owners, groups, lambda group: groups.get(namespace, group), pods)

    def _note_below(self, obj: Object) -> None:
        """What an object owns has a row of its own only where the object is not known."""
        for kind in (*JOB_KINDS, POD_GROUPS):
            for below in self._sources[kind.resource].of(obj):
                root = kind, below.metadata.namespace or "default", below.metadata.name
                self._dirty[key_of(*root)] = root

    def _row(self, kind: Kind[Any], namespace: str, name: str) -> JobRow | None:
        there = self.found(kind, namespace, name)
        if there is None:
            return None
        job, dependents = there
        if kind is POD_GROUPS:
            # Its owner may have been heard of after it.
            return (
                None
                if self._root_of(kind, job) != (kind, namespace, name)
                else group_row(job, dependents.pods, self.owner)
            )
        if self._root_of(kind, job) != (kind, namespace, name):
            return None
        return job_row(kind, job, dependents, self.owner)

    def _root_of(self, kind: Kind[Any], obj: Object) -> tuple[Kind[Any], str, str] | None:
        """The uppermost job above an object, or the PodGroup of one that has none."""
        top = (kind, obj) if kind in JOB_KINDS else None
        at = obj
        for _ in range(_LONGEST_CHAIN):
            owner = controller_of(at)
            above = self._known.get(owner.uid) if owner else None
            if above is None:
                break
            at = above[1]
            if above[0] in JOB_KINDS:
                top = above
        if top is not None:
            return top[0], top[1].metadata.namespace or "default", top[1].metadata.name
        if kind is POD_GROUPS:
            return kind, obj.metadata.namespace or "default", obj.metadata.name
        if kind is PODS:
            namespace, _, name = pod_group_of(obj).partition("/")  # type: ignore[arg-type]
            group = self._sources[POD_GROUPS.resource].get(namespace, name) if name else None
            return self._root_of(POD_GROUPS, group) if group is not None else None
        return None


class Tables:
    """The windows of one world.

    Args:
        jobs: the rows.
        signal: tells when they have changed.
    """

    def __init__(self, jobs: Jobs, signal: Signal) -> None:
        self._jobs, self._signal = jobs, signal
        self._state: tuple[int, bool] = (-1, False)
        self._views: dict[Query, JobsView] = {}
        self._filters: Filters | None = None

    def view(self, query: Query, *, ready: bool) -> JobsView:
        """The window that a query asks for, as of now."""
        state = self._signal.version(TOPICS), ready
        if state != self._state:
            self._state, self._filters = state, None
            self._views.clear()
        window = self._views.get(query)
        if window is None:
            rows = self._jobs.rows().values()
            self._filters = self._filters or filters_of(rows)
            window = jobs_view(rows, query, self._filters, ready=ready)
            if len(self._views) >= _MOST:
                self._views.clear()
            self._views[query] = window
        return window
