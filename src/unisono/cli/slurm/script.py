"""``#SBATCH`` lines of a script, and the same options on a command line, as a Job (pure)."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unisono.api.licenses import licenses_of, licenses_text
from unisono.cli.slurm.options import OPTIONS
from unisono.cli.slurm.steps.mounts import MOUNT_FLAGS
from unisono.cli.slurm.steps.words import BadOption, hosts_of, number_of, per_node, split_options
from unisono.errors import UnisonoError

# Linux takes no longer word on a command line.
LONGEST = 100_000
_MOST_ARRAY = 1000
_SIZES = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
# Words of --export for all of the caller's variables, or for none.
_WHOLE = ("ALL", "NONE", "NIL")
_DEPENDENCIES = ("afterok", "afterany", "afternotok", "aftercorr", "after")


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
    image: str = ""
    reservation: str = ""
    mounts: tuple[tuple[str, str, bool], ...] = ()
    licenses: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def counts(self) -> list[int]:
        """Tasks of each node."""
        return per_node(self.tasks, self.nodes or 1)


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
            refuse_parts(rest[:1], where)
            left = rest[0].startswith(("<", "[")) or rest[0].endswith((">", "]"))
            hint = ": a placeholder stands for a value" if left else ""
            raise BadScript(f"{where}: {rest[0]} is no option of sbatch{hint}.")
    return options


def refuse_parts(words: Sequence[str], where: str) -> None:
    """Refuse jobs of several parts: a part alone would run as if it were the job.

    Raises:
        BadScript: a word stands between two parts.
    """
    for word in words:
        if word in ("hetjob", "packjob", ":"):
            raise BadScript(
                f"{where}: {word} divides a job into parts of different nodes, and all nodes are alike here: "
                "submit a job for each part, or write a Job with a task for each (docs/jobs.md)."
            )


def batch_of(options: Sequence[tuple[str, str]], where: str = "script") -> Batch:
    """What the options ask for; later ones win.

    Raises:
        BadScript: a value cannot be read, or the sizes do not fit each other.
    """
    values = {name: value for name, value in options if name in _READ}
    notes: list[str] = []
    for name in dict(options):
        if OPTIONS[name].handled == "told":
            notes.append(f"--{name} is not supported: {OPTIONS[name].how}")
    notes += _left_open(values, where)
    if "tres-per-task" in values:
        try:
            per_task, others = _per_task(values["tres-per-task"])
            for name, value in per_task.items():
                _READ[name](value)
        except ValueError as error:
            raise BadScript(f"{where}: --tres-per-task={values['tres-per-task']}: {error}.") from None
        last = {name: at for at, (name, _) in enumerate(options)}
        for name, value in per_task.items():
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
            batch = replace(batch, **_READ[name](value))
        except (ValueError, BadOption) as error:
            raise BadScript(f"{where}: --{name}={value}: {error}.") from None
    if "ALL" in values.get("export", "").upper().split(","):
        notes.append("of --export=ALL variables are passed on that the script uses: name others, --export=ALL,NAME")
    for other in _generic(values.get("gres", ""))[1]:
        notes.append(f"of --gres only cards are counted, and {other} is left out")
    return replace(_sized(batch, values, where), notes=tuple(notes))


_PLACEHOLDER = re.compile(r"<[A-Za-z][^<>]*>")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w*\}?")
_NAMED = ("partition", "reservation", "nodelist", "exclude", "container-image", "container-mounts", "chdir")
_WRITTEN = ("job-name", "output", "error")


def _left_open(values: Mapping[str, str], where: str) -> list[str]:
    """Notes on variables in texts: none is filled in there, by Slurm neither.

    Raises:
        BadScript: a value is a placeholder, or a variable stands in the name of something that must be there.
    """
    notes = []
    for name, value in values.items():
        if name in ("wrap", "export"):
            continue
        if left := _PLACEHOLDER.search(value):
            raise BadScript(f"{where}: --{name}={value}: {left[0]} is a placeholder: write the value.")
        variable = _VARIABLE.search(value) if name in (*_NAMED, *_WRITTEN) else None
        if variable is None:
            continue
        said = f"no variable is filled in here, such as {variable[0]}"
        if name in _NAMED:
            raise BadScript(
                f"{where}: --{name}={value}: {said}: give the option on the command line, in double quotes."
            )
        notes.append(f"--{name}={value}: {said}, as under Slurm")
    return notes


_OF_NODES = ("gres", "gpus-per-node", "mem", "tres-per-node", "mincpus")


def _sized(batch: Batch, values: Mapping[str, str], where: str) -> Batch:
    """The numbers of nodes and tasks, and what each node has of what is said of tasks, cards or the job."""
    tasks, nodes, each = batch.tasks if "ntasks" in values else None, batch.nodes, batch.per_node
    if tasks is None and "ntasks-per-gpu" in values and "gpus" in values:
        tasks = _positive(values["ntasks-per-gpu"]) * _devices(values["gpus"])
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
    batch = replace(batch, nodes=nodes, tasks=tasks)
    most = max(batch.counts)
    if "gpus" in values:
        batch = replace(batch, gpus=-(-_devices(values["gpus"]) // nodes))
    if "gpus-per-node" in values:
        batch = replace(batch, gpus=_devices(values["gpus-per-node"]))
    if "gres" in values:
        batch = replace(batch, gpus=_generic(values["gres"])[0])
    if values.get("gres") == "none":
        batch = replace(batch, gpus_per_task=0)
    if batch.gpus_per_task:
        batch = replace(batch, gpus=batch.gpus_per_task * most)
    if "cpus-per-gpu" in values and batch.gpus:
        batch = replace(batch, node_cpus=_positive(values["cpus-per-gpu"]) * batch.gpus)
    if "mincpus" in values:
        batch = replace(batch, node_cpus=max(_positive(values["mincpus"]), (batch.cpus or 1) * most))
    if "mem" in values:
        batch = replace(batch, memory_mib=_mebibytes(values["mem"]) or None)
    if "mem-per-gpu" in values and batch.gpus:
        batch = replace(batch, memory_mib=_mebibytes(values["mem-per-gpu"]) * batch.gpus)
    if "mem-per-task" in values:
        batch = replace(batch, memory_mib=_mebibytes(values["mem-per-task"]) * most)
    if "mem-per-cpu" in values:
        cpus = batch.node_cpus or (batch.cpus or 1) * most
        batch = replace(batch, memory_mib=_mebibytes(values["mem-per-cpu"]) * cpus)
    return batch


def _positive(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text) or int(text) < 1:
        raise ValueError("a whole number from 1 on is expected")
    return int(text)


def _licenses(text: str) -> dict[str, Any]:
    """``matlab:2,ansys`` as the annotation of the job has it; of ``matlab@server`` the name counts."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if "|" in text:
        raise ValueError("one of several licences cannot be asked for: name those that are needed, such as matlab:2")
    named = [(name.partition("@")[0].lower(), number or "1") for name, _, number in (p.partition(":") for p in parts)]
    return {"licenses": licenses_text(licenses_of(",".join(f"{name}={number}" for name, number in named)))}


def _nodes(text: str) -> dict[str, Any]:
    """``2``; of ``2-4`` the first, as a gang has one size."""
    low, _, high = text.partition("-")
    if high and _positive(high) < _positive(low):
        raise ValueError("the second number of nodes is the smaller one")
    return {"nodes": _positive(low)}


def _devices(text: str) -> int:
    """Cards of ``4``, ``a100:4``, ``a100:2,h100:1``, ``gpu:a100:4``."""
    total = 0
    for part in text.split(","):
        plain = re.sub(r"\(.*\)$", "", part)
        kind, _, count = plain.rpartition(":")
        if kind and not re.fullmatch(r"[\w:.-]+", kind):
            raise ValueError("a number of GPUs is expected")
        if plain in ("gpu", "gres/gpu"):
            total += 1
            continue
        total += int(count) if count.isdecimal() and len(count) < 5 else _positive(count)
    return total


def _generic(text: str) -> tuple[int, list[str]]:
    """Cards that ``--gres`` asks for, of a kind without a number one, and what is no card, such as ``nvme:100``."""
    cards, others = 0, []
    for part in text.split(",") if text and text != "none" else []:
        plain = re.sub(r"\(.*\)$", "", part).removeprefix("gres/")
        name, *rest = plain.split(":")
        if not all(re.fullmatch(r"[\w.-]+", word) for word in (name, *rest)):
            raise ValueError("resources are expected, such as gpu:4 or gpu:a100:4")
        if name == "gpu" or name.isdecimal():
            number = (rest or [name])[-1]
            cards += _devices(number) if number.isdecimal() else 1
        else:
            others.append(plain)
    return cards, others


def _per_task(text: str) -> tuple[dict[str, str], list[str]]:
    """Options that mean ``cpu=4,mem=8G,gres/gpu:a100=1``, and what is left out; ``:`` stands for ``=``, too."""
    options: dict[str, str] = {}
    others: list[str] = []
    for part in text.split(","):
        name, _, value = part.partition("=") if "=" in part else part.rpartition(":")
        kind = name.removeprefix("gres/").partition(":")[0]
        if not value:
            raise ValueError("amounts are expected, such as cpu=4,gres/gpu=1")
        if kind == "gpu":
            options["gpus-per-task"] = value
        elif kind in ("cpu", "mem"):
            options["cpus-per-task" if kind == "cpu" else "mem-per-task"] = value
        else:
            others.append(part)
    return options, others


def _mebibytes(text: str) -> int:
    match = re.fullmatch(r"(\d{1,9})([KMGT]?)B?", text.upper())
    if not match:
        raise ValueError("an amount of memory is expected, such as 4G or 500M")
    return max(1, int(int(match[1]) * _SIZES[match[2]])) if int(match[1]) else 0


def _time(text: str) -> dict[str, Any]:
    """A time, or none: ``UNLIMITED`` and 0."""
    unlimited = text.upper() in ("UNLIMITED", "INFINITE", "-1")
    return {"seconds": None if unlimited else duration_of(text) or None}


def duration_of(text: str) -> int:
    """Seconds of ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours[:minutes[:seconds]]``."""
    days, dashed, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(re.fullmatch(r"\d{1,6}", part) for part in parts) or len(parts) > 3 or (dashed and not days.isdecimal()):
        raise ValueError("a time is expected, such as 30, 1:30:00 or 2-12:00:00")
    numbers = [int(part) for part in parts]
    if dashed:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, [*numbers, 0][:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _array(text: str) -> dict[str, Any]:
    """``0-15``, ``[1,3,5]``, ``0-15:4``, each with ``%4`` elements at once."""
    listed, limited, at_once = text.partition("%")
    if listed.startswith("[") and listed.endswith("]"):
        listed = listed[1:-1]
    indices: list[int] = []
    for part in listed.split(","):
        match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", part)
        if not match:
            raise ValueError("indices are expected, such as 0-15, 1,3,5 or 0-15:4")
        first = int(match[1])
        last, step = int(match[2] or first), int(match[3] or 1)
        if last < first or step < 1 or (last - first) // step >= _MOST_ARRAY:
            raise ValueError(f"an array has 1 to {_MOST_ARRAY} elements")
        indices += range(first, last + 1, step)
    if len(indices) > _MOST_ARRAY:
        raise ValueError(f"an array has 1 to {_MOST_ARRAY} elements")
    return {"array": tuple(dict.fromkeys(indices)), "at_once": _positive(at_once) if limited else 0}


def _dependency(text: str) -> dict[str, Any]:
    dependencies: list[tuple[str, str]] = []
    for part in re.split("[,?]", text):
        how, *names = part.split(":")
        if part == "singleton":
            dependencies.append((part, ""))
            continue
        if how not in _DEPENDENCIES or not names or not all(names):
            raise ValueError(f"{', '.join(f'{each}:NAME' for each in _DEPENDENCIES)} or singleton is expected")
        # after:NAME+10 is ten minutes after its start; the start is what counts here.
        dependencies += [(how, name.partition("+")[0]) for name in names]
    return {"after": tuple(dependencies), "any_of": "?" in text}


_MOST_SIGNAL_SECONDS = 65535
"""Slurm's own bound; evictions wait so long, too, for at most their own."""


def _signal(text: str) -> dict[str, Any]:
    """``[R][B]:USR1@120``: the signal, so many seconds before the job must end; ``B`` for the shell alone."""
    who, colon, rest = text.rpartition(":")
    name, at, seconds = rest.partition("@")
    if colon and not set(who) <= set("RB"):
        raise ValueError("a signal is expected, such as USR1@60 or B:TERM@120")
    before = _positive(seconds) if at else 60
    if before > _MOST_SIGNAL_SECONDS:
        raise ValueError(f"{before} seconds are too many, {_MOST_SIGNAL_SECONDS} at most")
    return {"signal": (number_of(name), before, "B" in who)}


def _mounts(text: str) -> dict[str, Any]:
    mounts = []
    for part in text.split(","):
        source, _, rest = part.partition(":")
        target, _, flags = rest.partition(":")
        if not source.startswith("/") and not source.startswith("."):
            raise ValueError("folders are expected: /data:/data or /data:/data:ro")
        if target and not target.startswith("/"):
            raise ValueError(f"{target} must be a whole path: /data:/data or /data:/data:ro")
        words = flags.split("+") if flags else []
        if wrong := [word for word in words if word.partition("=")[0] not in MOUNT_FLAGS]:
            raise ValueError(f"{wrong[0] or flags} is no flag of a mount: ro, or several such as ro+rprivate")
        if "ro" in words and "rw" in words:
            raise ValueError("ro and rw exclude each other")
        mounts.append((source, target or source, "ro" in words))
    return {"mounts": tuple(mounts)}


def _image(text: str) -> dict[str, Any]:
    """``nvcr.io#nvidia/pytorch:24.01`` as a reference; a file such as ``x.sqsh`` is none."""
    is_file = text.startswith((".", "/", "~")) or text.endswith((".sqsh", ".sif"))
    plain = text.partition("://")[2] or text.removeprefix("docker:")
    return {} if is_file else {"image": plain.replace("#", "/")}


def _names(name: str) -> Callable[[str], dict[str, Any]]:
    return lambda text: {name: tuple(hosts_of(text))}


def _flag(name: str, value: bool = True) -> Callable[[str], dict[str, Any]]:
    return lambda text: {name: value}


def _text(name: str) -> Callable[[str], dict[str, Any]]:
    def read(text: str) -> dict[str, Any]:
        if not text:
            raise ValueError("a value is expected")
        return {name: text}

    return read


def _export(text: str) -> dict[str, Any]:
    variables: list[tuple[str, str | None]] = []
    for word in text.split(","):
        name, assigned, value = word.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w{0,254}", name):
            raise ValueError("variables are expected: NAME,NAME=VALUE")
        if word.upper() not in _WHOLE:
            variables.append((name, value if assigned else None))
    words = {word.upper() for word in text.split(",")}
    return {"exported": tuple(variables), "exports_used": "ALL" in words}


def _checked(value: object) -> dict[str, Any]:
    """What ``_sized`` shares out among the processes."""
    return {}


_READ: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "nodes": _nodes,
    "ntasks": lambda text: {"tasks": _positive(text)},
    "cpus-per-task": lambda text: {"cpus": _positive(text)},
    "ntasks-per-node": lambda text: {"per_node": _positive(text)},
    "ntasks-per-gpu": lambda text: _checked(_positive(text)),
    "gpus": lambda text: _checked(_devices(text)),
    "gpus-per-node": lambda text: _checked(_devices(text)),
    "gpus-per-task": lambda text: {"gpus_per_task": _devices(text)},
    "gres": lambda text: _checked(_generic(text)),
    "mem": lambda text: _checked(_mebibytes(text)),
    "mem-per-cpu": lambda text: _checked(_mebibytes(text)),
    "mem-per-gpu": lambda text: _checked(_mebibytes(text)),
    "mem-per-task": lambda text: _checked(_mebibytes(text)),
    "tres-per-task": lambda text: _checked(_per_task(text)),
    "cpus-per-gpu": lambda text: _checked(_positive(text)),
    "mincpus": lambda text: _checked(_positive(text)),
    "licenses": _licenses,
    "export": _export,
    "wrap": _text("wrapped"),
    "parsable": _flag("parsable"),
    "test-only": _flag("test_only"),
    "hold": _flag("hold"),
    "wait": _flag("wait"),
    "begin": _text("begin"),
    "time": _time,
    "job-name": _text("name"),
    "array": _array,
    "dependency": _dependency,
    "output": _text("output"),
    "error": _text("error"),
    "open-mode": lambda text: {"append": text.startswith("a")},
    "partition": lambda text: {"queue": text.partition(",")[0]} if text else _text("queue")(text),
    "chdir": _text("folder"),
    "signal": _signal,
    "exclusive": _flag("exclusive"),
    "requeue": _flag("requeue"),
    "no-requeue": _flag("requeue", False),
    "nodelist": _names("nodelist"),
    "exclude": _names("exclude"),
    "reservation": lambda text: {"reservation": text.partition(",")[0].lower().replace("_", "-")},
    "container-image": _image,
    "container-mounts": _mounts,
    "container-workdir": _text("folder"),
}

READ = frozenset(_READ) - {"mem-per-task"}
"""Options that change the job."""
