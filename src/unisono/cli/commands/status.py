"""``unisono status``."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from unisono.cli.options import Where, option, output_option, run_async, where_options

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from unisono.sdk.overview.overview import Overview
    from unisono.simulator.forecast.forecast import Start


@click.command("status")
@option("--most", type=click.IntRange(1), default=20, help="Jobs of each list.")
@click.option("--start", is_flag=True, help="When jobs that wait may start, by simulated futures.")
@output_option("text", "json")
@where_options
def command(where: Where, most: int, output: str, *, start: bool) -> None:
    """Show everything at a glance: components, nodes and their holes, queues, jobs that wait and why, jobs that run.

    The exit code is 1 where a component is not alive.
    """
    overview = run_async(_seen(where))
    starts = _starts(where, overview) if start else {}
    _show(overview, starts, most, output)
    if any(part.problem for part in overview.components):
        raise SystemExit(1)


async def _seen(where: Where) -> Overview:
    from unisono.cli.connection import connect, namespace_of
    from unisono.sdk.overview.overview import read_overview

    async with connect(where) as client:
        return await read_overview(client, namespace_of(where), silence=True)


def _starts(where: Where, found: Overview) -> dict[str, Start]:
    from unisono.cli.explaining import starts_of

    return starts_of(where, [f"{job.namespace}/{job.group}" for job in found.waiting])


def _show(found: Overview, starts: dict[str, Start], most: int, output: str) -> None:
    import shutil

    from unisono.cli.overview_lines import overview_lines
    from unisono.cli.printing import print_json

    if output == "json":
        from unisono.simulator.forecast.whatif import start_json

        result = found.json()
        if starts:
            result["estimated_starts"] = [{"podGroup": key, **start_json(each)} for key, each in starts.items()]
        print_json(result)
        return
    from unisono.cli.explaining import start_text

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else 1000
    texts = {key: start_text(each) for key, each in starts.items()}
    for line in overview_lines(found, width=width, most=most, colour=terminal, starts=texts):
        click.echo(line)


# ``unisono top``.


@click.command("top")
@option("-d", "--delay", type=click.FloatRange(min=0.2), default=2.0, help="Seconds between two looks.")
@click.option("--count", type=click.IntRange(1), help="End after so many looks.  [default: Ctrl-C]")
@where_options
def top_command(where: Where, delay: float, count: int | None) -> None:
    """Show what 'unisono status' shows, again and again, on the whole terminal."""
    run_async(_top(where, delay, count))


async def _top(where: Where, delay: float, count: int | None) -> None:
    from rich.console import Console
    from rich.live import Live

    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.overview_lines import overview_lines
    from unisono.errors import Unavailable
    from unisono.sdk.overview.overview import read_overview

    console = Console(highlight=False)
    seen: Overview | None = None
    looks = 0
    async with connect(where) as client:
        if not sys.stdout.isatty():
            for line in overview_lines(await read_overview(client, namespace_of(where)), width=1000):
                click.echo(line)
            return
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while count is None or looks < count:
                problem = ""
                try:
                    seen = await read_overview(client, namespace_of(where))
                except Unavailable as error:  # a restart of the control plane is worth watching
                    problem = error.message
                live.update(_picture(seen, problem, console), refresh=True)
                looks += 1
                if count is None or looks < count:
                    await asyncio.sleep(delay)


def _picture(seen: Overview | None, problem: str, console: Console) -> RenderableType:
    import time

    from rich.text import Text

    from unisono.cli.overview_lines import overview_lines

    width, height = console.size
    head = f"unisono top  {time.strftime('%H:%M:%S')}  Ctrl-C ends"
    lines = [head, *([click.style(problem, fg="red")] if problem else [])]
    if seen is not None:
        lines += overview_lines(seen, width=width, most=max(3, height // 3), colour=True)
    return Text.from_ansi("\n".join(lines[:height]), no_wrap=True)
