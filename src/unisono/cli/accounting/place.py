"""Where a command reads the history: at the API server, in a database, or at a cluster's dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.components import history_option

if TYPE_CHECKING:
    from unisono.cli.options import Command


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """What the user said.

    Attributes:
        dsn_file: with the connection string of a database, to read in place of asking anybody.
        dashboard: address of a dashboard to ask; empty for the one that is installed, if the API server knows nothing.
        namespace: of the installation.

    """

    dsn_file: Path | None = None
    dashboard: str = ""
    namespace: str = "unisono-system"


def history_place_options(function: Command) -> Command:
    """``--history-dsn-file``, ``--dashboard`` and ``--system-namespace``; the command gets one ``place``."""

    @history_option(", to read in place of asking the API server")
    @click.option(
        "--dashboard",
        default="",
        metavar="URL",
        envvar="UNISONO_DASHBOARD",
        help="Address of a cluster's dashboard to ask.  [default: its Service, through the API server]",
    )
    @click.option(
        "--system-namespace",
        default="unisono-system",
        show_default=True,
        help="Namespace of the installation, where the dashboard's Service is.",
    )
    @wraps(function)
    def command(*args: Any, history_dsn_file: Path | None, dashboard: str, system_namespace: str, **kwargs: Any) -> Any:
        if history_dsn_file is not None and dashboard:
            raise click.UsageError("--history-dsn-file and --dashboard name two places; give one of them.")
        return function(*args, place=HistoryPlace(history_dsn_file, dashboard, system_namespace), **kwargs)

    return command  # type: ignore[return-value]
