"""``unisono stop``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, where_options


@click.command("stop")
@click.argument("names", nargs=-1, required=True, metavar="NAME|KIND/NAME...")
@where_options
def command(where: Where, names: tuple[str, ...]) -> None:
    """Stop jobs for good and keep what is known of them; 'unisono delete' takes them away.

    A name alone is a job's, of whatever kind.
    """
    from unisono.cli.connection import run_async

    run_async(_stop(where, names))


async def _stop(where: Where, names: tuple[str, ...]) -> None:
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
