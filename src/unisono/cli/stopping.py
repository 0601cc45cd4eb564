"""Stops all jobs of a control plane before it stops itself."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import click

from unisono.api.membership import controller_of
from unisono.api.words import counted
from unisono.errors import NotFound, UnisonoError

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.standalone.paths import DataDir

_POLL_SECONDS = 0.1


def stop_all_jobs(data: DataDir, timeout: float) -> None:
    """Stop every job for good, and wait until none of their pods runs.

    Raises:
        UnisonoError: some still run after ``timeout`` seconds.

    """
    from unisono.agent.processes.cleanup import running_pods

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
    from unisono.sdk.control import send_action
    from unisono.sdk.observing import look

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
