"""``unisono node``: how nodes stand with their checks, and who takes them out and brings them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import Where, control_plane_options, output_option

if TYPE_CHECKING:
    from unisono.api.core import Node
    from unisono.kube.http import HttpClient


@click.group("node")
def command() -> None:
    """List how nodes stand with their NodeChecks, take nodes out of service, and bring them back."""


@command.command("list")
@output_option("text", "json")
@control_plane_options
async def list_nodes(where: Where, output: str) -> None:
    """List nodes with their checks, quarantines and faults."""
    from unisono.api.kinds import NODES
    from unisono.cli.connection import connect
    from unisono.cli.printing import columns, print_json, visible

    async with connect(where) as client:
        rows = [row_of(node) for node in (await client.list(NODES)).items]
    rows.sort(key=lambda row: row["name"])
    if output == "json":
        print_json(rows)
        return
    lines = []
    for row in rows:
        checks = ", ".join(f"{name} {mark['state']} {mark['since']}" for name, mark in row["checks"].items())
        lines.append((row["name"], row["quarantine"], checks, visible(row["faults"]), visible(row["reason"])))
    for line in columns(("NODE", "QUARANTINE", "CHECKS", "FAULTS", "REASON"), lines, empty="-"):
        click.echo(line)


@command.command("quarantine")
@click.argument("names", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why, for those who wait for the nodes.")
@control_plane_options
async def quarantine_nodes(where: Where, names: tuple[str, ...], reason: str) -> None:
    """Quarantine nodes: they get no new jobs until the quarantine is lifted, and running pods stay."""
    import time

    from unisono.api.kinds import NODES
    from unisono.api.node_checks import BY_HAND, quarantined_by, taking_out
    from unisono.cli.connection import connect
    from unisono.cli.slurm.selecting import own_name

    async with connect(where) as client:
        who = await own_name(client)
        for name in names:
            node = await client.get(NODES, name)
            if by := quarantined_by(node.spec.taints):
                click.echo(f"node/{name} is out already ({by})")
                continue
            await client.patch(NODES, name, taking_out(node, BY_HAND, f"{who}: {reason}", time.time()))
            await _record(client, node, "NodeQuarantined", f"by {who}: {reason}")
            click.echo(f"node/{name} takes no more jobs")


@command.command("lift")
@click.argument("names", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="The nodes take jobs when they have passed their check again.")
@click.option("--reason", default="", help="Why, for the event that tells of it.")
@control_plane_options
async def lift_quarantine(where: Where, names: tuple[str, ...], check: bool, reason: str) -> None:
    """Lift the quarantine of nodes: they take jobs again, and an event on the node says who did it."""
    import time

    from unisono.api.kinds import NODES
    from unisono.api.node_checks import lifting, quarantined_by
    from unisono.cli.connection import connect
    from unisono.cli.slurm.selecting import own_name

    async with connect(where) as client:
        who = await own_name(client)
        for name in names:
            node = await client.get(NODES, name)
            by = quarantined_by(node.spec.taints)
            if not by:
                click.echo(f"node/{name} is not in quarantine")
                continue
            await client.patch(NODES, name, lifting(node, time.time(), check=check))
            await _record(client, node, "QuarantineLifted", f"by {who} (it was {by}){f': {reason}' if reason else ''}")
            click.echo(f"node/{name} {'is checked again' if check else 'takes jobs again'}")


def row_of(node: Node) -> dict[str, Any]:
    """What ``unisono node list`` shows of a node."""
    from unisono.api.annotations import NODE_FAULTS, QUARANTINE
    from unisono.api.node_checks import book_of, quarantined_by
    from unisono.api.times import rfc3339

    notes = node.metadata.annotations or {}
    return {
        "name": node.metadata.name,
        "quarantine": quarantined_by(node.spec.taints),
        "checks": {
            name: {"state": mark.state, "since": rfc3339(mark.since)} for name, mark in sorted(book_of(notes).items())
        },
        "faults": notes.get(NODE_FAULTS, ""),
        "reason": notes.get(QUARANTINE, ""),
    }


async def _record(client: HttpClient, node: Node, reason: str, message: str) -> None:
    """An event on the node; who may not write events has changed the node all the same, and is told so."""
    from unisono.kube.events import EventRecorder

    recorder = EventRecorder(client, "unisono-cli")
    recorder.event(node, "Normal", reason, message)
    await recorder.close()
    if recorder.statistics().dropped:
        click.echo(f"(no event tells of it: you may not write events about node {node.metadata.name})", err=True)
