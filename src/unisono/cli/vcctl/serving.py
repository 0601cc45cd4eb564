"""Requests that several of these commands make."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.cli.options import Where
    from unisono.kube.http import HttpClient


@asynccontextmanager
async def connected(where: Where) -> AsyncIterator[tuple[HttpClient, str]]:
    """A client, and the namespace that is meant."""
    from unisono.cli.connection import connect, namespace_of

    async with connect(where) as client:
        yield client, namespace_of(where)


async def items(client: HttpClient, kind: Kind[Any], namespace: str | None) -> list[dict[str, Any]]:
    """All objects of a kind as plain values, each with apiVersion and kind, without ``managedFields``."""
    from unisono.cli.printing import without_managed_fields
    from unisono.kube.discovery import request_json

    document = await request_json(client, "GET", kind.path(namespace))
    return [
        without_managed_fields({"apiVersion": kind.api_version, "kind": kind.kind, **item})
        for item in document.get("items") or []
    ]


async def item(client: HttpClient, kind: Kind[Any], namespace: str | None, name: str) -> dict[str, Any]:
    """One object as a plain value, without ``managedFields``.

    Raises:
        NotFound: there is none.

    """
    from unisono.cli.printing import without_managed_fields
    from unisono.kube.discovery import request_json

    return without_managed_fields(await request_json(client, "GET", kind.path(namespace, name)))


async def say_nothing_found(client: HttpClient, queue: str = "") -> None:
    """What ``vcctl`` says of an empty list, and whether that is because there is no such queue."""
    from unisono.api.kinds import QUEUES
    from unisono.errors import ApiError, NotFound

    click.echo("No resources found")
    if not queue:
        return
    try:
        await client.get(QUEUES, queue)
    except NotFound:
        click.echo(f"There is no queue {queue}: 'unisono queue list' shows those that there are.", err=True)
    except ApiError:
        # Who may not read queues has got the answer already.
        return


def show(output: str, document: dict[str, Any] | list[dict[str, Any]], text: list[str]) -> None:
    """Print an object, or objects as a List: as ``text`` lines, or as JSON or YAML."""
    from unisono.cli.printing import print_json, print_yaml

    if output == "text":
        click.echo("\n".join(text))
        return
    value = {"apiVersion": "v1", "kind": "List", "items": document} if isinstance(document, list) else document
    (print_json if output == "json" else print_yaml)(value)


async def create_all(where: Where, files: tuple[str, ...], kinds: tuple[str, ...], word: str) -> None:
    """Create the objects of files; one that the server refuses does not hold up the others.

    Raises:
        UnisonoError: a file holds an object of another kind, or some could not be created.

    """
    from unisono.cli.applying import create
    from unisono.cli.manifests import read
    from unisono.errors import ApiError, UnisonoError
    from unisono.kube.discovery import discover

    manifests = read(files)
    for manifest in manifests:
        if manifest.kind not in kinds:
            raise UnisonoError(f"{manifest.where}: here is a {manifest.kind}, and '{word}' takes {' or '.join(kinds)}.")
    failed = 0
    async with connected(where) as (client, namespace):
        resources = await discover(client)
        for manifest in manifests:
            try:
                click.echo((await create(client, resources, manifest, namespace)).line)
            except ApiError as error:
                failed += 1
                click.echo(f"{manifest.kind.lower()}/{manifest.name}: {error.message}", err=True)
    if failed:
        raise UnisonoError(f"{failed} of {len(manifests)} objects could not be created.")
