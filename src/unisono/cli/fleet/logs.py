"""Logs of jobs of a hub, read where their pods run."""

from __future__ import annotations

import click

from unisono.api.annotations import ORIGIN_UID
from unisono.api.fleet_kinds import ATTACHED_CLUSTERS
from unisono.api.kinds import PODS, SECRETS
from unisono.cli.connection import connect
from unisono.cli.fleet.jobs import job_of
from unisono.cli.options import Where
from unisono.errors import NotFound, UnisonoError
from unisono.fleet.jobs.copies import placement_of
from unisono.fleet.members.credentials import member_config
from unisono.kube.kubeconfig import ClusterConfig


class NoLogs(UnisonoError):
    """A job has no logs yet."""


async def logs(where: Where, what: str, namespace: str, *, follow: bool) -> None:
    """Print the lines of all pods of the job, each with its pod in front."""
    from unisono.kube.http import HttpClient
    from unisono.sdk.joblogs import follow_logs, read_pods
    from unisono.sdk.log_selection import LogSelection
    from unisono.sdk.logstream import short_name

    async with connect(where) as hub:
        kind, job = await job_of(hub, what, namespace)
        cluster = placement_of(job).cluster
        if not cluster:
            raise NoLogs(f"{what} waits for a cluster and has no logs: see 'unisono fleet explain {what}'")
        config = await _reach(hub, cluster)
    member = HttpClient(config)
    wanted = LogSelection()
    name = job.metadata.name
    try:
        if follow:
            source = follow_logs(member, kind, namespace, name, wanted, _refused)
        else:
            pods = (await member.list(PODS, namespace, label_selector=f"{ORIGIN_UID}={job.metadata.uid}")).items
            source = read_pods(member, pods, wanted, _refused)
        async for line in source:
            click.echo(f"{short_name(line.pod, name)} | {line.text}")
    finally:
        await member.close()


async def _reach(hub: object, cluster: str) -> ClusterConfig:
    """How the hub reaches a member, for users who may read its Secret."""
    from unisono.kube.http import HttpClient

    assert isinstance(hub, HttpClient)
    for found in (await hub.list(ATTACHED_CLUSTERS)).items:
        if found.metadata.name == cluster:
            secret = await hub.get(SECRETS, found.spec.secret.name or "", found.metadata.namespace)
            data = {key: str(value) for key, value in (secret.data or {}).items()}
            return member_config(data, found.spec.secret.key, f"Secret {secret.key}")
    raise NotFound(f"there is no AttachedCluster {cluster}")


def _refused(pod: str, reason: str) -> None:
    click.echo(f"pod/{pod}: {reason}", err=True)
