"""``unisono fleet``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unisono.cli.options import Command, Where, output_option, run_async
from unisono.cli.vcctl import cluster_options

_NAMESPACE = "kurator-fleet-system"


def _namespace(function: Command) -> Command:
    text = "Namespace of the fleet's objects on the hub."
    return click.option("-n", "--namespace", default=_NAMESPACE, show_default=True, help=text)(function)


def _member_options(function: Command) -> Command:
    """What is known of a member beside its address."""
    for option in (
        click.option("--fleet", default="fleet", show_default=True, help="Fleet that it becomes a member of."),
        click.option("--region", default="", help="Region that it is in."),
        click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of it and its nodes."),
        click.option("--price", "prices", multiple=True, metavar="RESOURCE=PRICE", help="Price of one unit per hour."),
        click.option(
            "--applications", is_flag=True, help="Let Applications of the hub bring objects of any kind to it."
        ),
    ):
        function = option(function)
    return function


@click.group("fleet")
def command() -> None:
    """Join clusters to a hub ('unisono up --fleet'), list them, and move work between them."""


@command.command("join")
@click.argument("name")
@click.option(
    "--kubeconfig",
    "member",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="How you reach the member; the hub gets an account of its own.",
)
@click.option("--context", help="Context of that kubeconfig.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Data directory of the hub.")
@click.option("--hub-kubeconfig", type=click.Path(path_type=Path), help="How you reach a hub elsewhere.")
@_member_options
@_namespace
def join(
    name: str,
    member: Path,
    context: str | None,
    data_dir: Path | None,
    hub_kubeconfig: Path | None,
    namespace: str,
    **about: Any,
) -> None:
    """Join the cluster of a kubeconfig as NAME; the hub gets an account with few rights there."""
    from unisono.cli.fleet.members import join as run

    if data_dir and hub_kubeconfig:
        raise click.UsageError("--hub-kubeconfig and --data-dir name two different hubs; give one of them.")
    run_async(run(Where(hub_kubeconfig, data_dir, None, namespace), name, member, context, about))


@command.command("account")
@click.option("--applications", is_flag=True, help="Let Applications of the hub bring objects of any kind.")
@click.option(
    "--kind", "resources", multiple=True, metavar="RESOURCE", help="Kind that a table describes: swarms.example.com."
)
def account(*, applications: bool, resources: tuple[str, ...]) -> None:
    """Print the account that a hub needs in a member, with its rights, for an administrator to read and apply."""
    from unisono.api.yaml import dump_all
    from unisono.fleet.members import joining

    click.echo(dump_all(joining.account(applications=applications, resources=resources)), nl=False)


@command.command("embed")
@click.argument("name")
@click.option(
    "--nodes",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Its simulated nodes: a YAML list of {name, count, capacity, labels, taints, devices}.",
)
@click.option("--agent", is_flag=True, help="Offer this machine as a node, too, which runs real processes.")
@_member_options
@_namespace
@cluster_options
def embed(where: Where, name: str, nodes: Path, agent: bool, **about: Any) -> None:
    """Start a control plane of its own on this machine, with its own data, and join it as NAME: for trying out."""
    from unisono.cli.fleet.members import embed as run

    run(where, name, nodes, about, agent=agent)


@command.command("leave")
@click.argument("name")
@_namespace
@cluster_options
async def leave(where: Where, name: str) -> None:
    """Take a member out of its hub; an embedded one is stopped. What it runs is not deleted there."""
    from unisono.cli.fleet.members import leave as run

    await run(where, name, where.namespace or _NAMESPACE)


@command.command("list")
@output_option("text", "json")
@cluster_options
async def list_(where: Where, output: str) -> None:
    """List members: whether they take work, their version, nodes, accelerators and jobs."""
    from unisono.cli.fleet.jobs import show_members as run

    await run(where, output)


@command.command("top")
@output_option("text", "json")
@cluster_options
async def top(where: Where, output: str) -> None:
    """Show how much of each member is in use, and the largest block of free accelerators."""
    from unisono.cli.fleet.jobs import show_use as run

    await run(where, output)


@command.command("explain")
@click.argument("what", metavar="JOB|KIND/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the job.")
@output_option("text", "json")
@cluster_options
async def explain(where: Where, what: str, output: str) -> None:
    """Say where a job is, or for each member why it is not there."""
    from unisono.cli.fleet.jobs import explain as run

    await run(where, what, where.namespace or "default", output)


@command.command("pods")
@click.argument("what", metavar="[JOB|KIND/NAME]", required=False, default="")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the jobs.")
@output_option("text", "json")
@cluster_options
async def pods(where: Where, what: str, output: str) -> None:
    """List the pods of jobs, and the member that runs each."""
    from unisono.cli.fleet.jobs import show_pods as run

    await run(where, what, where.namespace or "default", output)


@command.command("logs")
@click.argument("what", metavar="JOB|KIND/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the job.")
@click.option("-f", "--follow", is_flag=True, help="Go on until all has ended.")
@cluster_options
async def logs(where: Where, what: str, follow: bool) -> None:
    """Print the logs of all pods of a job, wherever they run."""
    from unisono.cli.fleet.jobs import logs as run

    await run(where, what, where.namespace or "default", follow=follow)


@command.command("drain")
@click.argument("name")
@click.option("--undo", is_flag=True, help="Let it take work again.")
@_namespace
@cluster_options
async def drain(where: Where, name: str, undo: bool) -> None:
    """Send no more work to a member; what runs there goes on."""
    from unisono.cli.fleet.jobs import drain as run

    await run(where, name, where.namespace or _NAMESPACE, undo=undo)


@command.command("failover")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_namespace
@cluster_options
async def failover(where: Where, name: str, yes: bool) -> None:
    """Drain a member and start its jobs elsewhere, from their beginning or their checkpoint."""
    from unisono.cli.fleet.jobs import failover as run

    if not yes:
        click.confirm(f"Stop all jobs that run in {name}, and start them in other members?", abort=True)
    await run(where, name, where.namespace or _NAMESPACE)


@command.command("contexts")
@click.option("--file", "to", type=click.Path(dir_okay=False, path_type=Path), help="Where to write it.")
@cluster_options
async def contexts(where: Where, to: Path | None) -> None:
    """Write a kubeconfig with each member as a context: kubectl --context MEMBER."""
    from unisono.cli.fleet.members import write_contexts as run

    await run(where, to)
