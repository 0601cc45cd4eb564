"""What ``unisono run`` tells while the SDK follows its jobs: progress, logs, silence, limits and results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unisono.api.conditions import SUCCEEDED
from unisono.api.kinds import JOBS, PODS
from unisono.cli.printing import duration_text
from unisono.cli.running.report import changes
from unisono.errors import ApiError
from unisono.sdk.first_failure import process_name
from unisono.sdk.follow.events import Event, LogFailed, LogText, Observed, Target
from unisono.sdk.follow.following import follow
from unisono.sdk.follow.log_lines import LogSelection, container_names, short_name
from unisono.sdk.running_state import duration, silent
from unisono.sdk.state.views import JobView, Steps, slowest, steps_of_line

if TYPE_CHECKING:
    from unisono.cli.running.report import Reporter
    from unisono.kube.http import HttpClient
    from unisono.sdk.state.observing import Observation


# Limits that the node of a job does not enforce, as its events tell.

_REASON = "LimitNotEnforced"


async def unenforced_limits(client: HttpClient, namespace: str, pods: Collection[str]) -> list[str]:
    """What the nodes' agents say of limits of these pods, each sentence once; nothing where events cannot be read."""
    from unisono.kube.discovery import request_json

    path = f"/api/v1/namespaces/{namespace}/events"
    try:
        found = await request_json(client, "GET", path, params={"fieldSelector": f"reason={_REASON}"})
    except ApiError:
        return []
    told = (
        str(event.get("message") or "")
        for event in found.get("items") or []
        if (event.get("involvedObject") or {}).get("name") in pods
    )
    return list(dict.fromkeys(text for text in told if text))


# Which processes of jobs that are followed have written nothing for long: a rank that hangs.

# At the end of a wait even a short silence tells which process was waited for.
_LATELY_SECONDS = 5.0
_MOST = 4


class Silence:
    """When each process wrote its last line, or was first seen to run.

    Args:
        clock: seconds, for tests.

    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[tuple[str, str], float] = {}

    def wrote(self, namespace: str, pod: str) -> None:
        """A line of the pod was read."""
        self._last[namespace, pod] = self._clock()

    def notes(self, found: Mapping[Target, Observation]) -> dict[str, str]:
        """Processes that are silent for long, or for longer than the others of their job, by pod."""
        return {
            note.about.removeprefix("pod/"): f"{process_name(note.about.removeprefix('pod/'), target.name)} {note.text}"
            for target, seen in found.items()
            for note in silent(self._running(seen), self._clock())
        }

    def lately(self, found: Mapping[Target, Observation]) -> list[str]:
        """What is worth knowing when a wait for the jobs ends: who wrote nothing for how long, the longest first."""
        now, told = self._clock(), []
        for target, seen in found.items():
            running = sorted(self._running(seen), key=lambda each: each[1])
            quiet = [(pod, now - when) for pod, when in running if now - when >= _LATELY_SECONDS]
            parts = [f"{process_name(pod, target.name)} for {duration(seconds)}" for pod, seconds in quiet[:_MOST]]
            if parts:
                more = f" and {len(quiet) - _MOST} more" if len(quiet) > _MOST else ""
                told.append(f"{seen.view.title}: nothing was written by {', '.join(parts)}{more}")
        return told

    def _running(self, seen: Observation) -> list[tuple[str, float]]:
        now = self._clock()
        running = [pod.metadata for pod in seen.pods if pod.status.phase == "Running"]
        metas = [meta for meta in running if not meta.deletion_timestamp]
        return [(meta.name, self._last.setdefault((meta.namespace or "", meta.name), now)) for meta in metas]


# What ``unisono run`` tells while the SDK follows its jobs: progress, logs and results.

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
