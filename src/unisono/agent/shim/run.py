"""The outer process: supervises one container from its start to its exit file."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # ``signal`` costs 8 ms: it makes enums
import os
import select
import time

from unisono.agent.shim import kernel
from unisono.agent.shim.attach import STDERR, STDOUT, Attach
from unisono.agent.shim.enter import run_init

# Writing the container's log.

# pathlib would cost milliseconds at every start of a container.
# ruff: noqa: PTH104

MAX_LINE = 16384


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
            kernel.write_all(self.fd, data)
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


# pathlib would cost milliseconds at every start of a container.
# ruff: noqa: PTH123, PTH208


TYPE_CHECKING = False  # importing typing would cost milliseconds at every start of a container
if TYPE_CHECKING:
    from typing import Any

    Spec = dict[str, Any]

LOCK_FD = 3


def supervise(spec: Spec) -> int:
    """``run``, with an exit file that says so when the container cannot even be set up."""
    started = time.time()
    try:
        run(spec)
    except OSError as error:
        kernel.write_record(spec["dir"] + "/exit", outcome(b"", kernel.describe(error), started))
        return 1
    return 0


def run(spec: Spec) -> None:
    """Run one container to its end and write how it ended."""
    os.setsid()
    os.set_inheritable(LOCK_FD, False)
    spec["oom_score"] = spare_from_oom()
    for group in spec["cgroups"]:
        with open(group + "/cgroup.procs", "w") as file:
            file.write("0")
    log = Log(spec["log"], spec["log_bytes"], spec["log_files"])
    signals = Signals()
    status, failed = os.pipe(), os.pipe()
    stdio = Stdio(spec)
    if spec["isolation"] == "user":
        kernel.enter_user_namespace()
    if spec["isolation"] == "none":
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    else:
        kernel.unshare(kernel.CLONE_NEWPID)
    init = os.fork()
    if init == 0:
        for fd in {*stdio.own_side, status[0], failed[0]}:
            os.close(fd)
        signals.close()
        run_init(spec, stdio.command_side, status[1], failed[1])
    for fd in {*stdio.command_side, status[1], failed[1]}:
        os.close(fd)
    signals.target = init
    poll = select.poll()
    # Before anybody is told that the container runs.
    attach = Attach(spec["dir"], poll, stdio.stdin, spec.get("stdin_once", False), stdio.terminal)
    started = time.time()
    problem = kernel.read_all(failed[0])
    pid = os.getpid()
    if not problem:
        kernel.write_record(
            spec["dir"] + "/started",
            {
                "pid": pid,
                "start_time": kernel.start_time(pid),
                "init": init,
                "init_start_time": init_start_time(init),
                "started_at": started,
            },
        )
    pump(log, stdio.outputs, status[0], signals, spec["isolation"] == "none", poll, attach)
    result = kernel.read_all(status[0])
    attach.finish()
    end_everything(init, spec["isolation"] == "none")
    log.finish()
    kernel.write_record(spec["dir"] + "/exit", outcome(result, problem, started))


class Stdio:
    """Pipes or a terminal between the shim and the command.

    Attributes:
        command_side: the command's descriptors 0, 1 and 2.
        own_side: all of ours.
        outputs: ours that the command writes to, with the number of the stream.
        stdin: ours that the command reads from; None without stdin.
        terminal: ours of its terminal, if it has one.
    """

    def __init__(self, spec: Spec) -> None:
        self.stdin: int | None = None
        self.terminal: int | None = None
        if spec.get("tty"):
            self.terminal, other = os.openpty()
            if spec["uid"] is not None and spec["isolation"] != "user":
                os.fchown(other, spec["uid"], -1)
            os.set_blocking(self.terminal, False)
            self.command_side, self.own_side = (other, other, other), (self.terminal,)
            self.outputs = {self.terminal: STDOUT}
            self.stdin = self.terminal if spec.get("stdin") else None
            return
        if spec.get("stdin"):
            command_in, self.stdin = os.pipe()
            os.set_blocking(self.stdin, False)
        else:
            command_in = os.open("/dev/null", os.O_RDONLY)
        out, err = os.pipe(), os.pipe()
        self.command_side = (command_in, out[1], err[1])
        self.own_side = (out[0], err[0], *(() if self.stdin is None else (self.stdin,)))
        self.outputs = {out[0]: STDOUT, err[0]: STDERR}


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
        return kernel.start_time(pid)
    except OSError:
        return 0


def outcome(result: bytes, problem: bytes, started: float) -> dict[str, object]:
    """How the container ended, from the wait status that init passed on."""
    if problem:
        return {"exit_code": kernel.START_ERROR, "signal": 0, "reason": "StartError", "message": problem.decode(),
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


def pump(
    log: Log,
    streams: dict[int, int],
    status_fd: int,
    signals: Signals,
    may_linger: bool,
    poll: select.poll,
    attach: Attach,
) -> None:
    """Copy output to the log, and to attached clients, until the command ended and its output is drained.

    Without a PID namespace descendants may hold the pipes open for ever: then the end of the command ends the log.
    """
    for fd in (*streams, status_fd, signals.reader):
        poll.register(fd, select.POLLIN)
    open_streams, ended = dict(streams), False
    while open_streams and not (ended and may_linger):
        for fd, event in poll.poll():
            if fd == signals.reader:
                signals.forward()
            elif attach.handles(fd, event):
                continue
            elif fd == status_fd:
                # Only one side writes, once: data or the end of the pipe both mean that the command ended.
                ended = True
                poll.unregister(status_fd)
            elif fd not in open_streams:
                continue  # closed by what came before it in this round
            elif data := read_output(fd):
                copy(log, attach, streams[fd], data)
            else:
                if fd == attach.terminal:
                    attach.stdin = None
                poll.unregister(fd)
                del open_streams[fd]
    while not ended:
        for fd, event in poll.poll():
            if fd == signals.reader:
                signals.forward()
            elif not attach.handles(fd, event) and fd == status_fd:
                ended = True
    for fd in open_streams:
        os.set_blocking(fd, False)
        try:
            while data := read_output(fd):
                copy(log, attach, streams[fd], data)
        except BlockingIOError:
            continue


def copy(log: Log, attach: Attach, stream: int, data: bytes) -> None:
    """What the container wrote, to its log and its clients."""
    log.feed("stdout" if stream == STDOUT else "stderr", data)
    attach.output(stream, data)


def read_output(fd: int) -> bytes:
    """What is there; empty when the other side is closed, which a terminal tells by an error."""
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        raise
    except OSError:
        return b""


def end_everything(init: int, hunt: bool) -> None:
    """Reap init; without a PID namespace also end every descendant that came to us as their subreaper."""
    while hunt:
        mine = os.getpid()
        for entry in os.listdir("/proc"):
            if entry.isdigit() and kernel.parent_of(entry) == mine and int(entry) != init:
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
