"""What a program finds where its caller stands: its interpreter, virtual environment, search paths and folder."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, get_args

from unisono.api.annotations import ONE_OF, WORKING_DIRECTORY
from unisono.api.keys import TASK_INDEX
from unisono.sdk.errors import BadWork
from unisono.sdk.jobs.builders import DEFAULT_IMAGE, Amount, Job

# What makes `python` the caller's own, with its packages and its libraries. Not the whole environment: it holds
# secrets, and a Job can be read by others.
_VARIABLES = (
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYENV_VERSION",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What processes of this machine take over from their caller.

    Attributes:
        program: absolute path of the command's first word.
        folder: in which they start.
        variables: of the environment.
        cpus: processors of this machine that they may use; 0 where that is not known.
    """

    program: str
    folder: str
    variables: Mapping[str, str] = field(default_factory=dict)
    cpus: int = 0

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders that the processes must be able to read: where they start, and the interpreter's installation."""
        programs = [Path(self.program)]
        # What a script calls: the interpreter of the same environment.
        if python := shutil.which("python", path=self.variables.get("PATH")):
            programs.append(Path(python))
        paths = [Path(self.folder)]
        for path in (each for program in programs for each in (program, program.resolve())):
            # <prefix>/bin/python: its packages lie beside the folder bin.
            paths.append(path.parent.parent if path.parent.name in ("bin", "shims") else path.parent)
        return tuple(dict.fromkeys(paths))


def caller_surroundings(word: str, environment: Mapping[str, str] | None = None) -> Surroundings:
    """Those of this process, for a command that begins with ``word``.

    Args:
        word: a program's name, searched on the PATH, or its path.
        environment: variables; None for those of this process.

    Raises:
        BadWork: there is no such program, or it may not be executed.
    """
    values = os.environ if environment is None else environment
    folder = Path.cwd()
    path = values.get("PATH", os.defpath)
    named = str(folder / word) if "/" in word else word
    executable = shutil.which(named, path=path)
    if executable is None:
        script = folder / word
        if script.is_file():
            how = f"python {word}" if word.endswith(".py") else f"bash {word}"
            raise BadWork(f"{word} is a file that cannot be executed: write what runs it, such as: -- {how}")
        if word == "python" and (other := shutil.which("python3", path=path)):
            executable = other
        else:
            raise BadWork(f"there is no program {word} on the PATH: check its name, or give its path.")
    kept = {name: values[name] for name in _VARIABLES if values.get(name)}
    # Not resolved further: the link in a virtual environment is what makes it the environment's interpreter.
    return Surroundings(str(Path(executable).absolute()), str(folder), kept, len(os.sched_getaffinity(0)))


def default_cpu(processes: int, cpus: int, wanted: int = 1) -> Amount:
    """Cores that a process requests where nobody says how many: without a request, jobs would not queue up.

    Args:
        processes: of the gang.
        cpus: of the one machine on which all of them run; 0 for a cluster.
        wanted: what it gets where there is room; more processes than that divide the whole machine.
    """
    if not cpus or processes * wanted <= cpus:
        return wanted
    return f"{max(1, cpus * 1000 // processes)}m"


# A program as a gang: a command line, a number of processes and a launcher become a Job, without YAML (pure).

Launcher = Literal["torch", "mpi", "jax", "none"]
LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)

TASK = "rank"
"""Task of the program's processes: the pod of rank 3 of job ``train`` is ``train-rank-3``."""
LAUNCHER_TASK = "launcher"

_SSH_PORT = 2222
_FIRST_PORT, _PORTS = 20_000, 10_000
_LONGEST_NAME = 40
_INTERPRETER = re.compile(r"(python|pypy)[\d.]*|(ba|z|da)?sh|Rscript|julia|node|perl|ruby|torchrun|uv|poetry")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
# Waits at most two minutes for every host to let mpirun in, by the host's first name: mpirun asks
# for that one, and the job's ssh configuration knows no other.
_MPIRUN = (
    "for host in $(echo $MPI_HOST | tr , ' '); do host=${{host%%.*}}; tries=0; "
    "until ssh -o BatchMode=yes -o ConnectTimeout=2 $host true 2>/dev/null; do tries=$((tries + 1)); "
    "[ $tries -lt 120 ] || {{ echo $host does not answer >&2; exit 1; }}; sleep 1; done; done; "
    # Logins that mpirun makes write only what is wrong; by the names of Open MPI 4 and 5.
    'export OMPI_MCA_plm_rsh_args="${{OMPI_MCA_plm_rsh_args:--o LogLevel=ERROR}}"; '
    'export PRTE_MCA_plm_ssh_args="${{PRTE_MCA_plm_ssh_args:--o LogLevel=ERROR}}"; '
    'exec mpirun --allow-run-as-root --oversubscribe {exports}--host $MPI_HOST -np {size} "$@"'
)


@dataclass(frozen=True, slots=True)
class Program:
    """A command that runs as a gang of equal processes, each in a pod of its own.

    Attributes:
        command: the program and its arguments.
        processes: how many; all of them start together or not at all.
        name: of the job; None for the script's, or the program's.
        launcher: whose variables the processes get: ``torch`` (as torchrun: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE,
            LOCAL_RANK, ...), ``jax``, ``mpi`` (started by mpirun), or ``none``.
        queue: where the job waits.
        cpu, memory, gpus: per process; ``memory`` is also the limit. Without ``cpu`` each requests one core; on one
            machine more processes than cores divide it.
        image: of the containers; None on this machine, where the pods are processes.
        env: further variables.
        priority_class: name of a PriorityClass.
        max_retry: how often the gang starts again after an eviction.
        time_limit: seconds after which a running process is ended; None for no limit.
        one_of: kinds of nodes, of which all processes get one (`unisono.api.one_of`); empty for any node.
        rank_names: further variables that hold a process's number.
        complete: adds to the job what no field here says; None for nothing.
    """

    command: Sequence[str]
    processes: int = 1
    name: str | None = None
    launcher: Launcher = "torch"
    queue: str = "default"
    cpu: Amount | None = None
    memory: Amount | None = None
    gpus: int | None = None
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    priority_class: str | None = None
    max_retry: int = 3
    time_limit: int | None = None
    one_of: str = ""
    rank_names: Sequence[str] = ()
    complete: Callable[[Job], None] | None = None

    @property
    def job_name(self) -> str:
        """Name of the job: the given one, else that of the script or program."""
        return self.name or derived_name(self.command)


def derived_name(command: Sequence[str]) -> str:
    """A job's name from a command: ``train`` of ``python -u train.py``, ``pkg-train`` of ``python -m pkg.train``."""
    words = list(command)
    # Variables that are set for the program are not its name: env LR=0.1 python train.py.
    while len(words) > 1 and (PurePath(words[0]).name == "env" or _ASSIGNED.match(words[0])):
        words = words[1:]
    words = [PurePath(words[0]).name, *words[1:]] if words else ["program"]
    chosen = words[0]
    if _INTERPRETER.fullmatch(words[0]):
        rest = words[1:]
        module = next((after for word, after in itertools.pairwise(rest) if word == "-m"), None)
        script = next((PurePath(word).stem for word in rest if re.search(r"\.\w{1,3}$", word)), None)
        inline = "-c" in rest
        chosen = module or (None if inline else script) or chosen
    return re.sub(r"[^a-z0-9]+", "-", chosen.lower()).strip("-")[:_LONGEST_NAME].strip("-") or "program"


def program_job(program: Program, surroundings: Surroundings | None = None) -> Job:
    """The Job of a program.

    Args:
        program: what to run.
        surroundings: the caller's interpreter, variables and folder, for pods that are processes of this machine; None
            for containers of an image.

    Raises:
        BadWork: the command is empty, a number is not positive, or there is no such launcher.
    """
    _check(program)
    name, size = program.job_name, program.processes
    job = Job(
        name,
        program.queue,
        min_available=size + (program.launcher == "mpi"),
        priority_class=program.priority_class,
        max_retry=program.max_retry,
    )
    # Ranks wait for each other: when one has failed, the others must not wait for ever.
    job.policy("TerminateJob", event="PodFailed").policy("RestartJob", event="PodEvicted")
    _LAUNCH[program.launcher](job, program, surroundings)
    if program.one_of:
        job.annotate({ONE_OF: program.one_of})
    if program.complete is not None:
        program.complete(job)
    return job


def _check(program: Program) -> None:
    if not program.command or not program.command[0]:
        raise BadWork("there is no command to run: write it after --, such as: unisono run -- python train.py")
    if isinstance(program.command, str):
        raise BadWork("command is one text: give a list of words, such as ['python', 'train.py'].")
    if program.processes < 1:
        raise BadWork(f"the number of processes must be 1 or more, and not {program.processes}.")
    if program.launcher not in LAUNCHERS:
        raise BadWork(f"there is no launcher {program.launcher!r}: use one of {', '.join(LAUNCHERS)}.")
    if program.time_limit is not None and program.time_limit < 1:
        raise BadWork(f"the time limit must be 1 second or more, and not {program.time_limit}.")


def _torch(job: Job, program: Program, surroundings: Surroundings | None) -> None:
    port = port_of(program.job_name)
    values = {
        "MASTER_ADDR": f"{program.job_name}-{TASK}-0.{program.job_name}",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(program.processes),
        # One process in each pod, which sees its own devices alone.
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_WORLD_SIZE": str(program.processes),
        "ROLE_WORLD_SIZE": str(program.processes),
    }
    job.plugin("svc")
    _ranks(job, program, surroundings, values, ranks=("RANK", "GROUP_RANK", "ROLE_RANK"), port=port)


def _jax(job: Job, program: Program, surroundings: Surroundings | None) -> None:
    job.plugin("svc").plugin("jax", f"--worker={TASK}", f"--port={port_of(program.job_name)}")
    _ranks(job, program, surroundings, {"WORLD_SIZE": str(program.processes)}, ranks=("RANK",))


def _none(job: Job, program: Program, surroundings: Surroundings | None) -> None:
    job.plugin("env")
    _ranks(job, program, surroundings, {}, ranks=())


def _mpi(job: Job, program: Program, surroundings: Surroundings | None) -> None:
    job.plugin("svc").plugin("ssh", f"--ssh-port={_SSH_PORT}")
    job.plugin("mpi", f"--master={LAUNCHER_TASK}", f"--worker={TASK}", f"--port={_SSH_PORT}")
    job.policy("CompleteJob", event="TaskCompleted")
    environment = _environment(program, surroundings)
    script = _MPIRUN.format(exports="".join(f"-x {name} " for name in environment), size=program.processes)
    launcher = ["sh", "-c", script, "mpirun", *_command(program, surroundings)]
    server = ["sh", "-c", f"exec /usr/sbin/sshd -D -e -p {_SSH_PORT} -o ListenAddress=$HOSTNAME -o LogLevel=ERROR"]
    _task(job, LAUNCHER_TASK, 1, launcher, program, surroundings, environment, alone=True)
    _task(job, TASK, program.processes, server, program, surroundings, environment)


_LAUNCH: Mapping[str, Callable[[Job, Program, Surroundings | None], None]] = {
    "torch": _torch,
    "jax": _jax,
    "none": _none,
    "mpi": _mpi,
}


def _ranks(
    job: Job,
    program: Program,
    surroundings: Surroundings | None,
    values: Mapping[str, str],
    *,
    ranks: Sequence[str],
    port: int | None = None,
) -> None:
    """The task of equal processes; ``ranks`` are the variables that hold a process's number."""
    path = f"metadata.annotations['{TASK_INDEX}']"
    container: dict[str, Any] = {}
    if port is not None:
        # Where pods share the machine's ports, two jobs on one port run one after the other.
        container["ports"] = [{"name": "master", "containerPort": port}]
    environment = {**values, **_environment(program, surroundings)}
    command = _command(program, surroundings)
    _task(job, TASK, program.processes, command, program, surroundings, environment, container=container)
    main = job.containers(TASK)[0]
    names = [name for name in (*ranks, *program.rank_names) if name not in program.env]
    own = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name in names]
    main["env"] = [*own, *main["env"]]


def _task(
    job: Job,
    name: str,
    replicas: int,
    command: Sequence[str],
    program: Program,
    surroundings: Surroundings | None,
    environment: Mapping[str, str],
    *,
    container: Mapping[str, Any] | None = None,
    alone: bool = False,
) -> None:
    """A task of ``replicas`` pods; ``alone`` is the launcher, which computes nothing."""
    pod = {"activeDeadlineSeconds": program.time_limit} if program.time_limit is not None else None
    job.task(
        name,
        replicas=replicas,
        command=command,
        image=program.image or DEFAULT_IMAGE,
        cpu=None if alone else program.cpu or default_cpu(program.processes, surroundings.cpus if surroundings else 0),
        memory=None if alone else program.memory,
        memory_limit=None if alone else program.memory,
        gpus=None if alone else program.gpus,
        env=environment,
        annotations={WORKING_DIRECTORY: surroundings.folder} if surroundings else None,
        pod=pod,
        container=container,
    )


def _environment(program: Program, surroundings: Surroundings | None) -> dict[str, str]:
    values = {"PYTHONUNBUFFERED": "1"}
    if program.cpu is not None and (threads := _whole_cores(program.cpu)):
        values["OMP_NUM_THREADS"] = threads
    return {**values, **(surroundings.variables if surroundings else {}), **program.env}


def _whole_cores(cpu: Amount) -> str:
    """Threads for so many cores, at least one; empty where the text is for the server to judge."""
    text = str(cpu)
    try:
        cores = float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        return ""
    return str(max(1, int(cores))) if 0 < cores < 1e6 else ""


def _command(program: Program, surroundings: Surroundings | None) -> list[str]:
    """The words; the program as the caller's shell would find it."""
    words = [str(word) for word in program.command]
    if surroundings is not None:
        words[0] = surroundings.program
    # The words are the caller's own: what Kubernetes would expand stays as it is written.
    return [word.replace("$(", "$$(") for word in words]


def port_of(name: str) -> int:
    """The port on which rank 0 of a job listens: the same for each run of a name, rarely the same for two names."""
    return _FIRST_PORT + zlib.crc32(name.encode()) % _PORTS
