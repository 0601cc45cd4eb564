"""Rows of all jobs, rebuilt only where something has changed, and windows of their table, made once for all pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.selecting import controller_of, pod_group_of
from unisono.dashboard.live.source import Signal
from unisono.dashboard.views.rows import group_row, job_row, key_of
from unisono.dashboard.views.table import Query, filters_of, jobs_view
from unisono.dashboard.views.wire import JobRow, JobsView
from unisono.jobkinds.registry import JOB_KINDS
from unisono.lazy_logs import LazyLogger
from unisono.sdk.state.dependents import Dependents, collect, owners_of

if TYPE_CHECKING:
    from unisono.api.base import Object
    from unisono.api.kind import Kind
    from unisono.dashboard.live.source import Source
    from unisono.dashboard.views.table import Filters

_log = LazyLogger(__name__)

_LONGEST_CHAIN = 8
TOPICS = ("jobs", "scope")
# Windows of one state of the table.
_MOST = 64


class Jobs:
    """The table of jobs.

    Args:
        sources: by resource: of jobs of all kinds, of what is between them and their pods, PodGroups and pods.

    """

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources
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
        job, found = there
        if kind is POD_GROUPS:
            # Its owner may have been heard of after it.
            return None if self._root_of(kind, job) != (kind, namespace, name) else group_row(job, found.pods)
        if self._root_of(kind, job) != (kind, namespace, name):
            return None
        return job_row(kind, job, found)

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
        found = self._views.get(query)
        if found is None:
            rows = self._jobs.rows().values()
            self._filters = self._filters or filters_of(rows)
            found = jobs_view(rows, query, self._filters, ready=ready)
            if len(self._views) >= _MOST:
                self._views.clear()
            self._views[query] = found
        return found
