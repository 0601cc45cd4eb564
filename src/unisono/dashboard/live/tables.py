"""Windows of the table of jobs, made once for all pages that show the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.dashboard.live.jobs import Jobs
from unisono.dashboard.live.signal import Signal
from unisono.dashboard.views.table import Query, filters_of, jobs_view
from unisono.dashboard.views.wire import JobsView

if TYPE_CHECKING:
    from unisono.dashboard.views.table import Filters

TOPICS = ("jobs", "scope")
# Windows of one state of the table.
_MOST = 64


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
