"""``#SBATCH`` lines of a script, and the same options on a command line, as a Job (pure)."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from unisono.cli.slurm.features import Constraint, Placing
from unisono.cli.slurm.options import OPTIONS
from unisono.cli.slurm.steps.words import BadOption, per_node, split_options
from unisono.cli.slurm.values import READERS, devices, generic, kinds_of, mebibytes, per_task, positive
from unisono.errors import UnisonoError

# Linux takes no longer word on a command line.
LONGEST = 100_000
DIVIDER = ("hetjob", "")
"""Stands among options between two parts of a job."""
_DIVIDERS = ("hetjob", "packjob", ":")


class BadScript(UnisonoError):
    """A script, or an option of Slurm, cannot be read; the message names the line."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a script asks for.

    Attributes:
        name: of the job; None for the script's file name.
        nodes: number of nodes, a pod each; None where it is not said.
        tasks: number of tasks.
        per_node: at most so many tasks on a node; None where it is not said.
        apart: each of the nodes is another one; else tasks may share them.
        cpus: per task; None where it is not said.
        node_cpus: per node, where it is said so.
        gpus: per node.
        gpus_per_task: cards that each task sees; 0 for all of its node.
        memory_mib: per node; None where it is not said.
        seconds: time limit.
        array: indices of the array's elements, empty where it is none.
        at_once: elements that may run at once; 0 for all.
        after: names of jobs that must have ended, each with how: ``afterok``; ``singleton`` has no name.
        any_of: one of these is enough.
        output, error: files of the script's output and errors; empty for the log alone.
        append: whether the files are continued.
        queue: the partition.
        folder: where the processes start; empty for the caller's.
        wrapped: the command that stands in place of a script; empty for none.
        exported: variables of the processes; None is the caller's own value.
        exports_used: so are variables of the caller that the script uses.
        parsable: the names of the jobs alone are printed.
        test_only: nothing is submitted; it is said when the job would start.
        hold: it is held once it is submitted.
        wait: `sbatch` returns when it has ended, with its exit code.
        begin: when it is submitted, as Slurm writes times; empty for now.
        signal: number, seconds before the time limit or an eviction, and whether the shell alone gets it.
        exclusive: nodes are shared with no other job.
        requeue: the job starts again after an eviction.
        nodelist, exclude: nodes by name.
        constraint, prefer: features that nodes must have, or had better have; None where none are named.
        cards: kinds of cards that are named.
        placing: the nodes that have all that, by their labels.
        parts: of a job of several parts those behind the first: what their nodes have.
        account: to whom the script is told that the job belongs.
        image: of the containers; empty where none is named.
        reservation: on whose nodes, and within whose windows, it runs; empty for none.
        mounts: folders of the nodes, each with its path in the containers and whether it is read-only.
        licenses: floating resources of the whole job, as its annotation has them.
        notes: what was said and is not done here, a sentence each.

    """

    name: str | None = None
    nodes: int | None = None
    tasks: int = 1
    per_node: int | None = None
    apart: bool = True
    cpus: int | None = None
    node_cpus: int | None = None
    gpus: int | None = None
    gpus_per_task: int = 0
    memory_mib: int | None = None
    seconds: int | None = None
    array: tuple[int, ...] = ()
    at_once: int = 0
    after: tuple[tuple[str, str], ...] = ()
    any_of: bool = False
    output: str = ""
    error: str = ""
    append: bool = False
    queue: str = "default"
    folder: str = ""
    wrapped: str = ""
    exported: tuple[tuple[str, str | None], ...] = ()
    exports_used: bool = True
    parsable: bool = False
    test_only: bool = False
    hold: bool = False
    wait: bool = False
    begin: str = ""
    signal: tuple[int, int, bool] | None = None
    exclusive: bool = False
    requeue: bool = True
    nodelist: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    constraint: Constraint | None = None
    prefer: Constraint | None = None
    cards: tuple[str, ...] = ()
    placing: Placing = field(default_factory=Placing)
    parts: tuple[Batch, ...] = ()
    account: str = ""
    image: str = ""
    reservation: str = ""
    mounts: tuple[tuple[str, str, bool], ...] = ()
    licenses: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def counts(self) -> list[int]:
        """Tasks of each node, of the first part alone."""
        return per_node(self.tasks, self.nodes or 1)

    @property
    def every(self) -> tuple[Batch, ...]:
        """All parts, itself first."""
        return (self, *self.parts)


def read_script(text: str, where: str = "script") -> list[tuple[str, str]]:
    """Option and value of each ``#SBATCH`` line, down to the first command.

    Raises:
        BadScript: the script is too long, has no ``#!``, or a line cannot be split.

    """
    if len(text) > LONGEST:
        raise BadScript(f"{where} has {len(text)} characters, and {LONGEST} are read.")
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#!"):
        raise BadScript(f"{where} does not begin with #!: write what runs it in the first line, such as #!/bin/bash.")
    options: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if line.startswith("#SBATCH"):
            try:
                lexer = shlex.shlex(line[len("#SBATCH") :], posix=True)
                # A comment begins a word; within one, as in nvcr.io#nvidia/pytorch, the mark is a letter.
                lexer.whitespace_split, lexer.commenters = True, ""
                words = list(itertools.takewhile(lambda word: not word.startswith("#"), lexer))
            except ValueError as error:
                raise BadScript(f"{where}:{number}: {error}: {line}") from None
            options += read_options(words, f"{where}:{number}")
    return options


def read_options(words: Sequence[str], where: str = "the command line") -> list[tuple[str, str]]:
    """Option and value of words such as ``--nodes=2 -c 4``.

    Raises:
        BadScript: a word is no option.

    """
    options: list[tuple[str, str]] = []
    rest = list(words)
    while rest:
        try:
            some, rest = split_options(rest)
        except BadOption as error:
            raise BadScript(f"{where}: {error}.") from None
        options += some
        if rest:
            if rest[0] in _DIVIDERS:
                options.append(DIVIDER)
                del rest[0]
                continue
            left = rest[0].startswith(("<", "[", "{")) or rest[0].endswith((">", "]", "}"))
            hint = ": a placeholder stands for a value" if left else ""
            raise BadScript(f"{where}: {rest[0]} is no option of sbatch{hint}.")
    return options


def parts_of(options: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """The options of each part of a job."""
    parts: list[list[tuple[str, str]]] = [[]]
    for option in options:
        if option == DIVIDER:
            parts.append([])
        else:
            parts[-1].append(option)
    return parts


def joined(
    script: Sequence[tuple[str, str]], environment: Sequence[tuple[str, str]], given: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The options of a script, of variables and of the command line, which win in this order, part by part.

    Variables, and a command line without parts, are for all parts.
    """
    of_script, of_line = parts_of(script), parts_of(given)
    options: list[tuple[str, str]] = []
    for number in range(max(len(of_script), len(of_line))):
        own = of_script[number] if number < len(of_script) else []
        line = of_line[0] if len(of_line) == 1 else of_line[number] if number < len(of_line) else []
        options += [*([DIVIDER] if number else []), *own, *environment, *line]
    return options


_OF_PART = frozenset(
    """
    nodes ntasks ntasks-per-node ntasks-per-gpu cpus-per-task cpus-per-gpu mincpus gpus gpus-per-node gpus-per-task gres
    mem mem-per-cpu mem-per-gpu tres-per-task constraint prefer nodelist exclude exclusive
    """.split()  # noqa: SIM905
)
"""Options of which each part has its own; of others those of the first part are for all."""


def batch_of(options: Sequence[tuple[str, str]], where: str = "script") -> Batch:
    """What the options ask for; later ones win, and each part of a job has its own.

    Raises:
        BadScript: a value cannot be read, or the sizes do not fit each other.

    """
    first, *others = parts_of(options)
    batch = _part_of(first, where)
    parts, notes = [], list(batch.notes)
    for number, own in enumerate(others, 1):
        if not own:
            raise BadScript(f"{where}: part {number} says nothing of its nodes, such as --nodes=1.")
        inherited = [each for each in first if each[0] == "exclude"]
        of_nodes = [each for each in own if each[0] in _OF_PART or OPTIONS[each[0]].handled == "told"]
        part = _part_of([*inherited, *of_nodes], where)
        parts.append(replace(part, apart=batch.apart and part.apart))
        said = dict(first)
        notes += [note for note in part.notes if note not in notes]
        notes += [
            f"--{name} of part {number} is left out: what the first part says is for all"
            for name, value in dict(own).items()
            if name in READERS and name not in _OF_PART and said.get(name) != value
        ]
    if parts and batch.array:
        raise BadScript(f"{where}: --array: elements of an array have no parts.")
    return replace(batch, parts=tuple(parts), notes=tuple(notes))


def _part_of(options: Sequence[tuple[str, str]], where: str) -> Batch:
    values = {name: value for name, value in options if name in READERS}
    notes: list[str] = []
    for name in dict(options):
        if OPTIONS[name].handled == "told":
            notes.append(f"--{name} is not supported: {OPTIONS[name].how}")
    notes += _left_open(values, where)
    if "tres-per-task" in values:
        try:
            of_task, others = per_task(values["tres-per-task"])
            for name, value in of_task.items():
                READERS[name](value)
        except ValueError as error:
            raise BadScript(f"{where}: --tres-per-task={values['tres-per-task']}: {error}.") from None
        last = {name: at for at, (name, _) in enumerate(options)}
        for name, value in of_task.items():
            if name in values and values[name] != value:
                first, second = sorted((name, "tres-per-task"), key=last.__getitem__)
                notes.append(f"--{first} and --{second} say both how much a task gets: --{second}, the last, counts")
            if last["tres-per-task"] > last.get(name, -1):
                values[name] = value
        notes += [
            f"of --tres-per-task only cpu, mem and gres/gpu are counted, and {each} is left out" for each in others
        ]
    batch = Batch()
    for name, value in values.items():
        try:
            read = dict(READERS[name](value))
            notes += read.pop("notes", ())
            batch = replace(batch, **read)
        except (ValueError, BadOption) as error:
            raise BadScript(f"{where}: --{name}={value}: {error}.") from None
    if "ALL" in values.get("export", "").upper().split(","):
        notes.append("of --export=ALL variables are passed on that the script uses: name others, --export=ALL,NAME")
    for other in generic(values.get("gres", ""))[1]:
        notes.append(f"of --gres only cards are counted, and {other} is left out")
    account = dict(options).get("account", "")
    return replace(_sized(batch, values, where), cards=kinds_of(values), account=account, notes=tuple(notes))


_PLACEHOLDER = re.compile(r"<[A-Za-z][^<>]*>|\{+ *[A-Za-z_][\w. ]*\}+")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w*\}?")
_WRITTEN = ("job-name", "output", "error")
"""Texts in which a variable may stand as it is; in the others something must be there, or counted."""


def _left_open(values: Mapping[str, str], where: str) -> list[str]:
    """Notes on variables in texts: none is filled in there, by Slurm neither.

    Raises:
        BadScript: a value is a placeholder, or a variable stands in the name of something that must be there.

    """
    notes = []
    for name, value in values.items():
        if name in ("wrap", "export"):
            continue
        variable = _VARIABLE.search(value)
        if (left := _PLACEHOLDER.search(value)) and not variable:
            raise BadScript(f"{where}: --{name}={value}: {left[0]} is a placeholder: write the value.")
        if variable is None:
            continue
        said = f"no variable is filled in here, such as {variable[0]}"
        if name not in _WRITTEN:
            raise BadScript(
                f"{where}: --{name}={value}: {said}: give the option on the command line, in double quotes."
            )
        notes.append(f"--{name}={value}: {said}, as under Slurm")
    return notes


_OF_NODES = ("gres", "gpus-per-node", "mem", "tres-per-node", "mincpus")


def _sized(batch: Batch, values: Mapping[str, str], where: str) -> Batch:
    """The numbers of nodes and tasks, and what each node has of what is said of tasks, cards or the job."""
    tasks, nodes, each = batch.tasks if "ntasks" in values else None, batch.nodes, batch.per_node
    if tasks is None and "ntasks-per-gpu" in values:
        of_node = devices(values["gpus-per-node"]) if "gpus-per-node" in values else generic(values.get("gres", ""))[0]
        cards = devices(values["gpus"]) if "gpus" in values else of_node * (nodes or 1)
        if not cards:
            raise BadScript(f"{where}: --ntasks-per-gpu needs --gpus, --gpus-per-node or --gres=gpu:NUMBER.")
        tasks, nodes = positive(values["ntasks-per-gpu"]) * cards, nodes or (1 if of_node else None)
    if nodes is None:
        if each:
            nodes = -(-(tasks or each) // each)
        elif tasks is None or any(name in values for name in _OF_NODES):
            nodes = 1
        else:
            # Where nothing is said of nodes, each task may go where there is room.
            nodes = tasks
            batch = replace(batch, apart=False)
    tasks = tasks or (each or 1) * nodes
    if each and tasks > each * nodes:
        raise BadScript(f"{where}: --ntasks={tasks} is more than --nodes={nodes} times --ntasks-per-node={each}.")
    nodes = min(nodes, tasks)
    if batch.constraint and batch.constraint.counted > nodes:
        if "nodes" in values or tasks > 1:
            raise BadScript(f"{where}: --constraint counts {batch.constraint.counted} nodes, and the job has {nodes}.")
        nodes = tasks = batch.constraint.counted
    batch = replace(batch, nodes=nodes, tasks=tasks)
    most = max(batch.counts)
    if "gpus" in values:
        batch = replace(batch, gpus=-(-devices(values["gpus"]) // nodes))
    if "gpus-per-node" in values:
        batch = replace(batch, gpus=devices(values["gpus-per-node"]))
    if "gres" in values:
        batch = replace(batch, gpus=generic(values["gres"])[0])
    if values.get("gres") == "none":
        batch = replace(batch, gpus_per_task=0)
    if batch.gpus_per_task:
        batch = replace(batch, gpus=batch.gpus_per_task * most)
    if "cpus-per-gpu" in values and batch.gpus:
        batch = replace(batch, node_cpus=positive(values["cpus-per-gpu"]) * batch.gpus)
    if "mincpus" in values:
        batch = replace(batch, node_cpus=max(positive(values["mincpus"]), (batch.cpus or 1) * most))
    if "mem" in values:
        batch = replace(batch, memory_mib=mebibytes(values["mem"]) or None)
    if "mem-per-gpu" in values and batch.gpus:
        batch = replace(batch, memory_mib=mebibytes(values["mem-per-gpu"]) * batch.gpus)
    if "mem-per-task" in values:
        batch = replace(batch, memory_mib=mebibytes(values["mem-per-task"]) * most)
    if "mem-per-cpu" in values:
        cpus = batch.node_cpus or (batch.cpus or 1) * most
        batch = replace(batch, memory_mib=mebibytes(values["mem-per-cpu"]) * cpus)
    return batch


READ = frozenset(READERS) - {"mem-per-task"}
"""Options that change the job."""
