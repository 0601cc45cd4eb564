"""What stands on the command lines of ``sbatch`` and ``srun``, and batches as programs: script, variables, array."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import click

from unisono.cli.options import Command, where_options_without_n
from unisono.cli.slurm.script import READ, SHORT, VALUED, BadScript, Batch
from unisono.sdk.jobs.program import Program, derived_name

# Batches of Slurm as programs: the script, its variables and its array (pure).

# Every process runs the script. So that all of them come to the same answers, as if it ran once on the first node, each
# of them hears that node's name outside of srun, the same list of nodes and the same random numbers. In one line: those
# of the script keep their numbers.
_SETUP = " ".join(
    (
        "SLURMD_NODENAME=$(IFS=,; set -- ${VC_RANK_HOSTS:-$HOSTNAME};",
        'shift "${SLURM_PROCID:-0}" 2> /dev/null; echo "$1");',
        "SLURM_JOB_NODELIST=$(set -f; IFS=,; n=0; out=; for h in ${VC_RANK_HOSTS:-$HOSTNAME}; do",
        '[ $((n % ${SLURM_NTASKS_PER_NODE:-1})) -eq 0 ] && out="$out,$h"; n=$((n + 1)); done; echo "${out#,}");',
        "SLURM_NODELIST=$SLURM_JOB_NODELIST SLURM_NODEID=$((${SLURM_PROCID:-0} / ${SLURM_NTASKS_PER_NODE:-1}))",
        "HOSTNAME=${SLURM_JOB_NODELIST%%,*};",
        "export SLURMD_NODENAME SLURM_JOB_NODELIST SLURM_NODELIST SLURM_NODEID;",
    )
)
_SCONTROL = (
    "scontrol() { case \"${1:-} ${2:-}\" in 'show hostname'|'show hostnames') "
    "tr , '\\n' <<< \"${3:-$SLURM_JOB_NODELIST}\" ;; "
    '*) echo "scontrol $*: here scontrol shows hostnames alone" >&2; return 1 ;; esac; }; export -f scontrol;'
)
_HOSTNAME = (
    'unisono_name_of() { local h=$1; case "$2" in -i|-I|--ip-address|--all-ip-addresses) '
    'getent hosts "$h" | { read -r a _; echo "${a:-$h}"; } ;; *) echo "$h" ;; esac; }; '
    'hostname() { unisono_name_of "${SLURM_JOB_NODELIST%%,*}" "${1:-}"; };'
)
_OPTIONS = "|".join(f"--{name}" for name in sorted((VALUED | READ) - {"nodelist", "ntasks", "nodes"}))
_LETTERS = "".join(sorted(letter[1] for letter in SHORT if letter not in ("-w", "-n", "-N")))
_SRUN = (
    "srun() { local w= n= N= l= p=${SLURM_PROCID:-0} m=${SLURM_NTASKS_PER_NODE:-1}; "
    'while [ $# -gt 0 ]; do case "$1" in --nodelist=*) w=${1#*=}; shift ;; -w|--nodelist) w=$2; shift 2 ;; '
    "-w?*) w=${1#-w}; shift ;; --ntasks=*) n=${1#*=}; shift ;; -n|--ntasks) n=$2; shift 2 ;; -n?*) n=${1#-n}; shift ;; "
    "--nodes=*) N=${1#*=}; shift ;; -N|--nodes) N=$2; shift 2 ;; -N?*) N=${1#-N}; shift ;; "
    f"-l|--label) l=1; shift ;; {_OPTIONS}) shift 2 ;; -[{_LETTERS}]) shift 2 ;; -*) shift ;; *) break ;; esac; done; "
    'if [ -z "$n" ] && [ -n "$N" ]; then n=$((${N%%-*} * m)); fi; '
    'if [ "${1:-}" = hostname ]; then shift; '
    'if [ -n "$w" ] || [ "$n" = 1 ]; then unisono_name_of "${w:-${SLURM_JOB_NODELIST%%,*}}" "${1:-}"; return; fi; '
    'set -- command hostname "$@"; fi; '
    'if [ -n "$w" ]; then case ",$w," in *",$(unisono_node),"*) p=$((p % m)) ;; '
    "*) return 0 ;; esac; fi; "
    'if [ -n "$n" ] && [ "$p" -ge "$n" ]; then return 0; fi; '
    'if [ -n "$l" ]; then HOSTNAME=$SLURMD_NODENAME "$@" 2>&1 | sed "s/^/$SLURM_PROCID: /"; '
    "return ${PIPESTATUS[0]}; fi; "
    'HOSTNAME=$SLURMD_NODENAME "$@"; }; export -f srun; '
    'unisono_node() { (IFS=,; set -- $SLURM_JOB_NODELIST; shift "$SLURM_NODEID"; echo "$1"); }; '
    "export -f unisono_name_of unisono_node;"
)


_HERE = "{0}"


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
        seed = f"RANDOM={zlib.crc32(name.encode()) % 32768};"
        setup = f"{_SETUP} {_SCONTROL} {_HOSTNAME} {_SRUN} {seed}"
        text = _with_output(f"{setup} {_HERE}\n{rest}", batch.output, base, name, index)
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
        return text.replace(_HERE, "", 1)
    # As sbatch: %j job, %x name, %a and %A of an array, %t task, %N node.
    for mark, value in (("%j", name), ("%x", base), ("%A", base), ("%a", "" if index is None else str(index))):
        output = output.replace(mark, value)
    marks = {"%t": '"$SLURM_PROCID"', "%N": '"$SLURMD_NODENAME"'}
    quoted = "".join(marks.get(part) or shlex.quote(part) for part in re.split("(%[tN])", output) if part)
    return text.replace(_HERE, "(", 1) + f"\n) 2>&1 | tee -a {quoted}; exit ${{PIPESTATUS[0]}}"


def _slurm_variables(batch: Batch, base: str, name: str, index: int | None) -> Mapping[str, str]:
    """What programs read under Slurm."""
    nodes = batch.nodes or 1
    per_node = batch.tasks // nodes
    values = {
        "SLURM_JOB_ID": name,
        "SLURM_JOBID": name,
        "SLURM_JOB_NAME": base,
        "SLURM_CLUSTER_NAME": "unisono",
        "SLURM_NTASKS": str(batch.tasks),
        "SLURM_NPROCS": str(batch.tasks),
        "SLURM_NNODES": str(nodes),
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_NTASKS_PER_NODE": str(per_node),
        "SLURM_TASKS_PER_NODE": f"{per_node}(x{nodes})" if nodes > 1 else str(per_node),
        "SLURM_JOB_PARTITION": batch.queue,
        "SLURM_LOCALID": "0",
        "SLURM_RESTART_COUNT": "0",
    }
    if batch.cpus:
        values["SLURM_CPUS_PER_TASK"] = str(batch.cpus)
        values["SLURM_CPUS_ON_NODE"] = values["SLURM_JOB_CPUS_PER_NODE"] = str(batch.cpus * per_node)
    if batch.gpus:
        values["SLURM_GPUS_ON_NODE"] = str(batch.gpus)
        values["SLURM_GPUS_PER_TASK"] = str(batch.gpus)
        values["SLURM_GPUS_PER_NODE"] = str(batch.gpus * per_node)
        values["SLURM_GPUS"] = str(batch.gpus * batch.tasks)
    if batch.memory_mib:
        values["SLURM_MEM_PER_NODE"] = str(batch.memory_mib * per_node)
    if index is not None:
        numbers = {"ID": index, "COUNT": len(batch.array), "MIN": min(batch.array), "MAX": max(batch.array)}
        values |= {f"SLURM_ARRAY_TASK_{key}": str(number) for key, number in numbers.items()}
        values["SLURM_ARRAY_JOB_ID"] = base
    return values


_AT_RUN_TIME = frozenset(
    ("SLURM_PROCID", "SLURM_NODEID", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST")
)
_DOUBTS = (
    (
        re.compile(r"=\s*[\"']?\$?\(?\s*(date|mktemp|uuidgen|openssl rand|shuf|ip|ifconfig)\b|\$\$"),
        "every task runs the script, and {0} has another answer in each: take $SLURM_JOB_ID for what all must share",
    ),
    (re.compile(r"\$\(\([^)]*(SLURM_JOB_?ID)"), "{0} is the job's name here, and no number: do not calculate with it"),
    (
        re.compile(r"^\s*(module|ml)\s+(?:load|purge|use|add)"),
        "environment modules ({0}) are not here: use an image, or set PATH",
    ),
    (
        re.compile(r"^\s*(mpirun|mpiexec)\b"),
        "{0} is started by every task: 'unisono run --launcher mpi' starts it once",
    ),
    (re.compile(r"\b(sbcast|sattach|scancel|squeue|sinfo|sacct|ssh|pdsh)\s"), "{0} is not on the path of a task"),
    (re.compile(r"\bscontrol\s+(?!show\s+hostnames?\b)(\S+)"), "scontrol {0} is not here: it shows hostnames alone"),
)


def doubts(text: str, given: Mapping[str, str]) -> list[str]:
    """What in a script of bash will not be as under Slurm, a sentence each with the first line of it.

    Args:
        text: the script.
        given: variables that its tasks get.

    """
    found: list[str] = []
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if not line.lstrip().startswith("#")]
    for pattern, said in _DOUBTS:
        for number, line in lines:
            match = pattern.search(line)
            if match:
                found.append(f"line {number}: {said.format(next((one for one in match.groups() if one), match[0]))}")
                break
    own = set(re.findall(r"\b(SLURM_\w+)=", text))
    for number, line in lines:
        for name in re.findall(r"\$\{?(SLURM_\w+)(?!\w*:?[-=])", line):
            if name not in given and name not in _AT_RUN_TIME and name not in own:
                own.add(name)
                found.append(f"line {number}: {name} is not set here")
    return found


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
    from unisono.sdk.jobs.program import Program

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
