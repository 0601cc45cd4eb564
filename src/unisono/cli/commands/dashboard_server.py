"""``unisono dashboard-server``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from unisono.cli.components import history_option, log_level_option

if TYPE_CHECKING:
    from unisono.history.reading import HistorySource


@click.command("dashboard-server")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="The cluster; without it as kubectl finds it.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--certificate-authority",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="In a pod without a service account: the authority of the API server that the pod's environment names.",
)
@click.option(
    "--serve",
    default="127.0.0.1:8090",
    show_default=True,
    help="HOST:PORT of the page; :8090 for browsers on other machines.",
)
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
@click.option(
    "--listen",
    default="127.0.0.1:8084",
    show_default=True,
    help="HOST:PORT of /healthz, /readyz and /metrics; an empty text for none.",
)
@click.option(
    "--system-namespace",
    default="unisono-system",
    show_default=True,
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
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with a bearer token for a proxy before it.",
)
@log_level_option
def command(
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
