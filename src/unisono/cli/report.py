"""Progress on the terminal: a live table under the logs, plain lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unisono.cli.views import JobView


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
        """A log line; each task keeps its colour."""
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
        from unisono.cli.live_table import jobs_picture, step_picture

        seconds = time.monotonic() - self._started
        if self._step is not None:
            return step_picture(*self._step, seconds)
        return jobs_picture(self._views, seconds, self._notes)


def reporter(*, json_output: bool) -> Reporter:
    """The reporter that suits where the output goes; with JSON on stdout, progress goes to stderr."""
    if json_output:
        return PlainReporter(to_stderr=True)
    return LiveReporter() if sys.stdout.isatty() else PlainReporter()
