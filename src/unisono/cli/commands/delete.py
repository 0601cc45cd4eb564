"""``unisono delete``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import Where, file_option, where_options

if TYPE_CHECKING:
    from unisono.kube.discovery import Resource
    from unisono.kube.http import HttpClient

POLL_SECONDS = 0.1


@click.command("delete")
@click.argument("what", nargs=-1)
@file_option(required=False)
@click.option("--all", "everything", is_flag=True, help="All objects of the kind in the namespace.")
@click.option("-l", "--selector", default="", help="Objects with these labels.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when the objects are deleted.")
@click.option("--grace-period", type=int, help="Seconds that processes get to end by themselves; 0 kills at once.")
@click.option("--ignore-not-found", is_flag=True, help="A missing object is no error.")
@where_options
async def command(
    where: Where,
    what: tuple[str, ...],
    files: tuple[str, ...],
    everything: bool,
    selector: str,
    wait: bool,
    grace_period: int | None,
    ignore_not_found: bool,
) -> None:
    """Delete objects: KIND NAME..., KIND/NAME..., the objects of files (-f), or with --all or -l those of a kind.

    A name alone is a job's, of whatever kind.
    """
    from unisono.cli.connection import connect, namespace_of
    from unisono.errors import NotFound
    from unisono.kube.discovery import discover, request_json

    if bool(what) == bool(files):
        raise click.UsageError("Say what to delete: either KIND NAME (or KIND/NAME), or -f FILE.")

    body: dict[str, Any] = {"propagationPolicy": "Background"}
    if grace_period is not None:
        body["gracePeriodSeconds"] = grace_period
    async with connect(where) as client:
        resources = await discover(client)
        namespace = namespace_of(where)
        objects = (
            _of_files(files, resources, namespace)
            if files
            else await _of_words(client, what, resources, namespace, everything, selector)
        )
        pending = []
        for resource, place, name in objects:
            path = resource.path(place, name)
            try:
                live = await request_json(client, "GET", path)
                await request_json(client, "DELETE", path, body=body)
            except NotFound:
                if not ignore_not_found:
                    raise
                continue
            click.echo(f"{resource.title}/{name} deleted")
            pending.append((path, live["metadata"].get("uid")))
        if wait:
            await asyncio.gather(*(_gone(client, path, uid) for path, uid in pending))


def _of_files(files: tuple[str, ...], resources: Any, namespace: str) -> list[tuple[Resource, str | None, str]]:
    from unisono.cli.applying import placed
    from unisono.cli.manifests import read

    objects = []
    for manifest in read(files):
        resource = resources.of(manifest.api_version, manifest.kind, manifest.where)
        objects.append((resource, placed(manifest, resource, namespace), manifest.name))
    return objects


async def _of_words(
    client: HttpClient, what: tuple[str, ...], resources: Any, namespace: str, everything: bool, selector: str
) -> list[tuple[Resource, str | None, str]]:
    from unisono.cli.targets import BadTarget, meant, parse
    from unisono.kube.discovery import request_json

    kinds = what[0] == "all" or any(mark in what[0] for mark in "/,") or resources.has(what[0])
    if not (everything or selector or kinds):
        # Names alone.
        what = tuple([word if "/" in word else await meant(client, resources, namespace, word) for word in what])
    objects: list[tuple[Resource, str | None, str]] = []
    for target in parse(what, resources):
        if target.name:
            objects.append((target.resource, namespace, target.name))
            continue
        if not everything and not selector:
            raise BadTarget(f"Which {target.resource.plural}? Name them, or say --all or -l SELECTOR.")
        params = {"labelSelector": selector} if selector else {}
        listing = await request_json(client, "GET", target.resource.path(namespace), params=params)
        objects += [(target.resource, namespace, item["metadata"]["name"]) for item in listing.get("items") or []]
    return objects


async def _gone(client: HttpClient, path: str, uid: str | None) -> None:
    """Return when the object, or that incarnation of it, is no more."""
    from unisono.errors import NotFound
    from unisono.kube.discovery import request_json

    while True:
        try:
            live = await request_json(client, "GET", path)
        except NotFound:
            return
        if live["metadata"].get("uid") != uid:
            return
        await asyncio.sleep(POLL_SECONDS)


# ``unisono stop``.


@click.command("stop")
@click.argument("names", nargs=-1, required=True, metavar="NAME|KIND/NAME...")
@where_options
async def stop_command(where: Where, names: tuple[str, ...]) -> None:
    """Stop jobs for good and keep what is known of them; 'unisono delete' takes them away.

    A name alone is a job's, of whatever kind.
    """
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.targets import meant
    from unisono.kube.discovery import discover
    from unisono.sdk.jobs.control import named, send_action

    async with connect(where) as client:
        namespace, resources = namespace_of(where), await discover(client)
        for word in names:
            title = word if "/" in word else await meant(client, resources, namespace, word)
            kind, _, name = title.partition("/")
            await send_action(client, named(kind), namespace, name, "TerminateJob")
            click.echo(f"{title} is being stopped")
