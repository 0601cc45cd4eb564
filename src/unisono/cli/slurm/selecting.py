"""Which jobs ``squeue`` lists and ``scancel`` stops: of a user, a queue, a state or by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unisono.cli.printing import clock_text, columns
from unisono.errors import NotFound, UnisonoError

if TYPE_CHECKING:
    from unisono.api.groups.batch import Job
    from unisono.cli.options import Where
    from unisono.kube.http import HttpClient
    from unisono.sdk.overview.overview import JobLine, Overview
    from unisono.sdk.overview.queues import NodeLine, QueueView

Line = TypeVar("Line", "NodeLine", "QueueView")
Command = TypeVar("Command", bound=Callable[..., Any])

_STATES = {"R": "R", "RUNNING": "R", "PD": "PD", "PENDING": "PD"}
_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(frozen=True, slots=True)
class Selection:
    """What is asked for; empty fields select all.

    Attributes:
        queue: the partition.
        user: who submitted the job.
        names: of jobs; the name of an array stands for all its elements.
        states: ``R`` and ``PD``.
        namespace: of the jobs.
        owner: who owns the control plane: jobs of which no user is known are theirs; empty on a cluster.
    """

    queue: str = ""
    user: str = ""
    names: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    namespace: str = ""
    owner: str = ""

    def of(self, found: Overview) -> list[tuple[str, JobLine]]:
        """State and line of each job, those that run first."""
        both = [("R", job) for job in found.running] + [("PD", job) for job in found.waiting]
        return [(state, job) for state, job in both if self._has(state, job)]

    def unknown(self, found: Overview) -> list[str]:
        """What is asked for and is not there, for the user to be told of."""
        messages = []
        if self.queue and "queues" not in found.unseen and all(each.name != self.queue for each in found.queues):
            messages.append(f"There is no queue {self.queue}: 'unisono queue list' shows those that there are.")
        jobs = [job.name for job in (*found.running, *found.waiting)]
        for name in sorted(self.names):
            if not any(is_called(job, name) for job in jobs):
                messages.append(f"No job {name} runs or waits: 'unisono sacct -j {name}' tells whether it has ended.")
        return messages

    def _has(self, state: str, job: JobLine) -> bool:
        return (
            (not self.queue or job.queue == self.queue)
            and (not self.namespace or job.namespace == self.namespace)
            and (not self.states or state in self.states)
            and (not self.user or (job.user or self.owner) == self.user)
            and (not self.names or any(is_called(job.name, name) for name in self.names))
        )


def is_called(job: str, name: str) -> bool:
    """Whether a job has the name, or is an element of the array of this name; a later array has ``-2`` behind."""
    return job == name or (job.startswith(name) and re.fullmatch(r"(?:-\d+){1,2}", job[len(name) :]) is not None)


async def jobs_called(client: HttpClient, namespace: str, name: str) -> list[Job]:
    """The job of a name or of a number of Slurm; else the elements of the array of this name.

    Raises:
        NotFound: there is none.
    """
    from unisono.api.kinds import JOBS
    from unisono.cli.slurm.batches import JOB_ID

    name = name.removeprefix("job/")
    try:
        return [await client.get(JOBS, name, namespace)]
    except NotFound:
        jobs = (await client.list(JOBS, namespace)).items
        numbered = [job for job in jobs if (job.metadata.labels or {}).get(JOB_ID) == name]
        matches = numbered or [job for job in jobs if is_called(job.metadata.name, name)]
        if not matches:
            raise
        return matches


async def without_numbers(client: HttpClient, namespace: str, names: Iterable[str]) -> frozenset[str]:
    """Names of jobs in place of the numbers that ``SLURM_JOB_ID`` has; a number that no job has stays one."""
    from unisono.api.kinds import JOBS
    from unisono.cli.slurm.batches import JOB_ID

    names = frozenset(names)
    numbers = sorted(name for name in names if name.isascii() and name.isdigit())
    if not numbers:
        return names
    jobs = (await client.list(JOBS, namespace, label_selector=f"{JOB_ID} in ({','.join(numbers)})")).items
    numbers_by_name = {job.metadata.name: (job.metadata.labels or {}).get(JOB_ID, "") for job in jobs}
    return (names - frozenset(numbers_by_name.values())) | numbers_by_name.keys()


def states_of(text: str) -> frozenset[str]:
    """``R`` and ``PD`` of ``RUNNING,PD``.

    Raises:
        UsageError: there is no such state.
    """
    words = {word.strip().upper() for word in text.split(",") if word.strip()} - {"ALL"}
    if wrong := sorted(words - _STATES.keys()):
        raise click.UsageError(
            f"--states {wrong[0]}: jobs are R (running) or PD (pending); 'unisono sacct' has the others."
        )
    return frozenset(_STATES[word] for word in words)


def names_of(texts: Iterable[str]) -> frozenset[str]:
    """Names of ``a,job/b``."""
    words = (word.strip() for text in texts for word in text.split(","))
    return frozenset(word.removeprefix("job/") for word in words if word)


def selection_options(function: Command) -> Command:
    """``--partition``, ``--user``, ``--me``, ``--states`` and ``--name``."""
    for option in (
        click.option("--name", default="", metavar="NAME,...", help="Only jobs of these names."),
        click.option("-t", "--states", "--state", default="", metavar="R,PD", help="Only jobs in these states."),
        click.option("--me", is_flag=True, help="Only your own jobs."),
        click.option("-u", "--user", default="", help="Only jobs that this user submitted."),
        click.option("-p", "--partition", default="", help="Only jobs of this queue."),
    ):
        function = option(function)
    return function


async def selection(
    client: HttpClient,
    where: Where,
    *,
    partition: str = "",
    user: str = "",
    me: bool = False,
    states: str = "",
    name: str = "",
) -> Selection:
    """What the options ask for.

    Raises:
        UsageError: a state does not exist, or two users are asked for.
        UnisonoError: the server does not say who the caller is.
    """
    import getpass

    from unisono.cli.running.place import is_cluster

    if me and user:
        raise click.UsageError("--me and --user name two users; give one of them.")
    owner = "" if is_cluster(where) else getpass.getuser()
    if me:
        user = owner or await own_name(client)
    from unisono.cli.connection import namespace_of

    names = await without_numbers(client, namespace_of(where), names_of([name]))
    return Selection(partition, user, names, states_of(states), where.namespace or "", owner)


async def own_name(client: HttpClient) -> str:
    """The caller's name, as the server knows it."""
    import msgspec

    status, _, body = await client.request("POST", _REVIEW, body=b'{"kind":"SelfSubjectReview"}')
    try:
        username = msgspec.json.decode(body)["status"]["userInfo"]["username"] if status < 300 else ""
    except (msgspec.DecodeError, KeyError, TypeError):
        username = ""
    if not username:
        raise UnisonoError("the server does not say who you are: name yourself with --user.")
    return str(username)


# Tables with the columns of ``squeue`` and ``sinfo`` (pure).


_TITLES = {
    "i": "JOBID",
    "A": "JOBID",
    "j": "NAME",
    "P": "PARTITION",
    "u": "USER",
    "a": "ACCOUNT",
    "t": "ST",
    "T": "STATE",
    "M": "TIME",
    "D": "NODES",
    "C": "TASKS",
    "N": "NODELIST",
    "R": "NODELIST(REASON)",
    "r": "REASON",
}
_LETTERS = {
    "jobid": "i",
    "jobarrayid": "i",
    "name": "j",
    "partition": "P",
    "username": "u",
    "account": "a",
    "statecompact": "t",
    "state": "T",
    "timeused": "M",
    "numnodes": "D",
    "numtasks": "C",
    "nodelist": "N",
    "reasonlist": "R",
    "reason": "r",
}
"""Names of ``squeue --Format`` as letters of its ``--format``."""
_FIELD = re.compile(r"%\.?\d*([A-Za-z])")


def pattern_of(fields: str) -> str:
    """``JobID:12,State,Reason`` of ``squeue --Format`` as a line of its ``--format``, ``%i %T %r``; without widths.

    Raises:
        UsageError: a field is not known; names those that there are.
    """
    names = [name for each in fields.split(",") if (name := each.partition(":")[0].strip().lower())]
    for name in names:
        if name not in _LETTERS:
            raise click.UsageError(f"--Format {name} is not known here: there are {', '.join(_LETTERS)}.")
    if not names:
        raise click.UsageError("--Format names no field.")
    return " ".join(f"%{_LETTERS[name]}" for name in names)


def _formatted(jobs: Iterable[tuple[str, JobLine]], owner: str, pattern: str, *, title: bool) -> list[str]:
    if unknown := [letter for letter in _FIELD.findall(pattern) if letter not in _TITLES]:
        raise click.UsageError(
            f"%{unknown[0]} is not known here: there are {', '.join(f'%{each}' for each in _TITLES)}."
        )
    lines = [_FIELD.sub(lambda match: _TITLES[match[1]], pattern)] if title else []
    for state, job in jobs:
        nodes = ",".join(job.nodes)
        values = {
            **dict.fromkeys("iAj", job.name),
            **dict.fromkeys("Pa", job.queue),
            "u": job.user or owner,
            "t": state,
            "T": {"R": "RUNNING", "PD": "PENDING"}[state],
            "M": clock_text(job.seconds),
            "D": str(len(job.nodes)),
            "C": str(job.gang),
            "N": nodes,
            "R": f"({job.waiting})" if state == "PD" and job.waiting else nodes,
            "r": job.waiting or "None",
        }
        lines.append(_FIELD.sub(lambda match, values=values: values[match[1]], pattern))  # type: ignore[misc]
    return lines


def squeue_lines(
    jobs: Iterable[tuple[str, JobLine]], *, owner: str = "", width: int = 0, pattern: str = "", title: bool = True
) -> list[str]:
    """Jobs with where they run, or why they wait.

    Args:
        jobs: the state of each, ``R`` or ``PD``, and what is known of it.
        owner: user of jobs of which none is known.
        width: columns; longer lines end with an ellipsis; 0 for no bound.
        pattern: a line of Slurm's, such as ``%i %T %R``; empty for the usual columns.
        title: begin with the names of the columns.

    Raises:
        UsageError: the pattern has a letter that is not known.
    """
    if pattern:
        return _formatted(jobs, owner, pattern, title=title)
    rows = []
    for state, job in jobs:
        place = f"({job.waiting})" if state == "PD" and job.waiting else ",".join(job.nodes)
        user = job.user or owner
        rows.append([job.name, job.queue, user, state, clock_text(job.seconds), job.gang, place])
    lines = columns(["jobid", "partition", "user", "st", "time", "tasks", "nodelist(reason)"], rows, empty="")
    shown = lines if title else lines[1:]
    return [line if not width or len(line) <= width else line[: width - 3] + "..." for line in shown]


def squeue_start_lines(
    jobs: Iterable[tuple[JobLine, float | None]], *, owner: str = "", title: bool = True
) -> list[str]:
    """Jobs that wait with when each may start, in seconds since 1970; None for none that can be told."""
    from unisono.api.times import rfc3339

    rows = [
        [
            job.name,
            job.queue,
            job.user or owner,
            "PD",
            "N/A" if at is None else rfc3339(at),
            job.gang,
            f"({job.waiting})",
        ]
        for job, at in sorted(jobs, key=lambda each: float("inf") if each[1] is None else each[1])
    ]
    lines = columns(["jobid", "partition", "user", "st", "start_time", "tasks", "nodelist(reason)"], rows, empty="")
    return lines if title else lines[1:]


def sinfo_lines(nodes: Iterable[NodeLine], *, title: bool = True) -> list[str]:
    """Nodes with their state, and what of them is allocated, idle and there in all."""
    rows: list[Sequence[object]] = [[node.name, node.state, node.cpus, node.memory, node.devices] for node in nodes]
    lines = columns(["nodelist", "state", "cpus(used/all)", "memory(used/all)", "gres(used/all)"], rows, empty="")
    return lines if title else lines[1:]


SUMMARY = "%P %a %l %F %N"
"""The line of ``sinfo --summarize``."""
_NODE_TITLES = {
    "P": "PARTITION",
    "R": "PARTITION",
    "a": "AVAIL",
    "l": "TIMELIMIT",
    "D": "NODES",
    "F": "NODES(A/I/O/T)",
    "t": "STATE",
    "T": "STATE",
    "n": "HOSTNAMES",
    "N": "NODELIST",
    "c": "CPUS",
    "C": "CPUS(A/I/O/T)",
    "m": "MEMORY",
    "G": "GRES",
}
_NODE_STATES = {"allocated": "alloc", "mixed": "mix", "drained": "drain"}
_OPEN = ("idle", "mix", "alloc")


def node_states(text: str) -> frozenset[str]:
    """``idle`` and ``mix`` of ``IDLE,mixed``.

    Raises:
        UsageError: there is no such state.
    """
    words = {word.strip().lower() for word in text.split(",") if word.strip()} - {"all"}
    states = frozenset(_NODE_STATES.get(word, word) for word in words)
    if wrong := sorted(states - {*_OPEN, "drain", "down"}):
        raise click.UsageError(f"--states {wrong[0]}: nodes are idle, mix, alloc, drain or down.")
    return states


def chosen_nodes(
    nodes: Iterable[NodeLine], states: frozenset[str], names: str, *, responding: bool = False
) -> list[NodeLine]:
    """Nodes in one of the states, with one of the names (``n[1-3]``), and that answer; nothing given asks nothing."""
    from unisono.cli.slurm.steps.words import hosts_of

    only = frozenset(hosts_of(names))
    return [
        node
        for node in nodes
        if (not states or node.state in states)
        and (not names or node.name in only)
        and not (responding and node.state == "down")
    ]


def of_names(lines: Sequence[Line], names: Collection[str], what: str) -> list[Line]:
    """The lines of these names; all for no names.

    Raises:
        NotFound: one is not there.
    """
    if missing := sorted(set(names) - {line.name for line in lines}):
        raise NotFound(f"there is no {what} {missing[0]}: 'unisono sinfo' and 'unisono queue list' list what there is")
    return [line for line in lines if not names or line.name in names]


def sinfo_formatted(nodes: Iterable[NodeLine], pattern: str, *, each: bool = False, title: bool = True) -> list[str]:
    """Nodes in a line of Slurm's; those of which it says the same are one line, unless ``each`` is to have its own.

    Raises:
        UsageError: the pattern has a letter that is not known.
    """
    letters = _FIELD.findall(pattern)
    if unknown := [letter for letter in letters if letter not in _NODE_TITLES]:
        raise click.UsageError(
            f"%{unknown[0]} is not known here: there are {', '.join(f'%{one}' for one in _NODE_TITLES)}."
        )
    groups: dict[tuple[str, ...], list[NodeLine]] = {}
    for node in nodes:
        own = {"P": "all", "R": "all", "a": "up", "l": "infinite", "n": node.name, "t": node.state, "T": node.state}
        own |= {"c": node.cpus.rpartition("/")[2], "m": node.memory.rpartition("/")[2], "G": node.devices or "(null)"}
        key = tuple(own.get(letter, "") for letter in letters)
        groups.setdefault((*key, node.name) if each else key, []).append(node)
    lines = [_FIELD.sub(lambda match: _NODE_TITLES[match[1]], pattern)] if title else []
    for key, members in groups.items():
        values = {letter: value for letter, value in zip(letters, key, strict=False) if value}
        values |= {"D": str(len(members)), "N": ",".join(node.name for node in members)}
        values |= {"F": _nodes_by_use(members), "C": _cpus_by_use(members)}
        lines.append(_FIELD.sub(lambda match, values=values: values[match[1]], pattern))  # type: ignore[misc]
    return lines


def _nodes_by_use(nodes: Sequence[NodeLine]) -> str:
    """Nodes that are in use, idle, otherwise away, and all."""
    used, idle = sum(node.state in ("alloc", "mix") for node in nodes), sum(node.state == "idle" for node in nodes)
    return f"{used}/{idle}/{len(nodes) - used - idle}/{len(nodes)}"


def _cpus_by_use(nodes: Sequence[NodeLine]) -> str:
    """The same of their CPUs."""
    sums = {"used": 0.0, "idle": 0.0, "other": 0.0}
    for node in nodes:
        used, _, there = node.cpus.partition("/")
        sums["used"] += float(used)
        sums["idle" if node.state in _OPEN else "other"] += float(there) - float(used)
    return "/".join(f"{amount:g}" for amount in (*sums.values(), sum(sums.values())))
