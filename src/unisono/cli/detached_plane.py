"""A control plane in the background: started and waited for, and its jobs stopped before it stops itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unisono.api.messages import counted
from unisono.api.selecting import controller_of
from unisono.errors import NotFound, UnisonoError

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.standalone.paths import DataDir

# A control plane in the background: started by ``unisono up --detach``, and waited for.

DETACHED = "UNISONO_DETACHED"
"""Environment variable of a control plane in the background: its standard output is its log."""
READY_SECONDS = 180.0
# Who waits longer than this is told for what.
PATIENCE_SECONDS = 3.0
POLL_SECONDS = 0.05


class StartFailed(UnisonoError):
    """The detached control plane did not become ready."""


def welcome(data: DataDir, url: str) -> str:
    """What a user reads once the API at ``url`` answers."""
    from unisono.dashboard.http.guard import HOW_TO_BUILD, is_built

    lines = [f"Unisono is up at {url}.", f"  export KUBECONFIG={data.kubeconfig}", "  kubectl get nodes"]
    return "\n".join([*lines, "  unisono run FILE", "  unisono dashboard" if is_built() else HOW_TO_BUILD])


def start_detached(data: DataDir, arguments: list[str], host: str, port: int) -> None:
    """Start ``unisono up`` again in the background and wait until its API answers.

    Args:
        data: where its state is.
        arguments: its command line, without what only this process does.
        host: address on which its API listens; tried before anything is started.
        port: of it; 0 for any.

    Raises:
        StartFailed: it ended, or was not ready in time.
        UnisonoError: the directory or the address cannot be used.
    """
    from unisono.apiserver.access.files import bind
    from unisono.standalone.paths import UnusableDataDir

    if data.running_pid() is not None:
        data.acquire()  # says who runs there
    bind(host, port).close()  # fails where the address cannot be listened on
    data.create()
    try:
        data.kubeconfig.unlink(missing_ok=True)
        data.log.touch(mode=0o600)
        log_offset = data.log.stat().st_size
        log = data.log.open("ab")
    except OSError as error:
        raise UnusableDataDir(data.root, error) from error
    # Before the child is there: a signal in between must not leave it behind.
    ends: list[int] = []
    for name in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(name) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(name, lambda number, _: ends.append(number))
    with log:
        child = subprocess.Popen(
            [sys.executable, "-m", "unisono", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, DETACHED: "1"},
        )
    try:
        await_ready(data, child, log_offset, ends)
    except BaseException:
        child.terminate()
        raise


def await_ready(data: DataDir, child: subprocess.Popen[bytes], told: int, ends: Sequence[int]) -> None:
    """Wait until the API of the child answers.

    Args:
        data: where it runs.
        child: the process.
        told: length of the log before its start.
        ends: gets the signals that ask this process to end.
    """
    began = time.monotonic()
    told_why, missing = False, ""
    while (waited := time.monotonic() - began) < READY_SECONDS:
        if waited > PATIENCE_SECONDS and not told_why:
            told_why = True
            click.echo(f"The control plane is starting; what it does is in {data.log} ...", err=True)
        if ends:
            raise SystemExit(128 + ends[0])
        if child.poll() is not None:
            reason = _last_words(data.log, told) or f"it ended at once with code {child.returncode}"
            end = "\n" if "\n" in reason else ". "
            raise StartFailed(f"The control plane did not start: {reason.rstrip('.')}{end}Its log is {data.log}.")
        if data.kubeconfig.exists():
            from unisono.kube.kubeconfig import load

            missing = asyncio.run(_unready(data))
            if not missing:
                click.echo(welcome(data, load(data.kubeconfig).server))
                return
        time.sleep(POLL_SECONDS)
    why = f" ({missing})" if missing else ""
    raise StartFailed(f"The control plane did not become ready within {READY_SECONDS:g} s{why}: see {data.log}.")


def _last_words(log: Path, start: int) -> str:
    """The error with which a control plane ended, from its part of the log; empty where it left none."""
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    # What is no JSON was not logged but written to standard error: an error's sentence, or a traceback and its error.
    said = [line.rstrip() for line in lines if line.strip() and not line.startswith("{")]
    errors = [number for number, line in enumerate(said) if line.startswith("Error:")]
    # An error may go on for lines: which objects of a store are damaged.
    last = said[errors[-1] :] if errors else said[-1:]
    return "\n".join(last).removeprefix("Error:").strip()


async def _unready(data: DataDir) -> str:
    """What the server says that it waits for; empty where it is ready."""
    from unisono.errors import ApiError
    from unisono.kube.http import HttpClient
    from unisono.kube.kubeconfig import load

    client = HttpClient(load(data.kubeconfig))
    try:
        status, _, body = await client.request("GET", "/readyz")
    except ApiError as error:
        return error.message
    finally:
        await client.close()
    if status == 200:
        return ""
    failed = [line.removeprefix("[-]") for line in body.decode(errors="replace").splitlines() if line.startswith("[-]")]
    return ", ".join(failed) or f"/readyz answers {status}"


# Stops all jobs of a control plane before it stops itself.

_POLL_SECONDS = 0.1


def stop_all_jobs(data: DataDir, timeout: float) -> None:
    """Stop every job for good, and wait until none of their pods runs.

    Raises:
        UnisonoError: some still run after ``timeout`` seconds.
    """
    from unisono.agent.processes.shims import running_pods

    count, pods = asyncio.run(_stop(data))
    click.echo(f"Stopped {counted(count, 'job')}.")
    deadline = time.monotonic() + timeout
    while running := sorted(pods.intersection(running_pods(data.agent))):
        if time.monotonic() > deadline:
            names = ", ".join(running[:3])
            raise UnisonoError(
                f"{len(running)} pods still run after {timeout:g} s ({names}); the control plane was not stopped. "
                "Give them more time with --timeout, or end them with 'unisono down --kill-pods'."
            )
        time.sleep(_POLL_SECONDS)


async def _stop(data: DataDir) -> tuple[int, set[str]]:
    """Number of jobs that were stopped, and ``namespace/name`` of their pods."""
    from unisono.jobkinds.registry import JOB_KINDS
    from unisono.kube.command_transport import CommandTransport
    from unisono.kube.http import HttpClient
    from unisono.kube.kubeconfig import load

    config = load(data.kubeconfig)
    client = HttpClient(config, transport=CommandTransport(config))
    try:
        pods: set[str] = set()
        count = sum([await _stop_kind(client, kind, pods) for kind in JOB_KINDS])
        return count, pods
    finally:
        await client.close()


async def _stop_kind(client: HttpClient, kind: Any, pods: set[str]) -> int:
    """Stop the jobs of a kind that no other object has made; adds their pods, and answers how many jobs they were."""
    from unisono.sdk.jobs.control import send_action
    from unisono.sdk.state.observing import look

    count = 0
    for job in (await client.list(kind)).items:
        if controller_of(job) is not None:
            continue
        namespace, name = job.metadata.namespace or "default", job.metadata.name
        try:
            seen = await look(client, kind, namespace, name)
            if seen.view.stopped:
                continue
            pods.update(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in seen.pods)
            await send_action(client, kind, namespace, name, "TerminateJob")
        except NotFound:
            continue
        count += 1
    return count
