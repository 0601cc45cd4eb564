"""``unisono queue``: queues with ``vcctl``'s verbs and flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import Where, option
from unisono.cli.vcctl import amounts, cluster_options, connected, item, items, name_option, print_option, show
from unisono.errors import UnisonoError

if TYPE_CHECKING:
    from unisono.sdk.jobs.control import QueueAction

# What ``unisono queue`` does.

ACTIONS: dict[str, QueueAction] = {"open": "OpenQueue", "close": "CloseQueue"}


def queue_spec(
    *,
    weight: int | None,
    parent: str | None,
    priority: int | None,
    reclaimable: bool | None,
    capability: dict[str, str],
    deserved: dict[str, str],
    guarantee: dict[str, str],
) -> dict[str, Any]:
    """The fields of a queue's spec that flags name."""
    fields = {
        "weight": weight,
        "parent": parent,
        "priority": priority,
        "reclaimable": reclaimable,
        "capability": capability or None,
        "deserved": deserved or None,
        "guarantee": {"resource": guarantee} if guarantee else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


async def create_queue(where: Where, name: str, *, state: str, **limits: Any) -> None:
    """Create a queue, and close it where it is to be closed.

    Raises:
        AlreadyExists: there is one of that name.
        Invalid: its limits contradict each other or those of its family.
    """
    from unisono.api.decode import decode
    from unisono.api.kinds import COMMANDS, QUEUES
    from unisono.sdk.jobs.control import queue_command

    value = {"metadata": {"name": name}, "spec": queue_spec(**limits)}
    async with connected(where) as (client, _):
        queue = await client.create(QUEUES, decode(QUEUES, value).obj)
        if state.lower() == "closed":
            await client.create(COMMANDS, queue_command(queue, "CloseQueue"))
    click.echo(f"create queue {name} successfully")


async def update_queue(where: Where, name: str, **limits: Any) -> None:
    """Change what is given.

    Raises:
        UnisonoError: nothing is given.
        NotFound: there is no such queue.
    """
    from unisono.api.kinds import QUEUES

    spec = queue_spec(**limits)
    if not spec:
        raise UnisonoError("Nothing to update: say what, for instance --weight 2 or --capability cpu=10.")
    async with connected(where) as (client, _):
        await client.patch(QUEUES, name, {"spec": spec})
    click.echo(f"update queue {name} successfully")


async def operate_queue(where: Where, name: str, action: str, weight: int | None) -> None:
    """Open, close or update, as ``vcctl queue operate``.

    Raises:
        UnisonoError: the action is none of these, or update has no weight.
        NotFound: there is no such queue.
    """
    from unisono.api.kinds import COMMANDS, QUEUES
    from unisono.sdk.jobs.control import queue_command

    if not action:
        raise UnisonoError("action can not be null: give --action open, close or update.")
    if action == "update":
        if weight is None or weight < 1:
            raise UnisonoError(
                f"when update queue {name}, weight must be specified, the value must be greater than 0: "
                "give --weight N."
            )
    elif action not in ACTIONS:
        raise UnisonoError(f"action {action} invalid, valid actions are open, close and update")
    async with connected(where) as (client, _):
        if action == "update":
            await client.patch(QUEUES, name, {"spec": {"weight": weight}})
        else:
            await client.create(COMMANDS, queue_command(await client.get(QUEUES, name), ACTIONS[action]))
    click.echo(f"{action} queue {name} successfully")


async def show_list(where: Where, name: str | None, output: str) -> None:
    """Print all queues, or one.

    Raises:
        NotFound: there is no queue of that name.
    """
    from unisono.api.decode import decode
    from unisono.api.kinds import QUEUES
    from unisono.cli.vcctl import queue_lines
    from unisono.sdk.overview.queues import all_groups, queue_views

    async with connected(where) as (client, _):
        objects = [await item(client, QUEUES, None, name)] if name else await items(client, QUEUES, None)
        groups = await all_groups(client) if output in ("text", "wide") else None
    views = queue_views((decode(QUEUES, value).obj for value in objects), groups)
    if output == "wide":
        from unisono.cli.overview_lines import queue_table

        for line in queue_table(views, wide=True):
            click.echo(line)
        return
    show(output, objects[0] if name else objects, queue_lines(views))


async def remove(where: Where, name: str) -> None:
    """Delete a queue.

    Raises:
        NotFound: there is no such queue.
        ApiError: it has queues below it, or is one that must stay.
    """
    from unisono.api.kinds import QUEUES

    async with connected(where) as (client, _):
        await client.delete(QUEUES, name)
    click.echo(f"delete queue {name} successfully")


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
@option("-w", "--weight", type=click.IntRange(1), default=1, help="Share among its siblings.")
@option(
    "-S",
    "--state",
    type=click.Choice(("Open", "Closed"), case_sensitive=False),
    default="Open",
    help="Whether it takes jobs.",
)
@click.option("--parent", help="The queue above it.  [default: root]")
@click.option("--priority", type=click.IntRange(0), help="Higher goes first and is reclaimed later.")
@_limits
@cluster_options
async def create(where: Where, name: str, **options: Any) -> None:
    """Create a queue."""
    await create_queue(where, name, **options)


@command.command("update")
@name_option("-n", "queue")
@click.option("-w", "--weight", type=click.IntRange(1), help="Share among its siblings.")
@click.option("--parent", help="The queue above it.")
@click.option("--priority", type=click.IntRange(0), help="Higher goes first and is reclaimed later.")
@_limits
@cluster_options
async def update(where: Where, name: str, **options: Any) -> None:
    """Change what is given; everything else stays."""
    await update_queue(where, name, **options)


@command.command("operate")
@name_option("-n", "queue")
@click.option("-a", "--action", default="", help="open, close or update.")
@click.option("-w", "--weight", type=int, help="The new weight, for update.")
@cluster_options
async def operate(where: Where, name: str, action: str, weight: int | None) -> None:
    """Open or close a queue, or change its weight. A closed queue takes no jobs; those that run go on."""
    await operate_queue(where, name, action, weight)


@command.command("list")
@print_option("text", "wide", "json", "yaml")
@cluster_options
async def list_(where: Where, output: str) -> None:
    """List queues with the number of their PodGroups by phase; wide: with what they use, deserve and may use."""
    await show_list(where, None, output)


@command.command("get")
@name_option("-n", "queue")
@print_option("text", "json", "yaml")
@cluster_options
async def get(where: Where, name: str, output: str) -> None:
    """Show one queue."""
    await show_list(where, name, output)


@command.command("delete")
@name_option("-n", "queue")
@cluster_options
async def delete(where: Where, name: str) -> None:
    """Delete a queue."""
    await remove(where, name)
