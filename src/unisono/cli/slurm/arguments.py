"""What stands on the command lines of ``sbatch`` and ``srun``, and batches as programs: script, variables, array."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import click

from unisono.cli.options import Command, where_options_without_n
from unisono.cli.slurm.script import BadScript, Batch
from unisono.sdk.program import Program, derived_name

# Batches of Slurm as programs: the script, its variables and its array (pure).

# Every process runs the script: what srun would start as many tasks is started once in each.
_SRUN = (
    'srun() { while [ $# -gt 0 ]; do case "$1" in '
    "--nodes|--ntasks|--cpus-per-task|--gpus|--gpus-per-task|--mem|--time|--partition|--job-name|--ntasks-per-node"
    "|--output|--chdir) shift 2 ;; -[NncGtJpoD]) shift 2 ;; -*) shift ;; *) break ;; esac; done; "
    '"$@"; }; export -f srun;'
)


def program_of(
    batch: Batch,
    script: str,
    text: str,
    arguments: Sequence[str],
    index: int | None = None,
    *,
    called: str = "",
    variables: Mapping[str, str] | None = None,
) -> Program:
    """One element of a batch.

    Args:
        batch: what its lines ask for.
        script: path of the script.
        text: its content; later changes of the file do not matter.
        arguments: of the script.
        index: of the element; None where the batch is no array.
        called: name of the job where its own is taken.
        variables: further ones of the processes.

    Raises:
        BadScript: ``--output`` is given for a script that is not of bash.

    """
    base = batch.name or derived_name([PurePath(script).name])
    name = (called or (base if index is None else f"{base}-{index}")).lower().replace("_", "-")
    first, _, rest = text.partition("\n")
    interpreter = shlex.split(first.removeprefix("#!"))
    if PurePath(interpreter[0]).name == "env" and len(interpreter) > 1:
        interpreter = interpreter[1:]
    if PurePath(interpreter[0]).name in ("bash", "sh"):
        interpreter[0] = "bash"
        text = _with_output(f"{_SRUN} {{0}}\n{rest}", batch.output, base, name, index)
    elif batch.output:
        raise BadScript(f"{script}: --output is supported in scripts of bash alone; logs are in 'unisono logs'.")
    return Program(
        (*interpreter, "-c", text, script, *arguments),
        batch.tasks,
        name,
        queue=batch.queue,
        cpu=batch.cpus,
        memory=f"{batch.memory_mib}Mi" if batch.memory_mib else None,
        gpus=batch.gpus,
        env={**(variables or {}), **_slurm_variables(batch, base, name, index)},
        time_limit=batch.seconds,
        rank_names=("SLURM_PROCID",),
    )


def _with_output(text: str, output: str, base: str, name: str, index: int | None) -> str:
    """The script with its log in a file, too; its lines keep their numbers."""
    if not output:
        return text.replace("{0}", "", 1)
    # As sbatch: %j job, %x name, %a and %A of an array, %t task, %N node.
    for mark, value in (("%j", name), ("%x", base), ("%A", base), ("%a", "" if index is None else str(index))):
        output = output.replace(mark, value)
    marks = {"%t": '"$SLURM_PROCID"', "%N": '"$HOSTNAME"'}
    quoted = "".join(marks.get(part) or shlex.quote(part) for part in re.split("(%[tN])", output) if part)
    return text.replace("{0}", "(", 1) + f"\n) 2>&1 | tee -a {quoted}; exit ${{PIPESTATUS[0]}}"


def _slurm_variables(batch: Batch, base: str, name: str, index: int | None) -> Mapping[str, str]:
    """What programs read under Slurm."""
    values = {
        "SLURM_JOB_ID": name,
        "SLURM_JOBID": name,
        "SLURM_JOB_NAME": base,
        "SLURM_NTASKS": str(batch.tasks),
        "SLURM_NPROCS": str(batch.tasks),
        "SLURM_NNODES": str(batch.nodes or 1),
        "SLURM_JOB_PARTITION": batch.queue,
        "SLURM_LOCALID": "0",
    }
    if batch.cpus:
        values["SLURM_CPUS_PER_TASK"] = str(batch.cpus)
    if batch.gpus:
        values["SLURM_GPUS_ON_NODE"] = str(batch.gpus)
    if index is not None:
        numbers = {"ID": index, "COUNT": len(batch.array), "MIN": min(batch.array), "MAX": max(batch.array)}
        values |= {f"SLURM_ARRAY_TASK_{key}": str(number) for key, number in numbers.items()}
        values["SLURM_ARRAY_JOB_ID"] = base
    return values


# What stands on the command lines of ``sbatch`` and ``srun``: Slurm's options, then a script or a command.


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
        env={**_exported_variables(batch), "SLURM_NTASKS": str(batch.tasks), "SLURM_LOCALID": "0"},
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
    from unisono.cli.slurm.script import BadScript, batch_of, read_options, read_script

    options, rest = split_words(words)
    given = read_options(options)
    wrapped = dict(given).get("wrap", "")
    if wrapped and rest:
        raise BadScript(f"--wrap brings its own script: {rest[0]} is one too many.")
    script, text = ("wrap", f"#!/bin/sh\n{wrapped}\n") if wrapped else _script(rest)
    batch = batch_of([*read_script(text, script), *given], script)
    variables = {
        **_exported_variables(batch),
        "SLURM_SUBMIT_DIR": str(Path.cwd()),
        "SLURM_SUBMIT_HOST": platform.node(),
    }
    path = str(Path(script).absolute())
    _enter(batch)
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


def _exported_variables(batch: Batch) -> dict[str, str]:
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
