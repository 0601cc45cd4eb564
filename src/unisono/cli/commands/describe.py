"""``unisono describe``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, where_options


@click.command("describe")
@click.argument("what", nargs=-1, required=True)
@where_options
async def command(where: Where, what: tuple[str, ...]) -> None:
    """Show an object: metadata, spec, status, why it waits, and its events."""
    from unisono.cli.describing import describe

    await describe(where, what)
