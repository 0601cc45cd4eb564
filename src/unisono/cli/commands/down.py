"""``unisono down``."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unisono.errors import UnisonoError

if TYPE_CHECKING:
    from unisono.standalone.paths import DataDir, Holder

# Who waits longer than this is told for what.
PATIENCE_SECONDS = 3.0
POLL_SECONDS = 0.05
# For the end of a process after SIGKILL: longer takes only one that the kernel does not let go.
KILL_SECONDS = 20.0
# Pods that are named.
_MOST_PODS = 8


class StillRunning(UnisonoError):
    """The control plane did not stop, or may not be stopped."""


@click.command("down")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Data directory of the control plane to stop.")
@click.option("--kill-pods", is_flag=True, help="Also end the processes of running pods; without it they go on.")
@click.option("--stop-jobs", is_flag=True, help="First stop all jobs for good, and wait until their pods have ended.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60,
    show_default=True,
    help="Seconds to wait before a control plane that does not stop is killed.",
)
def command(data_dir: Path | None, kill_pods: bool, stop_jobs: bool, timeout: float) -> None:
    """Stop the control plane of this machine; nothing that was submitted is lost."""
    from unisono.standalone.paths import DataDir

    data = DataDir.at(data_dir)
    holder = data.holder()
    if holder is None:
        click.echo(f"No control plane runs in {data.root}.")
    else:
        _check(data, holder)
        if stop_jobs:
            from unisono.cli.detached_plane import stop_all_jobs

            stop_all_jobs(data, timeout)
        _stop(data, holder, timeout)
    if kill_pods:
        from unisono.agent.processes.shims import kill_leftover_pods

        count = kill_leftover_pods(data.agent)
        click.echo(f"Ended the processes of {count} pods.")
    else:
        _tell_what_runs(data)


def _tell_what_runs(data: DataDir) -> None:
    """Name the pods whose processes go on."""
    from unisono.agent.processes.shims import running_pods

    running = [name.removeprefix("default/") for name in running_pods(data.agent)]
    if not running:
        return
    more = f" and {len(running) - _MOST_PODS} more" if len(running) > _MOST_PODS else ""
    where = f" --data-dir {data.root}" if data.root != default_root() else ""
    number = "1 pod goes on" if len(running) == 1 else f"{len(running)} pods go on"
    click.echo(
        f"{number} running: {', '.join(running[:_MOST_PODS])}{more}. The next 'unisono up{where}' finds them again; "
        f"'unisono down{where} --kill-pods' ends them, and 'unisono down --stop-jobs' stops jobs first."
    )


def default_root() -> Path:
    """The data directory of commands that name none."""
    from unisono.standalone.paths import DataDir

    return DataDir.at(None).root


def _check(data: DataDir, holder: Holder) -> None:
    from unisono.standalone.paths import CONTROL_PLANE

    if holder.purpose != CONTROL_PLANE:
        raise StillRunning(
            f"No control plane runs in {data.root}, but a {holder.purpose} is going on (process {holder.pid}): "
            "wait until it has ended."
        )
    # A moment later it may simply have ended.
    if not holder.alive and data.holder() is not None:
        raise StillRunning(
            f"A process holds {data.lock}, but it is not process {holder.pid or '?'} that is named there; nothing was "
            f"ended. Find it with 'fuser {data.lock}', and end it with 'kill'."
        )


def _stop(data: DataDir, holder: Holder, timeout: float) -> None:
    if holder.stopped:
        click.echo(f"Process {holder.pid} is suspended (SIGSTOP): it is continued, so that it can stop.", err=True)
    _send(holder, signal.SIGTERM, signal.SIGCONT)
    if _ended(data, holder, timeout, f"Waiting for process {holder.pid} to stop ..."):
        click.echo(f"Stopped the control plane in {data.root}.")
        return
    click.echo(f"Process {holder.pid} did not stop within {timeout:g} s: killing it.", err=True)
    _send(holder, signal.SIGKILL)
    if not _ended(data, holder, KILL_SECONDS, f"Waiting for the end of process {holder.pid} ..."):
        raise StillRunning(
            f"Process {holder.pid} was killed and has not ended within {KILL_SECONDS:g} s: the kernel holds it, most "
            "often for a disk that does not answer. Check the disk, or restart the machine."
        )
    click.echo(f"Killed the control plane in {data.root}; every write that it acknowledged is stored.")


def _send(holder: Holder, *numbers: signal.Signals) -> None:
    try:
        holder.send(*numbers)
    except PermissionError:
        raise StillRunning(
            f"The control plane (process {holder.pid}) belongs to user {_name(holder.owner)}: "
            "run 'unisono down' as that user."
        ) from None


def _ended(data: DataDir, holder: Holder, timeout: float, waiting: str) -> bool:
    began, announced = time.monotonic(), False
    # Another control plane may have taken the directory since.
    while data.holder() is not None and holder.alive:
        waited = time.monotonic() - began
        if waited > PATIENCE_SECONDS and not announced:
            announced = True
            click.echo(waiting, err=True)
        if waited > timeout:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _name(user: int | None) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name if user is not None else "unknown"
    except KeyError:
        return str(user)
