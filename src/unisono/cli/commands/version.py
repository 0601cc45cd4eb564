"""``unisono version``."""

from __future__ import annotations

import platform
from pathlib import Path

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

    found = get_completion_class(shell)
    assert found is not None
    name = "unisono"
    click.echo(found(context.find_root().command, {}, name, f"_{name.upper()}_COMPLETE").source())


# ``unisono man``.


@click.command("man")
@click.argument("words", nargs=-1, metavar="[COMMAND...]")
@click.option("--directory", type=click.Path(path_type=Path), help="Write all pages there, for 'man': .../share/man.")
@click.pass_context
def man_command(context: click.Context, words: tuple[str, ...], directory: Path | None) -> None:
    """Show the manual page of a command, or write the pages of all.

    \b
    unisono man run
    unisono man --directory ~/.local/share/man
    """  # noqa: D301 - click reads the character, not its name
    from unisono.cli.main import GROUPS
    from unisono.cli.man_pages import pages

    root = context.find_root().command
    assert isinstance(root, click.Group)
    made = dict(pages(root, "unisono", GROUPS))
    if directory is not None:
        if words:
            raise click.UsageError("--directory writes the pages of all commands: name none.")
        folder = directory / "man1"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (folder / f"{name}.1").write_text(text, encoding="utf-8")
        click.echo(f"{len(made)} pages are in {folder}.")
        return
    name = "-".join(("unisono", *words))
    if name not in made:
        raise click.UsageError(f"there is no command '{' '.join(words)}'; see 'unisono --help'.")
    _show(made[name])


def _show(page: str) -> None:
    """Let ``man`` show a page on a terminal; elsewhere, and without ``man``, its source is printed."""
    import shutil
    import subprocess
    import sys

    man = shutil.which("man") if sys.stdout.isatty() else None
    if man is None:
        click.echo(page, nl=False)
    else:
        subprocess.run([man, "-l", "-"], input=page.encode(), check=False)  # nosec B603 # our own text
