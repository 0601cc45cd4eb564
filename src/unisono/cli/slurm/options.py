"""Every option of Slurm's commands, and what becomes of it here (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from unisono.cli.slurm.steps.words import OF_STEPS

Handled = Literal["done", "mapped", "told"]


@dataclass(frozen=True, slots=True)
class Option:
    """What becomes of an option of Slurm.

    Attributes:
        handled: ``done`` as Slurm does it, ``mapped`` to what comes near, or ``told``: left out, and the user is told.
        how: in words.

    """

    handled: Handled
    how: str


def _all(handled: Handled, how: str, names: str) -> dict[str, Option]:
    return {name: Option(handled, how) for name in names.split()}


OPTIONS: Mapping[str, Option] = {
    **_all("done", "a pod for each node, which start together", "nodes"),
    **_all("done", "tasks are spread over the nodes", "ntasks ntasks-per-node ntasks-per-gpu"),
    **_all("done", "`cpu`, `mem` and `gres/gpu` as the options of their own", "tres-per-task"),
    **_all("done", "CPUs that a node's pod requests", "cpus-per-task cpus-per-gpu mincpus"),
    **_all(
        "done",
        "`nvidia.com/gpu` of a node's pod, on nodes whose labels name the kind of card; what `--gres` asks for "
        "beside `gpu` is left out",
        "gpus gpus-per-node gpus-per-task gres",
    ),
    **_all("done", "request and limit of memory of a node's pod", "mem mem-per-cpu mem-per-gpu"),
    **_all("done", "`activeDeadlineSeconds`", "time"),
    **_all("done", "name of the job", "job-name"),
    **_all("mapped", "queue; of several the first", "partition"),
    **_all(
        "mapped",
        "a job for each element, `NAME-INDEX`; with `%4` `sbatch` submits the next when one has ended",
        "array",
    ),
    **_all("mapped", "`sbatch` waits as it says, and then submits", "dependency"),
    **_all("done", "files of the script's output, with their patterns, beside the log", "output error open-mode"),
    **_all("done", "folder in which the script starts", "chdir container-workdir"),
    **_all(
        "mapped", "variables with a name, and without it or with `ALL` those of yours that the script uses", "export"
    ),
    **_all("done", "a script of one line", "wrap"),
    **_all("done", "prints the names of the jobs alone", "parsable"),
    **_all("done", "submits nothing, and says when the job would start", "test-only"),
    **_all("done", "signal before the time limit, and before an eviction, which waits so long", "signal"),
    **_all("mapped", "on a cluster the nodes take no other job", "exclusive"),
    **_all("done", "whether the job starts again after an eviction", "requeue no-requeue"),
    **_all("mapped", "the job is stopped once it is submitted; 'unisono scontrol release NAME' starts it", "hold"),
    **_all("done", "`sbatch` returns when the job has ended, with its exit code", "wait"),
    **_all("mapped", "`sbatch` waits until then, and then submits", "begin"),
    **_all("mapped", "nodes by name, as node affinity; on one machine those that it knows", "nodelist exclude"),
    **_all("mapped", "features as labels of nodes, [see below](#features-of-nodes)", "constraint prefer"),
    **_all("mapped", "annotation `unisono.io/reservation` of the job; of several the first", "reservation"),
    **_all("mapped", "image of the containers, where it is none of a file", "container-image"),
    **_all(
        "mapped",
        "`hostPath` volumes of the pods of a cluster; on one machine script and tasks see the folders there",
        "container-mounts",
    ),
    **_all(
        "done",
        "as it is here in any case",
        "no-kill wait-all-nodes kill-on-invalid-dep oversubscribe overcommit quiet verbose unbuffered label "
        "container-mount-home no-container-mount-home container-writable container-remap-root no-container-remap-root "
        "no-container-entrypoint container-readonly propagate use-min-nodes comment overlap exact get-user-env "
        "extra ignore-pbs resv-ports stepmgr external-launcher no-bell",
    ),
    **_all("told", "variables are named: --export=NAME,NAME=VALUE", "export-file"),
    **_all("told", "it is for the command line: 'unisono sbatch --help'", "help usage version"),
    **_all("told", "no terminal and no display are passed on", "pty x11 bell interactive no-shell"),
    **_all("told", "it is for srun within a script", " ".join([*OF_STEPS, "multi-prog"])),
    **_all("told", "a process without memory is ended alone, and its task fails by that", "oom-kill-step"),
    **_all("told", "no mail is sent", "mail-type mail-user"),
    **_all("told", "queues stand for accounts: use --partition", "account wckey"),
    **_all("told", "queues stand for it: use --partition", "qos"),
    **_all(
        "told",
        "the job may run on any node",
        "cluster-constraint nodefile contiguous switches spread-job batch segment consolidate-segments spread-segments",
    ),
    **_all("told", "the job may start at once; jobs by the clock are CronJobs", "deadline delay-boot"),
    **_all("told", "a priority is that of a PriorityClass", "priority nice"),
    **_all("told", "what waits is placed again in each cycle", "immediate time-min"),
    **_all(
        "told", "the node's kubelet places CPUs, memory and cards", "cpu-bind mem-bind gpu-bind gpu-freq cpu-freq hint"
    ),
    **_all(
        "told",
        "the node's kubelet counts CPUs",
        "ntasks-per-core ntasks-per-socket threads-per-core core-spec thread-spec "
        "sockets-per-node cores-per-socket extra-node-info gpus-per-socket gres-flags accel-bind",
    ),
    **_all("told", "tasks follow each other over the nodes", "distribution"),
    **_all("mapped", "the job waits for so many of these FloatingResources, and holds them while it runs", "licenses"),
    **_all("told", "there are no burst buffers; a volume of the pods can stand for one", "bb bbf"),
    **_all("told", "there is one cluster here; see 'unisono fleet'", "clusters"),
    **_all("told", "the pods' own limits hold", "tmp network power reboot"),
    **_all("told", "the history measures all jobs", "profile acctg-freq"),
    **_all("told", "the pod's user is that of its namespace or image", "uid gid mcs-label"),
    **_all("told", "the script has no input", "input"),
    **_all(
        "told",
        "the container is the pod's",
        "container container-id container-name container-save container-env "
        "container-entrypoint container-entrypoint-log",
    ),
    **_all("told", "the images of that centre are not here: use --image", "environment module uenv view"),
    **_all("told", "no server for several processes of one card is started: start it in the script", "nvmps"),
    **_all("told", "say the amounts one by one", "tres-per-job tres-bind mem-per-node"),
    **_all("told", "tasks are programs, not steps of a file", "mpi"),
}
"""Every option of Slurm's commands; others are refused."""
