"""Running a command inside a container that runs already, and trying out what this machine allows.

Descriptors of a command that enters: 0, 1 and 2 are its own; 3 takes one line about how it went: ``exit CODE``, or
``failed WHY`` when it could not even start.
"""

# pathlib would cost milliseconds at every start of a container.

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # ``signal`` costs 8 ms: it makes enums
import os
import select

from unisono.agent.shim.command import execute, take_identity, take_terminal
from unisono.agent.shim.kernel import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    PR_SET_PDEATHSIG,
    describe,
    enter_user_namespace,
    libc,
    prctl,
    read_all,
    start_time,
    unshare,
    write_all,
)

TYPE_CHECKING = False  # importing typing would cost milliseconds at every start of a container
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Spec = dict[str, Any]

STATUS_FD = 3


def enter(spec: Spec) -> int:
    """Run a command inside a running container, and write to ``STATUS_FD`` how it went; 0 when there was one.

    The command ends with its container at the latest.
    """
    os.set_inheritable(STATUS_FD, False)
    try:
        container = os.pidfd_open(spec["init"])
        if start_time(spec["init"]) != spec["init_start_time"]:
            raise ProcessLookupError
        groups = [os.open(group + "/cgroup.procs", os.O_WRONLY) for group in spec["cgroups"]]
        join(spec)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            run_entered(spec, groups, writer)
    except (FileNotFoundError, ProcessLookupError):
        write_all(STATUS_FD, b"failed the container has ended")
        return 1
    except OSError as error:
        write_all(STATUS_FD, b"failed " + describe(error))
        return 1
    for fd in (writer, *groups):
        os.close(fd)
    # The reader of the command's output must see its end when the command closes it.
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    problem = read_all(reader)
    status = wait_for(child, container)
    code = os.waitstatus_to_exitcode(status)
    write_all(STATUS_FD, b"failed " + problem if problem else f"exit {code if code >= 0 else 128 - code}".encode())
    return 0


def join(spec: Spec) -> None:
    """Enter the container's namespaces; the next child is inside of all of them."""
    import ctypes

    for name, fd in [(name, os.open(f"/proc/{spec['init']}/ns/{name}", os.O_RDONLY)) for name in spec["namespaces"]]:
        if libc().setns(fd, 0):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), name)
        os.close(fd)


def run_entered(spec: Spec, groups: list[int], failed_fd: int) -> NoReturn:
    """Become the command, in a session of its own.

    Only this process enters the container's cgroups, by their open ``cgroup.procs``: the one that waits for it must
    still be there to tell how it went when all of a cgroup is killed.
    """
    try:
        for group in groups:
            os.write(group, b"0")
            os.close(group)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        if spec.get("tty"):
            take_terminal()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        take_identity(spec)
    except OSError as error:
        write_all(failed_fd, describe(error))
        os._exit(1)
    execute(spec["argv"], spec["env"], failed_fd)


def wait_for(child: int, container: int) -> int:
    """Wait status of the child; it is killed when the container ends, as far as the kernel has not done that."""
    own = os.pidfd_open(child)
    poll = select.poll()
    poll.register(own, select.POLLIN)
    poll.register(container, select.POLLIN)
    if all(fd != own for fd, _ in poll.poll()):
        end_group(child)
    return os.waitpid(child, 0)[1]


def end_group(pid: int) -> None:
    """SIGKILL to a whole process group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def probe(directory: str) -> None:
    """Print how much isolation this machine allows: ``root``, ``user`` or ``none``, and why not more."""
    from unisono.agent.shim.mounts import set_up

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
                set_up([(directory, "/unisono-probe", False, "", False)], directory + "/root", read_only=False)
            except OSError as error:
                write_all(writer, f"none {error.strerror} ({error.filename})".encode())
            os._exit(0)
        os.close(writer)
        kind = read_all(reader).decode() or kind
        os.waitpid(child, 0)
    except OSError as error:
        kind = f"none {error.strerror}"
    print(kind)
