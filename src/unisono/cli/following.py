"""What ``unisono run`` tells while the SDK follows its jobs: progress, logs and results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unisono.api.kinds import JOBS, PODS
from unisono.cli.durations import duration_text
from unisono.cli.silence import Silence
from unisono.cli.views import SUCCEEDED, JobView, changes
from unisono.sdk.events import Event, LogFailed, LogText, Observed, Target
from unisono.sdk.following import follow
from unisono.sdk.log_selection import LogSelection, container_names
from unisono.sdk.logstream import short_name
from unisono.sdk.progress import Steps, slowest, steps_of_line

if TYPE_CHECKING:
    from unisono.cli.report import Reporter
    from unisono.kube.http import HttpClient
    from unisono.sdk.observing import Observation

REFRESH_SECONDS = 0.1
REMIND_SECONDS = 60.0
SILENCE_SECONDS = 5.0


class Progress:
    """Tells a reporter what happens to targets.

    Attributes:
        views: the last views that were told, in the order of the targets.

    """

    def __init__(self, targets: Sequence[Target], reporter: Reporter) -> None:
        self._targets, self._reporter = list(targets), reporter
        self._observations: dict[Target, Observation] = {}
        self._steps: dict[Target, dict[str, Steps]] = {}
        self.silence = Silence()
        self._notes: dict[str, str] = {}

    @property
    def observations(self) -> dict[Target, Observation]:
        """What was last seen of each target, in the order of the targets."""
        return {target: self._observations[target] for target in self._targets if target in self._observations}

    @property
    def seen(self) -> dict[Target, JobView]:
        """The last views that were told, in the order of the targets."""
        return {target: found.view for target, found in self.observations.items()}

    @property
    def views(self) -> list[JobView]:
        """The same without the targets."""
        return list(self.seen.values())

    async def follow(self, client: HttpClient, *, logs: bool) -> None:
        """Follow the targets until all have ended; ``logs`` copies the logs of all their containers."""
        selection = LogSelection(all_containers=True) if logs else None
        events = follow(client, self._targets, until=lambda view: view.ended, logs=selection, pause=REFRESH_SECONDS)
        tasks = [asyncio.create_task(self._remind())]
        if logs:
            tasks.append(asyncio.create_task(self._watch_silence()))
        try:
            async with aclosing(events):
                async for event in events:
                    await self._tell(client, event)
        finally:
            for task in tasks:
                task.cancel()

    async def _tell(self, client: HttpClient, event: Event) -> None:
        match event:
            case Observed():
                if self._observe(event):
                    await self._warn_of_limits(client, event)
            case LogText():
                self.silence.wrote(event.pod.metadata.namespace or "", event.pod.metadata.name)
                self._count_steps(event)
                self._reporter.log(_prefix(event), event.text)
            case LogFailed(pod=pod, error=error):
                self._reporter.line(f"pod/{pod.metadata.name}", f"its log cannot be read: {error.message}")

    async def _watch_silence(self) -> None:
        """Say which process has stopped to write, as long as it is so; where no live table shows it, once."""
        while True:
            await asyncio.sleep(SILENCE_SECONDS)
            notes = self.silence.notes(self.observations)
            for pod in notes.keys() - self._notes.keys():
                self._reporter.remind("silent", notes[pod])
            if notes or self._notes:
                self._notes = notes
                self._show()

    def _show(self) -> None:
        self._reporter.show(self.views, tuple(self._notes.values()))

    async def _remind(self) -> None:
        """Say again what a job waits for, where no live table shows it."""
        started = time.monotonic()
        while True:
            await asyncio.sleep(REMIND_SECONDS)
            for view in self.views:
                if view.waiting:
                    waited = duration_text(time.monotonic() - started)
                    self._reporter.remind(view.title, f"still waiting after {waited}: {view.waiting}")

    def _count_steps(self, line: LogText) -> None:
        steps = steps_of_line(line.text)
        if steps is None:
            return
        counted = self._steps.setdefault(line.target, {})
        counted[line.pod.metadata.name] = steps
        found = self._observations.get(line.target)
        if found is not None:
            view = replace(found.view, progress=slowest(counted.values()))
            self._observations[line.target] = replace(found, view=view)
            self._show()

    async def _warn_of_limits(self, client: HttpClient, event: Observed) -> None:
        """Say once which limits of a job that has started its node does not enforce."""
        from unisono.cli.limits import unenforced_limits

        names = {pod.metadata.name for pod in event.observation.pods}
        for text in await unenforced_limits(client, event.target.namespace, names):
            self._reporter.line(event.observation.view.title, text)

    def _observe(self, event: Observed) -> bool:
        """Tell what changed; answers whether the job has just begun to run."""
        target, found = event.target, event.observation
        if found.view.progress is None and (counted := self._steps.get(target)):
            found = replace(found, view=replace(found.view, progress=slowest(counted.values())))
        before, new = self._observations.get(target), found.view
        old = before.view if before else None
        if old is None and not _is_worth_telling(event):
            return False
        for text in changes(old, new):
            self._reporter.line(new.title, text)
        self._observations[target] = found
        self._show()
        return new.phase == "Running" and not (old and old.phase == "Running")


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
