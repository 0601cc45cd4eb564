"""Runs one container and outlives the agent: sets up its namespaces, writes its log, keeps its exit code.

Started as ``python -I -S shim.py SPEC`` and therefore free of every import that costs time; it must not import
anything of its own package but the sibling file ``shim_mounts.py``. One process tree per container::

    shim (session leader; pumps the log, forwards SIGTERM, writes the exit file)
      └── init (process 1 of the container's PID namespace: reaps, passes the exit status on)
            └── the container's command (leader of its own session)

The spec is a ``marshal`` dict (see ``launch.py``, which writes it). Files in the run's directory: ``started``, ``exit``
and ``log``, the first two as ``key=value`` lines written under a temporary name and renamed.

Signals to the shim: SIGTERM asks the command to end, SIGUSR1 ends it at once.

Modes: ``shim.py SPEC`` as above, ``shim.py --enter SPEC`` runs a command inside a running container (exec probes),
``shim.py --probe DIR`` tries the namespaces out and prints what this machine allows.
"""

# pathlib would cost milliseconds at every start of a container; the spec is our own file, the command the user's.
# ruff: noqa: PTH100, PTH104, PTH118, PTH120, PTH123, PTH208, S302, S606

from __future__ import annotations

import marshal
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # typing would cost milliseconds at every start of a container
if TYPE_CHECKING:
    import ctypes
    from typing import Any, NoReturn

    Spec = dict[str, Any]

LOCK_FD = 3
CLONE_NEWNS, CLONE_NEWUTS = 0x00020000, 0x04000000
CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MAX_LINE = 16384
START_ERROR = 128


class Log:
    """The container's log: ``TIME STREAM F|P TEXT`` per line (the CRI format), renamed when it is full."""

    def __init__(self, path: str, max_bytes: int, max_files: int) -> None:
        self.path, self.max_bytes, self.max_files = path, max_bytes, max_files
        self.fd = self._open()
        self.size = os.fstat(self.fd).st_size
        self.rest = {"stdout": b"", "stderr": b""}

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def feed(self, stream: str, data: bytes) -> None:
        """Take over what the container wrote; an unfinished line waits for its end."""
        lines = (self.rest[stream] + data).split(b"\n")
        rest = lines.pop()
        stamp = self._stamp(stream)
        out = [stamp + b" F " + line + b"\n" for line in lines]
        while len(rest) >= MAX_LINE:
            out.append(stamp + b" P " + rest[:MAX_LINE] + b"\n")
            rest = rest[MAX_LINE:]
        self.rest[stream] = rest
        if out:
            self._write(b"".join(out))

    def finish(self) -> None:
        """Write lines that never ended."""
        for stream, rest in self.rest.items():
            if rest:
                self._write(self._stamp(stream) + b" F " + rest + b"\n")
                self.rest[stream] = b""

    def _stamp(self, stream: str) -> bytes:
        now = time.time_ns()
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1_000_000_000))
        return f"{text}.{now % 1_000_000_000:09d}Z {stream}".encode()

    def _write(self, data: bytes) -> None:
        try:
            write_all(self.fd, data)
            self.size += len(data)
            if self.size >= self.max_bytes:
                self._rotate()
        except OSError:
            # A full disk must not end the container: its output is lost until there is room again.
            return

    def _rotate(self) -> None:
        for number in range(self.max_files - 1, 0, -1):
            source = self.path if number == 1 else f"{self.path}.{number - 1}"
            try:
                os.rename(source, f"{self.path}.{number}")
            except FileNotFoundError:
                continue
        os.close(self.fd)
        self.fd, self.size = self._open(), 0


def write_all(fd: int, data: bytes) -> None:
    """write(2) until everything is written."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_record(path: str, values: dict[str, object]) -> None:
    """Write ``key=value`` lines so that a reader sees all of them or none."""
    text = "".join(f"{key}={str(value).encode('unicode_escape').decode()}\n" for key, value in values.items())
    with open(path + ".tmp", "w") as file:
        file.write(text)
    os.rename(path + ".tmp", path)


def start_time(pid: int) -> int:
    """Clock ticks since boot at which a process started."""
    with open(f"/proc/{pid}/stat") as file:
        stat = file.read()
    return int(stat[stat.rindex(")") + 2 :].split()[19])


def libc() -> ctypes.CDLL:
    """The C library, loaded only by those who need it."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Put this process into new namespaces."""
    import ctypes

    if libc().unshare(flags):
        code = ctypes.get_errno()
        raise OSError(code, "unshare: " + os.strerror(code))


def enter_user_namespace() -> None:
    """A user namespace in which the caller keeps its ids and may set up the others."""
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)


def prctl(option: int, value: int) -> None:
    """Change one property of this process."""
    libc().prctl(option, value, 0, 0, 0)


def run(spec: Spec) -> None:
    """Run one container to its end and write how it ended."""
    os.setsid()
    os.set_inheritable(LOCK_FD, False)
    spec["oom_score"] = spare_from_oom()
    if spec["cgroup"]:
        with open(spec["cgroup"] + "/cgroup.procs", "w") as file:
            file.write("0")
    log = Log(spec["log"], spec["log_bytes"], spec["log_files"])
    signals = Signals()
    out, err, status, failed = (os.pipe() for _ in range(4))
    if spec["isolation"] == "user":
        enter_user_namespace()
    if spec["isolation"] == "none":
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    else:
        unshare(CLONE_NEWPID)
    init = os.fork()
    if init == 0:
        for pair in (out, err, status, failed):
            os.close(pair[0])
        signals.close()
        run_init(spec, out[1], err[1], status[1], failed[1])
    for pair in (out, err, status, failed):
        os.close(pair[1])
    signals.target = init
    started = time.time()
    problem = read_all(failed[0])
    pid = os.getpid()
    if not problem:
        write_record(
            spec["dir"] + "/started",
            {
                "pid": pid,
                "start_time": start_time(pid),
                "init": init,
                "init_start_time": init_start_time(init),
                "started_at": started,
            },
        )
    pump(log, {out[0]: "stdout", err[0]: "stderr"}, status[0], signals, spec["isolation"] == "none")
    result = read_all(status[0])
    end_everything(init, spec["isolation"] == "none")
    log.finish()
    write_record(spec["dir"] + "/exit", outcome(result, problem, started))


def spare_from_oom() -> str:
    """Let the kernel end the command rather than its shim when memory is short; the old score, for the command."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            old = file.read().strip()
            file.seek(0)
            file.write("-900")
    except OSError:
        return ""
    return old


def init_start_time(pid: int) -> int:
    """Start time of init, 0 when it ended already."""
    try:
        return start_time(pid)
    except OSError:
        return 0


def outcome(result: bytes, problem: bytes, started: float) -> dict[str, object]:
    """How the container ended, from the wait status that init passed on."""
    if problem:
        return {"exit_code": START_ERROR, "signal": 0, "reason": "StartError", "message": problem.decode(),
                "started_at": started, "finished_at": time.time()}  # fmt: skip
    code, sig = 128 + signal.SIGKILL, int(signal.SIGKILL)
    if result:
        status = int(result)
        sig = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = 128 + sig if sig else os.WEXITSTATUS(status)
    return {"exit_code": code, "signal": sig, "reason": "", "message": "",
            "started_at": started, "finished_at": time.time()}  # fmt: skip


class Signals:
    """SIGTERM and SIGUSR1, seen by the poll loop and passed to init."""

    def __init__(self) -> None:
        self.target = 0
        self.reader, self.writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def close(self) -> None:
        """Back to the defaults, in a child."""
        signal.set_wakeup_fd(-1)
        os.close(self.reader)
        os.close(self.writer)

    def forward(self) -> None:
        """Pass on what came since the last call."""
        try:
            numbers = os.read(self.reader, 64)
        except BlockingIOError:
            return
        for number in numbers:
            try:
                os.kill(self.target, signal.SIGKILL if number == signal.SIGUSR1 else signal.SIGTERM)
            except ProcessLookupError:
                return


def pump(log: Log, streams: dict[int, str], status_fd: int, signals: Signals, may_linger: bool) -> None:
    """Copy output to the log until the command ended and its output is drained.

    Without a PID namespace descendants may hold the pipes open for ever: then the end of the command ends the log.
    """
    poll = select.poll()
    for fd in (*streams, status_fd, signals.reader):
        poll.register(fd, select.POLLIN)
    open_streams, ended = dict(streams), False
    while open_streams and not (ended and may_linger):
        for fd, _ in poll.poll():
            if fd == signals.reader:
                signals.forward()
            elif fd == status_fd:
                # Only one side writes, once: data or the end of the pipe both mean that the command ended.
                ended = True
                poll.unregister(status_fd)
            elif data := os.read(fd, 65536):
                log.feed(streams[fd], data)
            else:
                poll.unregister(fd)
                del open_streams[fd]
    while not ended:
        for fd, _ in poll.poll():
            if fd == signals.reader:
                signals.forward()
            else:
                ended = True
    for fd in open_streams:
        os.set_blocking(fd, False)
        try:
            while data := os.read(fd, 65536):
                log.feed(streams[fd], data)
        except BlockingIOError:
            continue


def read_all(fd: int) -> bytes:
    """Everything until the other side closes."""
    parts = []
    while part := os.read(fd, 4096):
        parts.append(part)
    return b"".join(parts)


def end_everything(init: int, hunt: bool) -> None:
    """Reap init; without a PID namespace also end every descendant that came to us as their subreaper."""
    while hunt:
        mine = os.getpid()
        for entry in os.listdir("/proc"):
            if entry.isdigit() and parent_of(entry) == mine and int(entry) != init:
                try:
                    os.kill(int(entry), signal.SIGKILL)
                except ProcessLookupError:
                    continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
    try:
        os.waitpid(init, 0)
    except ChildProcessError:
        return


def parent_of(pid: str) -> int:
    """Parent of a process, 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            stat = file.read()
    except OSError:
        return 0
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def run_init(spec: Spec, out: int, err: int, status_fd: int, failed_fd: int) -> NoReturn:
    """Process 1 of the container: set up what it sees, start its command, reap, pass its status on; never returns."""
    early: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: early.append(True))
    ready, executed = os.pipe()
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if spec["isolation"] != "none":
            prepare(spec)
        child = os.fork()
        if child == 0:
            run_command(spec, out, err, failed_fd)
    except BaseException as error:  # whatever it is, the agent must learn of it
        write_all(failed_fd, describe(error))
        os._exit(1)
    for fd in (out, err, failed_fd, executed):
        os.close(fd)
    # Until the command has replaced our own code, a SIGTERM would meet our handlers: it is kept back.
    read_all(ready)
    signal.signal(signal.SIGTERM, lambda *_: end_command(child))
    if early:
        end_command(child)
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        if pid == child:
            write_all(status_fd, str(status).encode())
            break
    os._exit(0)


def end_command(pid: int) -> None:
    """SIGTERM to the command's whole process group."""
    try:
        os.killpg(pid, signal.SIGTERM)
    except ProcessLookupError:
        return


def set_up_mounts(mounts: list[tuple[str, str, bool]], root: str, *, read_only: bool) -> None:
    """``shim_mounts.set_up``, loaded only where there are namespaces."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import shim_mounts  # type: ignore[import-not-found]  # the sibling file, on no import path but ours

    shim_mounts.set_up(mounts, root, read_only)


def prepare(spec: Spec) -> None:
    """Mounts and host name, inside fresh namespaces."""
    unshare(CLONE_NEWNS | CLONE_NEWUTS)
    set_up_mounts(spec["mounts"], spec["dir"] + "/root", read_only=spec["read_only_root"])
    name = spec["hostname"].encode()
    libc().sethostname(name, len(name))


def run_command(spec: Spec, out: int, err: int, failed_fd: int) -> NoReturn:
    """Become the container's command."""
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    null = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((null, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if spec["oom_score"]:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(spec["oom_score"])
    try:
        os.chdir(spec["cwd"])
    except OSError as error:
        fail(failed_fd, f"the working directory {spec['cwd']} cannot be entered: {error.strerror}")
    try:
        become(spec)
    except OSError as error:
        fail(failed_fd, f"the process cannot become user {spec['uid']}, group {spec['gid']}: {error.strerror}")
    execute(spec["argv"], spec["env"], failed_fd)


def become(spec: Spec) -> None:
    """Take the user and groups that the security context names."""
    if spec["groups"] is not None:
        os.setgroups(spec["groups"])
    if spec["gid"] is not None:
        os.setgid(spec["gid"])
    if spec["uid"] is not None:
        os.setuid(spec["uid"])


def execute(argv: list[str], env: dict[str, str], failed_fd: int) -> NoReturn:
    """Replace this process by the command, found along the PATH of its own environment."""
    name = argv[0]
    folders = [""] if "/" in name else [p or "." for p in env.get("PATH", os.defpath).split(":")]
    problem = "executable file not found in $PATH"
    for folder in folders:
        path = os.path.join(folder, name)
        try:
            os.execve(path, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            if not folder:
                problem = "no such file or directory"
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
    fail(failed_fd, f'exec: "{name}": {problem}')


def fail(failed_fd: int, message: str) -> NoReturn:
    """Tell the shim why the command does not start, and end."""
    write_all(failed_fd, message.encode())
    os._exit(START_ERROR)


def describe(error: BaseException) -> bytes:
    """One line about an error while the container is set up."""
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"the container cannot be set up: {error.strerror}{where}".encode()
    return f"the container cannot be set up: {type(error).__name__}: {error}".encode()


def enter(spec: Spec) -> int:
    """Run a command inside a running container; the exit code is the command's."""
    import ctypes

    for name, fd in [(name, os.open(f"/proc/{spec['init']}/ns/{name}", os.O_RDONLY)) for name in spec["namespaces"]]:
        if libc().setns(fd, 0):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), name)
    if spec["cgroup"]:
        with open(spec["cgroup"] + "/cgroup.procs", "w") as file:
            file.write("0")
    child = os.fork()
    if child == 0:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.chdir(spec["cwd"])
        become(spec)
        execute(spec["argv"], spec["env"], 2)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def probe(directory: str) -> None:
    """Print how much isolation this machine allows: ``root``, ``user`` or ``none``, and why not more."""
    try:
        kind = "root" if os.geteuid() == 0 else "user"
        if kind == "user":
            enter_user_namespace()
        unshare(CLONE_NEWPID)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                unshare(CLONE_NEWNS | CLONE_NEWUTS)
                set_up_mounts([(directory, "/unisono-probe", False)], directory + "/root", read_only=False)
            except OSError as error:
                write_all(writer, f"none {error.strerror} ({error.filename})".encode())
            os._exit(0)
        os.close(writer)
        kind = read_all(reader).decode() or kind
        os.waitpid(child, 0)
    except OSError as error:
        kind = f"none {error.strerror}"
    print(kind)


def main() -> int:
    """Entry point; see the module's docstring."""
    mode, path = (sys.argv[1], sys.argv[2]) if len(sys.argv) > 2 else ("", sys.argv[1])
    if mode == "--probe":
        probe(path)
        return 0
    with open(path, "rb") as file:
        spec = marshal.load(file)
    if mode == "--enter":
        return enter(spec)
    started = time.time()
    try:
        run(spec)
    except OSError as error:
        write_record(spec["dir"] + "/exit", outcome(b"", describe(error), started))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
