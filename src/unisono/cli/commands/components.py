"""Components of a control plane as commands of their own, which run until a signal ends them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unisono.api.annotations import CYCLES_LEASE
from unisono.cli.components import (
    component_options,
    history_option,
    log_level_option,
    most_pods_option,
    scheduling_options,
)
from unisono.cli.options import FILE, NEW_FILE, PATH, option

if TYPE_CHECKING:
    from unisono.history.reading import HistorySource


# ``unisono agent``.


@click.command("agent")
@click.option("--simulate", type=click.IntRange(1, 100_000), help="That many equal nodes.")
@option("--name", default="sim", help="Name of the nodes of --simulate, before their number.")
@option(
    "--capacity", default="cpu=64,memory=256Gi,pods=110", help="What each node of --simulate has: RESOURCE=AMOUNT,..."
)
@click.option(
    "--nodes",
    "nodes_file",
    type=FILE,
    help="A YAML list of {name, count, capacity, labels, taints}, as for 'unisono up'.",
)
@option(
    "--heartbeat",
    type=click.FloatRange(1.0),
    default=300.0,
    help="Seconds between two renewals of a node's Lease; 10 where a node controller watches over nodes.",
)
@component_options("unisono-agent", 8082)
def agent_command(
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


# ``unisono controllers``.

# Bytes of rows in a database that others run: 90 days of about 100,000 pods a day.
_MOST_HISTORY = 4 << 30


@click.command("controllers")
@scheduling_options
@click.option(
    "--foreign-kind",
    "foreign_kinds",
    metavar="KIND",
    multiple=True,
    help="Leave this training kind, such as PyTorchJob, to an operator of its own; may be repeated.",
)
@most_pods_option("set aside and told so")
@history_option(", in which is written down what ran")
@option(
    "--history-days",
    type=click.FloatRange(0.1, 36_500),
    default=90.0,
    help="Jobs that ended are kept one by one for so long, then as sums of hours.",
)
@click.option("--fleet", is_flag=True, help="Be that of the hub of a fleet: jobs run in its members.")
@component_options("unisono-controllers", 8081)
def controllers_command(
    scheduler_names: tuple[str, ...],
    default_queue: str,
    foreign_kinds: tuple[str, ...],
    most_pods: int,
    history_dsn_file: Path | None,
    history_days: float,
    fleet: bool,
    run: Callable[[Any], None],
) -> None:
    """Run the controllers beside an API server, until they are told to end."""
    from unisono.standalone.component_processes import Recording, controllers_part

    history = None
    if history_dsn_file is not None:
        from unisono.history.database import Bounds
        from unisono.history.postgres import Postgres

        bounds = Bounds(history_days, max(Bounds().days, history_days), most_bytes=_MOST_HISTORY)
        history = Recording(Postgres.of_file(history_dsn_file), bounds)
    run(controllers_part(scheduler_names, default_queue, foreign_kinds, most_pods, history, fleet=fleet))


# ``unisono scheduler``.


@click.command("scheduler")
@click.option(
    "--config", type=FILE, help="The scheduler's configuration, in Volcano's format; changes take effect at once."
)
@option("--bind-concurrency", type=click.IntRange(1, 4096), default=64, help="Binds under way at a time.")
@option(
    "--gang-patience",
    type=click.FloatRange(1.0),
    default=60.0,
    help="Seconds after which a gang that is bound only in part is released.",
)
@option(
    "--heartbeat-lease",
    default=f"kube-system/{CYCLES_LEASE}",
    help="NAMESPACE/NAME of the Lease that is renewed when cycles end.",
)
@click.option("--record", type=NEW_FILE, help="Write down what is seen and decided, for 'unisono simulate replay'.")
@click.option("--fleet", is_flag=True, help="Be that of the hub of a fleet: jobs run in its members.")
@scheduling_options
@component_options("unisono-scheduler", 8080)
def scheduler_command(
    config: Path | None,
    bind_concurrency: int,
    gang_patience: float,
    heartbeat_lease: str,
    record: Path | None,
    fleet: bool,
    scheduler_names: tuple[str, ...],
    default_queue: str,
    run: Callable[[Any], None],
) -> None:
    """Run the scheduler beside an API server, until it is told to end."""
    from unisono.scheduler.settings import FileConfig, FixedConfig
    from unisono.standalone.component_processes import scheduler_part

    source = FixedConfig() if config is None else FileConfig(config)
    run(
        scheduler_part(
            source,
            scheduler_names,
            default_queue,
            bind_concurrency=bind_concurrency,
            gang_patience=gang_patience,
            heartbeat_lease=heartbeat_lease,
            record=record,
            fleet=fleet,
        )
    )


# ``unisono webhook``.


@click.command("webhook")
@click.option("--kubeconfig", type=PATH, help="The cluster; without it as kubectl finds it.")
@click.option("--context", help="Context of the kubeconfig.")
@option(
    "--serve",
    default="127.0.0.1:8443",
    help="HOST:PORT at which the API server asks; :8443 for servers on other machines.",
)
@click.option(
    "--service-namespace",
    help="Namespace of the Service and of the Secret unisono-webhook.  [default: the pod's own, else unisono-system]",
)
@option("--configuration", default="unisono", help="Webhook configurations that are to trust it.")
@click.option(
    "--server-name",
    "also",
    multiple=True,
    help="A name or address in the certificate beside the Service's, for servers outside of it; may be repeated.",
)
@most_pods_option("refused")
@option(
    "--listen", default="127.0.0.1:8083", help="HOST:PORT of /healthz, /readyz and /metrics; an empty text for none."
)
@log_level_option
def webhook_command(
    kubeconfig: Path | None,
    context: str | None,
    serve: str,
    service_namespace: str | None,
    configuration: str,
    also: tuple[str, ...],
    most_pods: int,
    listen: str,
    log_level: str,
) -> None:
    """Answer an API server's questions about our kinds: defaults, and rules that CEL cannot say.

    Its certificates are its own: made at the first start, renewed in time, kept in a Secret that all replicas share.
    """
    import asyncio

    from unisono.cli.components import until_signal
    from unisono.kube.kubeconfig import load
    from unisono.standalone.component import Component, ComponentOptions
    from unisono.standalone.component_processes import webhook_part
    from unisono.standalone.logs import configure_logs

    configure_logs(level=log_level)
    config = load(kubeconfig, context=context)
    namespace = service_namespace or (config.namespace if config.in_cluster else "unisono-system")
    part = webhook_part(serve, namespace, configuration, also, most_pods)
    asyncio.run(until_signal(Component("unisono-webhook", config, part, ComponentOptions(listen=listen.strip()))))


# ``unisono numa-exporter``.


@click.command("numa-exporter")
@click.option("--kubeconfig", type=PATH, help="The cluster; without it as kubectl finds it.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option("--node-name", required=True, envvar="NODE_NAME", help="The node of the kubelet.  [default: $NODE_NAME]")
@option("--kubelet-dir", default="/var/lib/kubelet", type=PATH, help="Where it keeps cpu_manager_state.")
@click.option("--kubelet-config", type=PATH, help="Its configuration.  [default: config.yaml of --kubelet-dir]")
@option("--system", default="/sys/devices/system", type=PATH, help="Where the kernel tells of CPUs and NUMA nodes.")
@option(
    "--listen", default="127.0.0.1:8085", help="HOST:PORT of /healthz, /readyz and /metrics; an empty text for none."
)
@log_level_option
def numa_exporter_command(
    kubeconfig: Path | None,
    context: str | None,
    node_name: str,
    kubelet_dir: Path,
    kubelet_config: Path | None,
    system: Path,
    listen: str,
    log_level: str,
) -> None:
    """Tell schedulers of the CPUs of a node on which a kubelet runs, as its object Numatopology.

    It reads the kernel's and the kubelet's files, and changes nothing on the node.
    """
    import asyncio

    from unisono.cli.components import until_signal
    from unisono.kube.kubeconfig import load
    from unisono.standalone.component import Component, ComponentOptions
    from unisono.standalone.component_processes import numa_part
    from unisono.standalone.logs import configure_logs

    configure_logs(level=log_level)
    config = load(kubeconfig, context=context)
    part = numa_part(node_name, kubelet_dir, kubelet_config, system)
    asyncio.run(until_signal(Component("unisono-numa-exporter", config, part, ComponentOptions(listen=listen.strip()))))


# ``unisono dashboard-server``.


@click.command("dashboard-server")
@click.option("--kubeconfig", type=PATH, help="The cluster; without it as kubectl finds it.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--certificate-authority",
    type=FILE,
    help="In a pod without a service account: the authority of the API server that the pod's environment names.",
)
@option("--serve", default="127.0.0.1:8090", help="HOST:PORT of the page; :8090 for browsers on other machines.")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST[:PORT]",
    help="A name under which browsers reach it, beside localhost; can be given several times.",
)
@click.option("--behind-https", is_flag=True, help="Browsers reach it over HTTPS, through a proxy.")
@click.option(
    "--token-header",
    default="",
    metavar="HEADER",
    help="Header in which an authenticating proxy sends the user's token of the API server, such as Authorization.",
)
@option(
    "--listen", default="127.0.0.1:8084", help="HOST:PORT of /healthz, /readyz and /metrics; an empty text for none."
)
@option(
    "--system-namespace",
    default="unisono-system",
    help="Namespace of the installation: the scheduler's configuration is read there, with the viewer's rights.",
)
@history_option(" with the cluster's history, which viewers are shown as far as their rights go")
@click.option(
    "--history-prometheus",
    default="",
    metavar="URL",
    help="A Prometheus that scrapes the scheduler, to read the history from in place of a database.",
)
@click.option(
    "--history-prometheus-label",
    "history_labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label of this cluster's series there, where it scrapes several clusters; may be repeated.",
)
@click.option(
    "--history-prometheus-token-file",
    "history_token_file",
    type=NEW_FILE,
    help="File with a bearer token for a proxy before it.",
)
@log_level_option
def dashboard_server_command(
    kubeconfig: Path | None,
    context: str | None,
    certificate_authority: Path | None,
    serve: str,
    names: tuple[str, ...],
    behind_https: bool,
    token_header: str,
    listen: str,
    system_namespace: str,
    history_dsn_file: Path | None,
    history_prometheus: str,
    history_labels: tuple[str, ...],
    history_token_file: Path | None,
    log_level: str,
) -> None:
    """Serve the dashboard on a cluster, for all who have a token of its API server.

    It has no credentials of its own: of the cluster that it is given it keeps address and trust alone.
    """
    import asyncio

    from unisono.cli.components import until_signal
    from unisono.dashboard.http.guard import HOW_TO_BUILD, is_built
    from unisono.dashboard.http.sessions import without_credentials
    from unisono.dashboard.server import DashboardPart, cluster_without_account
    from unisono.kube.kubeconfig import load
    from unisono.standalone.component import Component, ComponentOptions
    from unisono.standalone.logs import configure_logs

    if not is_built():
        raise click.ClickException(HOW_TO_BUILD)
    configure_logs(level=log_level)
    if certificate_authority is not None:
        config = cluster_without_account(certificate_authority)
    else:
        config = without_credentials(load(kubeconfig, context=context))
    if history_dsn_file is not None and history_prometheus:
        raise click.UsageError("--history-dsn-file and --history-prometheus name two places; give one of them.")
    history = _history(history_dsn_file, history_prometheus, history_labels, history_token_file)
    part = DashboardPart(
        config,
        serve,
        names,
        secure=behind_https,
        token_header=token_header,
        namespace=system_namespace,
        history=history,
    )
    options = ComponentOptions(listen=listen.strip())
    asyncio.run(until_signal(Component("unisono-dashboard", config, lambda *_: part, options)))


def _history(
    dsn_file: Path | None, prometheus: str, labels: tuple[str, ...], token_file: Path | None
) -> HistorySource | None:
    """Who knows the past."""
    if dsn_file is not None:
        from unisono.history.postgres import Postgres
        from unisono.history.reading import StoredHistory

        return StoredHistory(Postgres.of_file(dsn_file))
    if not prometheus:
        return None
    from unisono.history.prometheus.api import PrometheusApi
    from unisono.history.prometheus.source import PrometheusHistory, pairs_of

    try:
        return PrometheusHistory(PrometheusApi(prometheus, token_file), dict(pairs_of(labels)))
    except ValueError as error:
        raise click.UsageError(f"--history-prometheus-label: {error}.") from None
