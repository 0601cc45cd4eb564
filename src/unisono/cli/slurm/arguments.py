"""What stands on the command lines of ``sbatch`` and ``srun``: Slurm's options, then a script or a command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    for name, given in (("array", batch.array), ("dependency", batch.after), ("output", batch.output)):
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
        env={"SLURM_NTASKS": str(batch.tasks), "SLURM_LOCALID": "0"},
        time_limit=batch.seconds,
        rank_names=("SLURM_PROCID",),
    )


def script_programs(words: Sequence[str], image: str | None) -> tuple[Batch, list[Program]]:
    """What a script asks for, and its programs: one, or one for each element of an array.

    Raises:
        BadScript: the script, a line of it or an option cannot be read.
        UsageError: there is no script.

    """
    from unisono.cli.slurm.programs import program_of
    from unisono.cli.slurm.script import BadScript, batch_of, read_options, read_script

    options, rest = split_words(words)
    if not rest:
        raise click.UsageError("the script is missing: unisono sbatch train.sh")
    script = Path(rest[0])
    try:
        text = script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadScript(f"{script} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    batch = batch_of([*read_script(text, str(script)), *read_options(options)], str(script))
    script = script.absolute()
    _enter(batch)
    if batch.at_once:
        note = f"--array with %{batch.at_once} is not supported: elements run as the queue lets them"
        batch = replace(batch, notes=(*batch.notes, note))
    indices: Sequence[int | None] = batch.array or (None,)
    programs = [program_of(batch, str(script), text, rest[1:], index) for index in indices]
    return batch, [replace(program, image=image) for program in programs]


def _enter(batch: Batch) -> None:
    """Go to the folder of ``--chdir``: processes start where this command stands.

    Raises:
        BadScript: there is no such folder.

    """
    import os

    from unisono.cli.slurm.script import BadScript

    if batch.folder:
        try:
            os.chdir(batch.folder)
        except OSError as error:
            raise BadScript(f"--chdir={batch.folder}: {error.strerror}.") from None
