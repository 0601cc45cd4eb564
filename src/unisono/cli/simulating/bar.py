"""A progress bar on stderr while something long is computed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Shows how much of a total is done, with the time left; nothing where stderr is no terminal, or when quiet.

    Yields:
        a function that is told (done, total); it costs next to nothing to call it often.

    """
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)
        shown = -1

        def tell(done: int, total: int) -> None:
            nonlocal shown
            if done * 1000 // max(total, 1) != shown:
                shown = done * 1000 // max(total, 1)
                progress.update(task, completed=done, total=total)

        yield tell
