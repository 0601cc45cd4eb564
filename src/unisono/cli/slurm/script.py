"""``#SBATCH`` lines of a script, and the same options on a command line, as a Job (pure)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unisono.errors import UnisonoError

# Linux takes no longer word on a command line.
LONGEST = 100_000
_MOST_ARRAY = 1000
_SIZES = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
_ACCEPTED_DEPENDENCIES = ("afterok", "afterany", "after")
SHORT = {
    "-N": "nodes",
    "-n": "ntasks",
    "-c": "cpus-per-task",
    "-G": "gpus",
    "-t": "time",
    "-J": "job-name",
    "-a": "array",
    "-d": "dependency",
    "-o": "output",
    "-p": "partition",
    "-D": "chdir",
    "-A": "account",
    "-C": "constraint",
    "-L": "licenses",
    "-b": "begin",
    "-e": "error",
    "-i": "input",
    "-m": "distribution",
    "-q": "qos",
    "-w": "nodelist",
    "-x": "exclude",
}
# Letters that stand alone.
FLAGS = {
    "-H": "hold",
    "-K": "kill-on-bad-exit",
    "-O": "overcommit",
    "-Q": "quiet",
    "-W": "wait",
    "-k": "no-kill",
    "-l": "label",
    "-s": "oversubscribe",
    "-u": "unbuffered",
    "-v": "verbose",
}
# What says nothing that changes how the job runs here.
SAID_ELSEWHERE = {
    "error": "standard error is in the same log",
    "mail-type": "no mail is sent",
    "mail-user": "no mail is sent",
    "account": "queues stand for accounts: use --partition",
    "constraint": "the job may run on any node",
    "nodelist": "the job may run on any node",
    "exclude": "the job may run on any node",
    "qos": "queues stand for it: use --partition",
    "begin": "the job may start at once; jobs by the clock are CronJobs",
    "hold": "the job may start at once; 'unisono job suspend NAME' holds one",
    "wait": "follow the job with 'unisono logs -f job/NAME'",
    "exclusive": "nodes are shared",
    "open-mode": "logs are kept for each run",
}
# Besides those that are read: the next word is their value.
VALUED = frozenset(
    {
        "account",
        "begin",
        "comment",
        "constraint",
        "cpu-bind",
        "cpu-freq",
        "deadline",
        "distribution",
        "error",
        "exclude",
        "gpu-bind",
        "gpu-freq",
        "hint",
        "input",
        "licenses",
        "mail-type",
        "mail-user",
        "mem-bind",
        "mpi",
        "nice",
        "nodelist",
        "ntasks-per-core",
        "ntasks-per-gpu",
        "ntasks-per-socket",
        "open-mode",
        "priority",
        "profile",
        "qos",
        "reservation",
        "signal",
        "switches",
        "threads-per-core",
        "time-min",
        "tmp",
        "wckey",
    }
)
# Long names that stand alone: what follows them is another option or the script.
ALONE = frozenset(
    {*FLAGS.values(), "contiguous", "exclusive", "no-requeue", "parsable", "pty", "requeue", "spread-job"}
)


class BadScript(UnisonoError):
    """A script, or an option of Slurm, cannot be read; the message names the line."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a script asks for.

    Attributes:
        name: of the job; None for the script's file name.
        nodes: number of nodes, of which each takes ``tasks / nodes`` tasks; None where it is not said.
        tasks: number of processes.
        cpus: per process.
        gpus: per process.
        memory_mib: per process; None where it is not said.
        seconds: time limit.
        array: indices of the array's elements, empty where it is none.
        at_once: elements that may run at once; 0 for all.
        after: names of jobs that must have ended, each with how: ``afterok``.
        output: where the log is to be copied; empty for the log alone.
        queue: the partition.
        folder: where the processes start; empty for the caller's.
        wrapped: the command that stands in place of a script; empty for none.
        exported: variables of the processes; None is the caller's own value.
        parsable: the names of the jobs alone are printed.
        notes: what was said and is not done here, a sentence each.

    """

    name: str | None = None
    nodes: int | None = None
    tasks: int = 1
    cpus: int | None = None
    gpus: int | None = None
    memory_mib: int | None = None
    seconds: int | None = None
    array: tuple[int, ...] = ()
    at_once: int = 0
    after: tuple[tuple[str, str], ...] = ()
    output: str = ""
    queue: str = "default"
    folder: str = ""
    wrapped: str = ""
    exported: tuple[tuple[str, str | None], ...] = ()
    parsable: bool = False
    notes: tuple[str, ...] = field(default=())


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
    found: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if line.startswith("#SBATCH"):
            try:
                words = shlex.split(line[len("#SBATCH") :], comments=True)
            except ValueError as error:
                raise BadScript(f"{where}:{number}: {error}: {line}") from None
            found += read_options(words, f"{where}:{number}")
    return found


def read_options(words: Sequence[str], where: str = "the command line") -> list[tuple[str, str]]:
    """Option and value of words such as ``--nodes=2 -c 4``.

    Raises:
        BadScript: a word is no option.

    """
    found = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, assigned, value = word[2:].partition("=")
            valued = name in _READ or name in VALUED or (bool(rest) and not rest[0].startswith("-"))
            if not assigned and rest and valued and name not in ALONE:
                value = rest.pop(0)
        elif word[:2] in SHORT:
            name, value = SHORT[word[:2]], word[2:].removeprefix("=")
            if not value and rest:
                value = rest.pop(0)
        elif word in FLAGS:
            name, value = FLAGS[word], ""
        else:
            raise BadScript(f"{where}: {word} is no option of sbatch.")
        found.append((name, value))
    return found


def takes_value(word: str) -> bool:
    """Whether the next word of a command line is this option's value."""
    if word.startswith("--"):
        return "=" not in word and (word[2:] in _READ or word[2:] in VALUED) and word[2:] not in ALONE
    return word in SHORT


def batch_of(options: Sequence[tuple[str, str]], where: str = "script") -> Batch:
    """What the options ask for; later ones win.

    Raises:
        BadScript: a value cannot be read, or the sizes do not fit each other.

    """
    values = {name: value for name, value in options if name in _READ}
    notes = [
        f"--{name} is not supported: {SAID_ELSEWHERE.get(name, 'it is left out')}"
        for name, _ in dict(options).items()
        if name not in _READ
    ]
    batch = Batch()
    for name, value in values.items():
        try:
            batch = replace(batch, **_READ[name](value))
        except ValueError as error:
            raise BadScript(f"{where}: --{name}={value}: {error}.") from None
    if any(word in ("ALL", "NONE", "NIL") for word in values.get("export", "").split(",")):
        notes.append("of --export only variables with a name are passed on: --export=NAME,NAME=VALUE")
    return replace(_sized(batch, values, where), notes=tuple(notes))


def _sized(batch: Batch, values: Mapping[str, str], where: str) -> Batch:
    """Numbers per node and of the whole job, as numbers per process."""
    nodes = batch.nodes or 1
    tasks = batch.tasks
    if "ntasks-per-node" in values:
        per_node = _positive(values["ntasks-per-node"])
        if "ntasks" in values and batch.tasks != per_node * nodes:
            raise BadScript(
                f"{where}: --ntasks={batch.tasks} is not --nodes={nodes} times --ntasks-per-node={per_node}."
            )
        tasks = per_node * nodes
    elif "ntasks" not in values:
        tasks = nodes
    if tasks % nodes:
        raise BadScript(f"{where}: {tasks} tasks cannot be spread evenly over {nodes} nodes.")
    batch = replace(batch, tasks=tasks)
    for name, whole in (("gpus", tasks), ("gpus-per-node", tasks // nodes), ("gres", tasks // nodes)):
        if name not in values:
            continue
        count = _devices(values[name])
        if count % whole:
            raise BadScript(f"{where}: --{name}={values[name]} cannot be shared evenly by {whole} tasks.")
        batch = replace(batch, gpus=count // whole)
    if "gpus-per-task" in values:
        batch = replace(batch, gpus=_devices(values["gpus-per-task"]))
    if "cpus-per-gpu" in values and batch.gpus:
        batch = replace(batch, cpus=_positive(values["cpus-per-gpu"]) * batch.gpus)
    if "mem-per-gpu" in values and batch.gpus:
        batch = replace(batch, memory_mib=_mebibytes(values["mem-per-gpu"]) * batch.gpus)
    if "mem" in values:
        batch = replace(batch, memory_mib=max(1, _mebibytes(values["mem"]) // (tasks // nodes)))
    if "mem-per-cpu" in values:
        batch = replace(batch, memory_mib=_mebibytes(values["mem-per-cpu"]) * (batch.cpus or 1))
    return batch


def _positive(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text) or int(text) < 1:
        raise ValueError("a whole number from 1 on is expected")
    return int(text)


def _nodes(text: str) -> dict[str, Any]:
    low, _, high = text.partition("-")
    if high and high != low:
        raise ValueError("a range of nodes is not supported, give one number")
    return {"nodes": _positive(low)}


def _devices(text: str) -> int:
    """Cards of ``4``, ``gpu:4``, ``a100:4`` or ``gpu:a100:4``."""
    kind, _, count = text.rpartition(":")
    if kind and not re.fullmatch(r"[\w:.-]+", kind):
        raise ValueError("a number of GPUs is expected")
    return int(count) if count.isdecimal() and len(count) < 5 else _positive(count)


def _mebibytes(text: str) -> int:
    match = re.fullmatch(r"(\d{1,9})([KMGT]?)B?", text.upper())
    if not match:
        raise ValueError("an amount of memory is expected, such as 4G or 500M")
    return max(1, int(int(match[1]) * _SIZES[match[2]]))


def _time(text: str) -> dict[str, Any]:
    """``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours[:minutes[:seconds]]``."""
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
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    if total < 1:
        raise ValueError("a time of a second or more is expected")
    return {"seconds": total}


def _array(text: str) -> dict[str, Any]:
    """``0-15``, ``1,3,5``, ``0-15:4``, each with ``%4`` elements at once."""
    listed, limited, at_once = text.partition("%")
    found: list[int] = []
    for part in listed.split(","):
        match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", part)
        if not match:
            raise ValueError("indices are expected, such as 0-15, 1,3,5 or 0-15:4")
        first = int(match[1])
        last, step = int(match[2] or first), int(match[3] or 1)
        if last < first or step < 1 or (last - first) // step >= _MOST_ARRAY:
            raise ValueError(f"an array has 1 to {_MOST_ARRAY} elements")
        found += range(first, last + 1, step)
    if len(found) > _MOST_ARRAY:
        raise ValueError(f"an array has 1 to {_MOST_ARRAY} elements")
    return {"array": tuple(dict.fromkeys(found)), "at_once": _positive(at_once) if limited else 0}


def _dependency(text: str) -> dict[str, Any]:
    found = []
    for part in text.split(","):
        how, *names = part.split(":")
        if how not in _ACCEPTED_DEPENDENCIES or not names or not all(names):
            raise ValueError("afterok:NAME, afterany:NAME or after:NAME is expected")
        found += [(how, name) for name in names]
    return {"after": tuple(found)}


def _text(name: str) -> Callable[[str], dict[str, Any]]:
    def read(text: str) -> dict[str, Any]:
        if not text:
            raise ValueError("a value is expected")
        return {name: text}

    return read


def _export(text: str) -> dict[str, Any]:
    found: list[tuple[str, str | None]] = []
    for word in text.split(","):
        name, assigned, value = word.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w{0,254}", name):
            raise ValueError("variables are expected: NAME,NAME=VALUE")
        if word not in ("ALL", "NONE", "NIL"):
            found.append((name, value if assigned else None))
    return {"exported": tuple(found)}


def _checked(value: object) -> dict[str, Any]:
    """What ``_sized`` shares out among the processes."""
    return {}


_READ: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "nodes": _nodes,
    "ntasks": lambda text: {"tasks": _positive(text)},
    "cpus-per-task": lambda text: {"cpus": _positive(text)},
    "ntasks-per-node": lambda text: _checked(_positive(text)),
    "gpus": lambda text: _checked(_devices(text)),
    "gpus-per-node": lambda text: _checked(_devices(text)),
    "gpus-per-task": lambda text: _checked(_devices(text)),
    "gres": lambda text: _checked(_devices(text)),
    "mem": lambda text: _checked(_mebibytes(text)),
    "mem-per-cpu": lambda text: _checked(_mebibytes(text)),
    "mem-per-gpu": lambda text: _checked(_mebibytes(text)),
    "cpus-per-gpu": lambda text: _checked(_positive(text)),
    "export": _export,
    "wrap": _text("wrapped"),
    "parsable": lambda text: {"parsable": True},
    "time": _time,
    "job-name": _text("name"),
    "array": _array,
    "dependency": _dependency,
    "output": _text("output"),
    "partition": _text("queue"),
    "chdir": _text("folder"),
}
READ = frozenset(_READ) - {"parsable"}
"""Options that are read and have a value."""
