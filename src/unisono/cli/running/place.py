"""The control plane that ``unisono run`` uses: the one that is named or runs, else a private one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unisono.cli.options import Where

if TYPE_CHECKING:
    from unisono.cli.running.report import Reporter


@dataclass(frozen=True, slots=True)
class Place:
    """A control plane to run jobs on.

    Attributes:
        where: how to reach it.
        local: its pods are processes of this machine.
        private: it ends with this command.
    """

    where: Where
    local: bool = True
    private: bool = False


def is_cluster(where: Where) -> bool:
    """Whether pods run in containers of a cluster, and not as processes of this machine."""
    return where.kubeconfig is not None or where.kubectl


def is_private(where: Where) -> bool:
    """Whether no control plane is named and none runs, so that one is started for the command alone."""
    from unisono.standalone.paths import DataDir

    where = _of_environment(where)
    return not where.named and DataDir.at(where.data_dir).running_pid() is None


def _of_environment(where: Where) -> Where:
    """The control plane that runs on this machine and whose kubeconfig is ``$KUBECONFIG``, where nothing else is meant.

    Another cluster that the variable names is never meant: commands with files of this machine must not get there
    unasked.
    """
    from unisono.standalone.paths import DataDir

    named = os.environ.get("KUBECONFIG", "")
    if where.named or not named or DataDir.at(None).running_pid() is not None:
        return where
    file = Path(named).expanduser().absolute()
    data = DataDir.at(file.parent)
    return replace(where, data_dir=data.root) if file == data.kubeconfig and data.running_pid() is not None else where


@asynccontextmanager
async def control_plane(where: Where, report: Reporter, nodes_file: str | None) -> AsyncIterator[Place]:
    """The control plane to use; a private one ends with the block.

    Raises:
        NoControlPlane: the named one does not exist.
        UsageError: nodes are to be added to one that runs already.
    """
    from unisono.cli.connection import find

    where = _of_environment(where)
    if not is_private(where):
        find(where)  # complains now, before anything is started
        if nodes_file:
            raise click.UsageError("--nodes adds nodes to a private control plane, and here one is named or running.")
        yield Place(where, local=not is_cluster(where))
        return
    report.step("starting a control plane for this command", 0, 3)
    async with _private(nodes_file, report) as folder:
        report.line("control plane", "private, for this command alone")
        yield Place(Where(data_dir=folder, namespace=where.namespace), private=True)


@asynccontextmanager
async def _private(nodes_file: str | None, report: Reporter) -> AsyncIterator[Path]:
    import tempfile

    from unisono.standalone.logs import configure_logs
    from unisono.standalone.paths import DataDir, read_nodes
    from unisono.standalone.plane import Plane, PlaneOptions

    with tempfile.TemporaryDirectory(prefix="unisono-", ignore_cleanup_errors=True) as folder:
        data = DataDir(Path(folder))
        configure_logs(data.log)
        nodes = read_nodes(Path(nodes_file)) if nodes_file else ()
        plane = Plane(data, PlaneOptions(simulated_nodes=nodes))
        report.step("starting the API server and the node agent", 1, 3)
        await plane.start()
        report.step("waiting for the scheduler and the controllers", 2, 3)
        try:
            yield data.root
        finally:
            await plane.stop(kill_pods=True)
