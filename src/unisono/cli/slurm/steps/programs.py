"""Small programs in front of the PATH of a batch: ``srun``, ``scontrol``, ``hostname`` and a few others."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from unisono.cli.slurm.steps.head import serve
from unisono.cli.slurm.steps.link import CHUNK, LONGEST, MOUNTED, PASSED, REQUEUE, Link, packed, stream_of
from unisono.cli.slurm.steps.mounts import lacking, mounts_of, run_with, text_of
from unisono.cli.slurm.steps.words import BadOption, filled, hosts_of, number_of, split_options

# The small programs.


async def _ask(**message: Any) -> Link:
    path = os.environ.get("UNISONO_BATCH_SOCKET", "")
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST)
    except OSError:
        raise BadOption("steps start from the script, on the first node of a job, and its end has come") from None
    link = Link(reader, writer)
    await link.greet(first=False)
    await link.send(**message)
    return link


class Srun:
    """One ``srun``: its options, where its output goes, and its signals."""

    def __init__(self, words: Sequence[str]) -> None:
        self.parts: list[dict[str, Any]] = []
        rest = list(words)
        while True:
            # A colon ends a part; who has no command of its own runs that of the next one.
            end = rest.index(":") if ":" in rest else len(rest)
            option_pairs, command = split_options(rest[:end], "srun")
            options = dict(option_pairs)
            groups = hosts_of(f"[{options.get('het-group', len(self.parts))}]")
            if not all(group.isdecimal() for group in groups):
                raise BadOption(f"--het-group={options['het-group']}: numbers of the job's parts are expected")
            commands = _programs(command[0]) if "multi-prog" in options and command else {}
            part = {"options": options, "groups": list(map(int, groups)), "command": command, "commands": commands}
            self.parts.append(part)
            if end == len(rest):
                break
            rest = rest[end + 1 :]
        for at in reversed(range(len(self.parts) - 1)):
            self.parts[at]["command"] = self.parts[at]["command"] or self.parts[at + 1]["command"]
        self.options = self.parts[0]["options"]
        if not self.parts[-1]["command"] and "version" not in self.options:
            raise BadOption("the command is missing: srun python train.py")
        self.files: dict[str, Any] = {}
        self.shape: dict[str, Any] = {}
        # The part of each task.
        self.owners: dict[int, int] = {}

    def environment(self) -> dict[str, str]:
        """What the tasks get of this process's variables."""
        words = [word for word in self.options.get("export", "ALL").split(",") if word]
        given = dict(os.environ)
        if "ALL" not in words:
            kept = ("PATH", "HOME", "USER", "LANG", "HOSTNAME", "LD_LIBRARY_PATH")
            names = {word for word in words if "=" not in word}
            given = {
                name: value
                for name, value in given.items()
                if name in names or name in kept or name.startswith(("SLURM", "UNISONO_", "CUDA_VISIBLE", "OMPI_"))
            }
        given.update((word.partition("=")[0], word.partition("=")[2]) for word in words if "=" in word)
        return given

    async def run(self) -> int:
        """Run the step to its end; answers its exit code."""
        self._tell_containers()
        source = self.options.get("input", "")
        taken = source != "none" and not source.isdigit() and ((bool(source) and source != "all") or _has_input())
        folder = os.path.abspath(self.options.get("chdir") or self.options.get("container-workdir") or os.getcwd())
        written = {name for part in self.parts for name in part["options"] if name in ("output", "error")}
        streams = [stream_of(1) if "output" not in written else "file", stream_of(2) if not written else "file"]
        parts = []
        for part in self.parts:
            mounts = mounts_of(part["options"].get("container-mounts", ""))
            for path, _, _ in mounts:
                if not os.path.exists(path):
                    print(f"srun: warning: --container-mounts: there is no {path}", file=sys.stderr, flush=True)
            parts.append({**part, "options": {**part["options"], "container-mounts": text_of(mounts)}})
        link = await _ask(
            do="step",
            parts=parts,
            environment=self.environment(),
            folder=folder,
            input=taken,
            streams=streams,
        )
        loop = asyncio.get_running_loop()
        for number in PASSED:
            loop.add_signal_handler(number, self._signal, link, int(number))
        while True:
            message = await link.receive()
            if message is None:
                return 143
            if message["do"] == "refused":
                raise BadOption(message["text"])
            if message["do"] == "shape":
                self.shape, self.owners = message, dict(message["owners"])
                if taken:
                    self._feed(link, loop, source if source != "all" else "")
            elif message["do"] == "output":
                self._write(message)
            elif message["do"] == "ended" and message["failed"] and not message["quiet"]:
                how = f"Exited with exit code {message['code']}"
                if message["code"] > 128:
                    how = signal.strsignal(message["code"] - 128) or how
                who = f"task {message['rank']}" if not message.get("lost") else f"task {message['rank']}: node lost"
                print(f"srun: error: {who}: {how}", file=sys.stderr, flush=True)
            elif message["do"] == "exit":
                return int(message["code"])

    @staticmethod
    def _signal(link: Link, number: int) -> None:
        asyncio.ensure_future(link.send(do="signal", signal=number))  # noqa: RUF006

    def _feed(self, link: Link, loop: asyncio.AbstractEventLoop, source: str) -> None:
        """Hand what is read to all tasks; a thread, as files and pipes are read in different ways."""
        descriptor = os.open(source, os.O_RDONLY) if source else 0

        def read() -> None:
            while True:
                data = os.read(descriptor, CHUNK)
                asyncio.run_coroutine_threadsafe(link.send(do="input", data=packed(data)), loop).result()
                if not data:
                    return

        threading.Thread(target=read, daemon=True).start()

    def _write(self, message: dict[str, Any]) -> None:
        data = base64.b64decode(message["data"])
        to, rank = message["to"], message["rank"]
        options = self.parts[self.owners.get(rank, 0)]["options"]
        pattern = options.get("error" if to == 2 and "error" in options else "output", "")
        if not pattern:
            os.write(to, data)
            return
        if pattern == "none" or (pattern.isdigit() and int(pattern) != rank):
            return
        if pattern.isdigit() or pattern == "all":
            os.write(to, data)
            return
        job = os.environ.get("SLURM_JOB_ID", "")
        marks = {"t": rank, "j": job, "J": f"{job}.{self.shape.get('step', 0)}", "s": self.shape.get("step", 0)}
        marks.update(x=os.environ.get("SLURM_JOB_NAME", ""), u=os.environ.get("USER", ""))
        marks.update(A=os.environ.get("SLURM_ARRAY_JOB_ID", job), a=os.environ.get("SLURM_ARRAY_TASK_ID", "4294967294"))
        hosts = self.shape.get("nodes") or [""]
        marks.update(N=hosts[0].partition(".")[0], n=0)
        path = filled(pattern, marks)
        if path not in self.files:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            append = options.get("open-mode", "")[:1] == "a"
            self.files[path] = open(path, "ab" if append else "wb", buffering=0)  # noqa: SIM115
        self.files[path].write(data)

    def _tell_containers(self) -> None:
        option = next((each for each in ("container-image", "environment", "uenv") if self.options.get(each)), "")
        marker = os.path.join(os.path.dirname(os.environ.get("UNISONO_BATCH_SOCKET", "")), "told")
        if option and not os.path.exists(marker):
            said = f"--{option}={self.options[option]}"
            print(f"srun: {said}: the task runs in the pod as it is", file=sys.stderr, flush=True)
            with contextlib.suppress(OSError), open(marker, "w", encoding="utf-8"):
                pass


def _has_input() -> bool:
    """Whether standard input is more than nothing and no terminal."""
    try:
        about = os.fstat(0)
    except OSError:
        return False
    return not stat.S_ISCHR(about.st_mode)


def _programs(path: str) -> dict[str, list[str]]:
    """The command of each task, of a file of ``--multi-prog``; ``*`` has that of all others.

    Raises:
        BadOption: the file cannot be read.

    """
    commands: dict[str, list[str]] = {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().replace("\\\n", " ").splitlines()
        for line in lines:
            words = shlex.split(line, comments=True)
            # The first line that names a task counts.
            for offset, rank in enumerate(hosts_of(f"[{words[0]}]") if words else []):
                marks: dict[str, object] = {} if rank == "*" else {"t": rank, "o": offset}
                commands.setdefault(rank, [filled(word, marks) if marks else word for word in words[1:]])
            if "*" in commands:
                break
    except (OSError, ValueError) as error:
        raise BadOption(f"{path}: {error.strerror if isinstance(error, OSError) else error}") from None
    return commands


def _scontrol(words: Sequence[str]) -> int:
    between = " " if {"-o", "--oneliner"} & set(words) else "\n   "
    words = [word for word in words if word not in ("-o", "--oneliner", "-d", "--details", "-a", "--all")]
    # A list may stand behind =, too: show hostnames=$SLURM_JOB_NODELIST.
    what, assigned, value = (words[1] if len(words) > 1 else "").partition("=")
    rest = [*([value] if assigned else []), *words[2:]]
    if words[:1] == ["show"] and what in ("hostname", "hostnames"):
        print("\n".join(hosts_of(rest[0] if rest else os.environ.get("SLURM_JOB_NODELIST", ""))))
        return 0
    if words[:1] == ["show"] and what in ("hostlist", "hostlistsorted"):
        names = hosts_of(rest[0]) if rest else []
        print(",".join(sorted(names) if what.endswith("sorted") else names))
        return 0
    if words[:1] == ["show"] and what in ("job", "jobs", "node", "nodes"):
        for fields in _jobs() if what.startswith("job") else _nodes(rest):
            # The first line has two fields, as in Slurm; scripts look for the lines of others.
            first, second, *others = [f"{name}={value}" for name, value in fields]
            print(between.join([f"{first} {second}", *others]))
        return 0
    own = (os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_JOB_NAME"))
    if words[:1] == ["requeue"] and (not what or what in own):
        return asyncio.run(_told(do="end", code=REQUEUE))
    print(f"scontrol {' '.join(words[:2])}: not inside of a job; 'unisono scontrol' does it outside", file=sys.stderr)
    return 1


def _groups() -> list[list[str]]:
    """Hosts of each part of the job."""
    given = os.environ.get
    size = int(given("SLURM_HET_SIZE") or "0")
    lists = [given(f"SLURM_JOB_NODELIST_HET_GROUP_{at}", "") for at in range(size)]
    return [hosts_of(text) for text in lists or [given("SLURM_JOB_NODELIST", "")]]


def _hosts() -> list[str]:
    return [host for group in _groups() for host in group]


def _getent(words: Sequence[str]) -> int:
    """Where a node of the job is, also where its name is an address; the rest is for the real one."""
    host = words[1] if len(words) == 2 else ""
    if words[:1] in (["hosts"], ["ahosts"], ["ahostsv4"]) and host in _hosts():
        print(f"{_address(host):<15} {host}")
        return 0
    program = _real("getent")
    return os.execv(program, ["getent", *words]) if program else 2  # noqa: S606


def _host(words: Sequence[str]) -> int:
    """``host NODE`` of a node of the job; the rest is for the real one."""
    if words and words[-1] in _hosts():
        print(f"{words[-1]} has address {_address(words[-1])}")
        return 0
    program = _real("host")
    if program is None:
        print(f"Host {words[-1] if words else ''} not found: it is no node of this job", file=sys.stderr)
        return 1
    return os.execv(program, ["host", *words])  # noqa: S606


def _module(name: str, words: Sequence[str]) -> int:
    print(f"{name} {' '.join(words)}: there are no environment modules here, and nothing changes", file=sys.stderr)
    return 1 if words[:1] in (["is-loaded"], ["is-avail"]) else 0


def _jobs() -> list[list[tuple[str, str]]]:
    given = os.environ.get
    names = (
        ("JobId", "JOB_ID"),
        ("JobName", "JOB_NAME"),
        ("Partition", "JOB_PARTITION"),
        ("Account", "JOB_ACCOUNT"),
        ("NumNodes", "JOB_NUM_NODES"),
        ("NumTasks", "NTASKS"),
        ("NodeList", "JOB_NODELIST"),
        ("Restarts", "RESTART_COUNT"),
        ("StartTime", "JOB_START_TIME"),
        ("EndTime", "JOB_END_TIME"),
        ("WorkDir", "SUBMIT_DIR"),
        ("Command", "JOB_SCRIPT"),
        ("StdOut", "JOB_STDOUT"),
    )
    hosts = hosts_of(given("SLURM_JOB_NODELIST", ""))
    head = [(label, given(f"SLURM_{name}", "")) for label, name in names]
    return [[*head, ("JobState", "RUNNING"), ("BatchHost", hosts[0] if hosts else "")]]


def _nodes(named: Sequence[str]) -> list[list[tuple[str, str]]]:
    cpus = os.environ.get("SLURM_CPUS_ON_NODE", str(os.cpu_count() or 1))
    hosts = hosts_of(named[0]) if named else _hosts()
    gpus = os.environ.get("SLURM_GPUS_ON_NODE", "0")
    amounts = (("CPUTot", cpus), ("Gres", f"gpu:{gpus}"), ("State", "ALLOCATED"))
    kind = ("Arch", os.uname().machine)
    return [
        [("NodeName", host), kind, ("NodeAddr", _address(host)), ("NodeHostName", host), *amounts] for host in hosts
    ]


def _address(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None)[0][4][0])
    except OSError:
        return host


def _hostname(words: Sequence[str]) -> int:
    own = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    asked = set("".join(word[1:] if not word.startswith("--") else word[2:3] for word in words if word[:1] == "-"))
    print((os.environ.get("UNISONO_POD_IP") or _address(own)) if asked & {"i", "I"} else own)
    return 0


def _squeue(words: Sequence[str]) -> int:
    given = os.environ.get
    pattern, title = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R", True
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--noheader"):
            title = False
        elif word in ("-o", "--format") and rest:
            pattern = rest.pop(0)
        elif word.startswith(("--format=", "-o")):
            pattern = word.partition("=")[2] or word[2:]
    now, start, end = time.time(), given("SLURM_JOB_START_TIME", ""), given("SLURM_JOB_END_TIME", "")
    values = {
        "i": given("SLURM_JOB_ID"), "A": given("SLURM_JOB_ID"), "j": given("SLURM_JOB_NAME"), "u": given("USER", ""),
        "P": given("SLURM_JOB_PARTITION"), "t": "R", "T": "RUNNING", "D": given("SLURM_JOB_NUM_NODES"),
        "N": given("SLURM_JOB_NODELIST"), "R": given("SLURM_JOB_NODELIST"), "C": given("SLURM_CPUS_ON_NODE", "1"),
        "M": _clock(now - float(start or now)), "L": _clock(float(end) - now) if end else "UNLIMITED",
        "l": _clock(float(end) - float(start)) if end and start else "UNLIMITED",
    }  # fmt: skip
    if title:
        print(re.sub(r"%\.?(\d*)([A-Za-z])", r"\2", pattern))
    print(re.sub(r"%\.?\d*([A-Za-z])", lambda match: str(values.get(match[1], "")), pattern))
    return 0


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    text = f"{hours:02}:{minutes:02}:{rest:02}" if hours or days else f"{minutes}:{rest:02}"
    return f"{days}-{text}" if days else text


async def _told(**message: Any) -> int:
    link = await _ask(**message)
    await link.receive()
    link.close()
    return 0


def _scancel(words: Sequence[str]) -> int:
    options = [word for word in words if word.startswith("-")]
    named = [word for word in words if not word.startswith("-")]
    number, batch = 0, False
    for place, word in enumerate(options):
        if word.startswith(("--signal=", "-s")):
            text = word.partition("=")[2] or word[2:] or (named.pop(0) if named else "")
            number = number_of(text)
        batch = batch or word in ("-b", "--batch", "-f", "--full") or place < 0
    if named and named[0].partition(".")[0] not in (os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_JOB_NAME")):
        print("scancel: inside of a job it stops this one; 'unisono scancel' stops others outside", file=sys.stderr)
        return 1
    if number:
        return asyncio.run(_told(do="signal", signal=number, whole=not batch))
    return asyncio.run(_told(do="end", code=143))


def _real(name: str) -> str | None:
    """The program of that name behind our own."""
    own = os.path.dirname(os.environ.get("UNISONO_BATCH_SOCKET", ""))
    path = os.pathsep.join(each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each != own)
    return shutil.which(name, path=path)


def _ssh(words: Sequence[str]) -> int:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if len(word) == 2 and word[1] in "BbcDEeFIiJLlmOopQRSWw" and rest:
            rest.pop(0)
    host = rest.pop(0).rpartition("@")[2] if rest else ""
    for group, hosts in enumerate(_groups()):
        if host in hosts or host in [each.partition(".")[0] for each in hosts]:
            step = [f"--het-group={group}", "-N1", "-n1", "-w", host, "--overlap"]
            return _srun([*step, "sh", "-c", " ".join(rest) or "true"])
    program = _real("ssh")
    if program is None:
        print(f"ssh: {host} is no node of this job, and there is no ssh here", file=sys.stderr)
        return 255
    return os.execv(program, ["ssh", *words])  # noqa: S606


def _sbcast(words: Sequence[str]) -> int:
    names = [word for word in words if not word.startswith("-")]
    if len(names) != 2:
        raise BadOption("a file and its place are expected: sbcast FILE PLACE")
    copy = ["sh", "-c", 'cat > "$1.part.$$" && mv "$1.part.$$" "$1"', "sbcast", os.path.abspath(names[1])]
    groups = f"--het-group=0-{len(_groups()) - 1}"
    return _srun(["-i", names[0], groups, "--ntasks-per-node=1", "--overlap", *copy])


_OF_CONTAINERS = frozenset(
    """
    --allow-setuid --cleanenv --compat --contain --containall --disable-cache --fakeroot --ipc --keep-privs --net
    --no-eval --no-home --no-https --no-init --no-privs --no-umask --nv --nvccli --pid --rocm --sharens --underlay
    --unsquash --userns --uts --vm --writable --writable-tmpfs -C -c -e -f -i -n -p -u -w
    """.split()
)
"""Options of ``apptainer exec`` that stand alone."""


def _container(name: str, words: Sequence[str]) -> int:
    """``apptainer exec IMAGE COMMAND`` where there is none: the command in the pod as it is."""
    program = _real(name)
    if program is not None:
        return os.execv(program, [name, *words])  # noqa: S606
    rest, environment = list(words), dict(os.environ)
    while rest and rest[0].startswith("-"):  # of the program itself, such as --quiet
        rest.pop(0)
    verb = rest.pop(0) if rest else ""
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        value = word.partition("=")[2]
        if "=" not in word and word not in _OF_CONTAINERS and rest:
            value = rest.pop(0)
        if word.partition("=")[0] == "--env":
            environment.update(
                (each.partition("=")[0], each.partition("=")[2]) for each in value.split(",") if "=" in each
            )
        if word.partition("=")[0] in ("--pwd", "--cwd", "--workdir") and os.path.isdir(value):
            os.chdir(value)
    if verb not in ("exec", "run", "shell") or len(rest) < 2:
        print(f"{name} {verb}: is not in this image", file=sys.stderr)
        return 127
    if shutil.which(rest[1], path=environment.get("PATH")) is None:
        # Of 'run' the words may be those of a program that only the image names.
        lacking = f"what {rest[0]} runs" if verb == "run" else rest[1]
        print(f"{name} {verb}: {lacking} is not in the pod: use an image that has it", file=sys.stderr)
        return 127
    print(f"{name}: {rest[0]}: the command runs in the pod as it is", file=sys.stderr, flush=True)
    return os.execvpe(rest[1], rest[1:], environment)  # noqa: S606


def _shifter(words: Sequence[str]) -> int:
    """``shifter --image=IMAGE COMMAND`` where there is none: the command in the pod as it is."""
    program = _real("shifter")
    if program is not None:
        return os.execv(program, ["shifter", *words])  # noqa: S606
    rest, environment = list(words), dict(os.environ)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        value = word.partition("=")[2] or (rest.pop(0) if "=" not in word and word not in ("--entrypoint",) else "")
        if word.partition("=")[0] in ("-e", "--env") and "=" in value:
            environment[value.partition("=")[0]] = value.partition("=")[2]
    if not rest or shutil.which(rest[0], path=environment.get("PATH")) is None:
        print(
            f"shifter: {rest[0] if rest else 'a command'} is not in the pod: use an image that has it", file=sys.stderr
        )
        return 127
    print("shifter: the command runs in the pod as it is", file=sys.stderr, flush=True)
    return os.execvpe(rest[0], rest, environment)  # noqa: S606


def _srun(words: Sequence[str]) -> int:
    step = Srun(words)
    if "version" in step.options:
        print("slurm 24.05.0 (unisono)")
        return 0
    return asyncio.run(step.run())


def _mounted(words: Sequence[str]) -> int:
    return run_with(lacking(mounts_of(words[0])), words[1], words[2:])


def _sbatch(words: Sequence[str]) -> int:
    """Another batch, where ``unisono`` is in the pod; what waits for other jobs would end with this one."""
    waits = any(word.startswith(("-d", "--dep")) for word in words)
    program = None if waits else _real("unisono")
    if program is not None:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "UNISONO_BATCH"))
        }
        return os.execve(program, ["unisono", "sbatch", *words], environment)  # noqa: S606
    if waits:
        print("sbatch: --dependency waits outside of jobs: submit the chain where 'unisono' runs", file=sys.stderr)
        return 1
    print("sbatch: not inside of a job: submit where 'unisono' runs, or 'scontrol requeue' this one", file=sys.stderr)
    return 1


def main(words: Sequence[str]) -> int:
    """One pod of a batch, or one of the small programs; answers the exit code."""
    name, rest = words[0], list(words[1:])
    programs: dict[str, Callable[[list[str]], int]] = {
        "srun": _srun,
        "scontrol": _scontrol,
        "scancel": _scancel,
        "squeue": _squeue,
        "sbatch": _sbatch,
        "sbcast": _sbcast,
        "hostname": _hostname,
        "ssh": _ssh,
        "apptainer": functools.partial(_container, "apptainer"),
        "shifter": _shifter,
        "singularity": functools.partial(_container, "singularity"),
        MOUNTED: _mounted,
        "module": functools.partial(_module, "module"),
        "getent": _getent,
        "host": _host,
        "ml": functools.partial(_module, "ml"),
    }
    try:
        if name == "pod":
            return asyncio.run(serve(json.loads(rest[0]), str(globals()["PROGRAM"]), rest[1], rest[2:]))
        return programs[name](rest)
    except BadOption as error:
        print(f"{name}: error: {error}", file=sys.stderr, flush=True)
        return 1
    except ConnectionError as error:
        print(f"{name}: error: {error}", file=sys.stderr, flush=True)
        return 143 if name != "pod" else 1
    except BrokenPipeError:
        return 141


if __name__ == "__main__":
    sys.stdout.flush()
    _code = main(sys.argv[1:])
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(_code)
