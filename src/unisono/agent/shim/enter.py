"""Running a command inside a container that runs already, and trying out what this machine allows."""

# pathlib would cost milliseconds at every start of a container.
# ruff: noqa: PTH123

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # ``signal`` costs 8 ms: it makes enums
import os

from unisono.agent.shim.command import become, execute
from unisono.agent.shim.kernel import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    PR_SET_PDEATHSIG,
    enter_user_namespace,
    libc,
    prctl,
    read_all,
    unshare,
    write_all,
)

TYPE_CHECKING = False  # importing typing would cost milliseconds at every start of a container
if TYPE_CHECKING:
    from typing import Any

    Spec = dict[str, Any]


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
                set_up([(directory, "/unisono-probe", False)], directory + "/root", read_only=False)
            except OSError as error:
                write_all(writer, f"none {error.strerror} ({error.filename})".encode())
            os._exit(0)
        os.close(writer)
        kind = read_all(reader).decode() or kind
        os.waitpid(child, 0)
    except OSError as error:
        kind = f"none {error.strerror}"
    print(kind)
