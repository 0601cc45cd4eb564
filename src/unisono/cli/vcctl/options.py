"""Options with ``vcctl``'s names and letters."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from unisono.cli.options import Command, control_plane_options


def cluster_options(function: Command) -> Command:
    """``--data-dir``, ``-k/--kubeconfig`` and ``--context``; the command gets one ``where``."""
    return control_plane_options(function, ("-k", "--kubeconfig"))


def namespace_option(function: Command) -> Command:
    """``-n/--namespace``; goes above `cluster_options`."""
    text = "Namespace.  [default: that of the kubeconfig, else default]"
    return click.option("-n", "--namespace", help=text)(function)


def everywhere_option(function: Command) -> Command:
    """``-A/--all-namespaces``."""
    return click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")(function)


def print_option(*choices: str) -> Callable[[Command], Command]:
    """``-o/--output``."""
    return click.option(
        "-o", "--output", type=click.Choice(choices), default=choices[0], show_default=True, help="How to print."
    )


def name_option(letter: str, what: str) -> Callable[[Command], Command]:
    """One name, as ``vcctl`` takes it (``-N NAME``) or as an argument; the command gets ``name``."""

    def decorate(function: Command) -> Command:
        @click.argument("given", required=False, metavar="[NAME]")
        @click.option(letter, "--name", help=f"Name of the {what}; the same as the argument.")
        @wraps(function)
        def wrapper(*args: Any, given: str | None, name: str | None, **kwargs: Any) -> Any:
            if bool(given) == bool(name):
                raise click.UsageError(f"Say once which {what}: NAME, or {letter} NAME.")
            return function(*args, name=given or name, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def amounts(_: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, str]:
    """Callback of options such as ``--requests cpu=1,memory=1Gi``: quantities by resource name."""
    from unisono.api.quantity import QuantityError, parse_quantity

    found: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        try:
            parse_quantity(amount)
        except QuantityError:
            equals = ""
        if not name or not equals or name in found:
            raise click.BadParameter(
                f"'{part}' is not RESOURCE=AMOUNT, such as cpu=1 or memory=1Gi, each resource once.", param=parameter
            )
        found[name] = amount
    return found
