"""Values of Slurm's options, and what of a batch each of them says (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from unisono.api.licenses import licenses_of, licenses_text
from unisono.cli.slurm.features import read_constraint
from unisono.cli.slurm.steps.mounts import MOUNT_FLAGS
from unisono.cli.slurm.steps.words import hosts_of, number_of

_MOST_ARRAY = 1000
_SIZES = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
# Words of --export for all of the caller's variables, or for none.
_WHOLE = ("ALL", "NONE", "NIL")
_DEPENDENCIES = ("afterok", "afterany", "afternotok", "aftercorr", "after")


def positive(text: str) -> int:
    """A whole number from 1 on.

    Raises:
        ValueError: it is none.

    """
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
    notes = [f"of --nodes={text} the least counts: a gang has one size"] if "-" in text else []
    low, _, high = text.partition("-")
    if high and positive(high) < positive(low):
        raise ValueError("the second number of nodes is the smaller one")
    return {"nodes": positive(low), "notes": notes}


def devices(text: str) -> int:
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
        total += int(count) if count.isdecimal() and len(count) < 5 else positive(count)
    return total


def generic(text: str) -> tuple[int, list[str]]:
    """Cards that ``--gres`` asks for, of a kind without a number one, and what is no card, such as ``nvme:100``."""
    cards, others = 0, []
    for part in text.split(",") if text and text != "none" else []:
        plain = re.sub(r"\(.*\)$", "", part).removeprefix("gres/")
        name, *rest = plain.split(":")
        if not all(re.fullmatch(r"[\w.-]+", word) for word in (name, *rest)):
            raise ValueError("resources are expected, such as gpu:4 or gpu:a100:4")
        if name == "gpu" or name.isdecimal():
            number = (rest or [name])[-1]
            cards += devices(number) if number.isdecimal() else 1
        else:
            others.append(plain)
    return cards, others


_OF_CARDS = ("gres", "gpus", "gpus-per-node", "gpus-per-task")


def kinds_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """Kinds of cards that options name: ``a100`` of ``gpu:a100:4``, ``a100:4`` or ``gpu:a100``."""
    kinds: dict[str, None] = {}
    for option in _OF_CARDS:
        for part in values.get(option, "").split(",") if values.get("gres") != "none" or option == "gres" else ():
            words = re.sub(r"\(.*\)$", "", part).removeprefix("gres/").split(":")
            if option == "gres" and words.pop(0) != "gpu":
                continue
            kinds.update({word.lower(): None for word in words if word and not word.isdecimal() and word != "gpu"})
    return tuple(kinds)


def per_task(text: str) -> tuple[dict[str, str], list[str]]:
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


def mebibytes(text: str) -> int:
    """Memory of ``4G``, ``500M`` or ``500``; 0 for all of a node.

    Raises:
        ValueError: it cannot be read.

    """
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
    return {"array": tuple(dict.fromkeys(indices)), "at_once": positive(at_once) if limited else 0}


def _dependency(text: str) -> dict[str, Any]:
    dependencies: list[tuple[str, str]] = []
    notes: list[str] = []
    for part in re.split("[,?]", text):
        how, *names = part.split(":")
        if part == "singleton":
            dependencies.append((part, ""))
            continue
        if how not in _DEPENDENCIES or not names or not all(names):
            raise ValueError(f"{', '.join(f'{each}:NAME' for each in _DEPENDENCIES)} or singleton is expected")
        if any("+" in name for name in names):
            notes.append(f"of --dependency={part} the start counts, and not the minutes behind it")
        dependencies += [(how, name.partition("+")[0]) for name in names]
    return {"after": tuple(dependencies), "any_of": "?" in text, "notes": notes}


_MOST_SIGNAL_SECONDS = 65535
"""Slurm's own bound; evictions wait so long, too, for at most their own."""


def _signal(text: str) -> dict[str, Any]:
    """``[R][B]:USR1@120``: the signal, so many seconds before the job must end; ``B`` for the shell alone."""
    who, colon, rest = text.rpartition(":")
    name, at, seconds = rest.partition("@")
    if colon and not set(who) <= set("RB"):
        raise ValueError("a signal is expected, such as USR1@60 or B:TERM@120")
    before = positive(seconds) if at else 60
    if before > _MOST_SIGNAL_SECONDS:
        raise ValueError(f"{before} seconds are too many, {_MOST_SIGNAL_SECONDS} at most")
    return {"signal": (number_of(name), before, "B" in who)}


def _mounts(text: str) -> dict[str, Any]:
    mounts = []
    for part in re.split("[,;]", text):
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
    told = f"--container-image={text} is a file: the processes run in the image of --image, or on this machine"
    return {"notes": [told]} if is_file else {"image": plain.replace("#", "/")}


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


def _first(option: str, name: str) -> Callable[[str], dict[str, Any]]:
    """Of several names the first, which is told."""

    def read(text: str) -> dict[str, Any]:
        first, *others = [each.strip() for each in text.split(",")]
        if not first:
            raise ValueError("a value is expected")
        return {name: first, "notes": [f"of --{option}={text} the first, {first}, counts"] if others else []}

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


READERS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "nodes": _nodes,
    "ntasks": lambda text: {"tasks": positive(text)},
    "cpus-per-task": lambda text: {"cpus": positive(text)},
    "ntasks-per-node": lambda text: {"per_node": positive(text)},
    "ntasks-per-gpu": lambda text: _checked(positive(text)),
    "gpus": lambda text: _checked(devices(text)),
    "gpus-per-node": lambda text: _checked(devices(text)),
    "gpus-per-task": lambda text: {"gpus_per_task": devices(text)},
    "gres": lambda text: _checked(generic(text)),
    "mem": lambda text: _checked(mebibytes(text)),
    "mem-per-cpu": lambda text: _checked(mebibytes(text)),
    "mem-per-gpu": lambda text: _checked(mebibytes(text)),
    "mem-per-task": lambda text: _checked(mebibytes(text)),
    "tres-per-task": lambda text: _checked(per_task(text)),
    "cpus-per-gpu": lambda text: _checked(positive(text)),
    "mincpus": lambda text: _checked(positive(text)),
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
    "partition": _first("partition", "queue"),
    "chdir": _text("folder"),
    "signal": _signal,
    "exclusive": lambda text: {
        "exclusive": True,
        "notes": [f"--exclusive={text} is --exclusive: nodes are shared with no other job"] if text else [],
    },
    "requeue": _flag("requeue"),
    "no-requeue": _flag("requeue", False),
    "constraint": lambda text: {"constraint": read_constraint(text)},
    "prefer": lambda text: {"prefer": read_constraint(text)},
    "nodelist": _names("nodelist"),
    "exclude": _names("exclude"),
    "reservation": lambda text: _first("reservation", "reservation")(text.lower().replace("_", "-")),
    "container-image": _image,
    "container-mounts": _mounts,
    "container-workdir": _text("folder"),
}
"""What each option says of a batch; an unreadable value is a ValueError."""
