"""``unisono agent``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from unisono.cli.components import component_options


@click.command("agent")
@click.option("--simulate", type=click.IntRange(1, 100_000), help="That many equal nodes.")
@click.option("--name", default="sim", show_default=True, help="Name of the nodes of --simulate, before their number.")
@click.option(
    "--capacity",
    default="cpu=64,memory=256Gi,pods=110",
    show_default=True,
    help="What each node of --simulate has: RESOURCE=AMOUNT,...",
)
@click.option(
    "--nodes",
    "nodes_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML list of {name, count, capacity, labels, taints}, as for 'unisono up'.",
)
@click.option(
    "--heartbeat",
    type=click.FloatRange(1.0),
    default=300.0,
    show_default=True,
    help="Seconds between two renewals of a node's Lease; 10 where a node controller watches over nodes.",
)
@component_options("unisono-agent", 8082)
def command(
    simulate: int | None,
    name: str,
    capacity: str,
    nodes_file: Path | None,
    heartbeat: float,
    run: Callable[[Any], None],
) -> None:
    """Register simulated nodes with an API server and play their pods, until it is told to end."""
    from unisono.agent.simulated.specs import parse_specs
    from unisono.standalone.component_processes import simulated_part
    from unisono.standalone.paths import read_nodes

    entries = list(read_nodes(nodes_file)) if nodes_file else []
    if simulate:
        entries.append({"name": name, "count": simulate, "capacity": _amounts(capacity)})
    if not entries:
        raise click.UsageError("say which nodes to simulate with --simulate or --nodes; 'unisono up' runs real pods.")
    run(simulated_part(parse_specs(entries), heartbeat))


def _amounts(text: str) -> dict[str, str]:
    amounts = {}
    for part in text.split(","):
        resource, equals, amount = part.strip().partition("=")
        if not equals or not resource or not amount:
            raise click.BadParameter(f"'{part}' is not RESOURCE=AMOUNT.", param_hint="--capacity")
        amounts[resource] = amount
    return amounts
