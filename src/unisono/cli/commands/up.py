"""``unisono up``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.components import log_level_option, most_pods_option
from unisono.cli.detached_plane import DETACHED, start_detached, welcome
from unisono.cli.options import FILE, NEW_FILE, PATH, option

if TYPE_CHECKING:
    from unisono.standalone.paths import DataDir
    from unisono.standalone.plane import PlaneOptions

# What the command itself does, and not the one that it starts in the background.
_ONCE = ("--detach", "--repair", "--accept-loss")
_REMOTE = (
    "with --host {host} other machines reach the API. Who has the kubeconfig, a client certificate or a token may run "
    "programs here as you; give others their own roles (docs/access.md) and never this kubeconfig."
)


@click.command("up")
@click.option("--detach", is_flag=True, help="Return when it is ready; it goes on in the background.")
@click.option("--data-dir", type=PATH, help="Where to keep state and kubeconfig.")
@option(
    "--host", default="127.0.0.1", help="Address of the API; with any but a loopback address other machines reach it."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the API.  [default: a free one, kept]")
@click.option(
    "--nodes",
    "nodes_file",
    type=FILE,
    help="Add simulated nodes: a YAML list of {name, count, capacity, labels, taints, devices}.",
)
@click.option("--no-agent", is_flag=True, help="Do not offer this machine as a node.")
@click.option(
    "--eviction-hard",
    metavar="THRESHOLDS",
    help="When the node's disk counts as full: nodefs.available<10%,nodefs.inodesFree<5% or quantities.",
)
@click.option(
    "--device-config",
    type=FILE,
    help="How this machine's NVIDIA cards are shared: a configuration of NVIDIA's device plugin.",
)
@option(
    "--cpu-manager-policy",
    type=click.Choice(("none", "static")),
    default="none",
    help="static: containers of Guaranteed pods that ask for whole CPUs have them for themselves.",
)
@option(
    "--topology-manager-policy",
    type=click.Choice(("none", "best-effort", "restricted", "single-numa-node")),
    default="none",
    help="How strictly such CPUs must be of one NUMA node.",
)
@option(
    "--reserved-cpus",
    type=click.IntRange(1, 4096),
    default=1,
    metavar="NUMBER",
    help="With static: CPUs that no container has for itself.",
)
@click.option(
    "--scheduler-config",
    type=FILE,
    help="The scheduler's configuration, in Volcano's format; changes take effect at once.",
)
@click.option(
    "--record", type=NEW_FILE, help="Write down what the scheduler sees and decides, for 'unisono simulate replay'."
)
@click.option(
    "--api-limit",
    "api_limits",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a bound on the API's clients (docs/kubernetes-api.md lists them); can be given several times.",
)
@click.option(
    "--fleet",
    is_flag=True,
    help="Be the hub of a fleet: jobs run in the clusters that 'unisono fleet join' brings, and not on this machine.",
)
@click.option("--no-dashboard", is_flag=True, help="Do not hold a port of 127.0.0.1 for 'unisono dashboard'.")
@option(
    "--history-days",
    type=click.FloatRange(0, 36500),
    default=90,
    metavar="DAYS",
    help="Remember single jobs for 'unisono report' so long, and sums of hours longer; 0: no history.",
)
@click.option("--repair", is_flag=True, help="Set aside what is damaged in the store, and serve the rest.")
@click.option("--accept-loss", is_flag=True, help="Start although changes that were acknowledged are missing.")
@most_pods_option("refused")
@log_level_option
def command(
    detach: bool,
    data_dir: Path | None,
    host: str,
    port: int,
    nodes_file: Path | None,
    no_agent: bool,
    eviction_hard: str | None,
    device_config: Path | None,
    cpu_manager_policy: str,
    topology_manager_policy: str,
    reserved_cpus: int,
    scheduler_config: Path | None,
    record: Path | None,
    api_limits: tuple[str, ...],
    most_pods: int,
    fleet: bool,
    no_dashboard: bool,
    history_days: float,
    log_level: str,
    repair: bool,
    accept_loss: bool,
) -> None:
    """Start API server, scheduler, controllers and node agent of this machine; kubectl works with its kubeconfig."""
    from unisono.agent.cpus.book import CpuPolicies
    from unisono.agent.devices.inventory import read_sharing
    from unisono.agent.limits.disk import DEFAULT_EVICTION, parse_eviction
    from unisono.apiserver.access.files import is_loopback
    from unisono.apiserver.flow_control import Limits
    from unisono.standalone.paths import DataDir, read_nodes

    data = DataDir.at(data_dir)
    if not is_loopback(host) and not os.environ.get(DETACHED):
        click.echo(f"{click.style('Warning:', fg='yellow', bold=True)} {_REMOTE.format(host=host)}", err=True)
    nodes = read_nodes(nodes_file) if nodes_file else ()
    limits = Limits().changed(api_limits)
    eviction = DEFAULT_EVICTION if eviction_hard is None else parse_eviction(eviction_hard)
    shares = read_sharing(device_config) if device_config else ()
    if repair or accept_loss:
        from unisono.standalone.store import prepare

        for line in prepare(data, set_aside=repair, lossy=accept_loss):
            click.echo(line, err=True)
    if not os.environ.get(DETACHED):
        for line in data.exposed():
            click.echo(f"{click.style('Warning:', fg='yellow', bold=True)} {line}", err=True)
    if detach:
        if scheduler_config is not None:
            from unisono.scheduler.settings import FileConfig

            FileConfig(scheduler_config)  # says what is wrong with it
        start_detached(data, [argument for argument in sys.argv[1:] if argument not in _ONCE], host, port)
        return
    from unisono.kube.listening import raise_open_files
    from unisono.standalone import loop
    from unisono.standalone.logs import configure_logs
    from unisono.standalone.plane import PlaneOptions

    log = data.log if os.environ.get(DETACHED) else None
    configure_logs(log, level=log_level)
    options = PlaneOptions(
        host=host,
        port=port,
        simulated_nodes=nodes,
        local_node=not (no_agent or fleet),
        own_users=True,
        eviction=eviction,
        shares=shares,
        cpu_policies=CpuPolicies(cpu_manager_policy, topology_manager_policy, reserved_cpus),
        scheduler_config=scheduler_config,
        record=record,
        history_days=history_days,
        apart=True,
        limits=limits,
        most_pods=most_pods,
        fleet=fleet,
        log_file=log,
        log_level=log_level,
    )
    raise_open_files()
    loop.run(_serve(data, options, dashboard=not no_dashboard))


async def _serve(data: DataDir, options: PlaneOptions, *, dashboard: bool) -> None:
    from unisono.dashboard.activation import Activation, forget_port
    from unisono.dashboard.http.guard import is_built
    from unisono.standalone.loop import set_pace
    from unisono.standalone.plane import Plane
    from unisono.standalone.store import with_advice

    plane = Plane(data, options)
    page = Activation(data, options.log_file, scheduler=options.scheduler_config) if dashboard and is_built() else None
    stopped = asyncio.Event()
    running = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(name, stopped.set)
    # Standard output of a detached one is its log, which is for programs too.
    tell = (lambda _: None) if os.environ.get(DETACHED) else click.echo
    with with_advice(data):
        await plane.start()
    set_pace()
    try:
        if page is not None:
            await page.start()
        else:
            forget_port(data)
        if not await _first(plane.wait_ready(), stopped):
            tell(welcome(data, plane.url))
        await stopped.wait()
        tell("Stopping; running jobs go on and are found again by the next 'unisono up' ...")
    finally:
        if page is not None:
            await page.stop()
        await plane.stop()


async def _first(work: Coroutine[Any, Any, None], stopped: asyncio.Event) -> bool:
    """Wait for ``work``, or until a stop is wanted; answers whether it is."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(stopped.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return stopped.is_set()
