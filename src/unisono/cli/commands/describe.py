"""``unisono describe``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, where_options


@click.command("describe")
@click.argument("what", nargs=-1, required=True)
@where_options
def command(where: Where, what: tuple[str, ...]) -> None:
    """Show an object: metadata, spec, status, why it waits, and its events."""
    from unisono.cli.connection import run_async
    from unisono.cli.describing import describe

    run_async(describe(where, what))
