"""What the commands share that run one component as an own process: options, the cluster, signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from unisono.api.pod_limit import MOST_PODS
from unisono.cli.options import FILE, PATH, Command, option

if TYPE_CHECKING:
    from unisono.standalone.component import MakePart

log_level_option = option(
    "--log-level", type=click.Choice(("debug", "info", "warning", "error")), default="info", help="What the log tells."
)


def most_pods_option(fate: str) -> Callable[[Command], Command]:
    """Bound the pods of one object; ``fate`` is what becomes of a larger one, after "a larger one is"."""
    return option(
        "--most-pods",
        type=click.IntRange(1),
        default=MOST_PODS,
        help=f"Pods that one object may ask for; a larger one is {fate}.",
    )


class _Chosen(NamedTuple):
    """What a user said about a component; the names are those of the options."""

    kubeconfig: Path | None
    context: str | None
    leader_elect: bool
    lease_namespace: str | None
    lease_name: str
    listen: str
    log_level: str


def component_options(name: str, port: int) -> Callable[[Command], Command]:
    """Add the options of every component; the command gets ``run``, which it calls with its part.

    Args:
        name: of the component, and of its Lease.
        port: default port of probes and metrics.
    """

    def decorate(function: Command) -> Command:
        @wraps(function)
        def command(*args: Any, **kwargs: Any) -> Any:
            chosen = _Chosen(**{option: kwargs.pop(option) for option in _Chosen._fields})
            return function(*args, run=partial(_run, name, chosen), **kwargs)

        for decorate in reversed(_options(name, port)):
            command = decorate(command)
        return command  # type: ignore[return-value]

    return decorate


def _options(name: str, port: int) -> list[Callable[[Any], Any]]:
    """One for each field of ``_Chosen``, in the order of ``--help``."""
    return [
        click.option("--kubeconfig", type=PATH, help="The cluster; without it as kubectl finds it."),
        click.option("--context", help="Context of the kubeconfig."),
        option("--leader-elect/--no-leader-elect", default=True, help="Work only while holding a Lease."),
        click.option("--lease-namespace", help="Namespace of the Lease.  [default: the pod's own, else kube-system]"),
        option("--lease-name", default=name, help="Name of the Lease."),
        option(
            "--listen",
            default=f"127.0.0.1:{port}",
            help="HOST:PORT of /healthz, /readyz and /metrics; an empty text for none.",
        ),
        log_level_option,
    ]


def _run(name: str, chosen: _Chosen, part: MakePart) -> None:
    """Run one component until a signal."""
    from unisono.kube.kubeconfig import load
    from unisono.standalone import loop
    from unisono.standalone.component import Component, ComponentOptions
    from unisono.standalone.logs import configure_logs
    from unisono.standalone.loop import set_pace

    configure_logs(level=chosen.log_level)
    config = load(chosen.kubeconfig, context=chosen.context)
    namespace = chosen.lease_namespace or (config.namespace if config.in_cluster else "kube-system")
    lease = f"{namespace}/{chosen.lease_name}" if chosen.leader_elect else ""
    set_pace()
    loop.run(until_signal(Component(name, config, part, ComponentOptions(listen=chosen.listen.strip(), lease=lease))))


def history_option(whose: str) -> Callable[[Command], Command]:
    """``--history-dsn-file``; ``whose`` is what is done with the database, after "A database of PostgreSQL"."""
    return click.option(
        "--history-dsn-file",
        type=FILE,
        envvar="UNISONO_HISTORY_DSN_FILE",
        help=f"File with the connection string of a database of PostgreSQL{whose}.",
    )


def scheduling_options(function: Command) -> Command:
    """``--scheduler-name`` and ``--default-queue``."""

    @option(
        "--scheduler-name",
        "scheduler_names",
        multiple=True,
        default=("volcano", "unisono"),
        help="Pods that name this scheduler are ours; may be repeated.",
    )
    @option("--default-queue", default="default", help="Queue of jobs that name none.")
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


async def until_signal(component: Any) -> None:
    """Run until SIGINT or SIGTERM; the Lease is then given back, so that the next process need not wait."""
    work = asyncio.ensure_future(component.run())
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        return
