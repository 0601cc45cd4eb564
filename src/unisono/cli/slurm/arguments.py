"""What stands on the command lines of ``sbatch`` and ``srun``: Slurm's options, then a script or a command."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unisono.cli.options import Command, where_options_without_n

if TYPE_CHECKING:
    from unisono.cli.slurm.script import Batch
    from unisono.sdk.program import Program


def slurm_options(function: Command) -> Command:
    """``--image`` and the options that name the control plane."""
    image = click.option("--image", help="Run in containers of this image: a cluster needs one.")
    return image(where_options_without_n(function))


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Slurm's options, and what follows them.

    Raises:
        BadScript: an option lacks its value.

    """
    from unisono.cli.slurm.script import takes_value

    rest = list(words)
    options: list[str] = []
    while rest and rest[0].startswith("-") and rest[0] != "--":
        options.append(rest.pop(0))
        if takes_value(options[-1]) and rest:
            options.append(rest.pop(0))
    return options, rest[1:] if rest[:1] == ["--"] else rest


def command_program(words: Sequence[str], image: str | None) -> Program:
    """The program of ``srun``.

    Raises:
        BadScript: an option cannot be read, or makes no sense without a script.
        UsageError: there is no command.

    """
    from unisono.cli.slurm.script import BadScript, batch_of, read_options
    from unisono.sdk.program import Program

    options, rest = split_words(words)
    if not rest:
        raise click.UsageError("the command is missing: unisono srun -n 4 python train.py")
    batch = batch_of(read_options(options), "srun")
    scripts = (("array", batch.array), ("dependency", batch.after), ("output", batch.output), ("wrap", batch.wrapped))
    for name, given in scripts:
        if given:
            raise BadScript(f"--{name} is for sbatch, and not for srun.")
    for note in batch.notes:
        click.echo(f"{click.style('Note:', fg='yellow')} {note}", err=True)
    _enter(batch)
    return Program(
        tuple(rest),
        batch.tasks,
        batch.name,
        queue=batch.queue,
        cpu=batch.cpus,
        memory=f"{batch.memory_mib}Mi" if batch.memory_mib else None,
        gpus=batch.gpus,
        image=image,
        env={**_variables(batch), "SLURM_NTASKS": str(batch.tasks), "SLURM_LOCALID": "0"},
        time_limit=batch.seconds,
        rank_names=("SLURM_PROCID",),
    )


@dataclass(frozen=True, slots=True)
class Element:
    """One job of a batch: its program, and the same under another name, where its own is taken."""

    program: Program
    called: Callable[[str], Program]


def script_elements(words: Sequence[str], image: str | None) -> tuple[Batch, list[Element]]:
    """What a script asks for, and its jobs: one, or one for each element of an array.

    The script is a file, the command of ``--wrap``, or what comes through a pipe.

    Raises:
        BadScript: the script, a line of it or an option cannot be read.
        UsageError: there is no script.

    """
    from unisono.cli.slurm.programs import doubts, program_of
    from unisono.cli.slurm.script import BadScript, batch_of, read_options, read_script

    options, rest = split_words(words)
    given = read_options(options)
    wrapped = dict(given).get("wrap", "")
    if wrapped and rest:
        raise BadScript(f"--wrap brings its own script: {rest[0]} is one too many.")
    script, text = ("wrap", f"#!/bin/sh\n{wrapped}\n") if wrapped else _script(rest)
    batch = batch_of([*read_script(text, script), *given], script)
    variables = {**_variables(batch), "SLURM_SUBMIT_DIR": str(Path.cwd()), "SLURM_SUBMIT_HOST": platform.node()}
    path = str(Path(script).absolute())
    _enter(batch)
    first = program_of(batch, path, text, rest[1:], batch.array[0] if batch.array else None, variables=variables)
    if first.command[0] == "bash" and batch.tasks > 1:
        batch = replace(batch, notes=(*batch.notes, *doubts(text, first.env)))
    if batch.at_once:
        note = f"--array with %{batch.at_once} is not supported: elements run as the queue lets them"
        batch = replace(batch, notes=(*batch.notes, note))

    def element(index: int | None) -> Element:
        def called(name: str) -> Program:
            made = program_of(batch, path, text, rest[1:], index, called=name, variables=variables)
            return replace(made, image=image)

        return Element(called(""), called)

    indices: Sequence[int | None] = batch.array or (None,)
    return batch, [element(index) for index in indices]


def _script(rest: Sequence[str]) -> tuple[str, str]:
    """Name and text of the script: a file, or what comes through a pipe.

    Raises:
        BadScript: it cannot be read.
        UsageError: there is none.

    """
    from unisono.cli.slurm.script import LONGEST, BadScript

    if not rest:
        text = "" if sys.stdin.isatty() else sys.stdin.read(LONGEST + 1)
        if not text.strip():
            raise click.UsageError("the script is missing: unisono sbatch train.sh")
        return "sbatch", text
    try:
        return rest[0], Path(rest[0]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadScript(f"{rest[0]} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _variables(batch: Batch) -> dict[str, str]:
    """What ``--export`` names.

    Raises:
        BadScript: the caller has no variable of a name.

    """
    from unisono.cli.slurm.script import BadScript

    found = {}
    for name, value in batch.exported:
        own = os.environ.get(name) if value is None else value
        if own is None:
            raise BadScript(f"--export={name}: you have no variable of that name; write {name}=VALUE.")
        found[name] = own
    return found


def _enter(batch: Batch) -> None:
    """Go to the folder of ``--chdir``: processes start where this command stands.

    Raises:
        BadScript: there is no such folder.

    """
    from unisono.cli.slurm.script import BadScript

    if batch.folder:
        try:
            os.chdir(batch.folder)
        except OSError as error:
            raise BadScript(f"--chdir={batch.folder}: {error.strerror}.") from None
