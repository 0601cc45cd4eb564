"""``unisono sbatch``."""

from __future__ import annotations

import asyncio
import getpass
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unisono.cli.options import Command, Where, run_async, where_options_without_n
from unisono.cli.slurm.batches import doubts, label, program_of, sourced, variables_used
from unisono.cli.slurm.features import placing_of
from unisono.cli.slurm.script import BadScript, Batch
from unisono.sdk.jobs.program import Program, derived_name

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.sdk.follow.events import Target

Nodes = Callable[[], Mapping[str, Mapping[str, str]]]
"""Labels of nodes by the nodes' names."""

# What stands on the command lines of ``sbatch`` and ``srun``: Slurm's options, then a script or a command.


def slurm_options(function: Command) -> Command:
    """``--image`` and the options that name the control plane."""
    image = click.option("--image", help="Run in containers of this image: a cluster needs one.")
    return image(where_options_without_n(function))


def split_words(words: Sequence[str], command: str = "sbatch") -> tuple[list[tuple[str, str]], list[str]]:
    """Slurm's options with their values, and what follows them.

    Raises:
        BadScript: a word is no option, or lacks its value.
    """
    from unisono.cli.slurm.script import DIVIDER
    from unisono.cli.slurm.steps.words import BadOption, split_options

    options: list[tuple[str, str]] = []
    try:
        some, rest = split_options(words, command)
        options += some
        # As under Slurm, a colon among the options ends a part; behind a script it is an argument.
        while rest[:1] == [":"] and command != "srun":
            some, rest = split_options(rest[1:], command)
            options += [DIVIDER, *some]
    except BadOption as error:
        raise BadScript(f"the command line: {error}.") from None
    if command == "srun" and ":" in rest:
        raise BadScript(
            "the command line: a colon divides a job into parts: write a script with #SBATCH hetjob for sbatch."
        )
    return options, rest


_SAME = """
    account acctg-freq batch constraint container container-id core-spec cpus-per-gpu delay-boot distribution error
    exclusive export get-user-env gpu-bind gpu-freq gpus gpus-per-node gpus-per-task gres gres-flags hint ignore-pbs
    input job-name mem-bind mem-per-cpu mem-per-gpu network no-kill no-requeue open-mode output overcommit partition
    power profile qos requeue reservation signal spread-job thread-spec threads-per-core tres-bind tres-per-task
    use-min-nodes wait wait-all-nodes wckey
    """
_INPUTS = {
    **{name.upper().replace("-", "_"): name for name in _SAME.split()},
    **{"ARRAY_INX": "array", "MEM_PER_NODE": "mem", "TIMELIMIT": "time", "REQ_SWITCH": "switches"},
}
"""Options of ``sbatch`` by the variables ``SBATCH_NAME`` that stand for them."""


def options_of(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """The options that Slurm's variables for ``sbatch`` stand for: they win over lines of the script."""
    from unisono.cli.slurm.steps.words import VALUED

    named = ((option, environment.get(f"SBATCH_{name}")) for name, option in _INPUTS.items())
    given = [(option, value.strip()) for option, value in named if value is not None]
    return [(option, value if option in VALUED else "") for option, value in given if value or option not in VALUED]


@dataclass(frozen=True, slots=True)
class Element:
    """One job of a batch: its program, and the same under another name, where its own is taken."""

    program: Program
    called: Callable[[str], Program]

    @property
    def base(self) -> str:
        """Name of the batch, of which jobs may have numbers behind it; a ``singleton`` waits for all of that name."""
        return label(self.program.env["SLURM_JOB_NAME"])


_OF_STEPS = frozenset(
    ("label", "output", "error", "input", "kill-on-bad-exit", "multi-prog", "distribution", "mpi", "open-mode", "wait")
)


def command_elements(
    words: Sequence[str], image: str | None, *, local: bool, nodes: Nodes = dict
) -> tuple[Batch, list[Element]]:
    """The job of ``srun``: a batch of one step.

    Raises:
        BadScript: an option cannot be read, or makes no sense without a script.
        UsageError: there is no command.
    """
    from unisono.cli.slurm.script import batch_of

    options, rest = split_words(words, "srun")
    if not rest:
        raise click.UsageError("the command is missing: unisono srun -n 4 python train.py")
    if "pty" in dict(options):
        raise BadScript("--pty needs a terminal in the pod: start a job, and 'kubectl exec -it POD -- bash' enters it.")
    of_job = [each for each in options if each[0] not in _OF_STEPS]
    batch = batch_of(of_job, "srun")
    for name, given in (("array", batch.array), ("dependency", batch.after), ("wrap", batch.wrapped)):
        if given:
            raise BadScript(f"--{name} is for sbatch, and not for srun.")
    step = [f"--{name}={value}" if value else f"--{name}" for name, value in options if name in _OF_STEPS]
    text = f'#!/bin/bash\nexec srun {shlex.join(step)} "$@"\n'
    if batch.name is None:
        batch = replace(batch, name=derived_name(rest))
    return _elements(batch, "srun", text, rest, image, local=local, nodes=nodes)


def script_elements(
    words: Sequence[str], image: str | None, *, local: bool = True, nodes: Nodes = dict
) -> tuple[Batch, list[Element]]:
    """What a script asks for, and its jobs: one, or one for each element of an array.

    The script is a file, the command of ``--wrap``, or what comes through a pipe.

    Args:
        words: options of ``sbatch``, the script and its arguments.
        image: of the containers; None for the script's own, or none.
        local: pods are processes of this machine.
        nodes: asks for the names of the nodes that such a machine knows, simulated ones among them.

    Raises:
        BadScript: the script, a line of it or an option cannot be read.
        UsageError: there is no script.
    """
    from unisono.cli.slurm.script import batch_of, joined, read_script

    given, rest = split_words(words)
    wrapped = dict(given).get("wrap", "")
    if wrapped and rest:
        raise BadScript(f"--wrap brings its own script: {rest[0]} is one too many.")
    script, text = ("wrap", f"#!/bin/sh\n{wrapped}\n") if wrapped else _script(rest)
    batch = batch_of(joined(read_script(text, script), options_of(os.environ), given), script)
    return _elements(batch, script, text, rest[1:], image, local=local, nodes=nodes)


def _elements(
    batch: Batch, script: str, text: str, arguments: Sequence[str], image: str | None, *, local: bool, nodes: Nodes
) -> tuple[Batch, list[Element]]:
    path = str(Path(script).absolute())
    _enter(batch)
    left: list[str] = []
    if local:
        _find_mounts(batch)
    batch, left = _known_nodes(batch, nodes, script, local=local)
    user = getpass.getuser()
    used = variables_used(text, os.environ) if batch.exports_used else {}
    variables = {
        **used,
        **_exported_variables(batch),
        "SLURM_SUBMIT_DIR": str(Path.cwd()),
        "SLURM_SUBMIT_HOST": platform.node(),
        "SLURM_JOB_USER": user,
        "SLURM_JOB_UID": str(os.getuid()),
    }
    # As Slurm's, later jobs have higher numbers.
    number = int(time.time() * 10) % 1_000_000_000

    def element(index: int | None) -> Element:
        def called(name: str) -> Program:
            made = program_of(
                batch, path, text, arguments, index, called=name, variables=variables, number=number, local=local
            )
            return replace(made, image=image) if image else made

        return Element(called(""), called)

    indices: Sequence[int | None] = batch.array or (None,)
    elements = [element(index) for index in indices]
    notes = [*batch.notes, *doubts(text, elements[0].program.env)]
    if local:
        absent = [(line, file) for line, file in sourced(text) if not Path(file).exists()]
        notes += [
            f"line {line}: there is no {file} on this machine, and a strict script ends there" for line, file in absent
        ]
    if used:
        notes.append(f"variables of yours that the script uses are passed on: {', '.join(sorted(used))}")
    notes += left
    return replace(batch, notes=tuple(notes)), elements


def _find_mounts(batch: Batch) -> None:
    """Refuse folders of ``--container-mounts`` that this machine does not have.

    Raises:
        BadScript: it names the first one.
    """
    for source, target, _ in batch.mounts:
        if not os.path.lexists(source):
            raise BadScript(f"--container-mounts={source}:{target}: there is no {source} on this machine.")


def _known_nodes(batch: Batch, nodes: Nodes, where: str, *, local: bool) -> tuple[Batch, list[str]]:
    """The batch with its nodes by their labels, and notes on what is left out.

    Raises:
        BadScript: a cluster has no node with a feature.

    """
    asked = any(
        part.constraint or part.prefer or part.cards or (local and (part.nodelist or part.exclude))
        for part in batch.every
    )
    there = nodes() if asked else {}
    notes: list[str] = []
    parts = []
    for part in batch.every:
        try:
            placing, left = placing_of(part.constraint, part.prefer, part.cards, list(there.values()), local=local)
        except ValueError as error:
            raise BadScript(f"{where}: --constraint: {error}.") from None
        known, named = _named_nodes(part, there) if local else (part, [])
        parts.append(replace(known, placing=placing))
        notes += [note for note in (*named, *left) if note not in notes]
    if batch.parts and any(part.placing.one_of for part in parts):
        raise BadScript(
            f"{where}: --constraint: all nodes of a job get the same of [A|B]; parts of a job name one each."
        )
    return replace(parts[0], parts=tuple(parts[1:])), notes


def _named_nodes(batch: Batch, there: Collection[str]) -> tuple[Batch, list[str]]:
    """A part on one machine with the nodes that are there by name, and notes on what is left out."""
    every = "this machine stands for all nodes"
    notes = [f"--exclusive is for clusters: {every}"] if batch.exclusive else []
    names_by_option: dict[str, tuple[str, ...]] = {}
    for option, names in (("nodelist", batch.nodelist), ("exclude", batch.exclude)):
        names_by_option[option] = tuple(name for name in names if name in there)
        if missing := [name for name in names if name not in there]:
            notes.append(f"--{option} is for clusters: {every}, and there is no node {', '.join(missing[:3])}")
            names_by_option[option] = () if option == "nodelist" else names_by_option[option]
    return replace(batch, nodelist=names_by_option["nodelist"], exclude=names_by_option["exclude"]), notes


def _nodes_of(where: Where) -> Mapping[str, Mapping[str, str]]:
    """Nodes with their labels of a control plane that runs and shows them; none of one that is still to be started."""
    from unisono.api.kinds import NODES
    from unisono.cli.connection import connect
    from unisono.cli.running.place import is_private
    from unisono.errors import UnisonoError

    async def found() -> dict[str, Mapping[str, str]]:
        async with connect(where) as client:
            return {node.metadata.name: node.metadata.labels or {} for node in (await client.list(NODES)).items}

    try:
        return {} if is_private(where) else run_async(found())
    except UnisonoError:
        return {}


def _script(rest: Sequence[str]) -> tuple[str, str]:
    """Name and text of the script: a file, or what comes through a pipe.

    Raises:
        BadScript: it cannot be read.
        UsageError: there is none.
    """
    from unisono.cli.slurm.script import LONGEST

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
    variables = {}
    for name, value in batch.exported:
        own = os.environ.get(name) if value is None else value
        if own is None:
            raise BadScript(f"--export={name}: you have no variable of that name; write {name}=VALUE.")
        variables[name] = own
    return variables


def _enter(batch: Batch) -> None:
    """Go to the folder of ``--chdir``: processes start where this command stands.

    Raises:
        BadScript: there is no such folder.
    """
    if batch.folder:
        try:
            os.chdir(batch.folder)
        except OSError as error:
            raise BadScript(f"--chdir={batch.folder}: {error.strerror}.") from None


# ``unisono sbatch``.


_POLL_SECONDS = 1.0


@click.command("sbatch", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@slurm_options
@click.option("--dry-run", is_flag=True, help="Print the jobs as YAML, and create nothing.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SBATCH] [SCRIPT [ARGUMENTS...]]")
def command(where: Where, image: str | None, dry_run: bool, words: tuple[str, ...]) -> None:
    """Submit a script with #SBATCH lines as a job and return, as Slurm's sbatch does.

    Options of sbatch may stand before SCRIPT, too; what is not supported is told. SCRIPT may come through a pipe, too;
    --wrap COMMAND brings it along. The script runs once, on the first node; srun in it runs tasks on all.
    """
    from unisono.cli.commands.sbatch import script_elements
    from unisono.cli.running.place import is_cluster

    batch, elements = script_elements(words, image, local=not is_cluster(where), nodes=partial(_nodes_of, where))
    for note in batch.notes:
        click.echo(f"{click.style('Note:', fg='yellow')} {note}", err=True)
    if dry_run:
        _print(where, [element.program for element in elements])
        return
    if batch.test_only:
        from unisono.cli.slurm.starting import would_start

        click.echo(would_start(where, elements[0].program))
        return
    from unisono.cli.running.session import Request, run

    base = elements[0].base
    if batch.begin:
        asyncio.run(_wait_for(batch.begin))
    asyncio.run(_dependencies(where, batch, base))
    created: list[Target] = []
    heard: set[str] = set()
    for place, element in enumerate(elements):
        if batch.at_once:
            try:
                asyncio.run(_room_for_one(where, created, batch.at_once))
            except KeyboardInterrupt:
                click.echo(f"{len(elements) - place} of {len(elements)} elements are not submitted.", err=True)
                raise
        request = Request(
            where,
            program=element.program,
            detach=True,
            called=element.called,
            tell=created.append,
            silent=batch.parsable,
            heard=heard,
        )
        if code := run(request):
            raise SystemExit(code)
    if batch.hold:
        from unisono.cli.slurm.starting import hold

        asyncio.run(hold(where, created))
    if batch.parsable:
        # As --dependency takes them: afterok:NAME:NAME.
        click.echo(":".join(target.name for target in created))
    elif sys.stdout.isatty() and not batch.hold:
        # For people: a script that submits does not wait for a forecast.
        from unisono.cli.slurm.starting import told_starts

        for line in told_starts(where, created):
            click.echo(line)
    if batch.wait:
        from unisono.cli.slurm.starting import exit_code

        if code := asyncio.run(exit_code(where, created)):
            raise SystemExit(code)


async def _wait_for(begin: str) -> None:
    from unisono.api.times import rfc3339
    from unisono.cli.slurm.starting import begin_at, until

    moment = begin_at(begin, time.time())
    if moment > time.time():
        click.echo(f"Waiting: --begin={begin} is {rfc3339(moment)} ...", err=True)
    await until(moment)


async def _room_for_one(where: Where, created: list[Target], at_once: int) -> None:
    """Wait until fewer of the array's elements are there than may run at once; what is gone has ended."""
    from unisono.api.conditions import ENDED
    from unisono.api.kinds import JOBS
    from unisono.cli.connection import connect
    from unisono.errors import NotFound

    if len(created) < at_once:
        return
    async with connect(where) as client:

        async def goes_on(target: Target) -> bool:
            try:
                state = (await client.get(JOBS, target.name, target.namespace)).status.state
            except NotFound:
                return False
            return state is None or state.phase not in ENDED

        announced = False
        while sum([await goes_on(target) for target in created]) >= at_once:
            if not announced:
                click.echo(
                    f"Waiting: {at_once} elements are there, and %{at_once} allows no more at once ...", err=True
                )
                announced = True
            await asyncio.sleep(_POLL_SECONDS)


def _print(where: Where, programs: list[Program]) -> None:
    from unisono.cli.printing import print_yaml
    from unisono.cli.running.place import is_cluster
    from unisono.cli.running.submitting import of_program

    for number, program in enumerate(programs):
        if number:
            click.echo("---")
        print_yaml(of_program(program, local=not is_cluster(where)).value)


async def _dependencies(where: Where, batch: Batch, base: str) -> None:
    """Wait for the jobs that come first.

    Raises:
        UnisonoError: one did not end as it was to.
        NotFound: there is none of that name.
    """
    from unisono.cli.connection import connect, namespace_of
    from unisono.errors import UnisonoError

    if not batch.after:
        return
    async with connect(where) as client:
        announced: set[str] = set()
        while True:
            states = [await _state(client, namespace_of(where), how, name, base) for how, name in batch.after]
            failed = [text for met, text in states if met is False]
            if failed and (not batch.any_of or len(failed) == len(states)):
                raise UnisonoError(f"Nothing was submitted: {failed[0]}.")
            met = [each is True for each, _ in states]
            if any(met) if batch.any_of else all(met):
                return
            waiting = [text for each, text in states if each is None]
            for text in waiting:
                if text not in announced:
                    click.echo(f"Waiting: {text} ...", err=True)
            announced |= set(waiting)
            await asyncio.sleep(_POLL_SECONDS)


async def _state(client: HttpClient, namespace: str, how: str, name: str, base: str) -> tuple[bool | None, str]:
    """Whether a dependency is met, None where that is open, and what is to be said of it."""
    from unisono.api.conditions import ENDED, SUCCEEDED
    from unisono.api.kinds import JOBS
    from unisono.cli.slurm.batches import BASE_NAME
    from unisono.cli.slurm.selecting import jobs_called

    if how == "singleton":
        every = (await client.list(JOBS, namespace)).items
        jobs = [job for job in every if (job.metadata.labels or {}).get(BASE_NAME) == base]
    else:
        jobs = await jobs_called(client, namespace, name)
    phases = {job.metadata.name: (job.status.state.phase if job.status.state else None) or "Pending" for job in jobs}
    for job, phase in phases.items():
        if phase not in ENDED and not (how == "after" and phase == "Running"):
            return None, f"job/{job} is {phase.lower()}"
        if how in ("afterok", "aftercorr") and phase != SUCCEEDED:
            return False, f"job/{job} ended as {phase}, not well"
    if how == "afternotok" and phases and all(phase == SUCCEEDED for phase in phases.values()):
        return False, f"job/{next(iter(phases))} ended well"
    return True, ""


# ``unisono srun``.


@click.command("srun", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@slurm_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SRUN] COMMAND...")
def srun_command(where: Where, image: str | None, words: tuple[str, ...]) -> None:
    """Run a command as a gang of processes and wait for it, as Slurm's srun does: 'unisono run' with Slurm's options.

    Options of srun are -N, -n, -c, -G, -t, -J, -p, -D and their long names; those of unisono stand before them.
    """
    from unisono.cli.commands.sbatch import command_elements
    from unisono.cli.running.place import is_cluster
    from unisono.cli.running.session import Request, run

    nodes = partial(_nodes_of, where)
    batch, [element] = command_elements(words, image, local=not is_cluster(where), nodes=nodes)
    for note in batch.notes:
        click.echo(f"{click.style('Note:', fg='yellow')} {note}", err=True)
    raise SystemExit(run(Request(where, program=element.program, called=element.called)))
