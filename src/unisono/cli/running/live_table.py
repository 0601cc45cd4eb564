"""The lines that ``unisono run`` draws under the logs, which fit a terminal of 80 columns (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from unisono.cli.times import clock_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unisono.sdk.state.views import JobView

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
