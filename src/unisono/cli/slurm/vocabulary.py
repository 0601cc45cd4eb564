"""Names of Slurm's options: their letters, which take a value, and what is said of those that do nothing here."""

from __future__ import annotations

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
