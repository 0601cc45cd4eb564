"""Slurm's words: its options, lists of hosts, file names with ``%j``, and which tasks a node has (pure).

What runs in pods is read from here as text, too: this module needs nothing but the standard library of Python 3.8.
"""

from __future__ import annotations

import difflib
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

SHORT = {
    "A": "account",
    "B": "extra-node-info",
    "C": "constraint",
    "D": "chdir",
    "F": "nodefile",
    "G": "gpus",
    "J": "job-name",
    "L": "licenses",
    "M": "clusters",
    "N": "nodes",
    "S": "core-spec",
    "a": "array",
    "b": "begin",
    "c": "cpus-per-task",
    "d": "dependency",
    "e": "error",
    "i": "input",
    "m": "distribution",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "r": "relative",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
"""Letters that have a value."""
FLAGS = {
    "E": "preserve-env",
    "H": "hold",
    "I": "immediate",
    "K": "kill-on-bad-exit",
    "O": "overcommit",
    "Q": "quiet",
    "W": "wait",
    "X": "disable-status",
    "Z": "no-allocate",
    "h": "help",
    "k": "no-kill",
    "l": "label",
    "s": "oversubscribe",
    "u": "unbuffered",
    "v": "verbose",
}
"""Letters that stand alone."""
VALUED = frozenset(
    """
    account accel-bind acctg-freq array batch bb bbf bcast-exclude begin chdir cluster-constraint clusters comment
    constraint container container-entrypoint-log container-env container-id container-image container-mounts
    container-name container-save container-workdir core-spec cores-per-socket cpu-bind cpu-freq cpus-per-gpu
    cpus-per-task deadline delay-boot dependency distribution environment epilog error exclude export export-file extra
    extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags
    het-group hint input job-name jobid kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind
    mem-per-cpu mem-per-gpu mincpus module mpi msg-timeout network nodefile nodelist nodes ntasks ntasks-per-core
    ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output partition power prefer priority
    profile prolog qos relative reservation segment signal slurmd-debug sockets-per-node switches task-epilog
    task-prolog thread-spec threads threads-per-core time time-min tmp treewidth tres-bind tres-per-job
    tres-per-task uenv uid view wait-all-nodes wckey wrap
    """.split()
)
"""Long options whose value may stand in the next word; those of others follow ``=`` or are left out."""
ALONE = frozenset(
    """
    auto-resume bcast bell compress consolidate-segments container-entrypoint container-mount-home container-readonly
    container-remap-root container-writable contiguous exact exclusive external-launcher get-user-env ignore-pbs
    interactive mem-per-node multi-prog nice no-bell no-container-entrypoint no-container-mount-home
    no-container-remap-root no-requeue no-shell nvmps oom-kill-step overlap parsable propagate pty quit-on-interrupt
    reboot requeue resv-ports send-libs spread-job spread-segments stepmgr test-only usage use-min-nodes version whole
    x11
    """.split()
) | frozenset(FLAGS.values())
"""Long options that stand alone: what follows them is another option or the command."""

OF_STEPS = frozenset(
    """
    auto-resume bcast bcast-exclude compress disable-status epilog het-group jobid kill-on-bad-exit msg-timeout
    no-allocate preserve-env prolog quit-on-interrupt relative send-libs slurmd-debug task-epilog task-prolog
    threads treewidth whole
    """.split()
)
"""Long options of ``srun`` that ``sbatch`` has not; ``auto-resume`` is that of a cloud's Slurm."""

_OTHERWISE = {
    "image": "container-image",  # of Shifter
    "share": "oversubscribe",
    "tasks-per-node": "ntasks-per-node",
    "workdir": "chdir",
    "pack-group": "het-group",
    "volume": "container-mounts",  # of Shifter
}


class BadOption(ValueError):
    """A word that is no option of Slurm, or one that lacks its value."""


def split_options(words: Sequence[str], command: str = "sbatch") -> tuple[list[tuple[str, str]], list[str]]:
    """Names and values of the options before the first word that is none, and the words from there on.

    Args:
        words: of a command line.
        command: ``srun`` has values for ``-W`` and ``-T``, others have not.

    Raises:
        BadOption: a word is no option, or lacks its value.

    """
    srun = command == "srun"
    short = dict(SHORT, W="wait", T="threads") if srun else SHORT
    valued = VALUED | {"wait"} if srun else VALUED
    options: list[tuple[str, str]] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, assigned, value = word[2:].partition("=")
            name = _whole(name, command)
            if not assigned and name in valued:
                if not rest:
                    raise BadOption(f"{word} lacks its value")
                value = rest.pop(0)
            options.append((name, value))
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in short:
                value = letters[1:] if letters.startswith("=") else letters
                if not letters:
                    if not rest:
                        raise BadOption(f"{word} lacks its value")
                    value = rest.pop(0)
                options.append((short[letter], value))
                break
            if letter not in FLAGS:
                raise BadOption(f"{word} is no option of {command}")
            if letter in "KI" and letters[:1].isdigit():
                options.append((FLAGS[letter], letters))
                break
            options.append((FLAGS[letter], ""))
    return options, rest


def _whole(name: str, command: str) -> str:
    """An option's own name, of an older one (``cpu_bind``) or the beginning of no other.

    Raises:
        BadOption: there is none; the message has those that may be meant.

    """
    plain = name.replace("_", "-")
    plain = _OTHERWISE.get(plain, plain)
    option_names = VALUED | ALONE
    if plain in option_names:
        return plain
    begun = option_names if command == "srun" else option_names - OF_STEPS
    matches = sorted(each for each in begun if plain and each.startswith(plain))
    if len(matches) == 1:
        return matches[0]
    near = matches[:3] or difflib.get_close_matches(plain, sorted(option_names), 1)
    meant = "; did you mean {}?".format(" or ".join("--" + each for each in near)) if near else ""
    raise BadOption(f"--{name[:40]} is no option of {command}{meant}")


MOST_HOSTS = 65_536
"""Names of one list of hosts."""


def hosts_of(text: str) -> list[str]:
    """Names of a list of hosts: ``n[01-03,7],m`` is ``n01 n02 n03 n7 m``.

    Raises:
        BadOption: there are too many.

    """
    hosts: list[str] = []
    for part in re.findall(r"(?:[^,\[\s]|\[[^\]]*\])+", text):
        names = [""]
        for plain, inner in re.findall(r"([^\[]+)|\[([^\]]*)\]", part):
            ends = [plain] if plain else [each for piece in inner.split(",") for each in _numbers(piece)]
            if len(hosts) + len(names) * len(ends) > MOST_HOSTS:
                raise BadOption(f"{text[:40]}: more than {MOST_HOSTS} hosts")
            names = [name + end for name in names for end in ends]
        hosts += names
    return hosts


def _numbers(piece: str) -> list[str]:
    first, dashed, last = piece.partition("-")
    if not dashed or not (first.isdigit() and last.isdigit()):
        return [piece]
    if int(last) - int(first) >= MOST_HOSTS:
        raise BadOption(f"[{piece}]: more than {MOST_HOSTS} hosts")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]


def filled(pattern: str, values: Mapping[str, object]) -> str:
    """A file name with its marks replaced: ``%j``, ``%4t``, ``%%``; marks that have no value stay."""

    def mark(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        if letter == "%":
            return "%"
        if letter not in values:
            return match[0]
        text = str(values[letter])
        return text.zfill(min(int(width), 10)) if width and text.isdigit() else text

    return re.sub(r"%(\d*)([%A-Za-z])", mark, pattern)


def per_node(tasks: int, nodes: int) -> list[int]:
    """How many of so many tasks each node has: as even as can be, the first nodes have one more."""
    each, more = divmod(tasks, nodes)
    return [each + (number < more) for number in range(nodes)]


def in_short(counts: Sequence[int]) -> str:
    """``2(x3),1`` of 2, 2, 2, 1, as SLURM_TASKS_PER_NODE has it."""
    runs: list[tuple[int, int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1] = (count, runs[-1][1] + 1)
        else:
            runs.append((count, 1))
    return ",".join(f"{count}(x{often})" if often > 1 else str(count) for count, often in runs)


class Shape:
    """Which nodes of the job a step has, and which of its tasks each of them.

    Attributes:
        nodes: numbers of the job's nodes, in the step's order.
        ranks: for each of them the numbers of its tasks.

    """

    def __init__(self, nodes: Sequence[int], ranks: Sequence[Sequence[int]]) -> None:
        self.nodes, self.ranks = list(nodes), [list(each) for each in ranks]

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return sum(map(len, self.ranks))


def shape_of(options: Mapping[str, str], hosts: Sequence[str], counts: Sequence[int]) -> Shape:
    """The nodes and tasks that a step asks for; without a word all tasks of the job.

    Args:
        options: of ``srun``.
        hosts: names of the job's nodes.
        counts: tasks of the job on each.

    Raises:
        BadOption: the step asks for what the job has not.

    """
    order = _chosen(options, hosts)
    node_range = options.get("nodes", "")
    tasks = _number(options, "ntasks")
    each = _number(options, "ntasks-per-node")
    low, _, high = node_range.partition("-")
    if node_range and not (low.isdigit() and (not high or high.isdigit())):
        raise BadOption(f"--nodes={node_range}: a number is expected")
    number = int(high or low) if node_range else None
    if node_range and int(low) > len(order):
        raise BadOption(f"--nodes={node_range}: the step may have {len(order)} nodes of the job at most")
    if number is None:
        number = len(order)
        if tasks is not None:
            number = min(number, -(-tasks // each) if each else tasks)
    number = min(number, len(order))
    chosen = order[:number]
    if tasks is None and each is None and (number < len(hosts) or options.get("nodelist")):
        shares = [counts[node] or 1 for node in chosen]
    elif tasks is None:
        shares = [each] * number if each else [counts[node] for node in chosen]
    elif each and tasks > each * number:
        raise BadOption(f"--ntasks={tasks} is more than --ntasks-per-node={each} on {number} nodes")
    else:
        shares = per_node(tasks, number)
    kept = [(node, shares[place]) for place, node in enumerate(chosen) if shares[place]]
    cyclic = options.get("distribution", "").partition(":")[0] == "cyclic"
    return Shape([node for node, _ in kept], _ranks([share for _, share in kept], cyclic))


class Part:
    """One part of a step: its options and its command on some of the job's nodes.

    Attributes:
        number: of the part in its step.
        options: of ``srun``.
        groups: numbers of the job's parts.
        command: that its tasks run; ``commands`` has those of some tasks alone, by the task's number, ``*`` for others.

    """

    def __init__(self, number: int, given: Mapping[str, Any]) -> None:
        self.number = number
        self.options: Mapping[str, str] = given["options"]
        self.groups: list[int] = given["groups"]
        self.command: list[str] = given["command"]
        self.commands: Mapping[str, list[str]] = given["commands"]


def joined_shape(
    parts: Sequence[Part], groups: Sequence[Sequence[int]], hosts: Sequence[str], counts: Sequence[int]
) -> tuple[Shape, list[Part]]:
    """Nodes and tasks of a step of several parts, whose tasks follow each other, and the part of each node.

    Args:
        parts: of the step.
        groups: numbers of the nodes of each part of the job.
        hosts: names of the job's nodes.
        counts: tasks of the job on each.

    Raises:
        BadOption: the step asks for what the job has not.

    """
    nodes: list[int] = []
    ranks: list[list[int]] = []
    owners: list[Part] = []
    first = 0
    for part in parts:
        for number in part.groups:
            if number >= len(groups):
                has = f"parts 0 to {len(groups) - 1}" if len(groups) > 1 else "one part alone, without #SBATCH hetjob"
                raise BadOption(f"--het-group={number}: the job has {has}")
            own = groups[number]
            if set(own) & set(nodes):
                raise BadOption(f"--het-group={number}: a step has each part of the job once")
            shape = shape_of(part.options, [hosts[node] for node in own], [counts[node] for node in own])
            nodes += [own[node] for node in shape.nodes]
            ranks += [[first + rank for rank in each] for each in shape.ranks]
            owners += [part] * len(shape.nodes)
            first += shape.tasks
    return Shape(nodes, ranks), owners


def _ranks(shares: Sequence[int], cyclic: bool) -> list[list[int]]:
    ranks: list[list[int]] = [[] for _ in shares]
    number = 0
    if cyclic:
        while number < sum(shares):
            for node, share in enumerate(shares):
                if len(ranks[node]) < share:
                    ranks[node].append(number)
                    number += 1
        return ranks
    for node, share in enumerate(shares):
        ranks[node] = list(range(number, number + share))
        number += share
    return ranks


def _chosen(options: Mapping[str, str], hosts: Sequence[str]) -> list[int]:
    numbers_by_host: dict[str, int] = {}
    for number, host in enumerate(hosts):
        numbers_by_host.setdefault(host, number)
        numbers_by_host.setdefault(host.partition(".")[0] if not host.replace(".", "").isdigit() else host, number)

    def numbers(name: str) -> list[int]:
        positions = []
        for host in hosts_of(options.get(name, "")):
            if host not in numbers_by_host:
                raise BadOption(f"--{name}={host}: no node of this job has that name")
            positions.append(numbers_by_host[host])
        return positions

    first, excluded = numbers("nodelist"), numbers("exclude")
    rest = list(range(len(hosts)))
    begin: int | None = _number(options, "relative", least=0)
    if begin:
        rest = rest[begin:] + rest[:begin]
    asked = options.get("nodes", "").partition("-")[0]
    if first and not (asked.isdigit() and int(asked) > len(first)):
        rest = []
    return [node for node in dict.fromkeys([*first, *rest]) if node not in excluded]


def _number(options: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,6}", text) or int(text) < least:
        raise BadOption(f"--{name}={text}: a whole number from {least} on is expected")
    return int(text)


def number_of(text: str) -> int:
    """Number of a signal: ``USR1``, ``SIGUSR1``, ``10``.

    Raises:
        BadOption: there is no such signal.

    """
    name = text.upper()
    try:
        return int(text) if text.isdigit() else int(signal.Signals[name if name.startswith("SIG") else f"SIG{name}"])
    except KeyError:
        raise BadOption(f"there is no signal {text}") from None
