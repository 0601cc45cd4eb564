"""``unisono record``."""

from __future__ import annotations

from pathlib import Path

import click

from unisono.cli.options import NEW_FILE, Where, option, where_options


@click.command("record")
@where_options
@click.option("--out", type=NEW_FILE, required=True, help="The recording.")
@click.option("--for", "duration", default="", help="End after a time such as 30m or 8h.  [default: on Ctrl-C]")
@option("--default-queue", default="default", help="Queue of PodGroups that name none.")
@option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    default=("volcano", "unisono"),
    help="Pods that name one of these are scheduled; may be repeated.",
)
async def command(where: Where, out: Path, duration: str, default_queue: str, scheduler_names: tuple[str, ...]) -> None:
    """Write down what a scheduler would see of a cluster, whichever scheduler works there.

    'unisono simulate' reads the recording as a workload and as a cluster. To repeat decisions, let the scheduler itself
    record: 'unisono scheduler --record FILE' or 'unisono up --record FILE'.
    """
    import asyncio
    import contextlib
    import signal

    from unisono.api.times import parse_duration
    from unisono.cli.connection import connect
    from unisono.scheduler.recording import Watching, recorder_to

    try:
        seconds = parse_duration(duration) if duration else None
    except ValueError:
        raise click.UsageError(f"--for takes a time such as 30m or 8h, not '{duration}'.") from None
    async with connect(where) as client:
        watching = Watching(client, recorder_to(out), scheduler_names, default_queue)
        task = asyncio.create_task(watching.run())
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, task.cancel)
        if seconds is not None:
            loop.call_later(seconds, task.cancel)
        click.echo(f"Recording to {out}; Ctrl-C ends it.", err=True)
        with contextlib.suppress(asyncio.CancelledError):
            await task
    click.echo(f"Recorded {watching.feed.events} events.")
