"""Batches of Slurm as programs: the script, its variables and its array (pure)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from unisono.cli.slurm.script import BadScript, Batch
from unisono.sdk.program import Program, derived_name

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
        env={**(variables or {}), **_variables(batch, base, name, index)},
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


def _variables(batch: Batch, base: str, name: str, index: int | None) -> Mapping[str, str]:
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
