"""``unisono apply``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, file_option, output_option, where_options


@click.command("apply")
@file_option()
@output_option("text", "json", "name")
@where_options
async def command(where: Where, files: tuple[str, ...], output: str) -> None:
    """Create the objects of the files, or change the live ones to what the files say.

    Fields that a former apply set and the file no longer has are removed; fields that others set are kept. Objects are
    applied in the order of the files; one that the server refuses is named and left out, and the exit code is 1.
    """
    from unisono.cli.applying import Applied, apply, carry_out
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.manifests import read
    from unisono.cli.printing import print_json

    manifests = read(files)
    done: list[Applied] = []

    def tell(result: Applied) -> None:
        done.append(result)
        if output != "json":
            click.echo(result.line if output == "text" else f"{result.resource.title}/{result.name}")

    try:
        async with connect(where) as client:
            await carry_out(apply, client, manifests, namespace_of(where), tell)
    finally:
        if output == "json":
            print_json({"apiVersion": "v1", "kind": "List", "items": [result.object for result in done]})
