"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

KUBECTL = "kubectl"
"""Key of the click context's object: whether this is ``kubectl unisono``."""

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")

PATH = click.Path(path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Where:
    """Which control plane a command talks to, as the user said it.

    Attributes:
        kubeconfig: a kubeconfig file, or None to look for one.
        data_dir: data directory of a control plane of this machine, or None for the default one.
        context: context of the kubeconfig, or None for its current one.
        namespace: namespace for objects that name none, or None for the context's.
        kubectl: nothing is named, and the cluster is the one that kubectl talks to.
    """

    kubeconfig: Path | None = None
    data_dir: Path | None = None
    context: str | None = None
    namespace: str | None = None
    kubectl: bool = False

    @property
    def named(self) -> bool:
        """Whether a control plane is named, be it by an option or by being called through kubectl."""
        return self.kubeconfig is not None or self.data_dir is not None or self.kubectl


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """A ``click.option`` whose help shows its default."""
    return click.option(*names, show_default=True, **settings)


def where_options(function: Command) -> Command:
    """Add ``--data-dir``, ``--kubeconfig``, ``--context`` and ``--namespace``; the command gets one ``where``."""
    return _where_options(function, ("-n", "--namespace"))


def where_options_without_n(function: Command) -> Command:
    """The same for a command whose ``-n`` means something else."""
    return _where_options(function, ("--namespace",))


def _where_options(function: Command, names: tuple[str, ...]) -> Command:
    namespace = click.option(*names, help="Namespace of objects that name none.  [default: default]")
    return namespace(control_plane_options(function))


def control_plane_options(function: Command, kubeconfig_names: tuple[str, ...] = ("--kubeconfig",)) -> Command:
    """Add ``--data-dir``, ``--kubeconfig`` and ``--context``; the command gets one ``where``.

    A ``namespace`` that another option gives becomes part of it. The command may be a coroutine function.
    """

    @click.option("--context", help="Context of the kubeconfig.")
    @click.option(*kubeconfig_names, "kubeconfig", type=PATH, help="Talk to the cluster of this file.")
    @click.option("--data-dir", type=PATH, help="Talk to the 'unisono up' of this directory.")
    @wraps(function)
    def wrapper(
        *args: Any,
        context: str | None,
        kubeconfig: Path | None,
        data_dir: Path | None,
        namespace: str | None = None,
        **kwargs: Any,
    ) -> Any:
        if kubeconfig and data_dir:
            raise click.UsageError("--kubeconfig and --data-dir name two different control planes; give one of them.")
        settings = click.get_current_context().find_object(dict) or {}
        kubectl = bool(settings.get(KUBECTL)) and not (kubeconfig or data_dir)
        answer = function(*args, where=Where(kubeconfig, data_dir, context, namespace, kubectl), **kwargs)
        return run_async(answer) if isinstance(answer, Coroutine) else answer

    return wrapper  # type: ignore[return-value]


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run one command's coroutine to its end."""
    try:
        import asyncio

        return asyncio.run(work)
    finally:
        # Ctrl-C may come before it has begun.
        work.close()


def where_arguments(where: Where) -> str:
    """The options, each with a blank before it, with which another command means the same control plane."""
    import shlex

    named = (("--kubeconfig", where.kubeconfig), ("--data-dir", where.data_dir), ("--context", where.context))
    return "".join(f" {option} {shlex.quote(str(value))}" for option, value in named if value is not None)


def output_option(*choices: str, default: str = "text") -> Callable[[Command], Command]:
    """``-o/--output`` with the given choices."""
    return option("-o", "--output", type=click.Choice(choices), default=default, help="How to print.")


def file_option(required: bool = True) -> Callable[[Command], Command]:
    """``-f/--filename``: files, folders or ``-`` for standard input; may be repeated."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=required,
        help="A YAML or JSON file, a folder of them, or - for standard input; may be repeated.",
    )
