"""``unisono apply``."""

from __future__ import annotations

from typing import Any

import click

from unisono.cli.options import Where, file_option, output_option, where_options


@click.command("apply")
@file_option()
@output_option("text", "json", "name")
@where_options
def command(where: Where, files: tuple[str, ...], output: str) -> None:
    """Create the objects of the files, or change the live ones to what the files say.

    Fields that a former apply set and the file no longer has are removed; fields that others set are kept. Objects are
    applied in the order of the files; the first error stops, and what was applied before it stays.
    """
    from unisono.cli.connection import run_async
    from unisono.cli.manifests import read
    from unisono.cli.printing import print_json

    results = run_async(_apply(where, read(files), output))
    if output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": [result.object for result in results]})


async def _apply(where: Where, manifests: list[Any], output: str) -> list[Any]:
    from unisono.cli.applying import apply
    from unisono.cli.connection import connect, namespace_of
    from unisono.kube.discovery import discover

    results = []
    async with connect(where) as client:
        resources = await discover(client)
        for manifest in manifests:
            result = await apply(client, resources, manifest, namespace_of(where))
            results.append(result)
            if output == "text":
                click.echo(result.line)
            elif output == "name":
                click.echo(f"{result.resource.title}/{result.name}")
    return results
