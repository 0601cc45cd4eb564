"""``unisono completion``."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print what lets a shell complete commands and options: eval "$(unisono completion bash)" in ~/.bashrc."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    name = "unisono"
    click.echo(found(context.find_root().command, {}, name, f"_{name.upper()}_COMPLETE").source())
