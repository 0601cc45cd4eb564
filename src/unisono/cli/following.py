"""What ``unisono run`` tells while the SDK follows its jobs: progress, logs and results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from unisono.api.kinds import JOBS, PODS
from unisono.cli.views import SUCCEEDED, JobView, changes
from unisono.sdk.events import LogFailed, LogText, Observed, Target
from unisono.sdk.following import follow
from unisono.sdk.log_selection import LogSelection, container_names
from unisono.sdk.logstream import short_name

if TYPE_CHECKING:
    from unisono.cli.report import Reporter
    from unisono.kube.http import HttpClient

REFRESH_SECONDS = 0.1


class Progress:
    """Tells a reporter what happens to targets.

    Attributes:
        views: the last views that were told, in the order of the targets.

    """

    def __init__(self, targets: Sequence[Target], reporter: Reporter) -> None:
        self._targets, self._reporter = list(targets), reporter
        self._views: dict[Target, JobView] = {}

    @property
    def views(self) -> list[JobView]:
        """The last views that were told, in the order of the targets."""
        return [self._views[target] for target in self._targets if target in self._views]

    async def follow(self, client: HttpClient, *, logs: bool) -> None:
        """Follow the targets until all have ended; ``logs`` copies the logs of all their containers."""
        selection = LogSelection(all_containers=True) if logs else None
        events = follow(client, self._targets, until=lambda view: view.ended, logs=selection, pause=REFRESH_SECONDS)
        async with aclosing(events):
            async for event in events:
                match event:
                    case Observed():
                        self._observe(event)
                    case LogText():
                        self._reporter.log(_prefix(event), event.text)
                    case LogFailed(pod=pod, error=error):
                        self._reporter.line(f"pod/{pod.metadata.name}", f"its log cannot be read: {error.message}")

    def _observe(self, event: Observed) -> None:
        target, found = event.target, event.observation
        old, new = self._views.get(target), found.view
        if old is None and not _is_worth_telling(event):
            return
        for text in changes(old, new):
            self._reporter.line(new.title, text)
        self._views[target] = new
        self._reporter.show(self.views)


def _is_worth_telling(event: Observed) -> bool:
    """Whether the queue and the size of a job are known, which the controllers of other kinds decide."""
    found = event.observation
    return event.target.kind in (JOBS, PODS) or bool(found.groups or found.pods) or found.view.ended


def _prefix(line: LogText) -> str:
    """``worker-0``, or ``worker-0/main`` for a pod with several containers."""
    job = None if line.target.kind is PODS else line.target.name
    several = len(container_names([line.pod])) > 1
    return short_name(line.pod.metadata.name, job) + (f"/{line.container}" if several else "")


def result_of(view: JobView, seconds: float) -> dict[str, Any]:
    """One job of ``run --output json``."""
    return {
        "kind": view.kind,
        "name": view.name,
        "namespace": view.namespace,
        "queue": view.queue,
        "phase": view.phase,
        "succeeded": view.phase == SUCCEEDED,
        "message": view.message or view.waiting,
        "seconds": round(seconds, 3),
        "nodes": list(view.nodes),
        "pods": [
            {
                "name": end.name,
                "phase": end.phase,
                "exitCode": end.exit_code,
                "reason": end.reason,
                "message": end.message,
            }
            for end in view.ends
        ],
    }
