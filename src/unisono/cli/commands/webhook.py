"""``unisono webhook``."""

from __future__ import annotations

from pathlib import Path

import click

from unisono.cli.components import log_level_option, most_pods_option


@click.command("webhook")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="The cluster; without it as kubectl finds it.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--serve",
    default="127.0.0.1:8443",
    show_default=True,
    help="HOST:PORT at which the API server asks; :8443 for servers on other machines.",
)
@click.option(
    "--service-namespace",
    help="Namespace of the Service and of the Secret unisono-webhook.  [default: the pod's own, else unisono-system]",
)
@click.option(
    "--configuration", default="unisono", show_default=True, help="Webhook configurations that are to trust it."
)
@click.option(
    "--server-name",
    "also",
    multiple=True,
    help="A name or address in the certificate beside the Service's, for servers outside of it; may be repeated.",
)
@most_pods_option("refused")
@click.option(
    "--listen",
    default="127.0.0.1:8083",
    show_default=True,
    help="HOST:PORT of /healthz, /readyz and /metrics; an empty text for none.",
)
@log_level_option
def command(
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
