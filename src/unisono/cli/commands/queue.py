"""``unisono queue``: queues with ``vcctl``'s verbs and flags."""

from __future__ import annotations

from typing import Any

import click

from unisono.cli.options import Where
from unisono.cli.vcctl.options import amounts, cluster_options, name_option, print_option


@click.group("queue")
def command() -> None:
    """Create, list, get, operate, update and delete queues, as vcctl does."""


def _limits(function: Any) -> Any:
    """Options on what a queue may use."""
    for flag, text in (
        ("--capability", "Hard upper limit, such as cpu=10,memory=40Gi."),
        ("--deserved", "The queue's share (plug-in capacity)."),
        ("--guarantee", "Kept for the queue at all times."),
    ):
        function = click.option(flag, callback=amounts, help=text)(function)
    flag = "--reclaimable/--no-reclaimable"
    return click.option(flag, default=None, help="May others take back what the queue borrowed?")(function)


@command.command("create")
@name_option("-n", "queue")
@click.option("-w", "--weight", type=click.IntRange(1), default=1, show_default=True, help="Share among its siblings.")
@click.option(
    "-S",
    "--state",
    type=click.Choice(("Open", "Closed"), case_sensitive=False),
    default="Open",
    show_default=True,
    help="Whether it takes jobs.",
)
@click.option("--parent", help="The queue above it.  [default: root]")
@click.option("--priority", type=click.IntRange(0), help="Higher goes first and is reclaimed later.")
@_limits
@cluster_options
def create(where: Where, name: str, **options: Any) -> None:
    """Create a queue."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.queues import create as run

    run_async(run(where, name, **options))


@command.command("update")
@name_option("-n", "queue")
@click.option("-w", "--weight", type=click.IntRange(1), help="Share among its siblings.")
@click.option("--parent", help="The queue above it.")
@click.option("--priority", type=click.IntRange(0), help="Higher goes first and is reclaimed later.")
@_limits
@cluster_options
def update(where: Where, name: str, **options: Any) -> None:
    """Change what is given; everything else stays."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.queues import update as run

    run_async(run(where, name, **options))


@command.command("operate")
@name_option("-n", "queue")
@click.option("-a", "--action", default="", help="open, close or update.")
@click.option("-w", "--weight", type=int, help="The new weight, for update.")
@cluster_options
def operate(where: Where, name: str, action: str, weight: int | None) -> None:
    """Open or close a queue, or change its weight. A closed queue takes no jobs; those that run go on."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.queues import operate as run

    run_async(run(where, name, action, weight))


@command.command("list")
@print_option("text", "wide", "json", "yaml")
@cluster_options
def list_(where: Where, output: str) -> None:
    """List queues with the number of their PodGroups by phase; wide: with what they use, deserve and may use."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.queues import show_list

    run_async(show_list(where, None, output))


@command.command("get")
@name_option("-n", "queue")
@print_option("text", "json", "yaml")
@cluster_options
def get(where: Where, name: str, output: str) -> None:
    """Show one queue."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.queues import show_list

    run_async(show_list(where, name, output))


@command.command("delete")
@name_option("-n", "queue")
@cluster_options
def delete(where: Where, name: str) -> None:
    """Delete a queue."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.queues import remove

    run_async(remove(where, name))
