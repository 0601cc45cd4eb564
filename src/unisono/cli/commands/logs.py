"""``unisono logs``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import Where, where_options

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient


@click.command("logs")
@click.argument("what", nargs=-1, required=True)
@click.option("-f", "--follow", is_flag=True, help="Go on until the containers end.")
@click.option("-c", "--container", default="", help="Container of the pod.  [default: the first]")
@click.option("--tail", type=click.IntRange(0), help="Only so many last lines.")
@click.option("--since", type=click.IntRange(1), help="Only lines of so many last seconds.")
@click.option("--timestamps", is_flag=True, help="Print the time of each line.")
@click.option("-p", "--previous", is_flag=True, help="The container's run before the last restart.")
@where_options
def command(
    where: Where,
    what: tuple[str, ...],
    follow: bool,
    container: str,
    tail: int | None,
    since: int | None,
    timestamps: bool,
    previous: bool,
) -> None:
    """Print the log of a pod (POD or pod/POD), or of all pods of a job (job/NAME), its lines marked by task."""
    from unisono.cli.connection import run_async

    query = {
        "container": container,
        "follow": "true" if follow else "",
        "tailLines": "" if tail is None else str(tail),
        "sinceSeconds": "" if since is None else str(since),
        "timestamps": "true" if timestamps else "",
        "previous": "true" if previous else "",
    }
    run_async(_logs(where, what, {key: value for key, value in query.items() if value}))


async def _logs(where: Where, what: tuple[str, ...], params: dict[str, str]) -> None:
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.logstream import lines
    from unisono.cli.resources import discover
    from unisono.cli.targets import one

    async with connect(where) as client:
        namespace = namespace_of(where)
        words = what if len(what) > 1 or "/" in what[0] else (f"pod/{what[0]}",)
        target = one(words, await discover(client))
        assert target.name is not None
        if target.resource.kind == "Pod":
            query = (
                params
                if "container" in params
                else {**params, "container": await _first(client, namespace, target.name)}
            )
            async for line in lines(client, namespace, target.name, query):
                click.echo(line)
            return
        await _of_owner(client, namespace, target.resource.kind, target.name, params)


async def _first(client: HttpClient, namespace: str, pod: str) -> str:
    """The pod's first container."""
    from unisono.cli.resources import request_json

    live = await request_json(client, "GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
    return str(live["spec"]["containers"][0]["name"])


async def _of_owner(client: HttpClient, namespace: str, kind: str, name: str, params: dict[str, str]) -> None:
    from unisono.cli.logstream import JOB_LABEL, lines, short_name
    from unisono.cli.resources import request_json
    from unisono.cli.targets import BadTarget

    if kind != "Job":
        raise BadTarget(f"A {kind} has no logs: name a pod, or a job for all of its pods.")
    listing = await request_json(
        client, "GET", f"/api/v1/namespaces/{namespace}/pods", params={"labelSelector": f"{JOB_LABEL}={name}"}
    )
    pods: list[dict[str, Any]] = listing.get("items") or []
    if not pods:
        raise BadTarget(f"The job {name} has no pods now: 'unisono explain job/{name}' says why.")

    async def copy(pod: dict[str, Any]) -> None:
        pod_name = pod["metadata"]["name"]
        query = {"container": pod["spec"]["containers"][0]["name"], **params}
        async for line in lines(client, namespace, pod_name, query, patient=True):
            click.echo(f"{short_name(pod_name, name)} | {line}")

    if params.get("follow"):
        await asyncio.gather(*(copy(pod) for pod in pods))
    else:
        for pod in pods:
            await copy(pod)
