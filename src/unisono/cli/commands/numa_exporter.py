"""``unisono numa-exporter``."""

from __future__ import annotations

from pathlib import Path

import click

from unisono.cli.components import log_level_option


@click.command("numa-exporter")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="The cluster; without it as kubectl finds it.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option("--node-name", required=True, envvar="NODE_NAME", help="The node of the kubelet.  [default: $NODE_NAME]")
@click.option(
    "--kubelet-dir",
    default="/var/lib/kubelet",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where it keeps cpu_manager_state.",
)
@click.option(
    "--kubelet-config",
    type=click.Path(path_type=Path),
    help="Its configuration.  [default: config.yaml of --kubelet-dir]",
)
@click.option(
    "--system",
    default="/sys/devices/system",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where the kernel tells of CPUs and NUMA nodes.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8085",
    show_default=True,
    help="HOST:PORT of /healthz, /readyz and /metrics; an empty text for none.",
)
@log_level_option
def command(
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
