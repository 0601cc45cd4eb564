"""``unisono down``."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

from unisono.errors import UnisonoError

# Who waits longer than this is told for what.
PATIENCE_SECONDS = 3.0
POLL_SECONDS = 0.05


class StillRunning(UnisonoError):
    """The control plane did not stop in time."""


@click.command("down")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Data directory of the control plane to stop.")
@click.option("--kill-pods", is_flag=True, help="Also end the processes of running pods; without it they go on.")
@click.option("--timeout", type=click.FloatRange(min=0), default=60, show_default=True, help="Seconds to wait.")
def command(data_dir: Path | None, kill_pods: bool, timeout: float) -> None:
    """Stop the control plane of this machine; nothing that was submitted is lost."""
    from unisono.standalone.paths import DataDir

    data = DataDir.at(data_dir)
    pid = data.running_pid()
    if pid is None:
        click.echo(f"No control plane runs in {data.root}.")
    else:
        os.kill(pid, signal.SIGTERM)
        began, told = time.monotonic(), False
        while data.running_pid() is not None:
            waited = time.monotonic() - began
            if waited > PATIENCE_SECONDS and not told:
                told = True
                click.echo(f"Waiting for process {pid} to stop ...", err=True)
            if waited > timeout:
                raise StillRunning(f"Process {pid} did not stop within {timeout:g} s: end it with 'kill -9 {pid}'.")
            time.sleep(POLL_SECONDS)
        click.echo(f"Stopped the control plane in {data.root}.")
    if kill_pods:
        from unisono.agent.cleanup import kill_leftover_pods

        count = kill_leftover_pods(data.agent)
        click.echo(f"Ended the processes of {count} pods.")
