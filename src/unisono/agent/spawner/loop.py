"""The spawner's loop: takes requests, forks, tells process ids, reaps.

A request is a ``marshal`` tuple ``(number, mode, path of the spec)`` with file descriptors beside it; the answer is
``(number, pid, start time)``, or ``(number, 0, problem)``.
"""

# ruff: noqa: PTH123, S302

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enums of ``signal``
import array
import fcntl
import gc
import marshal
import os
import select
import socket

# The mounts are loaded for the processes that will be forked: they would import them one by one.
from unisono.agent.shim import enter, mounts, run  # noqa: F401
from unisono.agent.shim.kernel import describe, start_time, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

REQUEST_BYTES = 1 << 16
_MOST_FDS = 4


def serve(descriptor: int) -> None:
    """Serve the agent at the other end of a socket until it is gone."""
    os.setsid()
    requests = socket.socket(fileno=descriptor)
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # What is loaded stays: the collector shall not touch, and so copy, its pages in every child.
    gc.freeze()
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(reader, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == reader:
                _reap(reader)
            elif not _answer(requests):
                return


def _answer(requests: socket.socket) -> bool:
    size = array.array("i").itemsize
    data, extra, _, _ = requests.recvmsg(REQUEST_BYTES, socket.CMSG_SPACE(_MOST_FDS * size), socket.MSG_CMSG_CLOEXEC)
    if not data:
        return False
    fds = array.array("i")
    for _, kind, content in extra:
        if kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % size])
    number, mode, path = marshal.loads(data)  # nosec B302 # from the agent, over a socket that no other process has
    try:
        pid = os.fork()
    except OSError as error:
        reply: tuple[int, int, int | str] = number, 0, error.strerror or str(error)
    else:
        if pid == 0:
            _child(mode, path, list(fds))
        # Not reaped yet, whatever it does: its start time can be read.
        reply = number, pid, start_time(pid)
    for fd in fds:
        os.close(fd)
    try:
        requests.send(marshal.dumps(reply))
    except OSError:
        return False
    return True


def _child(mode: str, path: str, fds: list[int]) -> NoReturn:
    """Become a shim with the given descriptors from 0 on."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Out of the way first: one of them may stand where another one belongs.
        moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in fds]
        for target, fd in enumerate(moved):
            os.dup2(fd, target)
        os.closerange(len(moved), 1 << 16)
        with open(path, "rb") as file:
            spec = marshal.load(file)  # nosec B302 # written by the agent, mode 0600
        code = enter.enter(spec) if mode == "enter" else run.supervise(spec)
    except BaseException as error:  # whatever it is must not reach the spawner's loop
        write_all(2, describe(error) + b"\n")
    finally:
        os._exit(code)


def _reap(reader: int) -> None:
    os.read(reader, 4096)
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
