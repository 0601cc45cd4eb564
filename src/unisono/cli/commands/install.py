"""``unisono install``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from unisono.cli.options import FILE, Where, option, output_option, run_async, where_options


def _path_of_nodes(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value.startswith("/") or ".." in value.split("/") or value.rstrip("/") != value:
        raise click.BadParameter(f"'{value}' is not the full path of a file or folder on the nodes.")
    return value


@click.command("install")
@click.option("--image", help="Container image of the components.  [default: ghcr.io/unisono/unisono:VERSION]")
@option("--replicas", type=click.IntRange(1, 9), default=2, help="Pods of each component.")
@option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    default=("volcano", "unisono"),
    help="Pods that name this scheduler are ours; may be repeated.",
)
@click.option("--config", type=FILE, help="The scheduler's configuration, in Volcano's format.")
@option("--crds/--no-crds", default=True, help="Include the definitions of our kinds.")
@option("--policies/--no-policies", default=True, help="Check objects by CEL policies.")
@option("--webhook/--no-webhook", default=True, help="Run the webhook for defaults and what CEL lacks.")
@click.option("--hub", is_flag=True, help="Be the hub of a fleet: its members run the jobs, and this cluster none.")
@option("--monitoring/--no-monitoring", default=False, help="Include ServiceMonitors and alert rules.")
@option(
    "--simulate",
    type=click.IntRange(0, 100_000),
    default=0,
    help="Also run that many simulated nodes, to try jobs out; use it where no kubelet is.",
)
@option("--dashboard/--no-dashboard", default=False, help="Include the dashboard, which has no rights.")
@click.option(
    "--dashboard-name",
    "dashboard_names",
    multiple=True,
    metavar="HOST[:PORT]",
    help="Name under which browsers reach the dashboard over HTTPS; may be repeated.  [default: port-forward alone]",
)
@click.option(
    "--dashboard-token-header",
    default="",
    metavar="HEADER",
    help="Header in which an authenticating proxy before the dashboard sends the user's token.",
)
@option(
    "--numa-exporter/--no-numa-exporter",
    default=False,
    help="Include a DaemonSet that describes the CPUs of every node, for the plug-in numa-aware.",
)
@option(
    "--kubelet-dir",
    default="/var/lib/kubelet",
    metavar="PATH",
    callback=_path_of_nodes,
    help="With --numa-exporter: where the kubelets keep their state.",
)
@option(
    "--kubelet-config",
    default="/var/lib/kubelet/config.yaml",
    metavar="PATH",
    callback=_path_of_nodes,
    help="With --numa-exporter: the kubelets' configuration.",
)
@click.option(
    "--history-dsn-secret",
    "history_secret",
    default="",
    metavar="NAME",
    help="Secret of the namespace whose key dsn names a database of PostgreSQL in which the controllers write history.",
)
@click.option(
    "--history-reader-secret",
    default="",
    metavar="NAME",
    help="The same for the dashboard, which only reads it.  [default: that of --history-dsn-secret]",
)
@click.option(
    "--history-prometheus",
    default="",
    metavar="URL",
    help="In place of a database: a Prometheus that scrapes the scheduler, for the dashboard to read the history from.",
)
@option(
    "--history-days",
    type=click.IntRange(1, 36_500),
    default=90,
    help="Jobs that ended are kept there one by one for so long, then as sums of hours.",
)
@click.option("--uninstall", is_flag=True, help="Take the installation away again; queues and jobs are kept.")
@click.option(
    "--with-data",
    is_flag=True,
    help="With --uninstall: also delete the definitions, and with them all queues, jobs and pod groups.",
)
@option(
    "--dry-run",
    type=click.Choice(("none", "client", "server")),
    is_flag=False,
    flag_value="client",
    default="none",
    help="client: print the manifests, ask no server; server: let the server check them; alone it means client.",
)
@option("-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", help="How to print.")
@where_options
def command(
    where: Where,
    image: str | None,
    scheduler_names: tuple[str, ...],
    config: Path | None,
    uninstall: bool,
    with_data: bool,
    dry_run: str,
    output: str,
    **chosen: Any,
) -> None:
    """Install scheduler, controllers and webhook on a cluster, or bring them up to this version.

    --namespace is where they run (default: unisono-system). Everything is applied from the server's side and in order;
    running it again changes only what differs. --uninstall takes away what any installation there has made.
    """
    from unisono.engine.config_file.reader import load_config
    from unisono.errors import ConfigError
    from unisono.install.manifests import manifests
    from unisono.install.rights import FLEET_NAMESPACE
    from unisono.install.workloads import NAMESPACE, InstallOptions

    if chosen["history_prometheus"] and (chosen["history_secret"] or chosen["history_reader_secret"]):
        raise click.UsageError("--history-prometheus and --history-dsn-secret name two histories; give one of them.")
    if with_data and not uninstall:
        raise click.UsageError("--with-data belongs to --uninstall.")
    if uninstall:
        # Whatever was chosen then: what is not there is no error.
        chosen |= dict.fromkeys(("crds", "policies", "webhook", "monitoring", "dashboard", "numa_exporter"), True) | {
            "simulate": 1,
            "hub": True,
            # So that what goes with a history goes along; the name is in none of what is deleted.
            "history_secret": chosen["history_secret"] or "any",
        }
    text = ""
    if config is not None:
        try:
            text = config.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ConfigError(
                "the scheduler configuration is no text in UTF-8: is it the right file?", file=str(config)
            ) from None
        load_config(text, str(config))
    options = InstallOptions(
        namespace=where.namespace or NAMESPACE, scheduler_names=scheduler_names, scheduler_config=text, **chosen
    )
    if image:
        options = replace(options, image=image)
    made = manifests(options)
    if uninstall:
        # Members' objects are users' own.
        made = [one for one in made if one["metadata"]["name"] != FLEET_NAMESPACE]
        from unisono.cli.installing import USERS

        if dry_run == "client":
            kept = ("Queue",) if with_data else USERS
            _print([one for one in reversed(made) if one["kind"] not in kept], output)
            return

        run_async(_uninstall(where, made, options.namespace, with_data, dry_run == "server"))
        return
    if dry_run == "client":
        _print(made, output)
        return

    run_async(_install(where, made, dry_run == "server"))


def _print(manifests: list[dict[str, Any]], output: str) -> None:
    if output == "json":
        import json

        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}, indent=2))
        return
    from unisono.api.yaml import dump_all

    click.echo(dump_all(manifests), nl=False)


async def _install(where: Where, manifests: list[dict[str, Any]], dry_run: bool) -> None:
    from unisono.cli.connection import connect
    from unisono.cli.installing import install

    async with connect(where) as client:
        async for step in install(client, manifests, dry_run=dry_run):
            click.echo(step.line)


async def _uninstall(
    where: Where, manifests: list[dict[str, Any]], namespace: str, with_data: bool, dry_run: bool
) -> None:
    from unisono.cli.connection import connect
    from unisono.cli.installing import uninstall

    async with connect(where) as client:
        async for step in uninstall(client, manifests, namespace, with_data=with_data, dry_run=dry_run):
            click.echo(step.line)


# ``unisono crds``.


@click.command("crds")
@output_option("yaml", "json", default="yaml")
def crds_command(output: str) -> None:
    """Print the definitions of our kinds, for 'kubectl apply --server-side -f -'."""
    from unisono.api.crds import crd_manifests

    manifests = crd_manifests()
    if output == "json":
        import json

        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}, indent=2))
        return
    from unisono.api.yaml import dump_all

    click.echo(dump_all(manifests), nl=False)
