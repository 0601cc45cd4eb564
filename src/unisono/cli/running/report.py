"""Progress on the terminal: a live table under the logs, plain lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import click
from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from unisono.api.conditions import SUCCEEDED
from unisono.api.messages import counted
from unisono.api.pod_states import PodEnd
from unisono.cli.printing import clock_text
from unisono.jobkinds.registry import FLOWS
from unisono.sdk.state.views import JobView, TaskView, end_text, says_steps_alone

if TYPE_CHECKING:
    from rich.console import RenderableType


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
    wanted = sum(task.wanted for task in view.tasks)
    parts = [f"{running + done + failed}/{wanted} pods started"]
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
    wanted = sum(task.wanted for task in view.tasks)
    started = sum(task.count(phase) for task in view.tasks for phase in _PHASES)
    if wanted and started < wanted:
        grid.add_row(ProgressBar(wanted, started, width=_BAR))
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
    told, over = (view is not None and (view.kind, view.phase) == ("JobFlow", SUCCEEDED) for view in (old, new))
    lines = []
    for name, task in {**before, **{task.name: task for task in new.tasks}}.items():
        known = before.get(name)
        if known is None:
            lines.append(f"job {name} begins: {counted(task.wanted, 'pod')}")
        if (over or _has_run(task)) and not (told or _has_run(known)):
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
    known = {end.name for end in old.ends} if old else set()
    failed = [end for end in new.ends if end.name not in known and end.phase == "Failed" and not _was_ended(new, end)]
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
