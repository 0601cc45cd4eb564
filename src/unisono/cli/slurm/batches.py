"""Batches of Slurm as programs: a pod for each node, the script on the first, its variables and its array (pure)."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from unisono.api.annotations import CHECKPOINT_BEFORE, EVICT_NOTICE, LICENSES, RESERVATION
from unisono.api.keys import HOSTNAME, JOB_NAME, JOB_RETRY_COUNT
from unisono.cli.slurm.script import Batch
from unisono.cli.slurm.steps import command_text
from unisono.cli.slurm.steps.link import REQUEUE
from unisono.cli.slurm.steps.mounts import text_of
from unisono.cli.slurm.steps.words import filled, in_short
from unisono.sdk.jobs.builders import Job
from unisono.sdk.jobs.program import TASK, Program, default_cpu, derived_name, port_of

JOB_ID = "unisono.io/slurm-job-id"
"""Label of a batch's job: its number, as ``SLURM_JOB_ID`` has it."""
BASE_NAME = "unisono.io/slurm-job-name"
"""Label of a batch's job: its name before a number was added, as ``SLURM_JOB_NAME`` has it."""

_KEY_FOLDER = "/etc/unisono-batch"
_NOTICE_FOLDER = "/etc/unisono-notice"
_RESTARTS = 100


def program_of(
    batch: Batch,
    script: str,
    text: str,
    arguments: Sequence[str],
    index: int | None = None,
    *,
    called: str = "",
    variables: Mapping[str, str] | None = None,
    number: int = 0,
    local: bool = True,
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
        number: of the job, or of the array; 0 for one that follows from its name.
        local: pods are processes of this machine, which is all nodes at once.
    """
    base = batch.name or derived_name([PurePath(script).name])
    name = (called or (base if index is None else f"{base}-{index}")).lower().replace("_", "-")
    array = number or zlib.crc32(name.encode()) % 90_000_000 + 10_000_000
    job_id = array if index is None else array + 1 + batch.array.index(index)
    marks = {
        "j": job_id,
        "x": base,
        "A": array,
        "a": 4294967294 if index is None else index,
        "u": (variables or {}).get("USER", "user"),
        "b": 0 if index is None else index % 10,
    }
    spec = {
        "job": name,
        "counts": batch.counts,
        "port": port_of(f"{name}/batch"),
        "interpreter": interpreter_of(text),
        "output": batch.output,
        "error": batch.error,
        "append": batch.append,
        "seconds": batch.seconds,
        "signal": list(batch.signal) if batch.signal else None,
        "gpus_per_task": batch.gpus_per_task,
        "marks": marks,
    }
    given = _slurm_variables(batch, base, array, job_id, index)
    if batch.output:
        given["SLURM_JOB_STDOUT"] = filled(batch.output, marks)
    most = max(batch.counts)
    # As Slurm, a CPU for each task where nothing is said; on one machine more tasks than CPUs would never start.
    machine = len(os.sched_getaffinity(0)) if local else 0
    cpus = batch.node_cpus or (batch.cpus * most if batch.cpus else default_cpu(batch.nodes or 1, machine, most))

    def complete(job: Job) -> None:
        _complete(job, batch, name, {JOB_ID: str(job_id), BASE_NAME: label(base)}, local=local)

    return Program(
        (sys.executable if local else "python3", "-c", command_text(), "pod", json.dumps(spec), text, *arguments),
        batch.nodes or 1,
        name,
        "none",
        queue=batch.queue,
        cpu=cpus,
        memory=f"{batch.memory_mib}Mi" if batch.memory_mib else None,
        gpus=batch.gpus,
        image=batch.image or None if not local else None,
        env={
            "MASTER_ADDR": f"{name}-{TASK}-0.{name}",
            "MASTER_PORT": str(port_of(name)),
            "OMP_NUM_THREADS": str(batch.cpus or 1),
            **(variables or {}),
            **given,
            **({"UNISONO_BATCH_MOUNTS": text_of(batch.mounts)} if local and batch.mounts else {}),
            "SLURM_JOB_SCRIPT": script,
            "UNISONO_BATCH_KEY": f"{_KEY_FOLDER}/id_rsa",
            **({"UNISONO_BATCH_NOTICE": f"{_NOTICE_FOLDER}/until"} if batch.signal else {}),
        },
        max_retry=_RESTARTS,
        time_limit=batch.seconds,
        rank_names=("SLURM_NODEID",),
        complete=complete,
    )


def interpreter_of(text: str) -> list[str]:
    """What the script's first line names."""
    words = shlex.split(text.partition("\n")[0].removeprefix("#!")) or ["bash"]
    if PurePath(words[0]).name == "env" and len(words) > 1:
        words = [word for word in words[1:] if word != "-S"]
    if PurePath(words[0]).name in ("bash", "sh"):
        # An image may have it elsewhere; of sh nobody expects that it is dash.
        words[0] = "bash"
    return words


def label(text: str) -> str:
    """A text as a label may have it."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.")


def _complete(job: Job, batch: Batch, name: str, labels: Mapping[str, str], *, local: bool) -> None:
    """What the job has beside equal pods: names of hosts, a key, its own restarts, and its place."""
    job.label(labels)
    if batch.reservation:
        job.annotate({RESERVATION: batch.reservation})
    if batch.licenses:
        job.annotate({LICENSES: batch.licenses})
    if batch.signal:
        job.annotate({EVICT_NOTICE: f"{batch.signal[1]}s"})
    job.plugin("svc").plugin("ssh", f"--ssh-key-file-path={_KEY_FOLDER}")
    # Before what holds for other ends of pods.
    job.policy("RestartJob", exit_code=REQUEUE, first=True)
    if not batch.requeue:
        job.policy("TerminateJob", event="PodEvicted", first=True)
    main, pod = job.containers(TASK)[0], job.pod(TASK)
    fields = {"UNISONO_POD_IP": "status.podIP", "SLURM_RESTART_COUNT": f"metadata.annotations['{JOB_RETRY_COUNT}']"}
    own = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    main["env"] = [*own, *main["env"]]
    # Where pods share the machine's ports, two jobs on one port run one after the other.
    main["ports"] = [{"name": "master", "containerPort": port_of(name)}]
    if batch.signal:
        until = {"path": "until", "fieldRef": {"fieldPath": f"metadata.annotations['{CHECKPOINT_BEFORE}']"}}
        pod.setdefault("volumes", []).append({"name": "notice", "downwardAPI": {"items": [until]}})
        main.setdefault("volumeMounts", []).append({"name": "notice", "mountPath": _NOTICE_FOLDER, "readOnly": True})
    if affinity := _affinity(batch, name, local=local):
        pod["affinity"] = affinity
    if local:
        return
    if batch.mounts:
        pod.setdefault("volumes", []).extend(
            {"name": f"mount-{place}", "hostPath": {"path": source}}
            for place, (source, _, _) in enumerate(batch.mounts)
        )
        main.setdefault("volumeMounts", []).extend(
            {"name": f"mount-{place}", "mountPath": target, **({"readOnly": True} if read_only else {})}
            for place, (_, target, read_only) in enumerate(batch.mounts)
        )


def _affinity(batch: Batch, name: str, *, local: bool) -> dict[str, Any]:
    """Each pod on a node of its own where nodes are counted; with ``--exclusive`` beside no other job.

    ``local``: one machine stands for all nodes, and nodes are those alone that are there by name.
    """
    affinity: dict[str, Any] = {}
    apart: list[dict[str, Any]] = []
    exists = {"matchExpressions": [{"key": JOB_NAME, "operator": "Exists"}]}
    if batch.exclusive and not local:
        apart.append({"topologyKey": HOSTNAME, "labelSelector": exists, "namespaceSelector": {}})
    elif (batch.nodes or 1) > 1 and batch.apart and not local:
        own = {"matchLabels": {JOB_NAME: name}}
        apart.append({"topologyKey": HOSTNAME, "labelSelector": own})
    if apart:
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": apart}
    expressions = [
        {"key": HOSTNAME, "operator": operator, "values": list(names)}
        for operator, names in (("In", batch.nodelist), ("NotIn", batch.exclude))
        if names
    ]
    if expressions:
        terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return affinity


def _slurm_variables(batch: Batch, base: str, array: int, job_id: int, index: int | None) -> dict[str, str]:
    """What programs read under Slurm; what differs by node or step is set where it runs."""
    nodes, counts = batch.nodes or 1, batch.counts
    most = max(counts)
    cpus = batch.node_cpus or (batch.cpus or 1) * most
    values: dict[str, object] = {
        "SLURM_JOB_ID": job_id,
        "SLURM_JOBID": job_id,
        "SLURM_JOB_NAME": base,
        "SLURM_CLUSTER_NAME": "unisono",
        "SLURM_CONF": "/dev/null",
        "SLURM_NTASKS": batch.tasks,
        "SLURM_NPROCS": batch.tasks,
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_TASKS_PER_NODE": in_short(counts),
        "SLURM_JOB_CPUS_PER_NODE": in_short([cpus] * nodes),
        "SLURM_CPUS_ON_NODE": cpus,
        "SLURM_JOB_PARTITION": batch.queue,
        "SLURM_JOB_QOS": "normal",
        "SLURM_LOCALID": 0,
        "SLURM_GTIDS": 0,
    }
    if batch.per_node or most * nodes == batch.tasks:
        values["SLURM_NTASKS_PER_NODE"] = batch.per_node or most
    if batch.cpus:
        values["SLURM_CPUS_PER_TASK"] = batch.cpus
    if batch.gpus:
        values["SLURM_GPUS_ON_NODE"] = values["SLURM_GPUS_PER_NODE"] = batch.gpus
        values["SLURM_GPUS"] = batch.gpus * nodes
        if batch.gpus_per_task or batch.gpus % most == 0:
            values["SLURM_GPUS_PER_TASK"] = batch.gpus_per_task or batch.gpus // most
    if batch.memory_mib:
        values["SLURM_MEM_PER_NODE"] = batch.memory_mib
    if index is not None:
        numbers = {"ID": index, "COUNT": len(batch.array), "MIN": min(batch.array), "MAX": max(batch.array)}
        step = batch.array[1] - batch.array[0] if len(batch.array) > 1 else 1
        values |= {f"SLURM_ARRAY_TASK_{key}": value for key, value in {**numbers, "STEP": step}.items()}
        values["SLURM_ARRAY_JOB_ID"] = array
    return {name: str(value) for name, value in values.items()}


_AT_RUN_TIME = frozenset(
    f"SLURM_{name}"
    for name in """
    PROCID NODEID LOCALID GTIDS JOB_NODELIST NODELIST SUBMIT_DIR SUBMIT_HOST LAUNCH_NODE_IPADDR JOB_GPUS STEP_GPUS
    STEP_ID STEPID STEP_NODELIST STEP_NUM_NODES STEP_NUM_TASKS STEP_TASKS_PER_NODE DISTRIBUTION SRUN_COMM_HOST
    RESTART_COUNT TOPOLOGY_ADDR TOPOLOGY_ADDR_PATTERN JOB_START_TIME JOB_END_TIME CPU_BIND UMASK JOB_USER JOB_UID
    JOB_SCRIPT JOB_STDOUT
    """.split()  # noqa: SIM905
)
_DOUBTS = (
    (
        re.compile(r"^\s*(module|ml)\s+(?:load|purge|use|add)"),
        "environment modules ({0}) are not here: use an image, or set PATH",
    ),
    (
        re.compile(r"\bsrun\b.*--mpi[= ](pmi\w*|openmpi)"),
        "srun --mpi={0} has no server for MPI here: start MPI programs by mpirun in the script",
    ),
    (
        re.compile(r"(?:^|[\s;&|(])(sattach|sinfo|sacct|sreport|sstat|sacctmgr|pdsh|clush|enroot|docker)\s"),
        "{0} is there only if the image has it",
    ),
    (
        re.compile(r"\bscontrol\s+(?!show\b|requeue\b)(\w+)"),
        "scontrol {0} is not inside of a job: 'unisono scontrol {0}' does it outside",
    ),
    (re.compile(r"(?:^|[\s;&|(])(salloc)\s"), "{0} is not inside of a job: submit where 'unisono' runs"),
    (re.compile(r"(?:^|[\s;&|(])(sbatch)\s"), "{0} within a job needs 'unisono' and a kubeconfig in the pod"),
    (
        re.compile(r"^\s*[^<\s].*?(?<![<\w])(<[A-Za-z][\w./-]*(?: [\w./-]+)*>)(?=\s|$|[\"'/,:])"),
        "{0} looks like a placeholder, which a shell reads as names of files: write the value",
    ),
)

_OF_A_SHELL = re.compile(
    r"(?:_|PATH|HOME|USER|LOGNAME|PWD|OLDPWD|SHELL|SHLVL|HOSTNAME|TERM|LANG|IFS|RANDOM|SECONDS|LINENO|PPID|UID|EUID|PS\d"
    r"|TMPDIR|EDITOR|DISPLAY|MASTER_ADDR|MASTER_PORT|OMP_NUM_THREADS|(?:LC|XDG|BASH|SLURM|SBATCH|UNISONO|KUBE)\w*)"
)
"""Variables that pods have of their own, or that say something of the caller's shell alone."""
_MOST_VALUE = 4096


def variables_used(text: str, own: Mapping[str, str]) -> dict[str, str]:
    """Variables of the caller that a script uses, as Slurm passes all of them on.

    Args:
        text: the script.
        own: the caller's variables; longer values than 4096 characters are left out.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    named = {name for line in lines for name in re.findall(r"\$\{?[#!]?([A-Za-z_]\w*)", line)}
    return {
        name: own[name]
        for name in named
        if name in own and len(own[name]) <= _MOST_VALUE and not _OF_A_SHELL.fullmatch(name)
    }


def doubts(text: str, given: Mapping[str, str]) -> list[str]:
    """What in a script will not be as under Slurm, a sentence each with the first line of it.

    Args:
        text: the script.
        given: variables that its tasks get.
    """
    warnings: list[str] = []
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if not line.lstrip().startswith("#")]
    for pattern, said in _DOUBTS:
        for number, line in lines:
            if match := pattern.search(line):
                warnings.append(f"line {number}: {said.format(match[1])}")
                break
    own = set(re.findall(r"\b(SLURM_\w+)=", text))
    for number, line in lines:
        for name in re.findall(r"\$\{?(SLURM_\w+)(?!\w*:?[-=+])", line):
            if name not in given and name not in _AT_RUN_TIME and name not in own:
                own.add(name)
                warnings.append(f"line {number}: {name} is not set here")
    return warnings
