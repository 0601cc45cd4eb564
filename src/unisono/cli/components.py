"""What the commands share that run one component as an own process: options, the cluster, signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import Command

if TYPE_CHECKING:
    from unisono.standalone.component import MakePart


def component_options(name: str, port: int) -> Callable[[Command], Command]:
    """Add the options of every component; the command gets ``run``, which it calls with its part.

    Args:
        name: of the component, and of its Lease.
        port: default port of probes and metrics.

    """

    def decorate(function: Command) -> Command:
        @click.option(
            "--kubeconfig", type=click.Path(path_type=Path), help="The cluster; without it as kubectl finds it."
        )
        @click.option("--context", help="Context of the kubeconfig.")
        @click.option(
            "--leader-elect/--no-leader-elect", default=True, show_default=True, help="Work only while holding a Lease."
        )
        @click.option("--lease-namespace", help="Namespace of the Lease.  [default: the pod's own, else kube-system]")
        @click.option("--lease-name", default=name, show_default=True, help="Name of the Lease.")
        @click.option(
            "--listen",
            default=f"127.0.0.1:{port}",
            show_default=True,
            help="HOST:PORT of /healthz, /readyz and /metrics; an empty text for none.",
        )
        @click.option(
            "--log-level",
            type=click.Choice(("debug", "info", "warning", "error")),
            default="info",
            show_default=True,
            help="What the log tells.",
        )
        @wraps(function)
        def wrapper(
            *args: Any,
            kubeconfig: Path | None,
            context: str | None,
            leader_elect: bool,
            lease_namespace: str | None,
            lease_name: str,
            listen: str,
            log_level: str,
            **kwargs: Any,
        ) -> Any:
            def run(part: MakePart) -> None:
                from unisono.kube.kubeconfig import load
                from unisono.standalone import loop
                from unisono.standalone.component import Component, ComponentOptions
                from unisono.standalone.logs import configure_logs
                from unisono.standalone.pace import set_pace

                configure_logs(level=log_level)
                config = load(kubeconfig, context=context)
                namespace = lease_namespace or (config.namespace if config.in_cluster else "kube-system")
                options = ComponentOptions(
                    listen=listen.strip(), lease=f"{namespace}/{lease_name}" if leader_elect else ""
                )
                set_pace()
                loop.run(until_signal(Component(name, config, part, options)))

            return function(*args, run=run, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def scheduling_options(function: Command) -> Command:
    """``--scheduler-name`` and ``--default-queue``."""

    @click.option(
        "--scheduler-name",
        "scheduler_names",
        multiple=True,
        default=("volcano", "unisono"),
        show_default=True,
        help="Pods that name this scheduler are ours; may be repeated.",
    )
    @click.option("--default-queue", default="default", show_default=True, help="Queue of jobs that name none.")
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
