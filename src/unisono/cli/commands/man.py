"""``unisono man``: manual pages of the commands, made from their help."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

import click


@click.command("man")
@click.argument("words", nargs=-1, metavar="[COMMAND...]")
@click.option("--directory", type=click.Path(path_type=Path), help="Write all pages there, for 'man': .../share/man.")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...], directory: Path | None) -> None:
    """Show the manual page of a command, or write the pages of all.

    \b
    unisono man run
    unisono man --directory ~/.local/share/man
    """  # noqa: D301 - click reads the character, not its name
    from unisono.cli.main import GROUPS

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


def pages(root: click.Group, name: str, headings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The name of each page (``unisono-queue-list``) and its text: of the root, its commands and theirs.

    Args:
        root: the command line.
        name: of the program.
        headings: groups of the root's commands, each with their names.
    """
    context = click.Context(root, info_name=name, help_option_names=_help_names(root))
    yield name, page(context, headings)
    for path in _below(context):
        yield path.command_path.replace(" ", "-"), page(path)


def page(context: click.Context, headings: Mapping[str, str] | None = None) -> str:
    """One page as roff, for ``man``."""
    command, path = context.command, context.command_path
    title, summary = path.replace(" ", "-"), command.get_short_help_str(200).rstrip(".")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f'.TH "{title.upper()}" "1" "" "Unisono" "Unisono"', ".SH NAME", f"{_text(title)} \\- {_text(summary)}"]
    lines += [".SH SYNOPSIS", f".B {_text(path)}", _text(usage), ".SH DESCRIPTION", *_paragraphs(command.help or "")]
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    records = [found for each in options if (found := each.get_help_record(context))]
    if records:
        lines += [".SH OPTIONS", *_entries(records)]
    if isinstance(command, click.Group):
        groups = headings or {"Commands": " ".join(command.list_commands(context))}
        for heading, names in groups.items():
            below = ((each, command.get_command(context, each)) for each in names.split())
            rows = [(f"{path} {each}", one.get_short_help_str(200)) for each, one in below if one is not None]
            lines += [f'.SH "{_text(heading.upper())}"', *_entries(rows)]
    if context.parent is not None:
        lines += [".SH SEE ALSO", f".BR {_text(context.parent.command_path.replace(' ', '-'))} (1)"]
    return "\n".join(lines) + "\n"


def _below(context: click.Context) -> Iterator[click.Context]:
    if not isinstance(context.command, click.Group):
        return
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        if command is not None and not command.hidden:
            own = click.Context(command, parent=context, info_name=name, help_option_names=_help_names(command))
            yield own
            yield from _below(own)


def _help_names(command: click.Command) -> list[str] | None:
    """How the command calls its help; pages name it as the commands do. None for the name of the command above."""
    names = command.context_settings.get("help_option_names")
    return list(names) if names else None


def _entries(records: list[tuple[str, str]]) -> Iterator[str]:
    for term, description in records:
        yield from (".TP", f".B {_text(term)}", _text(description) or "\\&")


def _paragraphs(text: str) -> Iterator[str]:
    r"""Paragraphs of a help; one that begins with ``\b`` keeps its lines."""
    for part in inspect.cleandoc(text).replace("\f", "").split("\n\n"):
        yield ".PP"
        if part.startswith("\b"):
            yield from (".nf", *(_text(line) for line in part.splitlines()[1:]), ".fi")
        else:
            yield _text(" ".join(part.split()))


def _text(text: str) -> str:
    """A line that roff prints as it is."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
