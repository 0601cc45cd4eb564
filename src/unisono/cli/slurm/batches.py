"""Batches of Slurm as programs: a pod for each node, the script on the first, its variables and its array (pure)."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from unisono.api.annotations import CHECKPOINT_BEFORE, EVICT_NOTICE, LICENSES, RESERVATION
from unisono.api.keys import HOSTNAME, JOB_NAME, JOB_RETRY_COUNT
from unisono.cli.slurm.features import Places
from unisono.cli.slurm.script import Batch
from unisono.cli.slurm.steps import command_text
from unisono.cli.slurm.steps.link import REQUEUE
from unisono.cli.slurm.steps.mounts import text_of
from unisono.cli.slurm.steps.words import filled, in_short
from unisono.sdk.jobs.builders import Amount, Job, resources_of
from unisono.sdk.jobs.program import TASK, Program, derived_name, port_of

JOB_ID = "unisono.io/slurm-job-id"
"""Label of a batch's job: its number, as ``SLURM_JOB_ID`` has it."""
BASE_NAME = "unisono.io/slurm-job-name"
"""Label of a batch's job: its name before a number was added, as ``SLURM_JOB_NAME`` has it."""

FIRST = "UNISONO_BATCH_FIRST"
"""Variable of a pod whose task follows others: the number of that task's first node."""

_KEY_FOLDER = "/etc/unisono-batch"
_NOTICE_FOLDER = "/etc/unisono-notice"
_RESTARTS = 100


@dataclass(frozen=True, slots=True)
class Role:
    """Nodes of a job that are alike: the pods of one task.

    Attributes:
        task: its name.
        count: of its nodes.
        part: what they have, and the number of that part of the job.
        places: where they may be.

    """

    task: str
    count: int
    part: tuple[int, Batch]
    places: Places


def roles_of(batch: Batch) -> list[Role]:
    """The nodes of all parts in the order of their numbers: those with counted features come first in each part."""
    roles: list[Role] = []
    for number, part in enumerate(batch.every):
        left = part.nodes or 1
        for places in (*part.placing.places, Places()):
            count = min(places.count or left, left)
            if count:
                name = f"{TASK}-{len(roles)}" if roles else TASK
                roles.append(Role(name, count, (number, part), places))
            left -= count
    return roles


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
    roles = roles_of(batch)
    counts = [tasks for part in batch.every for tasks in part.counts]
    spec = {
        "job": name,
        "counts": counts,
        "roles": [[role.task, role.count] for role in roles],
        "groups": [part.nodes or 1 for part in batch.every],
        "port": port_of(f"{name}/batch"),
        "interpreter": interpreter_of(text),
        "output": batch.output,
        "error": batch.error,
        "append": batch.append,
        "seconds": batch.seconds,
        "signal": list(batch.signal) if batch.signal else None,
        "gpus_per_task": [part.gpus_per_task for part in batch.every],
        "marks": marks,
    }
    given = _slurm_variables(batch, base, array, job_id, index)
    if batch.parts:
        given["SLURM_HET_SIZE"] = str(len(batch.every))
        for group, part in enumerate(batch.every):
            own = _slurm_variables(part, base, array, job_id + group, index)
            given |= {f"{key}_HET_GROUP_{group}": value for key, value in own.items()}
    if batch.output:
        given["SLURM_JOB_STDOUT"] = filled(batch.output, marks)
    machine = len(os.sched_getaffinity(0)) if local else 0

    def complete(job: Job) -> None:
        _complete(job, batch, name, {JOB_ID: str(job_id), BASE_NAME: label(base)}, local=local)
        _divide(job, roles, name, base, (array, job_id, index), len(counts), machine, local=local)

    return Program(
        (sys.executable if local else "python3", "-c", command_text(), "pod", json.dumps(spec), text, *arguments),
        len(counts),
        name,
        "none",
        queue=batch.queue,
        cpu=_cpus(batch, batch, machine),
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
        one_of=batch.placing.one_of,
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


def _said_cpus(part: Batch) -> int:
    """CPUs of each of a part's nodes that options name; 0 for none."""
    return part.node_cpus or (part.cpus or 0) * max(part.counts)


def _cpus(part: Batch, batch: Batch, machine: int) -> Amount:
    """CPUs of each of a part's nodes: a CPU for each task where nothing is said, as Slurm.

    On one machine, of so many CPUs, more tasks than CPUs would never start: those that say nothing divide what is left.
    0 stands for a cluster.
    """
    if said := _said_cpus(part):
        return said
    silent = [each for each in batch.every if not _said_cpus(each)]
    named = sum(_said_cpus(each) * (each.nodes or 1) for each in batch.every)
    if not machine or sum(max(each.counts) * (each.nodes or 1) for each in silent) <= machine - named:
        return max(part.counts)
    return f"{max(1, (machine - named) * 1000 // sum(each.nodes or 1 for each in silent))}m"


def _divide(
    job: Job,
    roles: Sequence[Role],
    name: str,
    base: str,
    numbers: tuple[int, int, int | None],
    nodes: int,
    machine: int,
    *,
    local: bool,
) -> None:
    """Make a task of each role, with the resources, variables and places of its part."""
    if len(roles) > 1:
        job.divide(TASK, [(role.task, role.count) for role in roles])
    first = 0
    for role in roles:
        group, part = role.part
        main = job.containers(role.task)[0]
        if group:
            main["resources"] = resources_of(
                cpu=_cpus(part, roles[0].part[1], machine),
                memory=f"{part.memory_mib}Mi" if part.memory_mib else None,
                gpus=part.gpus,
            )
            own = _slurm_variables(part, base, *numbers)
            gone = _slurm_variables(roles[0].part[1], base, *numbers).keys() - own.keys()
            own["OMP_NUM_THREADS"] = str(part.cpus or 1)
            kept = [each for each in main["env"] if each["name"] not in own and each["name"] not in gone]
            main["env"] = [*kept, *({"name": key, "value": value} for key, value in own.items())]
        if first:
            main["env"] = [*main["env"], {"name": FIRST, "value": str(first)}]
        if affinity := _affinity(part, name, role.places, apart=nodes > 1, local=local):
            job.pod(role.task)["affinity"] = affinity
        first += role.count


def _affinity(batch: Batch, name: str, places: Places, *, apart: bool, local: bool) -> dict[str, Any]:
    """Each pod on a node of its own where nodes are counted; with ``--exclusive`` beside no other job.

    ``local``: one machine stands for all nodes, and nodes are those alone that are there by name.
    """
    affinity: dict[str, Any] = {}
    others: list[dict[str, Any]] = []
    exists = {"matchExpressions": [{"key": JOB_NAME, "operator": "Exists"}]}
    if batch.exclusive and not local:
        others.append({"topologyKey": HOSTNAME, "labelSelector": exists, "namespaceSelector": {}})
    elif apart and batch.apart and not local:
        own = {"matchLabels": {JOB_NAME: name}}
        others.append({"topologyKey": HOSTNAME, "labelSelector": own})
    if others:
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": others}
    expressions = [
        {"key": HOSTNAME, "operator": operator, "values": list(names)}
        for operator, names in (("In", batch.nodelist), ("NotIn", batch.exclude))
        if names
    ]
    terms = [[*term, *expressions] for term in places.terms or ((),)]
    node: dict[str, Any] = {}
    if any(terms):
        required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        node["requiredDuringSchedulingIgnoredDuringExecution"] = required
    if preferred := batch.placing.preferred.terms:
        node["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": 100, "preference": {"matchExpressions": list(term)}} for term in preferred
        ]
    if node:
        affinity["nodeAffinity"] = node
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
        "SLURM_JOB_ACCOUNT": batch.account or batch.queue,
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
        re.compile(
            r"(?:^|[\s;&|(])(sattach|sinfo|sacct|sreport|sstat|sacctmgr|pdsh|clush|enroot|docker|ibrun|aprun|jsrun)\s"
        ),
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


def sourced(text: str) -> list[tuple[int, str]]:
    """Files of whole paths that a script sources, with their lines: where one is absent, strict scripts end."""
    lines = enumerate(text.splitlines(), 1)
    matches = ((number, re.match(r"\s*(?:source|\.)\s+(/[\w./+-]+)", line)) for number, line in lines)
    return [(number, match[1]) for number, match in matches if match]


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
            set_later = re.sub(r"_HET_GROUP_\d+$", "", name) if "SLURM_HET_SIZE" in given else name
            if name not in given and set_later not in _AT_RUN_TIME and name not in own:
                own.add(name)
                warnings.append(f"line {number}: {name} is not set here")
    return warnings
