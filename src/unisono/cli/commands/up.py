"""``unisono up``."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.components import log_level_option, most_pods_option
from unisono.errors import UnisonoError

if TYPE_CHECKING:
    from unisono.standalone.paths import DataDir
    from unisono.standalone.plane import PlaneOptions

READY_SECONDS = 180.0
# Who waits longer than this is told for what.
PATIENCE_SECONDS = 3.0
POLL_SECONDS = 0.05
# What the command itself does, and not the one that it starts in the background.
_ONCE = ("--detach", "--repair", "--accept-loss")
_REMOTE = (
    "with --host {host} other machines reach the API. Who has the kubeconfig, a client certificate or a token may run "
    "programs here as you; give others their own roles (docs/access.md) and never this kubeconfig."
)


class StartFailed(UnisonoError):
    """The detached control plane did not become ready."""


@click.command("up")
@click.option("--detach", is_flag=True, help="Return when it is ready; it goes on in the background.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where to keep state and kubeconfig.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address of the API; with any but a loopback address other machines reach it.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the API.  [default: a free one, kept]")
@click.option(
    "--nodes",
    "nodes_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
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
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="How this machine's NVIDIA cards are shared: a configuration of NVIDIA's device plugin.",
)
@click.option(
    "--cpu-manager-policy",
    type=click.Choice(("none", "static")),
    default="none",
    show_default=True,
    help="static: containers of Guaranteed pods that ask for whole CPUs have them for themselves.",
)
@click.option(
    "--topology-manager-policy",
    type=click.Choice(("none", "best-effort", "restricted", "single-numa-node")),
    default="none",
    show_default=True,
    help="How strictly such CPUs must be of one NUMA node.",
)
@click.option(
    "--reserved-cpus",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    metavar="NUMBER",
    help="With static: CPUs that no container has for itself.",
)
@click.option(
    "--scheduler-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's configuration, in Volcano's format; changes take effect at once.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write down what the scheduler sees and decides, for 'unisono simulate replay'.",
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
@click.option(
    "--history-days",
    type=click.FloatRange(0, 36500),
    default=90,
    show_default=True,
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
    from unisono.agent.devices.sharing import read_sharing
    from unisono.agent.limits.eviction_thresholds import DEFAULT_EVICTION, parse_eviction
    from unisono.apiserver.access.hosts import is_loopback
    from unisono.apiserver.flow_control.limits import Limits
    from unisono.standalone.nodes_file import read_nodes
    from unisono.standalone.paths import DataDir

    data = DataDir.at(data_dir)
    if not is_loopback(host) and not os.environ.get("UNISONO_DETACHED"):
        click.echo(f"{click.style('Warning:', fg='yellow', bold=True)} {_REMOTE.format(host=host)}", err=True)
    nodes = read_nodes(nodes_file) if nodes_file else ()
    limits = Limits().changed(api_limits)
    eviction = DEFAULT_EVICTION if eviction_hard is None else parse_eviction(eviction_hard)
    shares = read_sharing(device_config) if device_config else ()
    if repair or accept_loss:
        from unisono.standalone.store import prepare

        for line in prepare(data, mend=repair, lossy=accept_loss):
            click.echo(line, err=True)
    if not os.environ.get("UNISONO_DETACHED"):
        for line in data.exposed():
            click.echo(f"{click.style('Warning:', fg='yellow', bold=True)} {line}", err=True)
    if detach:
        if scheduler_config is not None:
            from unisono.scheduler.settings import FileConfig

            FileConfig(scheduler_config)  # says what is wrong with it
        _detach(data, [argument for argument in sys.argv[1:] if argument not in _ONCE], host, port)
        return
    from unisono.kube.open_files import raise_open_files
    from unisono.standalone import loop
    from unisono.standalone.logs import configure_logs
    from unisono.standalone.plane import PlaneOptions

    log = data.log if os.environ.get("UNISONO_DETACHED") else None
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
    from unisono.dashboard.http.files import is_built
    from unisono.standalone.interpreter import set_pace
    from unisono.standalone.plane import Plane
    from unisono.standalone.store import with_ways_out

    plane = Plane(data, options)
    page = Activation(data, options.log_file, scheduler=options.scheduler_config) if dashboard and is_built() else None
    stopped = asyncio.Event()
    running = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(name, stopped.set)
    # Standard output of a detached one is its log, which is for programs too.
    tell = (lambda _: None) if os.environ.get("UNISONO_DETACHED") else click.echo
    with with_ways_out(data):
        await plane.start()
    set_pace()
    try:
        if page is not None:
            await page.start()
        else:
            forget_port(data)
        if not await _first(plane.wait_ready(), stopped):
            tell(_welcome(data, plane.url))
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


def _welcome(data: DataDir, url: str) -> str:
    from unisono.dashboard.http.files import HOW_TO_BUILD, is_built

    lines = [f"Unisono is up at {url}.", f"  export KUBECONFIG={data.kubeconfig}", "  kubectl get nodes"]
    return "\n".join([*lines, "  unisono run FILE", "  unisono dashboard" if is_built() else HOW_TO_BUILD])


def _detach(data: DataDir, arguments: list[str], host: str, port: int) -> None:
    """Start this command again in the background and wait until its API answers."""
    from unisono.apiserver.access.hosts import bind
    from unisono.standalone.paths import UnusableDataDir

    if data.running_pid() is not None:
        data.acquire()  # says who runs there
    bind(host, port).close()  # fails where the address cannot be listened on
    data.create()
    try:
        data.kubeconfig.unlink(missing_ok=True)
        data.log.touch(mode=0o600)
        told = data.log.stat().st_size
        log = data.log.open("ab")
    except OSError as error:
        raise UnusableDataDir(data.root, error) from error
    # Before the child is there: a signal in between must not leave it behind.
    ends: list[int] = []
    for name in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(name) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(name, lambda number, _: ends.append(number))
    with log:
        child = subprocess.Popen(
            [sys.executable, "-m", "unisono", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "UNISONO_DETACHED": "1"},
        )
    try:
        _await_ready(data, child, told, ends)
    except BaseException:
        child.terminate()
        raise


def _await_ready(data: DataDir, child: subprocess.Popen[bytes], told: int, ends: Sequence[int]) -> None:
    """Wait until the API of the child answers.

    Args:
        data: where it runs.
        child: the process.
        told: length of the log before its start.
        ends: gets the signals that ask this process to end.
    """
    began = time.monotonic()
    told_why, missing = False, ""
    while (waited := time.monotonic() - began) < READY_SECONDS:
        if waited > PATIENCE_SECONDS and not told_why:
            told_why = True
            click.echo(f"The control plane is starting; what it does is in {data.log} ...", err=True)
        if ends:
            raise SystemExit(128 + ends[0])
        if child.poll() is not None:
            reason = _last_words(data.log, told) or f"it ended at once with code {child.returncode}"
            end = "\n" if "\n" in reason else ". "
            raise StartFailed(f"The control plane did not start: {reason.rstrip('.')}{end}Its log is {data.log}.")
        if data.kubeconfig.exists():
            from unisono.kube.kubeconfig import load

            missing = asyncio.run(_unready(data))
            if not missing:
                click.echo(_welcome(data, load(data.kubeconfig).server))
                return
        time.sleep(POLL_SECONDS)
    why = f" ({missing})" if missing else ""
    raise StartFailed(f"The control plane did not become ready within {READY_SECONDS:g} s{why}: see {data.log}.")


def _last_words(log: Path, start: int) -> str:
    """The error with which a control plane ended, from its part of the log; empty where it left none."""
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    # What is no JSON was not logged but written to standard error: an error's sentence, or a traceback and its error.
    said = [line.rstrip() for line in lines if line.strip() and not line.startswith("{")]
    errors = [number for number, line in enumerate(said) if line.startswith("Error:")]
    # An error may go on for lines: which objects of a store are damaged.
    last = said[errors[-1] :] if errors else said[-1:]
    return "\n".join(last).removeprefix("Error:").strip()


async def _unready(data: DataDir) -> str:
    """What the server says that it waits for; empty where it is ready."""
    from unisono.errors import ApiError
    from unisono.kube.http import HttpClient
    from unisono.kube.kubeconfig import load

    client = HttpClient(load(data.kubeconfig))
    try:
        status, _, body = await client.request("GET", "/readyz")
    except ApiError as error:
        return error.message
    finally:
        await client.close()
    if status == 200:
        return ""
    failed = [line.removeprefix("[-]") for line in body.decode(errors="replace").splitlines() if line.startswith("[-]")]
    return ", ".join(failed) or f"/readyz answers {status}"
