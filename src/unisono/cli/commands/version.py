"""``unisono version``."""

from __future__ import annotations

import platform

import click

from unisono import __version__
from unisono.cli.options import output_option
from unisono.cli.printing import print_json


@click.command("version")
@output_option("text", "json")
def command(output: str) -> None:
    """Print the version of Unisono and of the Python that runs it."""
    if output == "json":
        print_json({"version": __version__, "python": platform.python_version(), "platform": platform.platform()})
    else:
        click.echo(f"unisono {__version__} (Python {platform.python_version()})")


# ``unisono completion``.


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print what lets a shell complete commands and options: eval "$(unisono completion bash)" in ~/.bashrc."""
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    name = "unisono"
    click.echo(completion_class(context.find_root().command, {}, name, f"_{name.upper()}_COMPLETE").source())
