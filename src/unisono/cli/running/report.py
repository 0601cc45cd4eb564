"""Progress of ``unisono run`` on the terminal, and what it tells while the SDK follows its jobs."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import click
from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from unisono.api.conditions import SUCCEEDED
from unisono.api.kinds import JOBS, PODS
from unisono.api.messages import counted
from unisono.api.pod_states import PodEnd
from unisono.cli.printing import clock_text, duration_text
from unisono.cli.running.using import uses
from unisono.errors import ApiError
from unisono.jobkinds.registry import FLOWS
from unisono.sdk.follow.events import Event, LogFailed, LogText, Observed, Target
from unisono.sdk.follow.following import follow
from unisono.sdk.follow.log_lines import LogSelection, container_names, short_name
from unisono.sdk.reasons.failures import process_name
from unisono.sdk.state.running import duration, silent
from unisono.sdk.state.views import JobView, Steps, TaskView, end_text, says_steps_alone, slowest, steps_of_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unisono.kube.http import HttpClient
    from unisono.sdk.state.observing import Observation

# Progress on the terminal: a live table under the logs, plain lines where there is no terminal.

# The lines that ``unisono run`` draws under the logs, which fit a terminal of 80 columns (pure).

_BAR = 16
_MOST_JOBS = 12
_MOST_NOTES = 4
_COLOURS = {"Running": "green", "Completed": "green", "Pending": "yellow", "Restarting": "yellow"}


def step_picture(text: str, done: int, total: int, seconds: float) -> RenderableType:
    """One line of the set-up, with a bar where its steps are counted."""
    line = Table.grid(padding=(0, 1))
    bar: RenderableType = ProgressBar(total, done, width=_BAR) if total else Text("")
    line.add_row(Spinner("dots"), Text(text, no_wrap=True, overflow="ellipsis"), bar, clock_text(seconds))
    return line


def jobs_picture(views: Sequence[JobView], seconds: float, notes: Sequence[str] = ()) -> RenderableType:
    """A line for each job, and below those that wait, why; of many jobs those that have not ended come first."""
    ordered = sorted(views, key=lambda view: view.ended)
    table = Table.grid(padding=(0, 2), expand=False)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=22)
    for _ in range(4):
        table.add_column(no_wrap=True)
    waiting: list[RenderableType] = []
    for view in ordered[:_MOST_JOBS]:
        table.add_row(
            view.title,
            Text(view.phase, style=_COLOURS.get(view.phase, "red")),
            _pods_text(view),
            _bar(view),
            "" if view is not ordered[0] else clock_text(seconds),
        )
        if view.waiting:
            waiting.append(Text(f"  {view.title} waits: {view.waiting}", no_wrap=True, overflow="ellipsis"))
    if len(ordered) > _MOST_JOBS:
        waiting.append(Text(f"  and {len(ordered) - _MOST_JOBS} more jobs"))
    waiting += [Text(f"  {note}", style="yellow", no_wrap=True, overflow="ellipsis") for note in notes[:_MOST_NOTES]]
    return Group(table, *waiting)


def _pods_text(view: JobView) -> str:
    running, done, failed = (sum(task.count(phase) for task in view.tasks) for phase in _PHASES)
    desired = sum(task.wanted for task in view.tasks)
    parts = [f"{running + done + failed}/{desired} pods started"]
    if done:
        parts.append(f"{done} done")
    if failed:
        parts.append(f"{failed} failed")
    return ", ".join(parts)


_PHASES = ("Running", "Succeeded", "Failed")


def _bar(view: JobView) -> RenderableType:
    """Steps where the job tells them, else pods that have started."""
    grid = Table.grid(padding=(0, 1))
    if view.progress is not None:
        grid.add_row(ProgressBar(view.progress.total, view.progress.done, width=_BAR), str(view.progress))
        return grid
    desired = sum(task.wanted for task in view.tasks)
    started = sum(task.count(phase) for task in view.tasks for phase in _PHASES)
    if desired and started < desired:
        grid.add_row(ProgressBar(desired, started, width=_BAR))
        return grid
    return Text("")


# What ``unisono run`` tells of a job as it changes; the views themselves are the SDK's.

# Of pods that fail at once, lines for the first ones.
_MOST_FAILURES = 3
# Phases in which a job's pods are ended, and the exit codes that they have then: SIGTERM and SIGKILL.
_ENDING = frozenset({"Aborting", "Aborted", "Terminating", "Terminated", "Restarting", "Completing", "Completed"})
_ENDED_BY_SIGNAL = frozenset({143, 137})


def changes(old: JobView | None, new: JobView) -> list[str]:
    """What happened between two views, one line each, as plain progress."""
    if new.kind in FLOWS:
        return _flow_changes(old, new)
    lines = []
    if old is None:
        size = sum(task.wanted for task in new.tasks)
        pods = "1 pod" if size == 1 else f"{size} pods, {new.gang} of them start together or not at all"
        lines.append(f"submitted to queue {new.queue}: {pods}")
    if new.admitted and not (old and old.admitted) and new.kind != "Pod":
        lines.append(f"admitted by queue {new.queue}")
    if new.waiting and new.waiting != (old.waiting if old else ""):
        lines.append(f"waiting: {new.waiting}")
    before = old.placed if old else 0
    # Binds of a gang arrive one after the other: it is told of when it is whole.
    if new.placed > before and new.placed >= new.gang:
        total = sum(task.wanted for task in new.tasks)
        lines.append(f"gang placed: {new.placed}/{total} pods on {_few(new.nodes)}")
    return lines + _phase_and_failures(old, new)


def _flow_changes(old: JobView | None, new: JobView) -> list[str]:
    """Of a job that is made of jobs: which of them begin and have run; each has a gang of its own."""
    before = {task.name: task for task in old.tasks} if old else {}
    # A flow that has succeeded has run all its jobs, and may have taken them away before anybody looked at their ends.
    was_over, over = (view is not None and (view.kind, view.phase) == ("JobFlow", SUCCEEDED) for view in (old, new))
    lines = []
    for name, task in {**before, **{task.name: task for task in new.tasks}}.items():
        previous = before.get(name)
        if previous is None:
            lines.append(f"job {name} begins: {counted(task.wanted, 'pod')}")
        if (over or _has_run(task)) and not (was_over or _has_run(previous)):
            lines.append(f"job {name} has run")
    if new.waiting and new.waiting != (old.waiting if old else ""):
        lines.append(f"waiting: {new.waiting}")
    return lines + _phase_and_failures(old, new)


def _has_run(task: TaskView | None) -> bool:
    return task is not None and 0 < task.wanted == task.count("Succeeded")


def _phase_and_failures(old: JobView | None, new: JobView) -> list[str]:
    lines = []
    if new.phase != (old.phase if old else "Pending"):
        lines.append(f"{new.phase}{f': {new.message}' if new.message and new.ended else ''}")
    previous_ends = {end.name for end in old.ends} if old else set()
    failed = [
        end for end in new.ends if end.name not in previous_ends and end.phase == "Failed" and not _was_ended(new, end)
    ]
    lines += [f"pod {end.name} failed: {end_text(end)}" for end in failed[:_MOST_FAILURES]]
    if len(failed) > _MOST_FAILURES:
        lines.append(f"{len(failed) - _MOST_FAILURES} more pods failed")
    return lines


def _was_ended(view: JobView, end: PodEnd) -> bool:
    """Whether a pod was ended by the end of its job, and did not fail."""
    return end.exit_code in _ENDED_BY_SIGNAL and view.phase in _ENDING and end.reason in ("", "Error")


def _few(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more nodes"


class Reporter(Protocol):
    """Where ``run`` tells what happens."""

    def line(self, title: str, text: str) -> None:
        """One event of a job."""
        ...

    def remind(self, title: str, text: str) -> None:
        """What is still so, for those who see no live table."""
        ...

    def log(self, prefix: str, text: str) -> None:
        """One line of a container's log."""
        ...

    def step(self, text: str, done: int, total: int) -> None:
        """What is being set up, as step ``done`` of ``total``; 0 where they are not counted."""
        ...

    def show(self, views: Sequence[JobView], notes: Sequence[str] = ()) -> None:
        """The present state of all jobs, and what is worth knowing besides."""
        ...

    def pause(self) -> None:
        """Leave the terminal to a question."""
        ...

    def resume(self) -> None:
        """Take it back."""
        ...

    def close(self) -> None:
        """The end: nothing moves any more."""
        ...


class PlainReporter:
    """Plain lines, for pipes, files and CI."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        self._stderr = to_stderr

    def line(self, title: str, text: str) -> None:
        """``==> job/hello: Running``."""
        click.echo(f"==> {title}: {text}", err=self._stderr)

    def remind(self, title: str, text: str) -> None:
        """As any line."""
        self.line(title, text)

    def log(self, prefix: str, text: str) -> None:
        """``worker-0 | text``."""
        click.echo(f"{prefix} | {text}", err=self._stderr)

    def step(self, text: str, done: int, total: int) -> None:
        """Nothing: lines tell what is set up."""

    def show(self, views: Sequence[JobView], notes: Sequence[str] = ()) -> None:
        """Nothing: the lines tell it all."""

    def pause(self) -> None:
        """Nothing moves."""

    def resume(self) -> None:
        """Nothing moves."""

    def close(self) -> None:
        """Nothing to end."""


class LiveReporter:
    """Logs scroll above a few lines that show each job, its pods, its steps and what it waits for."""

    COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red")

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False)
        self._started = time.monotonic()
        self._colours: dict[str, str] = {}
        self._views: Sequence[JobView] = ()
        self._notes: Sequence[str] = ()
        self._step: tuple[str, int, int] | None = None
        self._live = Live(console=self._console, refresh_per_second=8, transient=True, get_renderable=self._picture)
        self._live.start()

    def line(self, title: str, text: str) -> None:
        """An event, in bold."""
        self._print("==> ", "bold", f"{title}: {text}")

    def remind(self, title: str, text: str) -> None:
        """Nothing: the table shows it."""

    def log(self, prefix: str, text: str) -> None:
        """A log line; each task keeps its colour. What the bar shows is not told again in a line."""
        if says_steps_alone(text):
            return
        colour = self._colours.setdefault(prefix, self.COLOURS[len(self._colours) % len(self.COLOURS)])
        # The terminal wraps what is too long: a line that is copied stays one.
        self._print(f"{prefix} | ", colour, text, soft_wrap=True)

    def _print(self, head: str, style: str, text: str, *, soft_wrap: bool = False) -> None:
        from rich.text import Text

        self._console.print(Text.assemble((head, style), text), soft_wrap=soft_wrap)

    def step(self, text: str, done: int, total: int) -> None:
        """Draw a bar of the set-up."""
        self._step = (text, done, total)
        self._live.refresh()

    def show(self, views: Sequence[JobView], notes: Sequence[str] = ()) -> None:
        """Draw these views."""
        self._views, self._notes, self._step = tuple(views), tuple(notes), None
        self._live.refresh()

    def pause(self) -> None:
        """Take the table away."""
        self._live.stop()

    def resume(self) -> None:
        """Draw it again."""
        self._live.start()

    def close(self) -> None:
        """Take the table away; the lines stay."""
        self._live.stop()

    def _picture(self) -> RenderableType:

        seconds = time.monotonic() - self._started
        if self._step is not None:
            return step_picture(*self._step, seconds)
        return jobs_picture(self._views, seconds, self._notes)


def reporter(*, json_output: bool) -> Reporter:
    """The reporter that suits where the output goes; with JSON on stdout, progress goes to stderr."""
    if json_output:
        return PlainReporter(to_stderr=True)
    return LiveReporter() if sys.stdout.isatty() else PlainReporter()


# What ``unisono run`` tells while the SDK follows its jobs: progress, logs, silence, limits and results.


# Limits that the node of a job does not enforce, as its events tell.

_REASON = "LimitNotEnforced"


async def unenforced_limits(client: HttpClient, namespace: str, pods: Collection[str]) -> list[str]:
    """What the nodes' agents say of limits of these pods, each sentence once; nothing where events cannot be read."""
    from unisono.kube.discovery import request_json

    path = f"/api/v1/namespaces/{namespace}/events"
    try:
        listing = await request_json(client, "GET", path, params={"fieldSelector": f"reason={_REASON}"})
    except ApiError:
        return []
    messages = (
        str(event.get("message") or "")
        for event in listing.get("items") or []
        if (event.get("involvedObject") or {}).get("name") in pods
    )
    return list(dict.fromkeys(text for text in messages if text))


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
        now, lines = self._clock(), []
        for target, seen in found.items():
            running = sorted(self._running(seen), key=lambda each: each[1])
            quiet = [(pod, now - when) for pod, when in running if now - when >= _LATELY_SECONDS]
            parts = [f"{process_name(pod, target.name)} for {duration(seconds)}" for pod, seconds in quiet[:_MOST]]
            if parts:
                more = f" and {len(quiet) - _MOST} more" if len(quiet) > _MOST else ""
                lines.append(f"{seen.view.title}: nothing was written by {', '.join(parts)}{more}")
        return lines

    def _running(self, seen: Observation) -> list[tuple[str, float]]:
        now = self._clock()
        running = [pod.metadata for pod in seen.pods if pod.status.phase == "Running"]
        metas = [meta for meta in running if not meta.deletion_timestamp]
        return [(meta.name, self._last.setdefault((meta.namespace or "", meta.name), now)) for meta in metas]


# What ``unisono run`` tells while the SDK follows its jobs: progress, logs and results.

REFRESH_SECONDS = 0.1
REMIND_SECONDS = 60.0
SILENCE_SECONDS = 5.0
USE_SECONDS, TELL_USE_SECONDS = 2.0, 30.0


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
        self._uses: dict[str, str] = {}

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

    async def follow(self, client: HttpClient, *, logs: bool, watch: bool = False) -> None:
        """Follow the targets until all have ended.

        Args:
            client: the server.
            logs: copy the logs of all their containers.
            watch: show what their processes use.
        """
        selection = LogSelection(all_containers=True) if logs else None
        events = follow(client, self._targets, until=lambda view: view.ended, logs=selection, pause=REFRESH_SECONDS)
        tasks = [asyncio.create_task(self._remind())]
        if logs:
            tasks.append(asyncio.create_task(self._watch_silence()))
        if watch:
            tasks.append(asyncio.create_task(self._watch_use(client)))
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

    async def _watch_use(self, client: HttpClient) -> None:
        """Show what the processes use; where no live table does, say it from time to time."""
        reminded_at = float("-inf")
        while True:
            self._uses = await uses(client, self.observations)
            self._show()
            if self._uses and time.monotonic() - reminded_at >= TELL_USE_SECONDS:
                reminded_at = time.monotonic()
                for title, text in self._uses.items():
                    self._reporter.remind(title, f"uses {text}")
            await asyncio.sleep(USE_SECONDS)

    def _show(self) -> None:
        usage_lines = [f"{title} uses {text}" for title, text in self._uses.items()]
        self._reporter.show(self.views, (*usage_lines, *self._notes.values()))

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
        observed = self._observations.get(line.target)
        if observed is not None:
            view = replace(observed.view, progress=slowest(counted.values()))
            self._observations[line.target] = replace(observed, view=view)
            self._show()

    async def _warn_of_limits(self, client: HttpClient, event: Observed) -> None:
        """Say once which limits of a job that has started its node does not enforce."""
        names = {pod.metadata.name for pod in event.observation.pods}
        for text in await unenforced_limits(client, event.target.namespace, names):
            self._reporter.line(event.observation.view.title, text)

    def _observe(self, event: Observed) -> bool:
        """Tell what changed; answers whether the job has just begun to run."""
        target, observed = event.target, event.observation
        if observed.view.progress is None and (counted := self._steps.get(target)):
            observed = replace(observed, view=replace(observed.view, progress=slowest(counted.values())))
        before, new = self._observations.get(target), observed.view
        old = before.view if before else None
        if old is None and not _is_worth_telling(event):
            return False
        for text in changes(old, new):
            self._reporter.line(new.title, text)
        self._observations[target] = observed
        self._show()
        return new.phase == "Running" and not (old and old.phase == "Running")


def _is_worth_telling(event: Observed) -> bool:
    """Whether the queue and the size of a job are known, which the controllers of other kinds decide."""
    observed = event.observation
    return event.target.kind in (JOBS, PODS) or bool(observed.groups or observed.pods) or observed.view.ended


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
