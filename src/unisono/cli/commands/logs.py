"""``unisono logs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from unisono.cli.options import Where, where_options

if TYPE_CHECKING:
    from unisono.kube.discovery import Resource
    from unisono.kube.http import HttpClient


@click.command("logs")
@click.argument("what", nargs=-1, required=True, metavar="POD|JOB|KIND/NAME")
@click.option("-f", "--follow", is_flag=True, help="Go on until all has ended; pods that start later are joined in.")
@click.option("-c", "--container", default="", help="Container of the pod.  [default: the first]")
@click.option("--tail", type=click.IntRange(0), help="Only so many last lines.")
@click.option("--since", type=click.IntRange(1), help="Only lines of so many last seconds.")
@click.option("--timestamps", is_flag=True, help="Print the time of each line.")
@click.option("-p", "--previous", is_flag=True, help="The container's run before the last restart.")
@where_options
async def command(
    where: Where,
    what: tuple[str, ...],
    follow: bool,
    container: str,
    tail: int | None,
    since: int | None,
    timestamps: bool,
    previous: bool,
) -> None:
    """Print the log of a pod, or of all pods of a job or another object, each line with its pod in front.

    A name alone is a pod's, or a job's of whatever kind where no pod has it.

    KIND is any kind that has pods: job, jobflow, pytorchjob, trainjob, jobset, rayjob, deployment, cronjob, ...
    """
    query = {
        "container": container,
        "follow": "true" if follow else "",
        "tailLines": "" if tail is None else str(tail),
        "sinceSeconds": "" if since is None else str(since),
        "timestamps": "true" if timestamps else "",
        "previous": "true" if previous else "",
    }
    await _logs(where, what, {key: value for key, value in query.items() if value})


async def _logs(where: Where, what: tuple[str, ...], params: dict[str, str]) -> None:
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.targets import meant, one
    from unisono.kube.discovery import discover
    from unisono.sdk.follow.log_lines import texts

    async with connect(where) as client:
        namespace = namespace_of(where)
        resources = await discover(client)
        alone = len(what) == 1 and "/" not in what[0]
        words = [await meant(client, resources, namespace, what[0], ("pod", "job"))] if alone else what
        target = one(words, resources)
        assert target.name is not None
        if target.resource.kind == "Pod":
            query = (
                params
                if "container" in params
                else {**params, "container": await _first(client, namespace, target.name)}
            )
            ends = True
            async for text in texts(client, namespace, target.name, query):
                click.echo(text, nl=False)
                ends = text.endswith("\n") if text else ends
            click.echo("", nl=not ends)
            return
        container = params.pop("container", "")
        title = f"{resources.typed(target.resource)}/{target.name}"
        await _of_owner(client, target.resource, title, namespace, target.name, container, params)


async def _first(client: HttpClient, namespace: str, pod: str) -> str:
    """The pod's first container."""
    from unisono.kube.discovery import request_json

    live = await request_json(client, "GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
    return str(live["spec"]["containers"][0]["name"])


async def _of_owner(
    client: HttpClient,
    resource: Resource,
    title: str,
    namespace: str,
    name: str,
    container: str,
    params: dict[str, str],
) -> None:
    """Print the lines of all pods of an object, whatever its kind, each with the pod's name in front."""
    from contextlib import aclosing

    from unisono.cli.targets import object_of, pods_with_logs
    from unisono.kube.discovery import request_json
    from unisono.sdk.follow.following import follow_logs, read_pods
    from unisono.sdk.follow.log_lines import LogSelection, short_name

    following = params.pop("follow", "")
    selection = LogSelection(container=container, params=params)
    kind, owner = object_of(resource, await request_json(client, "GET", resource.path(namespace, name)))
    if following and kind is not None:
        source = follow_logs(client, kind, namespace, name, selection, _refused)
    else:
        pods = await pods_with_logs(client, resource, owner, title, selection)
        source = read_pods(client, pods, selection, _refused)
    async with aclosing(source):
        async for line in source:
            click.echo(f"{short_name(line.pod, name)} | {line.text}")


def _refused(pod: str, reason: str) -> None:
    click.echo(f"pod/{pod}: {reason}", err=True)
