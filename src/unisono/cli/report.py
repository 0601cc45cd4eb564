"""Progress on the terminal: a live table under the logs, plain lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from rich.table import Table

    from unisono.cli.views import JobView


class Reporter(Protocol):
    """Where ``run`` tells what happens."""

    def line(self, title: str, text: str) -> None:
        """One event of a job."""
        ...

    def log(self, prefix: str, text: str) -> None:
        """One line of a container's log."""
        ...

    def show(self, views: Sequence[JobView]) -> None:
        """The present state of all jobs."""
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

    def log(self, prefix: str, text: str) -> None:
        """``worker-0 | text``."""
        click.echo(f"{prefix} | {text}", err=self._stderr)

    def show(self, views: Sequence[JobView]) -> None:
        """Nothing: the lines tell it all."""

    def close(self) -> None:
        """Nothing to end."""


class LiveReporter:
    """Logs scroll above a table that shows queue, gang and tasks of every job."""

    COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red")

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False)
        self._started = time.monotonic()
        self._colours: dict[str, str] = {}
        self._views: Sequence[JobView] = ()
        self._live = Live(console=self._console, refresh_per_second=8, transient=True, get_renderable=self._table)
        self._live.start()

    def line(self, title: str, text: str) -> None:
        """An event, in bold."""
        self._print("==> ", "bold", f"{title}: {text}")

    def log(self, prefix: str, text: str) -> None:
        """A log line; each task keeps its colour."""
        colour = self._colours.setdefault(prefix, self.COLOURS[len(self._colours) % len(self.COLOURS)])
        self._print(f"{prefix} | ", colour, text)

    def _print(self, head: str, style: str, text: str) -> None:
        from rich.text import Text

        self._console.print(Text.assemble((head, style), text))

    def show(self, views: Sequence[JobView]) -> None:
        """Draw the table with these views."""
        self._views = tuple(views)
        self._live.refresh()

    def close(self) -> None:
        """Take the table away; the lines stay."""
        self._live.stop()

    def _table(self) -> Table:
        from rich.table import Table

        table = Table(title=f"{time.monotonic() - self._started:.0f} s", title_justify="left", expand=False)
        for name in ("Job", "Queue", "Phase", "Gang", "Tasks (running/done/failed of all)", "Waiting for"):
            table.add_column(name, overflow="fold")
        for view in self._views:
            tasks = "  ".join(
                f"{task.name} {task.count('Running')}/{task.count('Succeeded')}/{task.count('Failed')} of {task.wanted}"
                for task in view.tasks
            )
            table.add_row(view.title, view.queue, view.phase, f"{view.placed}/{view.gang}", tasks, view.waiting)
        return table


def reporter(*, json_output: bool) -> Reporter:
    """The reporter that suits where the output goes; with JSON on stdout, progress goes to stderr."""
    if json_output:
        return PlainReporter(to_stderr=True)
    return LiveReporter() if sys.stdout.isatty() else PlainReporter()
